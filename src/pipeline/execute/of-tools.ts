/** Answers calls about the tools of the session; no host is needed for them. */

import { couldAllow, decideTool } from '../../policy/decide.ts';
import { toolsOf, toToolInfo } from '../../tools/registry.ts';
import { runsBy } from '../../tools/runs.ts';
import { type Outcome, type RunHooks, succeeded } from '../outcome.ts';
import type { ClearedCall } from '../stage.ts';
import type { LearnedTools } from './learned-tools.ts';

/** `beforeStart` can still refuse the call, and what it throws is thrown. */
export async function runOfTools(
  call: ClearedCall,
  { attempt, beforeStart }: RunHooks,
  learned: Pick<LearnedTools, 'of'>,
): Promise<Outcome> {
  const { tool, input } = call.checked;
  await beforeStart();
  attempt.started = true;
  const policy = call.policyNow();
  const visible = toolsOf(call.toolset).filter((it) => couldAllow(policy, it));
  const infos = visible.map((it) => toToolInfo(it, decideTool(policy, it)));
  return succeeded(
    runsBy(tool, 'tools')?.answer(input as never, infos, (query) => learned.of(call.workspace, query)),
    attempt,
  );
}
