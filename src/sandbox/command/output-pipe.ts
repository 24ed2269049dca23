/**
 * The pipe for one output stream of a command. Node's own are sockets, and each read of one allocates memory: 200 MB
 * through a real pipe, read into the same memory, take a third of the time, and `/dev/stdout` can be opened by name.
 */
import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { loadNative } from '../../base/native.ts';

/** Read buffer of all pipes of a thread: each chunk is handled before the next read. */
const room = Buffer.allocUnsafeSlow(64 * 1024);

const O_CLOEXEC = 0o2000000;
const F_SETPIPE_SZ = 1031;

/**
 * Bytes after which a stream counts as a flood. Its reader is faster than the writer, and would wake for each few KiB, which costs both
 * more than the bytes: it sleeps instead, for less time than the enlarged pipe takes to fill.
 */
const FLOOD_BYTES = 1024 * 1024;
/** Largest capacity of a pipe, bytes. */
export const FLOOD_PIPE_BYTES = 1024 * 1024;
const NAP_MS = 0.1;
/** Never notified: used only as a timed sleep. */
const nap = new Int32Array(new SharedArrayBuffer(4));

/** Functions of the C library; undefined if there is no FFI. */
const calls = {
  loaded: false,
  pipe2: undefined as ReturnType<typeof loadNative>,
  fcntl: undefined as ReturnType<typeof loadNative>,
};

export interface OutputPipe extends Disposable {
  /** The writer's end, for the `stdio` of a spawn. */
  readonly writer: number | 'pipe';
  /**
   * Reads what the process that was started with it writes; `made` is the stream that Node may have made for it. `onBytes` gets
   * memory that the next read overwrites. An error of the pipe counts as its end.
   */
  read(made: Readable | null | undefined, onBytes: (bytes: Buffer) => void): Readable | undefined;
}

/** Opens a pipe. Reading it to the end, destroying the stream that `read` gives, or disposing of it before releases it. */
export function openOutputPipe(): OutputPipe {
  if (!calls.loaded) load();
  const ends = Buffer.alloc(8);
  const isOpen = calls.pipe2?.(ends, O_CLOEXEC) === 0;
  return isOpen ? new RealPipe(ends.readInt32LE(0), ends.readInt32LE(4)) : NODES_PIPE;
}

function load(): void {
  calls.loaded = true;
  calls.pipe2 = loadNative('pipe2', { arguments: ['buffer', 'i32'], return: 'i32' });
  calls.fcntl = loadNative('fcntl', { arguments: ['i32', 'i32', 'i32'], return: 'i32' });
}

/** Node's own pipe: used if there is no FFI, or no descriptor left, which the spawn will report. */
export const NODES_PIPE: OutputPipe = {
  writer: 'pipe',
  read: (made, onBytes) => made?.on('error', () => {}).on('data', onBytes) ?? undefined,
  [Symbol.dispose]() {},
};

class RealPipe implements OutputPipe {
  readonly writer: number;
  #reader: number | undefined;

  constructor(reader: number, writer: number) {
    this.#reader = reader;
    this.writer = writer;
  }

  read(_: unknown, onBytes: (bytes: Buffer) => void): Readable {
    const fd = this.#reader as number;
    this.#reader = undefined;
    closeSync(this.writer);
    let bytes = 0;
    const callback = (count: number) => {
      if (bytes < FLOOD_BYTES && bytes + count >= FLOOD_BYTES) calls.fcntl?.(fd, F_SETPIPE_SZ, FLOOD_PIPE_BYTES);
      bytes += count;
      onBytes(room.subarray(0, count));
      if (bytes >= FLOOD_BYTES && count < room.length) Atomics.wait(nap, 0, 0, NAP_MS);
      return true;
    };
    return new Socket({ fd, readable: true, writable: false, onread: { buffer: room, callback } })
      .on('error', () => {})
      .resume();
  }

  [Symbol.dispose](): void {
    if (this.#reader === undefined) return;
    closeSync(this.#reader);
    closeSync(this.writer);
  }
}
