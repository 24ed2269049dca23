/** Calls of tools that external providers have: handed to whoever knows the providers, told of as any other call. */
import type { PathView } from '../hosts/hosts.ts';
import type { Ran, RunOptions } from '../hosts/runs.ts';
import type { Powers } from '../powers.ts';
import type { Upstream } from '../tools/upstream.ts';
import { type Call, checkedOf } from './stage.ts';

/** Where and for whom a call runs. */
export interface UpstreamCaller {
  /** Absolute. */
  readonly workspace: string;
  /** What the caller's policy keeps from programs there. */
  readonly view: PathView;
}

/** The providers, as far as a call needs them. */
export interface Upstreams {
  /**
   * Throws TOOL_DISABLED where the definition is not the accepted one, PROVIDER_UNAVAILABLE where it is down or ends under the
   * call, ACCESS_DENIED where it sees what its caller may not, and the signal's reason when that comes first.
   */
  run(to: Upstream, input: unknown, caller: UpstreamCaller, options: RunOptions): Promise<Ran>;
}

export interface UpstreamParts {
  readonly upstreams: Upstreams;
  readonly powers: Powers;
  viewOf(of: Pick<Call, 'policy' | 'principal' | 'sessionId' | 'workspace' | 'root'>): PathView;
  /** Has the last word before it is sent. */
  beforeStart(): Promise<void>;
}

/** Runs it; throws what `Upstreams.run` and `beforeStart` throw. */
export async function runUpstream(to: Upstream, call: Call, parts: UpstreamParts): Promise<Ran> {
  const { input } = checkedOf(call);
  const { signal } = call.controller;
  const { principal, sessionId, workspace, root } = call;
  let startedAt = '';
  const announce = (progress?: object) =>
    call.announce({ status: 'in-progress', startedAt, ...(progress && { progress }) });
  const view = parts.viewOf({ policy: call.policyNow(), principal, sessionId, workspace, root });
  try {
    return await parts.upstreams.run(
      to,
      input,
      { workspace, view },
      {
        signal,
        beforeStart: () => parts.beforeStart(),
        onStarted: () => {
          startedAt = new Date(parts.powers.now()).toISOString();
          call.outcome.started = true;
          announce();
        },
        onProgress: announce,
      },
    );
  } catch (error) {
    // What was ended under an aborted call did not fail: why it was aborted is the reason.
    throw signal.aborted ? signal.reason : error;
  }
}
