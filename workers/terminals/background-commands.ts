/** The commands that one session has in the background, as its calls reach them. */
import { type Powers, settlesWithin } from '../../src/base/powers.ts';
import type { CommandRequest } from '../../src/sandbox/command/request.ts';
import type { TakenOver } from '../../src/sandbox/git/config/take-over.ts';
import { Background } from '../../src/sandbox/terminal/background.ts';
import type { BackgroundCommands, BackgroundEntry } from '../../src/tools/terminals.ts';
import type { Asking, Keeper, KeptOptions, KeptProgram, KeptPrograms, KeptRecord } from './kept-programs.ts';

export class KeptCommand implements KeptProgram {
  readonly kind = 'background command';
  readonly run: Background;

  constructor(run: Background) {
    this.run = run;
  }

  /** A server may run for hours without a question; its longest life bounds it. */
  get endsIdle(): boolean {
    return this.isSpent;
  }

  get isSpent(): boolean {
    return this.run.ended !== undefined;
  }

  started(signal: AbortSignal): Promise<void> {
    return this.run.started(signal);
  }

  close(time: 'ended' | 'never'): Promise<TakenOver[]> {
    return this.run.close(time);
  }
}

/** The commands in the background that a call of the session reaches. */
export function backgroundFor(
  keeper: Keeper,
  { signal, masks, onGitConfigs }: Asking,
  { kept, setup, powers }: Omit<KeptOptions, 'onCount'> & { readonly kept: KeptPrograms },
): BackgroundCommands {
  const { session } = keeper;
  const kind = 'background command';
  const find = async (id: string) =>
    (await kept.find<typeof kind, KeptCommand>(id, { session, kind, masks })).program.run;
  return {
    start: (command, { command: text }) => {
      const request = command as unknown as CommandRequest;
      const start = async () => new KeptCommand(await Background.start(request, setup, powers));
      return kept.keep({ keeper, workspace: request.workspace, command: text, masks, signal, start });
    },
    output: async (id, { afterSeq, waitMs }) => {
      await (await find(id)).settle({ afterSeq, waitMs, signal });
      // Checked again for newly hidden paths: output may show them.
      const run = await find(id);
      onGitConfigs(await run.takeOver());
      const { ports } = run;
      return { ...run.stateAfter(afterSeq), ...(ports.length > 0 && { ports }) };
    },
    ended: async (id, waitMs) => {
      const run = await find(id);
      await settlesWithin(run.gone, waitMs, powers);
      return { exited: run.ended !== undefined, ...run.exit };
    },
    signal: async (id, name) => (await find(id)).signal(name as NodeJS.Signals),
    stop: async (id) => {
      const run = await find(id);
      await run.stop();
      onGitConfigs(await run.takeOver());
    },
  };
}

/** A command as lists tell of it. */
export const entryOf = (
  { id, command, program: { run } }: KeptRecord<KeptCommand>,
  powers: Powers,
): BackgroundEntry => ({
  handle: id,
  command,
  exited: run.ended !== undefined,
  ageMs: Math.round(powers.monotonicMs() - run.startedAt),
  seq: run.log.end,
  ...(run.ports.length > 0 && { ports: run.ports }),
});
