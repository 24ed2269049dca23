/**
 * Starts a process by `posix_spawn`. Node forks: of a process of 100 MiB that copies page tables for 2 – 3 ms, in which its thread does
 * nothing else. This takes 0.4 ms. Node hears of the end of its own children only, so that it is for those that hold a pipe until then.
 */
import type { ChildProcess } from 'node:child_process';
import { EventEmitter } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { Socket } from 'node:net';
import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import { loadNative, toCStrings } from '../native.ts';
import type { Powers, StartOptions } from '../powers.ts';

/** Of its pipes, output, errors, the one that it holds and the one that is named are written by the process; others it reads. The held one has to be read to its end. */
interface LightOptions {
  readonly stdio: readonly (number | 'pipe' | 'ignore')[];
  readonly env: Readonly<Record<string, string>>;
  readonly heldFd: number;
  readonly writtenFd?: number;
}

const FUNCTIONS = {
  pipe2: ['buffer', 'i32'],
  posix_spawn: ['buffer', 'buffer', 'buffer', 'buffer', 'buffer', 'buffer'],
  posix_spawn_file_actions_init: ['buffer'],
  posix_spawn_file_actions_addchdir_np: ['buffer', 'buffer'],
  posix_spawn_file_actions_adddup2: ['buffer', 'i32', 'i32'],
  posix_spawn_file_actions_destroy: ['buffer'],
  posix_spawnattr_init: ['buffer'],
  posix_spawnattr_setflags: ['buffer', 'i16'],
  posix_spawnattr_setsigdefault: ['buffer', 'buffer'],
  posix_spawnattr_setsigmask: ['buffer', 'buffer'],
  waitpid: ['i32', 'buffer', 'i32'],
} as const;

type Native = NonNullable<ReturnType<typeof loadNative>>;
type Calls = Readonly<Record<keyof typeof FUNCTIONS, Native>>;

interface Library {
  readonly calls: Calls;
  /** Of each process. */
  readonly attributes: Buffer;
  /** Descriptor of /dev/null. */
  readonly nothing: number;
}

/** More than its structures take in any C library. */
const structure = () => Buffer.alloc(512);
const POSIX_SPAWN_SETSIGDEF = 0x04;
const POSIX_SPAWN_SETSIGMASK = 0x08;
const O_CLOEXEC = 0o2000000;
const WNOHANG = 1;
const ROOT = Buffer.from('/\0');

let library: Library | undefined | 'unknown' = 'unknown';

/** Powers that start so what can be: what says which pipe it holds. */
export const lightly = (powers: Powers): Powers => ({
  ...powers,
  spawn: (program, args, options) =>
    (isLight(options) ? lightSpawn(program, args, options, powers) : undefined) ?? powers.spawn(program, args, options),
});

const isLight = (options: StartOptions): options is StartOptions & LightOptions =>
  options.heldFd !== undefined && options.env !== undefined && Array.isArray(options.stdio) && options.cwd === '/';

function load(): Library | undefined {
  const found = Object.entries(FUNCTIONS).map(([name, args]) => [
    name,
    loadNative(name, { arguments: args, return: 'i32' }),
  ]);
  if (found.some(([, it]) => it === undefined)) return undefined;
  const calls = Object.fromEntries(found) as Calls;
  const attributes = structure();
  // Node ignores SIGPIPE, and what is ignored stays so; what a thread blocks would, too. With those of the C library's own.
  const [all, none] = [structure().fill(0xff), structure()];
  calls.posix_spawnattr_init(attributes);
  calls.posix_spawnattr_setsigdefault(attributes, all);
  calls.posix_spawnattr_setsigmask(attributes, none);
  calls.posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  return { calls, attributes, nothing: openSync('/dev/null', 'r+') };
}

/**
 * As Node's `spawn`, in `/`. Undefined where it has to be Node's: without FFI, without a descriptor left, and
 * where a descriptor given to the process has a number that another one of its own gets.
 */
function lightSpawn(
  program: string,
  args: readonly string[],
  options: LightOptions,
  powers: Powers,
): ChildProcess | undefined {
  if (library === 'unknown') library = load();
  if (!library) return undefined;
  const { calls, attributes, nothing } = library;
  const { stdio, env, heldFd } = options;
  using pipes = new Pipes(calls);
  const actions = structure();
  calls.posix_spawn_file_actions_init(actions);
  calls.posix_spawn_file_actions_addchdir_np(actions, ROOT);
  try {
    for (const [at, it] of stdio.entries()) {
      if (it === 'ignore' && at > 2) continue;
      const fd = it === 'ignore' ? nothing : it === 'pipe' ? pipes.open(at, isWritten(at, options)) : it;
      if (fd === undefined || fd < stdio.length) return undefined;
      calls.posix_spawn_file_actions_adddup2(actions, fd, at);
    }
    const pid = Buffer.alloc(4);
    const path = Buffer.from(`${program}\0`);
    const [argv, envp] = [[program, ...args], Object.entries(env).map(([name, value]) => `${name}=${value}`)];
    const errno = calls.posix_spawn(pid, path, actions, attributes, toCStrings(argv), toCStrings(envp));
    const streams = stdio.map((_, at) => pipes.take(at, isWritten(at, options)));
    const process = new LightProcess({
      calls,
      powers,
      streams,
      heldFd,
      ...(errno === 0 && { pid: pid.readInt32LE() }),
    });
    if (errno !== 0) process.fail(program, errno);
    return process as unknown as ChildProcess;
  } finally {
    calls.posix_spawn_file_actions_destroy(actions);
  }
}

/** Whether it is by the process. */
const isWritten = (at: number, { heldFd, writtenFd }: LightOptions): boolean =>
  at === 1 || at === 2 || at === heldFd || at === writtenFd;

/** Of a process that is being started. Disposed of, the process's ends are closed, and those of ours that nobody took. */
class Pipes implements Disposable {
  readonly #calls: Calls;
  readonly #theirs: number[] = [];
  readonly #ours = new Map<number, number>();

  constructor(calls: Calls) {
    this.#calls = calls;
  }

  /** Gives the process's end of one; undefined where no descriptor is left. */
  open(at: number, written: boolean): number | undefined {
    const ends = Buffer.alloc(8);
    if (this.#calls.pipe2(ends, O_CLOEXEC) !== 0) return undefined;
    const [reader, writer] = [ends.readInt32LE(0), ends.readInt32LE(4)];
    const theirs = written ? writer : reader;
    this.#theirs.push(theirs);
    this.#ours.set(at, written ? reader : writer);
    return theirs;
  }

  take(at: number, written: boolean): Socket | null {
    const fd = this.#ours.get(at);
    if (fd === undefined) return null;
    this.#ours.delete(at);
    return new Socket({ fd, readable: written, writable: !written });
  }

  [Symbol.dispose](): void {
    for (const fd of [...this.#theirs, ...this.#ours.values()]) closeSync(fd);
  }
}

interface Started {
  readonly calls: Calls;
  readonly powers: Powers;
  readonly pid?: number;
  readonly streams: readonly (Socket | null)[];
  readonly heldFd: number;
}

/** It may be looked for a moment before it can be waited for. */
const REAP_MS = 1;

const SIGNALS = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));

/** What is used of Node's ChildProcess. */
class LightProcess extends EventEmitter {
  readonly pid: number | undefined;
  readonly stdio: readonly (Socket | null)[];
  exitCode: number | null = null;
  signalCode: string | null = null;
  readonly #started: Started;
  #isOver = false;

  constructor(started: Started) {
    super();
    const { pid, streams, heldFd } = started;
    this.#started = started;
    this.pid = pid;
    this.stdio = streams;
    for (const it of streams) it?.once('close', () => this.#closed());
    if (pid !== undefined) streams[heldFd]?.once('close', () => this.#reap());
  }

  get stdin(): Socket | null {
    return this.stdio[0] ?? null;
  }

  get stdout(): Socket | null {
    return this.stdio[1] ?? null;
  }

  get stderr(): Socket | null {
    return this.stdio[2] ?? null;
  }

  /** As Node does it: told by an event. */
  fail(program: string, errno: number): void {
    const code = getSystemErrorName(-errno);
    const error = Object.assign(new Error(`spawn ${program} ${code}`), {
      errno: -errno,
      code,
      syscall: `spawn ${program}`,
    });
    for (const it of this.stdio) it?.destroy();
    process.nextTick(() => this.emit('error', error));
  }

  /** False where there is no such process any more. */
  kill(signal: NodeJS.Signals | number = 'SIGTERM'): boolean {
    if (this.pid === undefined || this.#isOver) return false;
    try {
      return process.kill(this.pid, signal);
    } catch {
      return false; // ESRCH.
    }
  }

  #reap(): void {
    const status = Buffer.alloc(4);
    const { calls, powers } = this.#started;
    const pid = calls.waitpid(this.pid as number, status, WNOHANG);
    if (pid === 0) {
      powers.after(REAP_MS, () => this.#reap());
      return;
    }
    this.#isOver = true;
    // Where it can't be waited for, somebody else has: nothing is known of how it ended.
    const word = pid === this.pid ? status.readInt32LE() : 0;
    const signal = word & 0x7f;
    if (signal === 0) this.exitCode = (word >> 8) & 0xff;
    else this.signalCode = SIGNALS.get(signal as never) ?? `${signal}`;
    this.emit('exit', this.exitCode, this.signalCode);
    // Nobody reads what is written to it any more.
    for (const it of this.stdio) if (it?.writable) it.destroy();
    this.#closed();
  }

  #closed(): void {
    if (this.#isOver && this.stdio.every((it) => it === null || it.closed))
      this.emit('close', this.exitCode, this.signalCode);
  }
}
