import { isUtf8 } from 'node:buffer';

/** Bytes of the longest record; a path has at most 4 KiB. */
const RECORD_BYTES_MAX = 64 * 1024;

/**
 * Reads records of ripgrep's `--null`: a path and NUL, or with two fields also a number and a newline. Leaves out
 * paths that are not UTF-8: no call could name them.
 */
export class NulFields {
  readonly #fields: 1 | 2;
  readonly #onRecord: (fields: readonly string[]) => boolean;
  #rest: Buffer<ArrayBufferLike> = Buffer.alloc(0);

  constructor(fields: 1 | 2, take: (fields: readonly string[]) => boolean) {
    this.#fields = fields;
    this.#onRecord = take;
  }

  /** Reads a chunk; false if `take` returned false. */
  push(chunk: Buffer): boolean {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    let from = 0;
    for (;;) {
      const nul = bytes.indexOf(0, from);
      const end = nul < 0 || this.#fields === 1 ? nul : bytes.indexOf(10, nul);
      if (end < 0) break;
      const path = bytes.subarray(from, nul);
      const fields = [path.toString(), ...(end > nul ? [bytes.toString('latin1', nul + 1, end)] : [])];
      from = end + 1;
      if (isUtf8(path) && !this.#onRecord(fields)) return false;
    }
    this.#rest = Buffer.from(bytes.subarray(from, from + RECORD_BYTES_MAX));
    return true;
  }
}
