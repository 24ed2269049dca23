/**
 * The kernel's events about directories (inotify), through FFI. Node's own watcher leaves out the event that a writer has
 * closed a file, which is the only sign of a write through a mapping, and does not say when its queue was read to the end.
 */
import { closeSync } from 'node:fs';
import { endianness } from 'node:os';
import { loadNative } from '../../src/native.ts';

const CLOSE_ON_EXEC = 0x80000;
const NON_BLOCKING = 0x800;
/** Content or mode changed, a writer closed, a name came or went. */
const CHANGES = 0x2 | 0x4 | 0x8 | 0x40 | 0x80 | 0x100 | 0x200;
/** Only a directory, no link to one, and nothing of files without a name. */
const ONLY = 0x01000000 | 0x02000000 | 0x04000000;
const OVERFLOW = 0x4000;
/** The kernel dropped the watch: its directory is gone. */
const IGNORED = 0x8000;
const HEADER = 16;
const BUFFER_BYTES = 64 * 1024;

export interface NameEvent {
  /** Number of the watch. */
  readonly watch: number;
  /** Empty for the directory itself. */
  readonly name: string;
  readonly isWatchGone: boolean;
}

export class Inotify implements Disposable {
  readonly #fd: number;
  readonly #calls: Calls;
  readonly #buffer = Buffer.alloc(BUFFER_BYTES);

  private constructor(fd: number, calls: Calls) {
    this.#fd = fd;
    this.#calls = calls;
  }

  /** Undefined where Node has no FFI, or the user has no watchers left. */
  static open(): Inotify | undefined {
    const calls = loadCalls();
    if (!calls || endianness() !== 'LE') return undefined;
    const fd = calls.init(CLOSE_ON_EXEC | NON_BLOCKING);
    return fd < 0 ? undefined : new Inotify(fd, calls);
  }

  /** Watches a directory; the number of its watch, the same one for the same directory. Undefined if it can't be watched. */
  add(path: string): number | undefined {
    const watch = this.#calls.add(this.#fd, Buffer.from(`${path}\0`), CHANGES | ONLY);
    return watch < 0 ? undefined : watch;
  }

  remove(watch: number): void {
    this.#calls.remove(this.#fd, watch);
  }

  /** All events up to now; `lost` if the kernel's queue was full, so that some are missing. */
  read(): { events: NameEvent[]; isLost: boolean } {
    const events: NameEvent[] = [];
    let isLost = false;
    for (;;) {
      const bytes = Number(this.#calls.read(this.#fd, this.#buffer, BigInt(BUFFER_BYTES)));
      if (bytes <= 0) return { events, isLost };
      for (let at = 0; at + HEADER <= bytes; ) {
        const mask = this.#buffer.readUInt32LE(at + 4);
        const length = this.#buffer.readUInt32LE(at + 12);
        const name = this.#buffer.toString('utf8', at + HEADER, at + HEADER + length);
        const end = name.indexOf('\0');
        if (mask & OVERFLOW) isLost = true;
        else
          events.push({
            watch: this.#buffer.readInt32LE(at),
            name: end < 0 ? name : name.slice(0, end),
            isWatchGone: (mask & IGNORED) !== 0,
          });
        at += HEADER + length;
      }
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.#fd);
  }
}

interface Calls {
  init(flags: number): number;
  add(fd: number, path: Buffer, mask: number): number;
  remove(fd: number, watch: number): number;
  read(fd: number, buffer: Buffer, bytes: bigint): number | bigint;
}

function loadCalls(): Calls | undefined {
  const init = loadNative('inotify_init1', { arguments: ['i32'], return: 'i32' });
  const add = loadNative('inotify_add_watch', { arguments: ['i32', 'buffer', 'u32'], return: 'i32' });
  const remove = loadNative('inotify_rm_watch', { arguments: ['i32', 'i32'], return: 'i32' });
  const read = loadNative('read', { arguments: ['i32', 'buffer', 'u64'], return: 'i64' });
  return init && add && remove && read ? { init, add, remove, read } : undefined;
}
