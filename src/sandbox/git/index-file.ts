/**
 * Parses git's index: files' names, sizes and times, and a hash of their content. Whoever writes the workspace writes it, so each
 * step is bounded by the bytes in the file; anything unknown is not an index.
 * https://git-scm.com/docs/index-format
 */

export interface IndexEntry {
  readonly size: number;
  readonly mtimeSec: number;
  readonly mtimeNsec: number;
  readonly inode: number;
  readonly isExecutable: boolean;
  /** SHA-1 of its content as a blob, in hexadecimal. */
  readonly blob: string;
  readonly type: 'file' | 'link' | 'other';
}

const HEADER_BYTES = 12;
/** Bytes of an entry up to its name: times, identity, mode, size, a SHA-1 and flags. */
const ENTRY_BYTES = 62;
const EXTENDED = 0x4000;
const STAGES = 0x3000;

/** Reads the entries that are not in conflict, by path. Undefined unless it is an index with SHA-1 names in version 2, 3 or 4. */
export function parseIndex(bytes: Buffer): ReadonlyMap<string, IndexEntry> | undefined {
  if (bytes.length < HEADER_BYTES || bytes.toString('latin1', 0, 4) !== 'DIRC') return undefined;
  const version = bytes.readUInt32BE(4);
  if (version < 2 || version > 4) return undefined;
  const entries = new Map<string, IndexEntry>();
  let at = HEADER_BYTES;
  let before: Buffer = Buffer.alloc(0);
  for (let left = bytes.readUInt32BE(8); left > 0; left--) {
    if (at + ENTRY_BYTES > bytes.length) return undefined;
    const flags = bytes.readUInt16BE(at + 60);
    const named = readName(bytes, at + ENTRY_BYTES + (flags & EXTENDED ? 2 : 0), version === 4 ? before : undefined);
    if (!named) return undefined;
    before = named.name;
    if ((flags & STAGES) === 0) entries.set(named.name.toString('utf8'), readEntry(bytes, at));
    // Before version 4 an entry is padded to a multiple of eight bytes.
    at = version === 4 ? named.end : at + ((named.end - 1 - at + 8) & ~7);
  }
  return entries;
}

const TYPES = new Map([
  [0o10, 'file'],
  [0o12, 'link'],
] as const);

const readEntry = (bytes: Buffer, at: number): IndexEntry => ({
  type: TYPES.get((bytes.readUInt32BE(at + 24) >> 12) as 0o10) ?? 'other',
  blob: bytes.toString('hex', at + 40, at + 60),
  mtimeSec: bytes.readUInt32BE(at + 8),
  mtimeNsec: bytes.readUInt32BE(at + 12),
  inode: bytes.readUInt32BE(at + 20),
  isExecutable: (bytes.readUInt32BE(at + 24) & 0o100) !== 0,
  size: bytes.readUInt32BE(at + 36),
});

/** Reads a name and the offset after its NUL; a compressed name shares its beginning with `before`. */
function readName(bytes: Buffer, from: number, before?: Buffer): { name: Buffer; end: number } | undefined {
  let at = from;
  let shared = 0;
  if (before) {
    let removed = 0;
    for (let more = true; more; at++) {
      const byte = bytes[at];
      if (byte === undefined || at - from > 4) return undefined;
      removed = at === from ? byte & 0x7f : ((removed + 1) << 7) | (byte & 0x7f);
      more = (byte & 0x80) !== 0;
    }
    if (removed > before.length) return undefined;
    shared = before.length - removed;
  }
  const nul = bytes.indexOf(0, at);
  if (nul < 0) return undefined;
  const rest = bytes.subarray(at, nul);
  return { name: before ? Buffer.concat([before.subarray(0, shared), rest]) : rest, end: nul + 1 };
}
