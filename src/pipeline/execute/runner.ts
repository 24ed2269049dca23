/** Runners carry out the calls of tools that name them in `runs`. A capability brings its own; src/daemon/capabilities.ts lists them. */
import { ToolError } from '../../base/errors.ts';
import { type RunnerName, type RunsBy, runsInCommand } from '../../tools/runs.ts';
import type { Preview } from '../../tools/tool.ts';
import { runOpening } from '../doors/openings.ts';
import type { Outcome, RunHooks } from '../outcome.ts';
import type { Checked, ClearedCall, JudgedCall } from '../stage.ts';
import type { BackgroundCommands } from './background/background-commands.ts';
import { listBackground } from './background/kept-calls.ts';
import type { LearnedTools } from './learned-tools.ts';
import { runOfTools } from './of-tools.ts';
import { inTime, type TimedParts } from './read-only-run.ts';

export interface Runner<Name extends RunnerName> {
  /** Gives what came of the call; undefined for a call that the tool's own `run` carries out in a host. */
  run(runs: RunsBy<Name>, call: ClearedCall, hooks: RunHooks): Promise<Outcome> | undefined;
  /** What the call would do, for the person who is asked and for a caller's preview; undefined if the tool itself says it. */
  preview?(runs: RunsBy<Name>, call: JudgedCall): Promise<Preview> | undefined;
}

/** Runners by the name that tools use; those of a capability that the daemon lacks are absent. */
export type Runners = { readonly [Name in RunnerName]?: Runner<Name> };

/** The runners of the pipeline itself: they need nothing but the call. */
export const ownRunners = (parts: TimedParts & { readonly learned: LearnedTools }): Runners => ({
  doors: { run: (_, call, hooks) => inTime(call, parts, () => runOpening(call, hooks)) },
  tools: { run: (_, call, hooks) => inTime(call, parts, () => runOfTools(call, hooks, parts.learned)) },
});

/** The runner of a tool with what the tool says to it; undefined if its `run` does all. Throws TOOL_DISABLED. */
function runnerOf({ runs, name }: Checked['tool'], runners: Runners) {
  if (!runs || !('by' in runs)) return undefined;
  const runner = runners[runs.by] as Runner<RunnerName> | undefined;
  if (!runner) throw new ToolError('TOOL_DISABLED', `this daemon has nothing that runs \`${name}\``);
  return { runner, runs };
}

/** Carries out a call if a runner does, or the gateway itself; undefined for a call that runs in a host. */
export function runByRunner(
  call: ClearedCall,
  hooks: RunHooks,
  { runners, background }: { readonly runners: Runners; readonly background: BackgroundCommands },
): Promise<Outcome> | undefined {
  const { tool, input } = call.checked;
  const by = runnerOf(tool, runners);
  if (by) return by.runner.run(by.runs, call, hooks);
  const of = runsInCommand(tool)?.ofBackground?.(input as never);
  return of && of.handle === undefined ? listBackground(call, { background, hooks }) : undefined;
}

/** The preview of a call that its runner gives; undefined if the tool itself does, or nobody. */
export function previewByRunner(call: JudgedCall, runners: Runners): Promise<Preview> | undefined {
  const by = runnerOf(call.checked.tool, runners);
  return by?.runner.preview?.(by.runs, call);
}
