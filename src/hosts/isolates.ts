/**
 * Manages isolate hosts: each runs one program at a time and serves one session; one spare is kept; a host is ended
 * when anything but its program failed.
 */
import type { HostStatus } from '../base/call.ts';
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers, Timer } from '../base/powers.ts';
import { statmOf } from '../sandbox/proc.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import { Host, type JobEnd } from './host.ts';
import { NO_VIEW } from './host-masks.ts';
import { singleStatus } from './host-process.ts';
import type { JobTerms, ProgramJob } from './job.ts';
import type { RunOptions, RunResult } from './runs.ts';
import { end, unlessAborted } from './shutdown.ts';

export interface IsolatesOptions {
  readonly sandbox: Sandbox;
  /** Node and its arguments for the isolate host. */
  readonly program: readonly string[];
  readonly limits: Limits;
}

/** The owner of a program. The host sees no workspace, but runs as the workspace's owner. */
export interface Owner {
  readonly session: string;
  readonly workspace: string;
}

export interface ProgramRequest extends JobTerms, ProgramJob {}

interface IsolateSlot {
  readonly host: Host;
  readonly workspace: string;
  /** The session that owns the host, once a program ran in it. */
  session?: string;
  runs: number;
  /** Whether a program uses the host. */
  isHeld: boolean;
}

const MIB = 1024 * 1024;
const REAP_EVERY_MS = 10_000;

export class Isolates implements AsyncDisposable {
  readonly #slots = new Set<IsolateSlot>();
  readonly #ending = new Set<Promise<void>>();
  readonly #options: IsolatesOptions;
  readonly #powers: Powers;
  #closed = false;

  constructor(options: IsolatesOptions, powers: Powers) {
    this.#options = options;
    this.#powers = powers;
    this.#reapLater();
  }

  /**
   * Runs a program to its end. Throws SANDBOX_UNAVAILABLE if no host can be had, MEMORY_LIMIT or HOST_CRASHED if the
   * host ended during the program, QUEUE_FULL if all hosts are busy, and the signal's reason if an abort comes before
   * the start.
   */
  async run(owner: Owner, request: ProgramRequest, options: RunOptions): Promise<RunResult> {
    const slot = this.#take(owner);
    const { host } = slot;
    let isClean = false;
    try {
      await unlessAborted(host.ready, options.signal);
      await options.beforeStart?.();
      const { end: how, peakBytes, isOver } = await this.#watched(host, request, options);
      if ('crashed' in how)
        throw isOver ? overMemory(request.isolate.memoryMb, { used: peakBytes, hostPid: host.pid }) : crashed(host.pid);
      const { result } = how;
      isClean = result.usage.verdict === 'ok' && !options.signal.aborted;
      return { pid: host.pid, result: { ...result, usage: { ...result.usage, peakBytes } } };
    } finally {
      slot.runs += 1;
      slot.isHeld = false;
      if (!isClean || slot.runs >= this.#options.limits.isolateRunsMax) this.#drop(slot);
      this.#spare(owner.workspace);
    }
  }

  /** Ends the idle hosts of a session that is over; its programs were cancelled before. */
  endSession(session: string): void {
    for (const slot of this.#slots) if (slot.session === session && slot.host.jobs === 0) this.#drop(slot);
  }

  /** Status entries, like those of tier hosts. */
  status(): HostStatus[] {
    return [...this.#slots].map(({ host, workspace }) => singleStatus(host, { tier: 'isolate', workspace }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    for (const slot of this.#slots) this.#drop(slot);
    await Promise.all(this.#ending);
  }

  async #watched(
    host: Host,
    request: ProgramRequest,
    options: RunOptions,
  ): Promise<{ end: JobEnd; peakBytes: number; isOver: boolean }> {
    const { isolateLookMs, isolateHeadroomMb } = this.#options.limits;
    const before = memoryOf(host.pid);
    const max = before + (request.isolate.memoryMb + isolateHeadroomMb) * MIB;
    let [peakBytes, isOver] = [0, false];
    let timer: Timer;
    const look = () => {
      const now = memoryOf(host.pid);
      peakBytes = Math.max(peakBytes, now - before);
      isOver ||= now > max;
      // Memory may grow by some MiB per millisecond between two looks.
      const isNear = now - before > (max - before) / 2;
      if (isOver) host.kill();
      else timer = this.#powers.after(isNear ? isolateLookMs / 5 : isolateLookMs, look);
    };
    // `run` sends the job synchronously.
    const running = host.run(request, options);
    options.onStarted?.();
    timer = this.#powers.after(isolateLookMs, look);
    try {
      return { end: await running, peakBytes, isOver };
    } finally {
      timer.cancel();
    }
  }

  /** A free host of this session, else the spare, else a new one; taken synchronously. */
  #take({ session, workspace }: Owner): IsolateSlot {
    const free = [...this.#slots].filter((it) => it.host.alive && !it.isHeld && it.workspace === workspace);
    const own = free.find((it) => it.session === session) ?? free.find((it) => it.session === undefined);
    const slot = own ?? this.#start(workspace);
    slot.session = session;
    slot.isHeld = true;
    return slot;
  }

  /** Starts a spare host, so that the next session, or the next program after a killed host, need not wait. */
  #spare(workspace: string): void {
    if (this.#closed || this.#slots.size >= this.#options.limits.isolateHostsMax) return;
    const has = [...this.#slots].some((it) => it.host.alive && it.session === undefined && it.workspace === workspace);
    if (has) return;
    try {
      this.#start(workspace);
    } catch (error) {
      this.#powers.log.warn({ error }, 'could not start a spare isolate host');
    }
  }

  #start(workspace: string): IsolateSlot {
    if (this.#closed) throw new ToolError('SHUTTING_DOWN', 'the daemon is shutting down');
    const { sandbox, program, limits } = this.#options;
    this.#makeRoom();
    const host = new Host({
      tier: 'isolate',
      workspace,
      limits,
      powers: this.#powers,
      start: (stdio) => sandbox.startHost('isolate', workspace, program, stdio),
      setup: { tier: 'isolate', view: NO_VIEW, limits },
    });
    const slot: IsolateSlot = { host, workspace, runs: 0, isHeld: false };
    this.#slots.add(slot);
    void host.gone.then(() => this.#slots.delete(slot));
    return slot;
  }

  /** Ends the longest idle host if the number of hosts is at its bound. */
  #makeRoom(): void {
    if (this.#slots.size < this.#options.limits.isolateHostsMax) return;
    const [idlest] = [...this.#slots].filter((it) => !it.isHeld).sort((a, b) => a.host.idleSince - b.host.idleSince);
    if (!idlest)
      throw new ToolError('QUEUE_FULL', `all ${this.#slots.size} isolate hosts are busy`, {
        details: { retryAfterMs: 100 },
      });
    this.#drop(idlest);
  }

  #drop(slot: IsolateSlot): void {
    this.#slots.delete(slot);
    const ended = end(slot.host).finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
  }

  #reapLater(): void {
    this.#powers.after(REAP_EVERY_MS, () => {
      if (this.#closed) return;
      const before = this.#powers.monotonicMs() - this.#options.limits.hostIdleMs;
      for (const slot of this.#slots) if (!slot.isHeld && slot.host.idleSince < before) this.#drop(slot);
      this.#reapLater();
    });
  }
}

const memoryOf = (pid: number): number => statmOf(pid).privateBytes;

function overMemory(memoryMb: number, { used, hostPid }: { used: number; hostPid: number }): ToolError {
  return new ToolError('MEMORY_LIMIT', `the program needed more than ${memoryMb} MiB of memory`, {
    suggestion: 'Work on less data at a time.',
    details: { limit: memoryMb * MIB, used, enforcedBy: 'watchdog', hostPid },
  });
}

function crashed(hostPid: number): ToolError {
  return new ToolError('HOST_CRASHED', 'the process of this program ended while the program ran', {
    suggestion: 'The program may have created a value that is too large. The calls that it made are not undone.',
    details: { hostPid },
  });
}
