/**
 * One terminal: a program in a sandbox of its own, built as for a command, with a pseudoterminal for its standard streams.
 * Runs in an execute host for terminals only, since the master ends of all terminals are open there.
 */
import { closeSync, statSync } from 'node:fs';
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { type Powers, settlesWithin } from '../../base/powers.ts';
import { ConfinedRun, exitOf, type Settled } from '../command/confined-run.ts';
import type { CommandRequest, CommandSetup } from '../command/request.ts';
import { type Attachment, beginAt, shapeOf } from '../command/start.ts';
import { findProgram } from '../find-program.ts';
import type { TakeOverTime } from '../git/config/copies.ts';
import type { TakenOver } from '../git/config/take-over.ts';
import { verdictOf } from '../watchdog.ts';
import { withoutForeignDescriptors } from './foreign-descriptors.ts';
import { type Excerpt, TerminalLog } from './log.ts';
import { OutputSignal } from './output-signal.ts';
import { openPty, type Pty, type Size } from './pty.ts';
import { foregroundOf, type Tty, waiterOf } from './tty-wait.ts';

/** Keeps the picture of a terminal. It may be lost: its input is hostile. */
export interface Screen {
  /** Returns a promise if the caller should wait before it writes more. */
  write(chunk: Buffer): Promise<void> | undefined;
  resize(size: Size): void;
  /** Called with the terminal's answers to its program's queries (for instance the cursor position). */
  onReply: (text: string) => void;
  close(): void;
}

/** Why the terminal ended: by itself, or for what it used, by its owner, or by the daemon. */
export type TerminalEnd = 'exit' | 'memory' | 'cpu' | 'processes' | 'file' | 'output' | 'closed';

export interface TerminalRequest extends CommandRequest {
  readonly size: Size;
}

export interface TerminalParts {
  readonly screen: Screen;
  readonly powers: Powers;
}

/** Interval of checks whether the program waits for input; two equal results in a row count. */
const LOOK_MS = 20;
/** The pause after a check, as a multiple of its duration. */
const LOOK_SHARE = 4;
/** Wait for a program that does not start. */
const PATIENCE_MS = 10_000;

export class Terminal {
  readonly log: TerminalLog;
  /** Settles when all of its processes have ended. */
  readonly gone: Promise<void>;
  readonly startedAt: number;
  #size: Size;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #pty: Pty;
  readonly #tty: Tty;
  readonly #run: ConfinedRun;
  readonly #screen: Screen;
  #ended: TerminalEnd | undefined;
  #closedFor: 'output' | 'closed' | undefined;
  #settled: Settled | undefined;
  /** Whether its program may begin: its sandbox has been checked. */
  #isAdmitted = false;
  /** Why its program did not begin. */
  #refusal: unknown;
  /** The thread that waited when input was last written: if it still waits, that says nothing new. */
  #waiterBefore: string | undefined;
  readonly #output: OutputSignal;

  /** Starts the program. Throws SANDBOX_UNAVAILABLE, INPUT_INVALID. */
  static async start(request: TerminalRequest, given: CommandSetup, of: TerminalParts): Promise<Terminal> {
    const setup = atTerminal(given);
    await setup.git?.settle(request.masks);
    const pty = openPty(request.size);
    try {
      const { dev, ino } = statSync(pty.path);
      const shape = shapeOf(request, setup);
      const started = beginAt(attachmentOf(pty), { shape, request, setup, powers: of.powers });
      const run = new ConfinedRun(started, request, setup, of.powers);
      return new Terminal(
        { run, pty, tty: { dev, ino }, admitted: started.admitted },
        { ...of, size: request.size, limits: setup.limits },
      );
    } catch (error) {
      pty.stream.destroy();
      throw error;
    } finally {
      closeSync(pty.slave);
    }
  }

  private constructor(
    { run, pty, tty, admitted }: { run: ConfinedRun; pty: Pty; tty: Tty; admitted: Promise<void> },
    { screen, powers, size, limits }: TerminalParts & { size: Size; limits: Limits },
  ) {
    this.#limits = limits;
    this.#powers = powers;
    this.#output = new OutputSignal(powers);
    this.#screen = screen;
    this.#size = size;
    this.#run = run;
    this.#pty = pty;
    this.startedAt = powers.monotonicMs();
    this.log = new TerminalLog(limits.terminalLogBytes);
    this.#tty = tty;
    admitted.then(
      () => (this.#isAdmitted = true),
      () => {}, // `run.settle` gives the reason.
    );
    screen.onReply = (text) => {
      if (pty.stream.writableLength < REPLY_BYTES_MAX) pty.stream.write(text);
    };
    this.gone = this.#live();
  }

  get size(): Size {
    return this.#size;
  }

  get ended(): TerminalEnd | undefined {
    return this.#ended;
  }

  /** How the program ended; empty if we killed it, or it still runs. */
  get exit(): { exitCode?: number; signal?: string | undefined } {
    return exitOf(this.#settled, this.#ended);
  }

  /** Waits until signals reach a program, or it has ended. Throws SANDBOX_UNAVAILABLE if it may not begin. */
  async started(signal: AbortSignal): Promise<void> {
    const until = this.#powers.monotonicMs() + PATIENCE_MS;
    const isBegun = () => this.#isAdmitted && this.#foreground !== undefined;
    while (this.#ended === undefined && !isBegun() && this.#powers.monotonicMs() < until) {
      signal.throwIfAborted();
      await this.#output.next(LOOK_MS / 4, signal);
    }
    if (this.#refusal) throw this.#refusal;
  }

  /** Writes input for the program, as if typed. Throws CONFLICT if the program does not read, or has ended. */
  write(data: string): void {
    this.#assertLive();
    const { stream } = this.#pty;
    if (stream.writableLength > this.#limits.terminalInputBytes)
      throw new ToolError('CONFLICT', 'the program has not yet read the earlier input', {
        suggestion: 'Wait, or send the signal INT.',
      });
    this.#waiterBefore = this.waiter();
    stream.write(data);
  }

  resize(size: Size): void {
    this.#assertLive();
    this.#size = size;
    this.#pty.resize(size);
    this.#screen.resize(size);
  }

  /** Sends a signal to the program in the foreground. Throws CONFLICT if there is none. */
  signal(name: NodeJS.Signals): void {
    this.#assertLive();
    const group = this.#foreground;
    if (group === undefined) throw new ToolError('CONFLICT', 'no program runs in the foreground of this terminal');
    this.#waiterBefore = this.waiter();
    try {
      process.kill(-group, name);
    } catch {
      // ESRCH: already ended.
    }
  }

  /** Output that the caller has not seen, in one piece. */
  after(seq: number): Excerpt {
    return this.log.after(seq, this.#limits.terminalReadBytes);
  }

  /** Names the thread that waits for input; undefined if none does. */
  waiter(): string | undefined {
    const { main } = this.#run;
    return main === undefined || this.#ended !== undefined ? undefined : waiterOf(main, this.#tty);
  }

  /** Whether typed text shows (`line`), does not (`password`), or goes key by key to a program that shows what it likes. */
  async inputKind(): Promise<'line' | 'password' | 'key'> {
    const settings = await settingsOf(this.#pty.path, this.#powers);
    if (settings.has('-icanon')) return 'key';
    return settings.has('-echo') ? 'password' : 'line';
  }

  /**
   * Waits until the terminal ends, its program newly waits for input since the last write, `waitMs` have passed,
   * or, if a position in the log is given, there is output after it.
   */
  async settle({
    waitMs,
    afterSeq,
    signal,
  }: {
    waitMs: number;
    afterSeq?: number;
    signal: AbortSignal;
  }): Promise<void> {
    const until = this.#powers.monotonicMs() + waitMs;
    let before: string | undefined;
    for (;;) {
      signal.throwIfAborted();
      if (this.#ended !== undefined || (afterSeq !== undefined && this.log.end > afterSeq)) return;
      const lookedAt = this.#powers.monotonicMs();
      const waiter = this.waiter();
      // A check of a thousand threads takes time, and must not use up this host's.
      const restMs = Math.max(LOOK_MS, LOOK_SHARE * (this.#powers.monotonicMs() - lookedAt));
      const now = waiter === undefined || waiter === this.#waiterBefore ? undefined : `${waiter} ${this.log.end}`;
      if (now !== undefined && now === before) return;
      before = now;
      const leftMs = until - this.#powers.monotonicMs();
      if (leftMs <= 0) return;
      await (afterSeq === undefined
        ? this.#output.pause(Math.min(leftMs, restMs), signal)
        : this.#output.next(Math.min(leftMs, restMs), signal));
    }
  }

  /** Takes over what its programs set in configs of repositories since the last time. */
  takeOver(): Promise<TakenOver[]> {
    return this.#run.copies.takeOver(this.#ended === undefined ? 'running' : 'ended');
  }

  /** Kills all that runs in the terminal; settles when that has ended. Takes over what it set only if a call can tell of it. */
  async close(time: Exclude<TakeOverTime, 'running'>): Promise<TakenOver[]> {
    this.#close('closed');
    await this.gone;
    return this.#run.copies.takeOver(time);
  }

  #close(why: 'output' | 'closed'): void {
    if (this.#ended !== undefined) return;
    this.#closedFor ??= why;
    this.#run.stop();
  }

  async #live(): Promise<void> {
    using run = this.#run;
    const { stream } = this.#pty;
    // EIO: no process has the slave end open.
    stream.on('error', () => {});
    stream.on('data', (chunk: Buffer) => this.#take(chunk));
    const drained = new Promise<void>((resolve) => stream.once('close', () => resolve()));
    await run.ended;
    stream.resume();
    await settlesWithin(drained, this.#limits.commandDrainMs, this.#powers);
    try {
      this.#settled = await run.settle(() => this.log.after(0, COMPLAINT_BYTES_MAX).text);
    } catch (error) {
      this.#refusal = error;
    }
    run.copies.keepLeft();
    const exceeded = this.#settled?.used.exceeded?.kind;
    this.#ended = (exceeded && verdictOf(exceeded)) ?? this.#closedFor ?? 'exit';
    stream.destroy();
    this.#output.tell();
  }

  #take(chunk: Buffer): void {
    this.log.push(chunk);
    if (this.log.end > this.#limits.commandOutputBytesMax) this.#close('output');
    const room = this.#screen.write(chunk);
    if (room) {
      this.#pty.stream.pause();
      void room.then(() => this.#pty.stream.resume());
    }
    this.#output.tell();
  }

  get #foreground(): number | undefined {
    const { main } = this.#run;
    return main === undefined ? undefined : foregroundOf(main);
  }

  #assertLive(): void {
    if (this.#ended !== undefined)
      throw new ToolError('CONFLICT', 'the program of this terminal has ended', { details: this.exit });
  }
}

/** Bytes of the terminal's answers that its program has not read; a flood of queries gets no more. */
const REPLY_BYTES_MAX = 4096;

/** Bytes of output that may tell why bubblewrap could not build the sandbox. */
const COMPLAINT_BYTES_MAX = 4096;

/** A command's setup without a terminal of its own, and without `CI`: a person watches, and may answer. */
function atTerminal(setup: CommandSetup): CommandSetup {
  const { CI: _, ...environment } = setup.environment;
  return {
    ...setup,
    args: setup.args.filter((it) => it !== '--new-session'),
    environment: { ...environment, TERM: 'xterm-256color' },
  };
}

/**
 * setsid gives the program a session whose terminal this is: with bubblewrap's `--new-session` it would have none, and without either it
 * would be in this host's session. Throws SANDBOX_UNAVAILABLE.
 */
function attachmentOf({ slave }: Pty): Attachment {
  const setsid = findProgram('setsid');
  if (setsid === undefined)
    throw new ToolError('SANDBOX_UNAVAILABLE', 'terminals need the program setsid, of util-linux');
  return {
    streams: [slave, slave, slave],
    launcher: [setsid, '--ctty'],
    outer: withoutForeignDescriptors,
  };
}

/** Reads a terminal's settings, word by word, from `stty`: Node can't query them. */
function settingsOf(path: string, powers: Powers): Promise<Set<string>> {
  const child = powers.spawn('/usr/bin/stty', ['-F', path, '-a'], { stdio: ['ignore', 'pipe', 'ignore'], env: {} });
  let text = '';
  child.stdout?.on('data', (chunk) => (text += chunk));
  return new Promise((resolve) => {
    child.once('error', () => resolve(new Set()));
    child.once('close', () => resolve(new Set(text.split(/[\s;]+/))));
  });
}
