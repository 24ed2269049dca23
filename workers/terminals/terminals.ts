/** The terminals of one host: their owners, number and lifetime. */
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { ToolError } from '../../src/errors.ts';
import type { Job } from '../../src/hosts/job.ts';
import type { Powers, Timer } from '../../src/powers.ts';
import { inPlace } from '../../src/sandbox/binds-in-place.ts';
import type { CommandRequest, CommandSetup } from '../../src/sandbox/command/command.ts';
import type { TakenOver } from '../../src/sandbox/git/config/take-over.ts';
import { ancestorsOf, type Masks, onDisk } from '../../src/sandbox/masks.ts';
import type { Size } from '../../src/sandbox/terminal/pty.ts';
import { Terminal } from '../../src/sandbox/terminal/terminal.ts';
import type { TerminalState, Terminals } from '../../src/tools/terminals.ts';
import { ScreenThread } from '../screen.ts';

type Keeper = NonNullable<Job['keeper']>;

export interface TerminalSetOptions {
  readonly setup: CommandSetup;
  readonly powers: Powers;
  /** Called with the number of terminals whenever it changes. */
  onCount(count: number): void;
}

interface TerminalRecord {
  readonly id: string;
  readonly session: string;
  readonly command: string;
  readonly terminal: Terminal;
  readonly screen: ScreenThread;
  readonly workspace: string;
  /** The masks at its start, and the identities of the masked files. */
  readonly masks: Masks;
  readonly prints: ReadonlyMap<string, string>;
  readonly beganAt: number;
  idle: Timer;
  look: Timer;
  readonly life: Timer;
}

interface TerminalStart {
  /** The masks of a command that starts now. */
  readonly masks: Masks;
  readonly signal: AbortSignal;
  /** Called with what was taken over of changes to configs of repositories. */
  onGitConfigs(outcomes: readonly TakenOver[]): void;
}

export class TerminalSet {
  readonly #terminals = new Map<string, TerminalRecord>();
  readonly #options: TerminalSetOptions;
  /** Terminals being started; one whose session has ended meanwhile is closed. */
  readonly #opening = new Set<{ readonly session: string; over: boolean }>();

  constructor(options: TerminalSetOptions) {
    this.#options = options;
  }

  /** The terminals of one session. */
  terminalsFor({ session, keptMax }: Keeper, asking: TerminalStart): Terminals {
    const find = (id: string) => this.#find(id, session, asking);
    /** The terminal that this call opened. */
    let opened: string | undefined;
    return {
      open: async (command, { command: text, ...size }) => {
        this.#assertRoom(session, keptMax);
        const request = { ...(command as unknown as CommandRequest), size };
        opened = await this.#open(request, { session, command: text, ...asking });
        return opened;
      },
      state: async (id, { until, waitMs, afterSeq }) => {
        const it = await find(id);
        const { signal } = asking;
        try {
          await it.terminal.settle({ waitMs, signal, ...(until === 'output' && { afterSeq }) });
          asking.onGitConfigs(await it.terminal.takeOver());
          // Checked again for newly hidden paths: output may show them.
          return await this.#stateOf(await find(it.id), afterSeq);
        } finally {
          // The caller of an aborted call never learns the terminal's id.
          if (signal.aborted && it.id === opened) await this.#end(it);
        }
      },
      write: async (id, data) => {
        const { terminal } = await find(id);
        const { end } = terminal.log;
        terminal.write(data);
        return end;
      },
      resize: async (id, size) => (await find(id)).terminal.resize(size),
      signal: async (id, name) => {
        const { terminal } = await find(id);
        const { end } = terminal.log;
        terminal.signal(name as NodeJS.Signals);
        return end;
      },
      close: async (id) => asking.onGitConfigs(await this.#end(await find(id), 'ended')),
      list: () => this.#listOf(session),
    };
  }

  /** Ends all terminals of a session. */
  async endSession(session: string): Promise<void> {
    for (const it of this.#opening) if (it.session === session) it.over = true;
    const ofSession = [...this.#terminals.values()].filter((it) => it.session === session);
    await Promise.all(ofSession.map((it) => this.#end(it)));
  }

  #listOf(session: string): ReturnType<Terminals['list']> {
    return [...this.#terminals.values()]
      .filter((it) => it.session === session)
      .map(({ id, command, terminal }) => ({
        sessionId: id,
        command,
        exited: terminal.ended !== undefined,
        ...terminal.size,
        ageMs: Math.round(this.#options.powers.monotonicMs() - terminal.startedAt),
        seq: terminal.log.end,
      }));
  }

  #assertRoom(session: string, keptMax: number): void {
    const { sessionTerminalsMax } = this.#options.setup.limits;
    const own = [...this.#terminals.values(), ...this.#opening].filter((it) => it.session === session).length;
    const suggestion = 'Close one that is not needed any more; `list` tells of them.';
    if (own >= sessionTerminalsMax)
      throw new ToolError('QUEUE_FULL', `a session has at most ${sessionTerminalsMax} terminals`, { suggestion });
    if (this.#terminals.size + this.#opening.size >= keptMax)
      throw new ToolError('QUEUE_FULL', 'the daemon has its maximum number of terminals open', { suggestion });
  }

  async #open(
    request: CommandRequest & { size: Size },
    {
      session,
      command,
      masks,
      signal,
    }: Omit<TerminalStart, 'onGitConfigs'> & Pick<TerminalRecord, 'session' | 'command'>,
  ): Promise<string> {
    const { setup, powers } = this.#options;
    const { limits } = setup;
    const { workspace } = request;
    const prints = printsOf(masks, workspace);
    const beganAt = powers.now();
    const screen = new ScreenThread(request.size, limits, powers);
    const opening = { session, over: false };
    this.#opening.add(opening);
    let terminal: Terminal | undefined;
    try {
      terminal = await inPlace(
        async () => startedOf(await Terminal.start(request, setup, { screen, powers }), signal),
        signal,
      );
      signal.throwIfAborted();
      if (opening.over)
        throw new ToolError('CANCELLED', 'the session of this terminal has ended, or its policy changed');
    } catch (error) {
      await terminal?.close('never');
      screen.close();
      throw error;
    } finally {
      this.#opening.delete(opening);
    }
    const id = powers.uuid();
    const end = () => void this.#end(record);
    const record: TerminalRecord = {
      id,
      session,
      command,
      terminal,
      screen,
      masks,
      prints,
      beganAt,
      workspace,
      idle: powers.after(limits.terminalIdleMs, end),
      look: powers.after(limits.terminalLookMs, () => this.#checkMasks(record)),
      life: powers.after(limits.terminalLifeMs, end),
    };
    this.#terminals.set(id, record);
    this.#options.onCount(this.#terminals.size);
    return id;
  }

  /** The terminal, unless it can see what is hidden now. Throws NOT_FOUND, POLICY_DENIED. */
  async #find(id: string, session: string, { masks }: Pick<TerminalStart, 'masks'>): Promise<TerminalRecord> {
    const record = this.#terminals.get(id);
    // The same error for another session's terminal: nobody learns which exist.
    if (record?.session !== session)
      throw new ToolError('NOT_FOUND', `this session has no terminal ${id.slice(0, 64)}`, {
        suggestion: 'It was closed, was idle too long, or ended when the policy changed; open another one.',
      });
    const seen = replaced(record) ?? revealed(masks, record);
    if (seen !== undefined) {
      await this.#end(record);
      throw new ToolError(
        'POLICY_DENIED',
        `the policy hides \`${seen}\`, which did not exist when this terminal was opened`,
        {
          suggestion: 'The terminal was ended, because it could have read that file; open another one.',
        },
      );
    }
    const { powers, setup } = this.#options;
    record.idle.cancel();
    record.idle = powers.after(setup.limits.terminalIdleMs, () => void this.#end(record));
    return record;
  }

  async #stateOf({ terminal, screen }: TerminalRecord, afterSeq: number): Promise<TerminalState> {
    const picture = await screen.picture();
    const { text, seq, missedBytes } = terminal.after(afterSeq);
    const { ended } = terminal;
    const waits = terminal.waiter() !== undefined;
    return {
      output: text,
      seq,
      ...(missedBytes > 0 && { missedBytes }),
      exited: ended !== undefined,
      ...(ended !== undefined && ended !== 'exit' && { endedBy: ended }),
      ...terminal.exit,
      ...(picture && { screen: picture }),
      ...(waits && { needsInput: { kind: await terminal.inputKind() } }),
    };
  }

  /** Checks all the time for masked files that became visible: a process in the terminal runs even if its owner asks for nothing. */
  #checkMasks(kept: TerminalRecord): void {
    if (replaced(kept) !== undefined) return void this.#end(kept);
    const { powers, setup } = this.#options;
    kept.look = powers.after(setup.limits.terminalLookMs, () => this.#checkMasks(kept));
  }

  /** Ends a terminal; by default without a call that could tell what was taken over. */
  async #end(kept: TerminalRecord, time: 'ended' | 'never' = 'never'): Promise<readonly TakenOver[]> {
    if (!this.#terminals.delete(kept.id)) return [];
    for (const timer of [kept.idle, kept.look, kept.life]) timer.cancel();
    const outcomes = await kept.terminal.close(time);
    kept.screen.close();
    this.#options.onCount(this.#terminals.size);
    return outcomes;
  }
}

async function startedOf(terminal: Terminal, signal: AbortSignal): Promise<Terminal> {
  try {
    await terminal.started(signal);
    return terminal;
  } catch (error) {
    await terminal.close('never');
    throw error;
  }
}

/** The identity of each masked file; leaves out missing ones. */
function printsOf({ hidden, readOnly }: Masks, workspace: string): Map<string, string> {
  const paths = [...hidden.map((it) => it.path), ...readOnly];
  return new Map(
    paths.flatMap((path): [string, string][] => {
      const stat = lstatSync(join(workspace, path), { bigint: true, throwIfNoEntry: false });
      // Inode numbers are reused at once; birth times are not.
      return stat ? [[path, `${stat.ino} ${stat.birthtimeNs}`]] : [];
    }),
  );
}

/** A masked path whose file was replaced, as editors and git do: the mount on the old file does not cover the new one. */
function replaced({
  masks,
  workspace,
  prints,
}: Pick<TerminalRecord, 'masks' | 'workspace' | 'prints'>): string | undefined {
  for (const [path, print] of printsOf(masks, workspace)) if (prints.get(path) !== print) return path;
  return undefined;
}

/** A path that is hidden now and was created or renamed since the terminal's start. Others were approved when it opened. */
function revealed(
  now: Masks,
  { prints, workspace, beganAt }: Pick<TerminalRecord, 'prints' | 'workspace' | 'beganAt'>,
): string | undefined {
  const isHeld = (path: string) => prints.has(path) || prints.has('') || ancestorsOf(path).some((it) => prints.has(it));
  const isNew = (path: string) =>
    (lstatSync(join(workspace, path), { throwIfNoEntry: false })?.ctimeMs ?? 0) > beganAt - MASKS_AGE_MS;
  return onDisk(now, workspace).hidden.find(({ path }) => !isHeld(path) && isNew(path))?.path;
}

/** The most milliseconds that a terminal's masks are older than its start. */
const MASKS_AGE_MS = 2_000;
