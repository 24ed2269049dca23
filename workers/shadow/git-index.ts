/** Reads git's index: which blob each tracked file was when git last looked, and by which facts git knows that it still is. */
import { createHash } from 'node:crypto';

export interface IndexEntry {
  /** Name of the blob, in hexadecimal. */
  readonly oid: string;
  readonly size: number;
  readonly mtimeSeconds: number;
  readonly mtimeNanoseconds: number;
  readonly inode: number;
  readonly isExecutable: boolean;
}

const HEADER = 12;
const STAT_BYTES = 40;
const OID_BYTES = 20;
const EXTENDED = 0x4000;
const STAGE = 0x3000;
const NAME_LENGTH = 0x0fff;
/** Modes of ordinary files. */
const FILES = new Set([0o100644, 0o100755]);

/** The entries by path; empty for a format that is not known, so that its files are copied like others. */
export function readIndex(bytes: Buffer): Map<string, IndexEntry> {
  const entries = new Map<string, IndexEntry>();
  if (!isIndex(bytes)) return entries;
  const version = bytes.readUInt32BE(4);
  const count = bytes.readUInt32BE(8);
  let path = '';
  for (let at = HEADER, left = count; left > 0; left--) {
    const start = at;
    if (start + STAT_BYTES + OID_BYTES + 2 > bytes.length) return new Map();
    const flags = bytes.readUInt16BE(start + STAT_BYTES + OID_BYTES);
    at = start + STAT_BYTES + OID_BYTES + (flags & EXTENDED ? 4 : 2);
    if (version === 4) {
      const { value, next } = readVarint(bytes, at);
      at = next;
      path = path.slice(0, path.length - value);
    } else path = '';
    const end =
      (flags & NAME_LENGTH) < NAME_LENGTH && version !== 4 ? at + (flags & NAME_LENGTH) : bytes.indexOf(0, at);
    if (end < 0) return new Map();
    // As bytes, since a later path of version 4 may cut one in the middle of a character.
    path += bytes.toString('latin1', at, end);
    at = version === 4 ? end + 1 : start + ((end - start + 8) & ~7);
    if ((flags & STAGE) !== 0 || !FILES.has(bytes.readUInt32BE(start + 24))) continue;
    entries.set(Buffer.from(path, 'latin1').toString('utf8'), toEntry(bytes, start));
  }
  return entries;
}

function isIndex(bytes: Buffer): boolean {
  if (bytes.length < HEADER + OID_BYTES || bytes.toString('latin1', 0, 4) !== 'DIRC') return false;
  if (![2, 3, 4].includes(bytes.readUInt32BE(4))) return false;
  const body = bytes.subarray(0, bytes.length - OID_BYTES);
  const sum = bytes.subarray(bytes.length - OID_BYTES);
  // A repository with longer names of objects fails here, too.
  return sum.equals(createHash('sha1').update(body).digest());
}

const toEntry = (bytes: Buffer, at: number): IndexEntry => ({
  mtimeSeconds: bytes.readUInt32BE(at + 8),
  mtimeNanoseconds: bytes.readUInt32BE(at + 12),
  inode: bytes.readUInt32BE(at + 20),
  isExecutable: (bytes.readUInt32BE(at + 24) & 0o111) !== 0,
  size: bytes.readUInt32BE(at + 36),
  oid: bytes.toString('hex', at + STAT_BYTES, at + STAT_BYTES + OID_BYTES),
});

/** A number as in offsets of packs: seven bits a byte, and each continued byte counts one more. */
export function readVarint(bytes: Buffer, at: number): { value: number; next: number } {
  let byte = bytes[at] ?? 0;
  let value = byte & 0x7f;
  let next = at + 1;
  while (byte & 0x80) {
    byte = bytes[next++] ?? 0;
    value = (value + 1) * 128 + (byte & 0x7f);
  }
  return { value, next };
}
