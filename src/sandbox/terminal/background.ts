/**
 * One command in the background: in a sandbox of its own, built as for any command, whose output is kept until it is asked for.
 * Both streams go into one pipe, so their order is that in which they were written.
 */

import { readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { type Powers, settlesWithin } from '../../base/powers.ts';
import { ConfinedRun, exitOf, type Settled } from '../command/confined-run.ts';
import { NODES_PIPE, openOutputPipe } from '../command/output-pipe.ts';
import type { CommandRequest, CommandSetup } from '../command/request.ts';
import { beginAt, shapeOf } from '../command/start.ts';
import type { TakeOverTime } from '../git/config/copies.ts';
import type { TakenOver } from '../git/config/take-over.ts';
import { verdictOf } from '../watchdog.ts';
import { withoutForeignDescriptors } from './foreign-descriptors.ts';
import { listeningPorts } from './listening-ports.ts';
import { type Excerpt, TerminalLog } from './log.ts';
import { OutputSignal } from './output-signal.ts';
import type { TerminalEnd } from './terminal.ts';

/** Wait for a sandbox that does not come up. */
const PATIENCE_MS = 10_000;
/** Interval of checks whether the command has begun. */
const LOOK_MS = 5;
/** Bytes of output that may tell why bubblewrap could not build the sandbox. */
const COMPLAINT_BYTES_MAX = 4096;

export class Background {
  readonly log: TerminalLog;
  readonly startedAt: number;
  /** Settles when all of its processes have ended. */
  readonly gone: Promise<void>;
  readonly #run: ConfinedRun;
  readonly #pipes: readonly Readable[];
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #output: OutputSignal;
  #init: number | undefined;
  #isAdmitted = false;
  #closedFor: 'output' | 'closed' | undefined;
  #ended: TerminalEnd | undefined;
  #settled: Settled | undefined;
  /** Why the command did not begin. */
  #refusal: unknown;

  /** Starts the command. Throws SANDBOX_UNAVAILABLE, INPUT_INVALID. */
  static async start(request: CommandRequest, setup: CommandSetup, powers: Powers): Promise<Background> {
    await setup.git?.settle(request.masks);
    using parts = new DisposableStack();
    const pipe = parts.use(openOutputPipe());
    const streams = [request.stdin === undefined ? 'ignore' : 'pipe', pipe.writer, pipe.writer] as const;
    const shape = shapeOf(request, setup);
    const started = beginAt({ streams, outer: withoutForeignDescriptors }, { shape, request, setup, powers });
    const run = new ConfinedRun(started, request, setup, powers);
    const { child } = run;
    // EPIPE: the command ended without reading all of it.
    if (request.stdin !== undefined) child.stdin?.on('error', () => {}).end(request.stdin);
    return new Background(run, { admitted: started.admitted, limits: setup.limits, powers }, (take) =>
      (pipe === NODES_PIPE ? [child.stdout, child.stderr] : [undefined]).flatMap((it) => pipe.read(it, take) ?? []),
    );
  }

  private constructor(
    run: ConfinedRun,
    { admitted, limits, powers }: { admitted: Promise<void>; limits: Limits; powers: Powers },
    read: (take: (chunk: Buffer) => void) => Readable[],
  ) {
    this.#run = run;
    this.#limits = limits;
    this.#powers = powers;
    this.#output = new OutputSignal(powers);
    this.startedAt = powers.monotonicMs();
    this.log = new TerminalLog(limits.terminalLogBytes);
    run.onInit((init) => (this.#init = init));
    admitted.then(
      () => (this.#isAdmitted = true),
      () => {}, // `run.settle` gives the reason.
    );
    this.#pipes = read((chunk) => this.#take(chunk));
    this.gone = this.#live();
  }

  get ended(): TerminalEnd | undefined {
    return this.#ended;
  }

  /** How the command ended; empty if we killed it, or it still runs. */
  get exit(): { exitCode?: number; signal?: string | undefined } {
    return exitOf(this.#settled, this.#ended);
  }

  /** Pid of its sandbox's init, which is in the command's namespaces; undefined until it is built. */
  get init(): number | undefined {
    return this.#init;
  }

  /** TCP ports that it listens on, in a network of its own. */
  get ports(): number[] {
    return this.#init === undefined || this.#ended !== undefined ? [] : listeningPorts(this.#init);
  }

  /** Waits until the command runs, or has ended. Throws SANDBOX_UNAVAILABLE if it may not begin. */
  async started(signal: AbortSignal): Promise<void> {
    const until = this.#powers.monotonicMs() + PATIENCE_MS;
    const isBegun = () => this.#isAdmitted && this.#run.main !== undefined;
    while (this.#ended === undefined && !isBegun() && this.#powers.monotonicMs() < until) {
      signal.throwIfAborted();
      await this.#output.next(LOOK_MS, signal);
    }
    if (this.#refusal) throw this.#refusal;
  }

  /** Output that the caller has not seen, in one piece. */
  after(seq: number): Excerpt {
    return this.log.after(seq, this.#limits.terminalReadBytes);
  }

  /** Waits for output after a position, the end of the command, or `waitMs`. */
  async settle(of: { waitMs: number; afterSeq: number; signal: AbortSignal }): Promise<void> {
    const { waitMs, afterSeq, signal } = of;
    const until = this.#powers.monotonicMs() + waitMs;
    for (;;) {
      signal.throwIfAborted();
      const leftMs = until - this.#powers.monotonicMs();
      if (this.#ended !== undefined || this.log.end > afterSeq || leftMs <= 0) return;
      await this.#output.next(leftMs, signal);
    }
  }

  /** Sends a signal to the command and the programs that it started in its process group. Throws CONFLICT if it has ended. */
  signal(name: NodeJS.Signals): void {
    const { main } = this.#run;
    if (this.#ended !== undefined || main === undefined)
      throw new ToolError('CONFLICT', 'the command has ended', { details: this.exit });
    try {
      process.kill(targetOf(main), name);
    } catch {
      // ESRCH: already ended.
    }
  }

  /** Asks the command to end, then kills all that it started. */
  async stop(): Promise<void> {
    this.#close('closed', this.#limits.commandTermGraceMs);
    await this.gone;
  }

  /** Kills the command with all that it started; settles when that has ended. */
  async close(time: Exclude<TakeOverTime, 'running'>): Promise<TakenOver[]> {
    this.#close('closed');
    await this.gone;
    return this.#run.copies.takeOver(time);
  }

  /** Takes over what its programs set in configs of repositories since the last time. */
  takeOver(): Promise<TakenOver[]> {
    return this.#run.copies.takeOver(this.#ended === undefined ? 'running' : 'ended');
  }

  #close(why: 'output' | 'closed', graceMs = 0): void {
    if (this.#ended !== undefined) return;
    this.#closedFor ??= why;
    this.#run.stop(graceMs);
  }

  async #live(): Promise<void> {
    using run = this.#run;
    const closed = this.#pipes.map((it) => new Promise<void>((resolve) => it.once('close', () => resolve())));
    await run.ended;
    // A process that bubblewrap has not killed yet may hold the pipe.
    await settlesWithin(Promise.all(closed), this.#limits.commandDrainMs, this.#powers);
    try {
      this.#settled = await run.settle(() => this.log.after(0, COMPLAINT_BYTES_MAX).text);
    } catch (error) {
      this.#refusal = error;
    }
    run.copies.keepLeft();
    const exceeded = this.#settled?.used.exceeded?.kind;
    this.#ended = (exceeded && verdictOf(exceeded)) ?? this.#closedFor ?? 'exit';
    for (const it of this.#pipes) it.destroy();
    this.#output.tell();
  }

  #take(chunk: Buffer): void {
    this.log.push(chunk);
    if (this.log.end > this.#limits.commandOutputBytesMax) this.#close('output');
    this.#output.tell();
  }
}

/** The process group of `main`, as `kill` takes it; `main` alone if the group is that of this host. */
function targetOf(main: number): number {
  const groupOf = (path: string): number => {
    const text = readFileSync(path, 'latin1');
    return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[2]);
  };
  try {
    const group = groupOf(`/proc/${main}/stat`);
    return group > 1 && group !== groupOf('/proc/self/stat') ? -group : main;
  } catch {
    return main; // ENOENT: it has just ended.
  }
}
