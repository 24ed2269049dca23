/** Shared memory that holds the input which is being tried. */
import { fileURLToPath } from 'node:url';

/** Inputs by target, and `crashes/<target>-<hash>`, which the tests replay. */
export const CORPORA = fileURLToPath(new URL('../corpora', import.meta.url));

/** Processor time in which each input is to be done with. */
export const CASE_CPU_MICROSECONDS_MAX = 1_500_000;

const [COUNT, NAME_BYTES, INPUT_BYTES] = [0, 1, 2];
const HEADER_BYTES = 12;
const NAME_BYTES_MAX = 64;
/** Inputs are shorter; see mutations.ts. */
const INPUT_BYTES_MAX = 256 * 1024;

export class InputSlot {
  static readonly BYTES = HEADER_BYTES + NAME_BYTES_MAX + INPUT_BYTES_MAX;
  readonly #header: Int32Array;
  readonly #name: Buffer;
  readonly #input: Buffer;

  constructor(memory: SharedArrayBuffer) {
    this.#header = new Int32Array(memory, 0, HEADER_BYTES / 4);
    this.#name = Buffer.from(memory, HEADER_BYTES, NAME_BYTES_MAX);
    this.#input = Buffer.from(memory, HEADER_BYTES + NAME_BYTES_MAX);
  }

  put(target: string, input: Buffer): void {
    this.#header[NAME_BYTES] = this.#name.write(target);
    this.#header[INPUT_BYTES] = input.copy(this.#input);
    Atomics.add(this.#header, COUNT, 1);
  }

  /** Inputs that were put here so far. */
  get count(): number {
    return Atomics.load(this.#header, COUNT);
  }

  take(): { target: string; input: Buffer } {
    return {
      target: this.#name.toString('utf8', 0, this.#header[NAME_BYTES]),
      input: Buffer.from(this.#input.subarray(0, this.#header[INPUT_BYTES])),
    };
  }
}
