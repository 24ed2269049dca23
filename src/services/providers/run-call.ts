/** Runs calls of tools that external providers offer, and announces them like any other call. */

import type { PathView } from '../../hosts/hosts.ts';
import type { RunOptions, RunResult } from '../../hosts/runs.ts';
import { ranOutcome } from '../../pipeline/execute/ran-outcome.ts';
import { inTime } from '../../pipeline/execute/read-only-run.ts';
import type { Runner } from '../../pipeline/execute/runner.ts';
import type { RunHooks } from '../../pipeline/outcome.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import type { Upstream } from '../../tools/runs.ts';
import type { DaemonParts } from '../capability.ts';

/** The workspace and the path rules of a provider call. */
export interface UpstreamCaller {
  /** Absolute path. */
  readonly workspace: string;
  /** The paths that the caller's policy hides from programs in the workspace. */
  readonly view: PathView;
}

/** The providers, as far as a call needs them. */
export interface Upstreams {
  /**
   * Throws TOOL_DISABLED if the tool's definition is not the accepted one, PROVIDER_UNAVAILABLE if the provider is
   * down or ends during the call, ACCESS_DENIED if the provider sees what the caller may not, or the signal's reason.
   */
  run(to: Upstream, input: unknown, caller: UpstreamCaller, options: RunOptions): Promise<RunResult>;
}

export type UpstreamParts = Pick<DaemonParts, 'limits' | 'powers' | 'outsideProblem' | 'viewOf'> & {
  readonly upstreams: Upstreams;
};

/** Runs calls of providers' tools. The provider's own sandbox applies the workspace's masks. */
export const providerRunner = (parts: UpstreamParts): Runner<'providers'> => ({
  run: ({ provider }, call, hooks) =>
    inTime(call, parts, async () => {
      const ran = await runUpstream(provider, call, { ...parts, ...hooks });
      return ranOutcome(ran, call, { ...hooks, parts });
    }),
});

/** Throws what `Upstreams.run` and `beforeStart` throw. */
async function runUpstream(to: Upstream, call: ClearedCall, parts: UpstreamParts & RunHooks): Promise<RunResult> {
  const { input } = call.checked;
  const { signal } = call.controller;
  const { principal, sessionId, workspace, root } = call;
  let startedAt = '';
  const announce = (progress?: object) => call.announce({ status: 'in-progress', startedAt, progress });
  const view = parts.viewOf({ policy: call.policyNow(), principal, sessionId, workspace, root });
  return parts.upstreams.run(
    to,
    input,
    { workspace, view },
    {
      signal,
      beforeStart: () => parts.beforeStart(),
      onStarted: () => {
        startedAt = new Date(parts.powers.now()).toISOString();
        parts.attempt.started = true;
        announce();
      },
      onProgress: announce,
    },
  );
}
