/**
 * A program that outlives the call that started it, in a sandbox of its own, whose output is kept until it is asked for:
 * what a terminal and a command in the background have in common.
 */
import type { Readable } from 'node:stream';
import type { Limits } from '../../base/limits.ts';
import { type Powers, settlesWithin } from '../../base/powers.ts';
import { type ConfinedRun, exitOf, type Settled } from '../command/confined-run.ts';
import type { TakeOverTime } from '../git/config/copies.ts';
import type { TakenOver } from '../git/config/take-over.ts';
import { verdictOf } from '../watchdog.ts';
import { TerminalLog } from './log.ts';
import { OutputSignal } from './output-signal.ts';

/** Why the program ended: by itself, or for what it used, by its owner, or by the daemon. */
export type KeptEnd = 'exit' | 'memory' | 'cpu' | 'processes' | 'file' | 'output' | 'closed';

export interface KeptParts {
  readonly run: ConfinedRun;
  /** Settles when its sandbox has been checked, so that it may begin. */
  readonly admitted: Promise<void>;
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Wait for a program that does not start. */
const PATIENCE_MS = 10_000;
/** Interval of checks whether the program has begun. */
const LOOK_MS = 5;
/** Bytes of output that may tell why bubblewrap could not build the sandbox. */
const COMPLAINT_BYTES_MAX = 4096;

export abstract class KeptRun {
  readonly log: TerminalLog;
  readonly startedAt: number;
  /** Settles when all of its processes have ended. */
  readonly gone: Promise<void>;
  protected readonly run: ConfinedRun;
  protected readonly limits: Limits;
  protected readonly powers: Powers;
  protected readonly output: OutputSignal;
  #isAdmitted = false;
  #closedFor: 'output' | 'closed' | undefined;
  #ended: KeptEnd | undefined;
  #settled: Settled | undefined;
  /** Why the program did not begin. */
  #refusal: unknown;

  /** `read` gives the pipes that bring its output, and passes each piece on. */
  protected constructor(
    { run, admitted, limits, powers }: KeptParts,
    read: (take: (chunk: Buffer) => void) => readonly Readable[],
  ) {
    this.run = run;
    this.limits = limits;
    this.powers = powers;
    this.output = new OutputSignal(powers);
    this.startedAt = powers.monotonicMs();
    this.log = new TerminalLog(limits.terminalLogBytes);
    admitted.then(
      () => (this.#isAdmitted = true),
      () => {}, // `run.settle` gives the reason.
    );
    this.gone = this.#live(read((chunk) => this.take(chunk)));
  }

  /** Whether the program itself runs in its sandbox. */
  protected abstract get isRunning(): boolean;

  get ended(): KeptEnd | undefined {
    return this.#ended;
  }

  /** How the program ended; empty if we killed it, or it still runs. */
  get exit(): { exitCode?: number; signal?: string | undefined } {
    return exitOf(this.#settled, this.#ended);
  }

  /** Waits until the program runs, or has ended. Throws SANDBOX_UNAVAILABLE if it may not begin. */
  async started(signal: AbortSignal): Promise<void> {
    const until = this.powers.monotonicMs() + PATIENCE_MS;
    const isBegun = () => this.#isAdmitted && this.isRunning;
    while (this.#ended === undefined && !isBegun() && this.powers.monotonicMs() < until) {
      signal.throwIfAborted();
      await this.output.next(LOOK_MS, signal);
    }
    if (this.#refusal) throw this.#refusal;
  }

  /** Output that the caller has not seen, in one piece, and how the program ended. */
  stateAfter(afterSeq: number) {
    const { text: output, seq, missedBytes } = this.log.after(afterSeq, this.limits.terminalReadBytes);
    const ended = this.#ended;
    return {
      output,
      seq,
      missedBytes: missedBytes || undefined,
      exited: ended !== undefined,
      ...(ended !== undefined && ended !== 'exit' && { endedBy: ended }),
      ...this.exit,
    };
  }

  /** Takes over what its programs set in configs of repositories since the last time. */
  takeOver(): Promise<TakenOver[]> {
    return this.run.copies.takeOver(this.#ended === undefined ? 'running' : 'ended');
  }

  /** Kills it with all that it started; settles when that has ended. Takes over what it set only if a call can tell of it. */
  async close(time: Exclude<TakeOverTime, 'running'>): Promise<TakenOver[]> {
    this.end('closed');
    await this.gone;
    return this.run.copies.takeOver(time);
  }

  protected end(why: 'output' | 'closed', graceMs = 0): void {
    if (this.#ended !== undefined) return;
    this.#closedFor ??= why;
    this.run.stop(graceMs);
  }

  protected take(chunk: Buffer): void {
    this.log.push(chunk);
    if (this.log.end > this.limits.commandOutputBytesMax) this.end('output');
    this.output.tell();
  }

  async #live(pipes: readonly Readable[]): Promise<void> {
    using run = this.run;
    const closed = pipes.map((it) => new Promise<void>((resolve) => it.once('close', () => resolve())));
    await run.ended;
    // A terminal may have paused its own, and a process that bubblewrap has not killed yet may hold one.
    for (const it of pipes) it.resume();
    await settlesWithin(Promise.all(closed), this.limits.commandDrainMs, this.powers);
    try {
      this.#settled = await run.settle(() => this.log.after(0, COMPLAINT_BYTES_MAX).text);
    } catch (error) {
      this.#refusal = error;
    }
    run.copies.keepLeft();
    const exceeded = this.#settled?.used.exceeded?.kind;
    this.#ended = (exceeded && verdictOf(exceeded)) ?? this.#closedFor ?? 'exit';
    for (const it of pipes) it.destroy();
    this.output.tell();
  }
}
