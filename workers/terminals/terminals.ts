/** The terminals of one session, as its calls reach them. */
import type { CommandRequest, CommandSetup } from '../../src/sandbox/command/request.ts';
import type { TakenOver } from '../../src/sandbox/git/config/take-over.ts';
import { Terminal, type TerminalParts, type TerminalRequest } from '../../src/sandbox/terminal/terminal.ts';
import type { TerminalState, Terminals } from '../../src/tools/terminals.ts';
import { ScreenThread } from '../screen.ts';
import type { Asking, Keeper, KeptOptions, KeptProgram, KeptPrograms } from './kept-programs.ts';

/** A terminal with the thread that draws it. */
class DrawnTerminal implements KeptProgram {
  readonly kind = 'terminal';
  readonly endsIdle = true;
  readonly isSpent = false;
  readonly terminal: Terminal;
  readonly screen: ScreenThread;

  static async start(
    request: TerminalRequest,
    setup: CommandSetup,
    powers: TerminalParts['powers'],
  ): Promise<DrawnTerminal> {
    const screen = new ScreenThread(request.size, setup.limits, powers);
    try {
      return new DrawnTerminal(await Terminal.start(request, setup, { screen, powers }), screen);
    } catch (error) {
      screen.close();
      throw error;
    }
  }

  private constructor(terminal: Terminal, screen: ScreenThread) {
    this.terminal = terminal;
    this.screen = screen;
  }

  started(signal: AbortSignal): Promise<void> {
    return this.terminal.started(signal);
  }

  async close(time: 'ended' | 'never'): Promise<TakenOver[]> {
    const outcomes = await this.terminal.close(time);
    this.screen.close();
    return outcomes;
  }

  async stateAfter(afterSeq: number): Promise<TerminalState> {
    const { terminal } = this;
    const picture = await this.screen.picture();
    const waits = terminal.waiter() !== undefined;
    return {
      ...terminal.stateAfter(afterSeq),
      screen: picture,
      ...(waits && { needsInput: { kind: await terminal.inputKind() } }),
    };
  }
}

/** The terminals that a call of the session reaches. */
export function terminalsFor(
  keeper: Keeper,
  asking: Asking,
  { kept, setup, powers }: Omit<KeptOptions, 'onCount'> & { readonly kept: KeptPrograms },
): Terminals {
  const { session } = keeper;
  const { signal, masks, onGitConfigs } = asking;
  const find = (id: string) => kept.find<'terminal', DrawnTerminal>(id, { session, kind: 'terminal', masks });
  const terminalOf = async (id: string) => (await find(id)).program.terminal;
  /** The terminal that this call opened. */
  let opened: string | undefined;
  return {
    open: async (command, { command: text, ...size }) => {
      const request = { ...(command as unknown as CommandRequest), size };
      const start = () => DrawnTerminal.start(request, setup, powers);
      const { workspace } = request;
      opened = await kept.keep({ keeper, workspace, command: text, masks, signal, start });
      return opened;
    },
    state: async (id, { until, waitMs, afterSeq }) => {
      const it = await find(id);
      const { terminal } = it.program;
      try {
        await terminal.settle({ waitMs, signal, ...(until === 'output' && { afterSeq }) });
        onGitConfigs(await terminal.takeOver());
        // Checked again for newly hidden paths: output may show them.
        return await (await find(id)).program.stateAfter(afterSeq);
      } finally {
        // The caller of an aborted call never learns the terminal's id.
        if (signal.aborted && id === opened) await kept.end(it);
      }
    },
    write: async (id, data) => {
      const terminal = await terminalOf(id);
      const { end } = terminal.log;
      terminal.write(data);
      return end;
    },
    resize: async (id, size) => (await terminalOf(id)).resize(size),
    signal: async (id, name) => {
      const terminal = await terminalOf(id);
      const { end } = terminal.log;
      terminal.signal(name as NodeJS.Signals);
      return end;
    },
    close: async (id) => onGitConfigs(await kept.end(await find(id), 'ended')),
    list: () =>
      kept.listOf<'terminal', DrawnTerminal>(session, 'terminal').map(({ id, command, program: { terminal } }) => ({
        sessionId: id,
        command,
        exited: terminal.ended !== undefined,
        ...terminal.size,
        ageMs: Math.round(powers.monotonicMs() - terminal.startedAt),
        seq: terminal.log.end,
      })),
  };
}
