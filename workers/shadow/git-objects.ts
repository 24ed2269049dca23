/**
 * Reads blobs of a repository by their names. Git itself is not run for it: a repository's config names programs for git to
 * run, and this host has the undo data of everybody in reach. Packs stay open, so that a command can't take them away.
 */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { inflateSync } from 'node:zlib';
import type { WorkspaceFiles } from './workspace-files.ts';

const IDX_BYTES_MAX = 64 * 1024 * 1024;
const PACKS_MAX = 64;
/** Longest chain of differences; git makes none above 4095, and 50 by default. */
const CHAIN_MAX = 4096;
const FANOUT = 8;
const NAMES = FANOUT + 256 * 4;
const OID_BYTES = 20;
const BLOB = 3;
const OFFSET_DELTA = 6;
const NAME_DELTA = 7;

interface Pack {
  readonly name: string;
  readonly index: Buffer;
  readonly count: number;
  readonly fd: number;
}

/** A pack or its index; the chunks share one buffer. */
export interface PackFile {
  readonly bytes: number;
  read(): Iterable<Uint8Array>;
}

interface PackedObject {
  readonly type: number;
  readonly content: Buffer;
}

export class GitObjects implements Disposable {
  readonly #files: WorkspaceFiles;
  /** Path of the objects' directory. */
  readonly #folder: string;
  readonly #packs = new Map<string, Pack>();

  /** `gitDir` is relative to the workspace. */
  constructor(files: WorkspaceFiles, gitDir: string) {
    this.#files = files;
    this.#folder = `${gitDir}/objects`;
    this.openPacks();
  }

  /** Opens packs that came since; those that are gone stay open until `closeGone`. */
  openPacks(): void {
    for (const name of this.#packNames()) {
      if (this.#packs.has(name) || this.#packs.size >= PACKS_MAX) continue;
      const pack = this.#open(name);
      if (pack) this.#packs.set(name, pack);
    }
  }

  /** Closes the packs whose files are gone. */
  closeGone(): void {
    const present = new Set(this.#packNames());
    for (const [name, { fd }] of this.#packs) {
      if (present.has(name)) continue;
      fs.closeSync(fd);
      this.#packs.delete(name);
    }
  }

  /** Whether the object is there, in a pack that is open or by itself. */
  has(oid: string): boolean {
    return this.#find(oid) !== undefined || this.#isLoose(oid);
  }

  /** Whether the object is in a pack that has not been removed, or by itself. */
  holds(oid: string): boolean {
    const name = Buffer.from(oid, 'hex');
    return this.#present().some((it) => indexOf(it, name) >= 0) || this.#isLoose(oid);
  }

  /** Whether everything in a pack that was open is still there, in other packs or by itself. */
  holdsAllOf(packName: string): boolean {
    const gone = this.#packs.get(packName);
    if (!gone) return false;
    const others = this.#present().filter((it) => it !== gone);
    for (let at = 0; at < gone.count; at++) {
      const name = gone.index.subarray(NAMES + at * OID_BYTES, NAMES + (at + 1) * OID_BYTES);
      if (!others.some((it) => indexOf(it, name) >= 0) && !this.#isLoose(name.toString('hex'))) return false;
    }
    return true;
  }

  /** A `.pack` or `.idx` that is open, also after its removal. */
  packFile(fileName: string): PackFile | undefined {
    const pack = this.#packs.get(fileName.replace(/\.(?:pack|idx)$/, ''));
    if (!pack) return undefined;
    const { index, fd } = pack;
    if (fileName.endsWith('.idx')) return { bytes: index.length, read: () => [index] };
    const { size } = fs.fstatSync(fd);
    return { bytes: size, read: () => chunksFrom(fd, size) };
  }

  #present(): Pack[] {
    return this.#packNames().flatMap((it) => this.#packs.get(it) ?? []);
  }

  #isLoose(oid: string): boolean {
    return this.#files.stat(this.#looseAt(oid))?.isFile() === true;
  }

  /** The blob of this name, of at most `bytesMax` bytes; undefined if it is not there or not whole. */
  read(oid: string, bytesMax: number): Buffer | undefined {
    try {
      const found = this.#find(oid);
      const content = found ? this.#blobIn(found.pack, found.offset, bytesMax) : this.#loose(oid, bytesMax);
      return content && oidOf(content) === oid ? content : undefined;
    } catch {
      return undefined; // Damaged, or larger than it may be.
    }
  }

  [Symbol.dispose](): void {
    for (const { fd } of this.#packs.values()) fs.closeSync(fd);
    this.#packs.clear();
  }

  #packNames(): string[] {
    const names = this.#files.list(`${this.#folder}/pack`);
    return names.filter((it) => it.endsWith('.idx')).map((it) => it.slice(0, -'.idx'.length));
  }

  #open(name: string): Pack | undefined {
    const index = this.#files.read(`${this.#folder}/pack/${name}.idx`, IDX_BYTES_MAX);
    // Version 2 is the only one since 2007.
    if (!index || index.length < NAMES || index.toString('hex', 0, 8) !== 'ff744f6300000002') return undefined;
    const fd = this.#files.open(`${this.#folder}/pack/${name}.pack`);
    const count = index.readUInt32BE(FANOUT + 255 * 4);
    if (fd === undefined) return undefined;
    return { name, index, fd, count };
  }

  #looseAt(oid: string): string {
    return `${this.#folder}/${oid.slice(0, 2)}/${oid.slice(2)}`;
  }

  #loose(oid: string, bytesMax: number): Buffer | undefined {
    const packed = this.#files.read(this.#looseAt(oid), bytesMax + 1024);
    return packed && contentOfLoose(packed, bytesMax);
  }

  #find(oid: string): { pack: Pack; offset: number } | undefined {
    const name = Buffer.from(oid, 'hex');
    for (const pack of this.#packs.values()) {
      const at = indexOf(pack, name);
      if (at >= 0) return { pack, offset: offsetOf(pack, at) };
    }
    return undefined;
  }

  #blobIn(pack: Pack, offset: number, bytesMax: number): Buffer | undefined {
    const { type, content } = this.#objectIn(pack, { offset, bytesMax, depth: 0 });
    return type === BLOB ? content : undefined;
  }

  #objectIn(
    pack: Pack,
    { offset, bytesMax, depth }: { offset: number; bytesMax: number; depth: number },
  ): PackedObject {
    if (depth > CHAIN_MAX) throw new Error('a chain of differences without an end');
    const head = Buffer.alloc(64);
    fs.readSync(pack.fd, head, 0, head.length, offset);
    let at = 0;
    let byte = head[at++] as number;
    const type = (byte >> 4) & 7;
    let size = byte & 15;
    for (let scale = 16; byte & 0x80; scale *= 128) {
      byte = head[at++] as number;
      size += (byte & 0x7f) * scale;
    }
    if (size > bytesMax) throw new Error('too large');
    if (type !== OFFSET_DELTA && type !== NAME_DELTA) return { type, content: inflateAt(pack, offset + at, size) };
    const base = ((): PackedObject => {
      if (type === NAME_DELTA) {
        const index = indexOf(pack, head.subarray(at, at + OID_BYTES));
        at += OID_BYTES;
        if (index < 0) throw new Error('its base is in no pack of ours');
        return this.#objectIn(pack, { offset: offsetOf(pack, index), bytesMax, depth: depth + 1 });
      }
      const { value, next } = readVarint(head, at);
      at = next;
      return this.#objectIn(pack, { offset: offset - value, bytesMax, depth: depth + 1 });
    })();
    return { type: base.type, content: applyDelta(base.content, inflateAt(pack, offset + at, size), bytesMax) };
  }
}

/** The blob in a loose object; undefined if it is none. Throws if it is damaged or too large. */
function contentOfLoose(packed: Buffer, bytesMax: number): Buffer | undefined {
  const whole = inflateSync(packed, { maxOutputLength: bytesMax + 64 });
  const end = whole.indexOf(0);
  return whole.toString('latin1', 0, end) === `blob ${whole.length - end - 1}` ? whole.subarray(end + 1) : undefined;
}

/** The blob of this name in the bytes of a loose object; undefined if it is not that one, or not whole. */
export function blobOfLoose(oid: string, packed: Buffer, bytesMax: number): Buffer | undefined {
  try {
    const content = contentOfLoose(packed, bytesMax);
    return content && oidOf(content) === oid ? content : undefined;
  } catch {
    return undefined; // Damaged, or larger than it may be.
  }
}

const CHUNK_BYTES = 1024 * 1024;

/** The bytes of an open file from its beginning, whatever its position. Throws if it became shorter than `size`. */
export function* chunksFrom(fd: number, size: number): Generator<Uint8Array> {
  const chunk = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size));
  for (let at = 0; at < size; ) {
    const got = fs.readSync(fd, chunk, 0, Math.min(chunk.length, size - at), at);
    if (got === 0) throw new Error('a file became shorter');
    yield chunk.subarray(0, got);
    at += got;
  }
}

/** The name that git gives a file of this content. */
export const oidOf = (content: Uint8Array): string =>
  createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex');

/** A number as in offsets of packs: seven bits a byte, and each continued byte counts one more. */
function readVarint(bytes: Buffer, at: number): { value: number; next: number } {
  let byte = bytes[at] ?? 0;
  let value = byte & 0x7f;
  let next = at + 1;
  while (byte & 0x80) {
    byte = bytes[next++] ?? 0;
    value = (value + 1) * 128 + (byte & 0x7f);
  }
  return { value, next };
}

/** Position of a name in the sorted list of a pack, or -1. */
function indexOf({ index, count }: Pack, name: Buffer): number {
  const first = name[0] as number;
  let low = first === 0 ? 0 : index.readUInt32BE(FANOUT + (first - 1) * 4);
  let high = Math.min(count, index.readUInt32BE(FANOUT + first * 4)) - 1;
  while (low <= high) {
    const middle = (low + high) >>> 1;
    const start = NAMES + middle * OID_BYTES;
    const order = index.compare(name, 0, OID_BYTES, start, start + OID_BYTES);
    if (order === 0) return middle;
    if (order < 0) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}

function offsetOf({ index, count }: Pack, at: number): number {
  const offsets = NAMES + count * (OID_BYTES + 4);
  const offset = index.readUInt32BE(offsets + at * 4);
  if (offset < 2 ** 31) return offset;
  return Number(index.readBigUInt64BE(offsets + count * 4 + (offset - 2 ** 31) * 8));
}

function inflateAt({ fd }: Pack, offset: number, size: number): Buffer {
  // What zlib adds to content that it can't make smaller is less.
  const packed = Buffer.alloc(size + (size >> 8) + 1024);
  const got = fs.readSync(fd, packed, 0, packed.length, offset);
  const content = inflateSync(packed.subarray(0, got), { maxOutputLength: Math.max(1, size) });
  if (content.length !== size) throw new Error('not whole');
  return content;
}

/** Applies a difference: parts of the base and new bytes, in order. */
function applyDelta(base: Buffer, delta: Buffer, bytesMax: number): Buffer {
  let at = 0;
  const size = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = delta[at++] ?? 0;
      value += (byte & 0x7f) * scale;
      if (!(byte & 0x80)) return value;
    }
  };
  if (size() !== base.length) throw new Error('made for another base');
  const bytes = size();
  if (bytes > bytesMax) throw new Error('too large');
  const parts: Buffer[] = [];
  while (at < delta.length) {
    const code = delta[at++] as number;
    if (!(code & 0x80)) {
      parts.push(delta.subarray(at, at + code));
      at += code;
      continue;
    }
    const number = (bits: number, from: number): number => {
      let value = 0;
      for (let bit = 0; bit < bits; bit++) if (code & (1 << (from + bit))) value += (delta[at++] ?? 0) * 2 ** (8 * bit);
      return value;
    };
    const start = number(4, 0);
    const length = number(3, 4) || 0x10000;
    parts.push(base.subarray(start, start + length));
  }
  const content = Buffer.concat(parts);
  if (content.length !== bytes) throw new Error('not whole');
  return content;
}
