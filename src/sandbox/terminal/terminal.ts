/**
 * One terminal: a program in a sandbox of its own, built as for a command, with a pseudoterminal for its standard streams.
 * Runs in an execute host for terminals only, since the master ends of all terminals are open there.
 */
import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { closeSync, openSync, statSync } from 'node:fs';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { ToolError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';
import type { Powers } from '../../powers.ts';
import { COMMAND_STATUS_FD } from '../bubblewrap.ts';
import { type CommandRequest, type CommandSetup, enterHome } from '../command/command.ts';
import type { CommandGroup } from '../command/group.ts';
import type { HomeStay } from '../command/homes.ts';
import { type Gate, toBashArgs } from '../command/prologue.ts';
import { letThrough, needsGate, type Shape, shapeOf, toSandboxArgs } from '../command/start.ts';
import { Status } from '../command/status.ts';
import { findProgram } from '../find-program.ts';
import { verdictOf, type Watch } from '../watchdog.ts';
import { type Excerpt, TerminalLog } from './log.ts';
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

/** Closes descriptors above `last`, which this process has open for other terminals, before any of the caller's programs runs. */
const closing = (last: number): string =>
  `for it in /proc/self/fd/*; do n=\${it##*/}; if ((n > ${last})); then eval "exec $n>&-"; fi; done; exec "$@"`;

/** Interval of checks whether the program waits for input; two equal results in a row count. */
const LOOK_MS = 20;
/** The pause after a check, as a multiple of its duration. */
const LOOK_SHARE = 4;
/** Wait for a program that does not start, or that was killed. */
const PATIENCE_MS = 10_000;
const SIGNAL_NAMES = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));

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
  readonly #child: ChildProcess;
  readonly #status: Status;
  readonly #screen: Screen;
  #watch: Watch | undefined;
  readonly #group: CommandGroup | undefined;
  readonly #home: HomeStay | undefined;
  #ended: TerminalEnd | undefined;
  #killedFor: TerminalEnd | undefined;
  /** Whether its program may begin: its sandbox has been checked. */
  #isThrough: boolean;
  /** Why it may not begin. */
  #refusal: unknown;
  /** The thread that waited when input was last written: if it still waits, that says nothing new. */
  #waiterBefore: string | undefined;
  /** Callbacks that wait for output or the end. */
  readonly #waiting = new Set<() => void>();

  /** Starts the program. Throws SANDBOX_UNAVAILABLE. */
  constructor(request: TerminalRequest, setup: CommandSetup, { screen, powers }: { screen: Screen; powers: Powers }) {
    this.#limits = setup.limits;
    this.#powers = powers;
    this.#screen = screen;
    this.#size = request.size;
    this.startedAt = powers.monotonicMs();
    this.log = new TerminalLog(setup.limits.terminalLogBytes);
    const group = setup.groups?.open(request.bounds);
    this.#group = group;
    const pty = openPty(request.size);
    this.#pty = pty;
    let shape: Shape;
    try {
      shape = shapeOf(request, setup);
      this.#child = start(toArgs(shape, request, setup, group), setup, {
        pty,
        powers,
        group,
        shape,
      });
    } catch (error) {
      group?.[Symbol.dispose]();
      throw error;
    }
    const { dev, ino } = statSync(pty.path);
    this.#tty = { dev, ino };
    this.#status = new Status(this.#child.stdio[COMMAND_STATUS_FD] as Readable);
    this.#home = enterHome(request, setup, () => this.#kill('file'));
    group?.watch(() => this.#kill(verdictOf(group.seen.exceeded?.kind ?? 'memory')));
    this.#status.onInit((init) => {
      const onExceeded = () => this.#kill(verdictOf(this.#watch?.seen.exceeded?.kind ?? 'memory'));
      if (!group) this.#watch = setup.watchdog.watch({ init, bounds: request.bounds, onExceeded });
      // A program that could not enter its group must not run without one.
      group?.admit(init, this.#child).catch(() => this.#kill('memory'));
    });
    this.#isThrough = !needsGate(shape);
    if (!this.#isThrough && this.#child.pid !== undefined) void this.#letThrough(shape);
    screen.onReply = (text) => {
      if (this.#pty.stream.writableLength < REPLY_BYTES_MAX) this.#pty.stream.write(text);
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
  get exit(): { exitCode?: number; signal?: string } {
    const { exitCode } = this.#status;
    if (this.#ended !== 'exit' || exitCode === undefined) return {};
    const signal = exitCode > 128 ? SIGNAL_NAMES.get((exitCode - 128) as never) : undefined;
    return { exitCode, ...(signal !== undefined && { signal }) };
  }

  /** Waits until signals reach a program, or it has ended. Throws SANDBOX_UNAVAILABLE if it may not begin. */
  async started(signal: AbortSignal): Promise<void> {
    const until = this.#powers.monotonicMs() + PATIENCE_MS;
    const isBegun = () => this.#isThrough && this.#foreground !== undefined;
    while (this.#ended === undefined && !isBegun() && this.#powers.monotonicMs() < until) {
      signal.throwIfAborted();
      await this.#change(LOOK_MS / 4, signal);
    }
    if (this.#refusal) throw this.#refusal;
  }

  /** Writes input for the program, as if typed. Throws CONFLICT if the program does not read, or has ended. */
  write(data: string): void {
    this.#assertLive();
    const { stream } = this.#pty;
    if (stream.writableLength > this.#limits.terminalInputBytes)
      throw new ToolError('CONFLICT', 'its program has not taken what was written before', {
        suggestion: 'Wait, or send it the signal INT.',
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
    if (group === undefined) throw new ToolError('CONFLICT', 'no program is in its foreground');
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
    const { main } = this.#status;
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
        ? this.#pause(Math.min(leftMs, restMs), signal)
        : this.#change(Math.min(leftMs, restMs), signal));
    }
  }

  /** Kills all that runs in the terminal; settles when that has ended. */
  async close(): Promise<void> {
    this.#kill('closed');
    await this.gone;
  }

  async #letThrough(shape: Shape): Promise<void> {
    try {
      await letThrough(this.#child, { status: this.#status, shape }, GATE);
      this.#isThrough = true;
    } catch (error) {
      this.#refusal = error;
      this.#kill('closed');
    }
  }

  #kill(why: TerminalEnd): void {
    if (this.#ended !== undefined) return;
    this.#killedFor ??= why;
    this.#status.kill(this.#child);
  }

  async #live(): Promise<void> {
    const { stream } = this.#pty;
    // EIO: no process has the slave end open.
    stream.on('error', () => {});
    stream.on('data', (chunk: Buffer) => this.#take(chunk));
    const drained = new Promise<void>((resolve) => stream.once('close', () => resolve()));
    await new Promise<void>((resolve) => {
      this.#child.once('error', () => resolve());
      this.#child.once('exit', () => resolve());
    });
    stream.resume();
    await Promise.race([drained, this.#pause(this.#limits.commandDrainMs)]);
    await Promise.race([this.#status.ended, this.#pause(PATIENCE_MS)]);
    const exceeded = (this.#group ?? this.#watch)?.seen.exceeded?.kind;
    this.#ended = this.#killedFor ?? (exceeded && verdictOf(exceeded)) ?? 'exit';
    this.#home?.[Symbol.dispose]();
    this.#watch?.[Symbol.dispose]();
    this.#group?.[Symbol.dispose]();
    stream.destroy();
    this.#tell();
  }

  #take(chunk: Buffer): void {
    this.log.push(chunk);
    if (this.log.end > this.#limits.commandOutputBytesMax) this.#kill('output');
    const room = this.#screen.write(chunk);
    if (room) {
      this.#pty.stream.pause();
      void room.then(() => this.#pty.stream.resume());
    }
    this.#tell();
  }

  get #foreground(): number | undefined {
    const { main } = this.#status;
    return main === undefined ? undefined : foregroundOf(main);
  }

  #assertLive(): void {
    if (this.#ended !== undefined) throw new ToolError('CONFLICT', 'its program has ended', { details: this.exit });
  }

  #pause(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#powers.after(ms, done);
      signal?.addEventListener('abort', done);
      function done(): void {
        timer.cancel();
        signal?.removeEventListener('abort', done);
        resolve();
      }
    });
  }

  /** Waits for output or the end, at most `ms`. */
  async #change(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    await Promise.race([promise, this.#pause(ms, signal)]);
    this.#waiting.delete(resolve);
  }

  #tell(): void {
    for (const resolve of this.#waiting) resolve();
  }
}

/** Bytes of the terminal's answers that its program has not read; a flood of queries gets no more. */
const REPLY_BYTES_MAX = 4096;

/**
 * bwrap arguments. setsid gives the program a session whose terminal this is: with bubblewrap's `--new-session` it would have none,
 * and without either it would be in this host's session. Throws SANDBOX_UNAVAILABLE.
 */
function toArgs(shape: Shape, request: CommandRequest, setup: CommandSetup, group: CommandGroup | undefined): string[] {
  const setsid = findProgram('setsid');
  if (setsid === undefined)
    throw new ToolError('SANDBOX_UNAVAILABLE', 'terminals need the program setsid, of util-linux');
  const inside = {
    ...setup,
    args: setup.args.filter((it) => it !== '--new-session'),
    environment: { ...withoutCi(setup.environment), TERM: 'xterm-256color' },
  };
  const gate = needsGate(shape) ? { gate: GATE } : {};
  const bash = toBashArgs({ ...request, ...gate, rlimits: setup.rlimits });
  return toSandboxArgs({ shape, env: request.env, bash }, inside, {
    launcher: [setsid, '--ctty'],
    hold: group?.holdArgs(COMMAND_STATUS_FD + 1 + gatePipes(shape).length) ?? [],
  });
}

/** Descriptors of the gate at which a sandbox's bash waits until its mounts have been checked. */
const GATE: Gate = { fd: COMMAND_STATUS_FD + 1, builtFd: COMMAND_STATUS_FD + 2 };

const gatePipes = (shape: Shape) => (needsGate(shape) ? (['pipe', 'pipe'] as const) : []);

/** Drops `CI`: a person watches, and may answer. */
const withoutCi = ({ CI: _, ...rest }: Record<string, string>): Record<string, string> => rest;

function start(
  args: readonly string[],
  setup: CommandSetup,
  of: { pty: Pty; powers: Powers; group: CommandGroup | undefined; shape: Shape },
): ChildProcess {
  const { pty, powers, group, shape } = of;
  const filter = openSync(shape.filterFile, 'r');
  try {
    const more = [...gatePipes(shape), ...(group?.holds ? (['pipe'] as const) : [])];
    const options: SpawnOptions = {
      stdio: [pty.slave, pty.slave, pty.slave, filter, 'pipe', ...more],
      env: setup.environment,
      cwd: '/',
    };
    const words = [
      '--norc',
      '--noprofile',
      '-c',
      closing(COMMAND_STATUS_FD + more.length),
      'bash',
      setup.bwrap,
      ...args,
    ];
    const spawn = () => powers.spawn('/bin/bash', words, options);
    return group ? group.spawn(spawn) : spawn();
  } catch (error) {
    pty.stream.destroy();
    throw error;
  } finally {
    closeSync(filter);
    closeSync(pty.slave);
  }
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
