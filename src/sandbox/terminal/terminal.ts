/**
 * One terminal: a program in a sandbox of its own, built as for a command, with a pseudoterminal for its standard streams.
 * Runs in an execute host for terminals only, since the master ends of all terminals are open there.
 */
import { closeSync, statSync } from 'node:fs';
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import { outputOf } from '../../base/program-answer.ts';
import { signalQuietly } from '../../base/quiet/signals.ts';
import { ConfinedRun } from '../command/confined-run.ts';
import type { CommandRequest, CommandSetup } from '../command/request.ts';
import { type Attachment, beginAt, shapeOf } from '../command/start.ts';
import { findProgram } from '../find-program.ts';
import { withoutForeignDescriptors } from './foreign-descriptors.ts';
import { type KeptParts, KeptRun } from './kept-run.ts';
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

export class Terminal extends KeptRun {
  #size: Size;
  readonly #pty: Pty;
  readonly #tty: Tty;
  readonly #screen: Screen;
  /** The thread that waited when input was last written: if it still waits, that says nothing new. */
  #waiterBefore: string | undefined;

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
        { run, admitted: started.admitted, limits: setup.limits, powers: of.powers },
        { pty, tty: { dev, ino }, screen: of.screen, size: request.size },
      );
    } catch (error) {
      pty.stream.destroy();
      throw error;
    } finally {
      closeSync(pty.slave);
    }
  }

  private constructor(
    parts: KeptParts,
    { pty, tty, screen, size }: { pty: Pty; tty: Tty; screen: Screen; size: Size },
  ) {
    // EIO: no process has the slave end open.
    super(parts, (take) => [pty.stream.on('error', () => {}).on('data', take)]);
    this.#screen = screen;
    this.#size = size;
    this.#pty = pty;
    this.#tty = tty;
    screen.onReply = (text) => {
      if (pty.stream.writableLength < REPLY_BYTES_MAX) pty.stream.write(text);
    };
  }

  get size(): Size {
    return this.#size;
  }

  /** Signals reach a program only once one is in the foreground. */
  protected override get isRunning(): boolean {
    return this.#foreground !== undefined;
  }

  /** Writes input for the program, as if typed. Throws CONFLICT if the program does not read, or has ended. */
  write(data: string): void {
    this.#assertLive();
    const { stream } = this.#pty;
    if (stream.writableLength > this.limits.terminalInputBytes)
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
    signalQuietly(-group, name);
  }

  /** Names the thread that waits for input; undefined if none does. */
  waiter(): string | undefined {
    const { main } = this.run;
    return main === undefined || this.ended !== undefined ? undefined : waiterOf(main, this.#tty);
  }

  /** Whether typed text shows (`line`), does not (`password`), or goes key by key to a program that shows what it likes. */
  async inputKind(): Promise<'line' | 'password' | 'key'> {
    const settings = await settingsOf(this.#pty.path, this.powers);
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
    const until = this.powers.monotonicMs() + waitMs;
    let before: string | undefined;
    for (;;) {
      signal.throwIfAborted();
      if (this.ended !== undefined || (afterSeq !== undefined && this.log.end > afterSeq)) return;
      const lookedAt = this.powers.monotonicMs();
      const waiter = this.waiter();
      // A check of a thousand threads takes time, and must not use up this host's.
      const restMs = Math.max(LOOK_MS, LOOK_SHARE * (this.powers.monotonicMs() - lookedAt));
      const now = waiter === undefined || waiter === this.#waiterBefore ? undefined : `${waiter} ${this.log.end}`;
      if (now !== undefined && now === before) return;
      before = now;
      const leftMs = until - this.powers.monotonicMs();
      if (leftMs <= 0) return;
      await (afterSeq === undefined
        ? this.output.pause(Math.min(leftMs, restMs), signal)
        : this.output.next(Math.min(leftMs, restMs), signal));
    }
  }

  protected override take(chunk: Buffer): void {
    super.take(chunk);
    const room = this.#screen.write(chunk);
    if (!room) return;
    this.#pty.stream.pause();
    void room.then(() => this.#pty.stream.resume());
  }

  get #foreground(): number | undefined {
    const { main } = this.run;
    return main === undefined ? undefined : foregroundOf(main);
  }

  #assertLive(): void {
    if (this.ended !== undefined)
      throw new ToolError('CONFLICT', 'the program of this terminal has ended', { details: this.exit });
  }
}

const SETTINGS_CHARS_MAX = 4096;
/** Bytes of the terminal's answers that its program has not read; a flood of queries gets no more. */
const REPLY_BYTES_MAX = 4096;

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
async function settingsOf(path: string, powers: Powers): Promise<Set<string>> {
  const child = powers.spawn('/usr/bin/stty', ['-F', path, '-a'], { stdio: ['ignore', 'pipe', 'ignore'], env: {} });
  const { stdout } = await outputOf(child, { stdout: SETTINGS_CHARS_MAX, stderr: 0 });
  return new Set(stdout.split(/[\s;]+/));
}
