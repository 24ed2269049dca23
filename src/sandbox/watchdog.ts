/**
 * Measures what running commands use, many times a second, if no cgroup counts it: memory, CPU time and processes of a
 * whole pid namespace, which no process of a command can leave. Reports a command that exceeds its bounds once.
 */
import { closeSync, openSync, readdirSync, readlinkSync } from 'node:fs';
import type { CommandBounds, Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { signalQuietly } from '../base/quiet/signals.ts';
import { type ProcessStat, sharedMemoryOf, statmOf, statOf } from './proc.ts';

/** A bound that a command exceeded. */
export interface ExceededLimit {
  readonly kind:
    | 'memory'
    | 'cpu'
    | 'processes'
    | 'file'
    | 'disk'
    | 'home'
    | 'home-entries'
    | 'preview'
    | 'preview-entries';
  /** Limit in the unit of the error's details: bytes, milliseconds, or a number. */
  readonly limit: number;
  readonly used: number;
  readonly enforcedBy: 'watchdog' | 'rlimit' | 'cgroup v1' | 'cgroup v2';
}

/** The exceeded bound, as verdicts name it. */
export const verdictOf = (kind: ExceededLimit['kind']): 'memory' | 'cpu' | 'processes' | 'file' =>
  kind === 'memory' || kind === 'cpu' || kind === 'processes' ? kind : 'file';

/** Measured use of one command; absent figures if it ended before the first measurement. */
export interface MeasuredUse {
  readonly cpuMs: number;
  readonly peakBytes?: number | undefined;
  readonly processes?: number;
  readonly exceeded?: ExceededLimit | undefined;
}

export interface CommandWatch extends Disposable {
  readonly measured: MeasuredUse;
}

export interface WatchRequest {
  /** Init of the command's pid namespace, by its pid in ours. */
  readonly init: number;
  readonly bounds: CommandBounds;
  /** Called at most once; must end the command. */
  readonly onExceeded: () => void;
}

/** Shared memory below which a process is not examined: that little can't add up, even over many processes. */
const SHARED_BYTES_MIN = 1024 * 1024;

export class Watchdog {
  readonly #watched = new Set<WatchedCommand>();
  /** Pid namespaces of fork bombs. Their init has been killed, but waits for its turn behind thousands that go on forking. */
  readonly #swept = new Map<string, WatchedCommand>();
  readonly #limits: Limits;
  readonly #powers: Powers;
  /** The command that each pid belongs to; a pid is reused, but not with the same start time. */
  #commandByPid = new Map<number, { readonly startedAt: string; readonly watched: WatchedCommand | undefined }>();
  #looks = false;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Watches a command until disposed of. */
  watch(request: WatchRequest): CommandWatch {
    const watched = new WatchedCommand(request, this.#limits);
    this.#watched.add(watched);
    if (!this.#looks) this.#lookLater();
    return {
      get measured() {
        return watched.seen;
      },
      [Symbol.dispose]: () => {
        this.#watched.delete(watched);
        if (![...this.#swept.values()].includes(watched)) watched.release();
      },
    };
  }

  #lookLater(): void {
    this.#looks = true;
    this.#powers.after(this.#limits.watchdogMs, () => {
      this.#looks = false;
      this.#measureAll();
      this.#sweep();
      if (this.#watched.size + this.#swept.size > 0) this.#lookLater();
    });
  }

  #measureAll(): void {
    const namespaces = new Map<string, WatchedCommand>();
    for (const watched of this.#watched) {
      const namespace = watched.begin();
      if (namespace !== undefined) namespaces.set(namespace, watched);
    }
    const before = this.#commandByPid;
    this.#commandByPid = new Map();
    if (namespaces.size === 0) return;
    for (const name of readdirSync('/proc')) {
      const pid = Number(name);
      const stat = Number.isInteger(pid) ? statOf(pid) : undefined;
      if (!stat) continue;
      const old = before.get(pid);
      const watched =
        old?.startedAt === stat.startedAt
          ? old.watched
          : (namespaces.get(namespaceOf(pid) ?? '') ?? this.#commandByPid.get(stat.parent)?.watched);
      this.#commandByPid.set(pid, { startedAt: stat.startedAt, watched });
      watched?.add(pid, stat);
    }
    for (const [, watched] of namespaces) watched.end();
    this.#endLargest([...namespaces.values()]);
    for (const [namespace, watched] of namespaces) {
      if (watched.seen.exceeded?.kind === 'processes') this.#swept.set(namespace, watched);
    }
  }

  /** Ends the largest command if all together use more memory than a host's commands may. */
  #endLargest(all: readonly WatchedCommand[]): void {
    const limit = this.#limits.hostCommandsMemoryMb * 1024 * 1024;
    if (all.reduce((sum, it) => sum + it.usedBytes, 0) <= limit) return;
    all.toSorted((a, b) => b.usedBytes - a.usedBytes)[0]?.endForRoom();
  }

  /** Kills everything in the namespaces of fork bombs until they are empty: a killed process forks no more. */
  #sweep(): void {
    for (let turn = 0; turn < SWEEPS && this.#swept.size > 0; turn++) {
      const found = new Set<string>();
      for (const name of readdirSync('/proc')) {
        const pid = Number(name);
        const namespace = Number.isInteger(pid) ? namespaceOf(pid) : undefined;
        if (namespace === undefined || !this.#swept.has(namespace)) continue;
        found.add(namespace);
        signalQuietly(pid, 'SIGKILL');
      }
      for (const [namespace, watched] of this.#swept) {
        if (found.has(namespace)) continue;
        this.#swept.delete(namespace);
        if (!this.#watched.has(watched)) watched.release();
      }
    }
  }
}

/** Passes of a sweep, each of which finds what was forked during the one before. */
const SWEEPS = 3;

/** One watched command: the figures of one measurement, and the peaks of all. */
class WatchedCommand {
  readonly #request: WatchRequest;
  readonly #threadsMax: number;
  readonly #cpu = new CpuSum();
  readonly #shared: number[] = [];
  /** Held open, so that no other namespace can get its number. */
  #namespace: { readonly fd: number; readonly name: string } | undefined;
  #current = { cpuMs: 0, privateBytes: 0, sharedBytes: 0, processes: 0, threads: 0 };
  /** Bytes at the last measurement. */
  usedBytes = 0;
  #peakBytes = 0;
  #processes = 0;
  #exceeded: ExceededLimit | undefined;

  constructor(request: WatchRequest, { commandThreadsMax }: Limits) {
    this.#request = request;
    this.#threadsMax = request.bounds.processes * commandThreadsMax;
  }

  get seen(): MeasuredUse {
    return {
      cpuMs: this.#cpu.totalMs,
      ...(this.#peakBytes > 0 && { peakBytes: this.#peakBytes }),
      ...(this.#processes > 0 && { processes: this.#processes }),
      exceeded: this.#exceeded,
    };
  }

  /** Begins a measurement; gives the namespace's name, or undefined if there is nothing to measure. */
  begin(): string | undefined {
    if (this.#exceeded) return undefined;
    this.#namespace ??= openNamespace(this.#request.init);
    this.#current = { cpuMs: 0, privateBytes: 0, sharedBytes: 0, processes: 0, threads: 0 };
    this.#shared.length = 0;
    return this.#namespace?.name;
  }

  /** Releases the namespace; ends all measurements. */
  release(): void {
    if (this.#namespace) closeSync(this.#namespace.fd);
    this.#namespace = undefined;
  }

  /** Adds a process. Ends the command at once if there are too many: a fork bomb is not counted to its end. */
  add(pid: number, { cpuMs, threads }: ProcessStat): void {
    if (this.#exceeded) return;
    const now = this.#current;
    now.cpuMs += cpuMs;
    // The namespace's init is bubblewrap, not the command.
    if (pid === this.#request.init) return;
    now.processes += 1;
    now.threads += threads;
    this.#processes = Math.max(this.#processes, now.processes);
    const { bounds } = this.#request;
    if (now.processes > bounds.processes) return this.#exceed('processes', bounds.processes, now.processes);
    if (now.threads > this.#threadsMax) return this.#exceed('processes', this.#threadsMax, now.threads);
    const memory = statmOf(pid);
    now.privateBytes += memory.privateBytes;
    now.sharedBytes += memory.sharedBytes;
    if (memory.sharedBytes > SHARED_BYTES_MIN) this.#shared.push(pid);
  }

  /** Ends a measurement: compares the sums with the bounds. */
  end(): void {
    if (this.#exceeded) return;
    const { memoryMb, cpuMs } = this.#request.bounds;
    this.#cpu.add(this.#current.cpuMs);
    const usedBytes = this.#usedBytes(memoryMb * 1024 * 1024);
    this.usedBytes = usedBytes;
    this.#peakBytes = Math.max(this.#peakBytes, usedBytes);
    if (usedBytes > memoryMb * 1024 * 1024) this.#exceed('memory', memoryMb * 1024 * 1024, usedBytes);
    else if (this.#cpu.totalMs > cpuMs) this.#exceed('cpu', cpuMs, this.#cpu.totalMs);
  }

  /** Ends the command though it kept its bounds: all commands together exceeded theirs. */
  endForRoom(): void {
    if (!this.#exceeded) this.#exceed('memory', this.#request.bounds.memoryMb * 1024 * 1024, this.usedBytes);
  }

  /**
   * Mapped file pages can be read again and count for no process; shared memory counts in each process that has it.
   * Telling them apart costs another file read per process, so it is done only if it could matter.
   */
  #usedBytes(limit: number): number {
    const { privateBytes, sharedBytes } = this.#current;
    if (privateBytes > limit || privateBytes + sharedBytes <= limit) return privateBytes;
    return this.#shared.reduce((sum, pid) => sum + sharedMemoryOf(pid), privateBytes);
  }

  #exceed(kind: ExceededLimit['kind'], limit: number, used: number): void {
    this.#exceeded = { kind, limit, used, enforcedBy: 'watchdog' };
    this.#request.onExceeded();
  }
}

/**
 * CPU time of a process tree, from sums over live processes and their waited-for children. A child's time moves into its
 * parent's when the parent waits for it, and is lost if it never does.
 */
export class CpuSum {
  totalMs = 0;
  #lostMs = 0;
  #missingMs = 0;

  /** `sumMs` is the sum of one measurement. */
  add(sumMs: number): void {
    const missingMs = this.totalMs - this.#lostMs - sumMs;
    if (missingMs > 0) {
      // A child that ended between the reads of its parent and of itself is missing once; time that is missing twice is lost.
      const lostMs = Math.min(missingMs, this.#missingMs);
      this.#lostMs += lostMs;
      this.#missingMs = missingMs - lostMs;
    } else this.#missingMs = 0;
    this.totalMs = Math.max(this.totalMs, sumMs + this.#lostMs);
  }
}

function openNamespace(pid: number): { fd: number; name: string } | undefined {
  let fd: number;
  try {
    fd = openSync(`/proc/${pid}/ns/pid`, 'r');
  } catch {
    return undefined; // ENOENT: already gone.
  }
  return { fd, name: readlinkSync(`/proc/self/fd/${fd}`) };
}

/** Name of a process's pid namespace; undefined if it has ended, or we may not inspect it. */
export function namespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`);
  } catch {
    return undefined; // ENOENT, EACCES: ended, or not ours to inspect.
  }
}
