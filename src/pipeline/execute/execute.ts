import { keepsAfter, runsInCommand } from '../../tools/runs.ts';
import { hostTierOf } from '../../tools/tool.ts';
import { type Attempt, failed, type Outcome } from '../outcome.ts';
import type { ClearedCall, Handler } from '../stage.ts';
import { networkOf } from './bounds.ts';
import { shownPreviewOf } from './call-preview.ts';
import { ConcurrentCalls } from './concurrent-changes.ts';
import { runInHost } from './in-host.ts';
import { lastWord, policyOfStart } from './last-word.ts';
import type { ExecuteParts } from './parts.ts';
import { inTime, runReadOnly } from './read-only-run.ts';
import { askServers } from './requests.ts';
import { runByRunner } from './runner.ts';
import { withSummary } from './summary.ts';

/** Runs the call by its runner, or in its tier's host, under its time limit. The innermost stage: there is no next. */
export const execute = (parts: ExecuteParts): Handler<ClearedCall> => {
  const concurrentCalls = new ConcurrentCalls();
  return async (call) => {
    const { tool, input } = call.checked;
    // What goes on in the background would outlive its overlay.
    const runs = runsInCommand(tool)?.previewsByRunning && !keepsAfter(tool, input);
    if (call.options.preview && !runs) return shownPreviewOf(call, parts);
    const attempt: Attempt = {};
    call.enter?.('starting');
    try {
      const hooks = {
        attempt,
        beforeStart: () => lastWord(call, parts),
        inHost: (planned: unknown) => inTier(call, { attempt, parts, concurrentCalls, prepared: { planned } }),
      };
      const byRunner = runByRunner(call, hooks, parts);
      const outcome = await withSummary(call, await (byRunner ?? inTier(call, { attempt, parts, concurrentCalls })));
      parts.learned.ended(call, outcome);
      return outcome;
    } catch (error) {
      return failed(error, attempt);
    } finally {
      call.enter?.('settling');
      parts.writes.end(call);
    }
  };
};

interface TierRun {
  readonly attempt: Attempt;
  readonly parts: ExecuteParts;
  readonly concurrentCalls: ConcurrentCalls;
  /** Made by a runner. */
  readonly prepared?: { readonly planned: unknown };
}

/** Runs the call in a host, and warns if the changes that were seen may be those of another call. */
async function inTier(call: ClearedCall, { attempt, parts, concurrentCalls, prepared }: TierRun): Promise<Outcome> {
  const { tool, tier } = call.checked;
  if (tool.before?.requests && tier === 'external_api') return runAnswered(call, attempt, parts);
  if (tier === 'read_only' || call.options.preview) return inTime(call, parts, () => runInHost(call, attempt, parts));
  using entry = concurrentCalls.enter(call.root);
  const isAlone = () => entry.isAlone;
  const outcome = await inTime(call, parts, () => runInHost(call, attempt, parts, { isAlone, prepared }));
  const isSeen = hostTierOf(tool, tier) === 'execute' && outcome.usage?.filesChanged?.length;
  return isSeen && !entry.isAlone ? { ...outcome, warnings: [...outcome.warnings, NOT_ALONE] } : outcome;
}

const NOT_ALONE = 'other calls ran beside it; filesChanged may hold their changes, too';

/** Runs a call that needs answers of servers: the read_only host says what to ask, and reads what they answered. */
async function runAnswered(call: ClearedCall, attempt: Attempt, parts: ExecuteParts): Promise<Outcome> {
  const policy = policyOfStart(call, parts);
  const planned = await runReadOnly('plan', call, parts, policy);
  if (planned.error) return planned;
  const asked = await inTime(call, parts, async () => {
    await lastWord(call, parts);
    attempt.started = true;
    call.announce({ status: 'in-progress', startedAt: new Date(parts.powers.now()).toISOString() });
    const layers = networkOf(policy, 'external_api');
    return askServers(planned.data, { call, layers }, parts);
  });
  const outcome = await runReadOnly({ planned: asked.answered }, call, parts, policy);
  return { ...outcome, ...attempt, connected: asked.connected };
}
