/**
 * Copies of files, one behind the other in a file of the spool that has no name: nobody else can open it, and it is gone
 * with this process.
 */
import { randomUUID } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { roomIn } from '../../src/base/disk.ts';
import type { Limits } from '../../src/base/limits.ts';

/** The place of a copy in the file; `Copies` changes it. */
export interface Copy {
  at: number;
  readonly bytes: number;
}

/** Bytes written between two looks at the free space of the disk. */
const ROOM_EVERY = 1024 * 1024;

export class Copies implements Disposable {
  readonly #folder: string;
  readonly #limits: Limits;
  #fd: number;
  #end = 0;
  #lookedAt = -Infinity;
  #room = 0;

  constructor(folder: string, limits: Limits) {
    this.#folder = folder;
    this.#limits = limits;
    this.#fd = open(folder);
  }

  /** Bytes on the disk. */
  get bytes(): number {
    return this.#end;
  }

  /** Keeps content; undefined if there is no room. */
  keep(content: Uint8Array): Copy | undefined {
    if (!this.#hasRoom(content.length)) return undefined;
    for (let at = 0; at < content.length; )
      at += fs.writeSync(this.#fd, content, at, content.length - at, this.#end + at);
    const copy = { at: this.#end, bytes: content.length };
    this.#end += content.length;
    return copy;
  }

  *read({ at, bytes }: Copy): Generator<Uint8Array> {
    const chunk = Buffer.alloc(Math.min(bytes, ROOM_EVERY));
    for (let done = 0; done < bytes; ) {
      const got = fs.readSync(this.#fd, chunk, 0, Math.min(chunk.length, bytes - done), at + done);
      if (got === 0) throw new Error('a copy is cut short');
      done += got;
      yield chunk.subarray(0, got);
    }
  }

  /** Whether dropping what is not used any more would leave at least half of the room. */
  isWorthPacking(used: Iterable<Copy>): boolean {
    let bytes = 0;
    for (const it of used) bytes += it.bytes;
    return bytes <= this.#limits.shadowBytesMax / 2 && bytes < this.#end;
  }

  /** Moves these copies, each named once, to a new file; the others are gone. */
  pack(used: Iterable<Copy>): void {
    const old = this.#fd;
    const fresh = open(this.#folder);
    let end = 0;
    for (const copy of used) {
      const { bytes } = copy;
      let at = end;
      for (const chunk of this.read(copy)) at += fs.writeSync(fresh, chunk, 0, chunk.length, at);
      copy.at = end;
      end += bytes;
    }
    this.#fd = fresh;
    this.#end = end;
    fs.closeSync(old);
  }

  [Symbol.dispose](): void {
    fs.closeSync(this.#fd);
  }

  #hasRoom(bytes: number): boolean {
    if (this.#end + bytes > this.#limits.shadowBytesMax) return false;
    if (this.#end + bytes - this.#lookedAt > ROOM_EVERY) {
      this.#room = this.#end + roomIn(this.#folder, this.#limits);
      this.#lookedAt = this.#end;
    }
    return this.#end + bytes <= this.#room;
  }
}

/** A file without a name. A crash between the two steps leaves an empty one, which the next daemon removes. */
function open(folder: string): number {
  const path = join(folder, `shadow-${randomUUID()}`);
  const fd = fs.openSync(path, 'wx+', 0o600);
  fs.unlinkSync(path);
  return fd;
}
