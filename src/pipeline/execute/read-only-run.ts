/** Runs a function of a tool that changes nothing in a read_only host: `resolve`, `preview`, `plan`, or `run` with answers of servers. */

import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { Hosts, PathView } from '../../hosts/hosts.ts';
import type { JobResult, Step } from '../../hosts/job.ts';
import type { Policy } from '../../policy/schema.ts';
import { readsUncheckedBy } from '../../tools/runs.ts';
import { personTimeOf } from '../doors/person-time.ts';
import { failed, type Outcome, succeeded } from '../outcome.ts';
import type { Call, Checked, CheckedCall } from '../stage.ts';
import { heapOf, threadCpuOf, timeLimitOf } from './bounds.ts';

export interface TimedParts {
  readonly limits: Limits;
  readonly powers: Powers;
}

export interface ReadOnlyRunParts extends TimedParts {
  readonly hosts: Hosts;
  /** The path rules of a policy for the host and the commands of a call. */
  viewOf(of: Pick<Call, 'policy' | 'principal' | 'sessionId' | 'workspace' | 'root'>): PathView;
}

/** Gives what the function returned or threw, under the path rules of `policy` and within the call's time limit. */
export async function runReadOnly(
  what: Step | { readonly planned: unknown },
  call: CheckedCall,
  { hosts, viewOf, ...timing }: ReadOnlyRunParts,
  policy: Policy = call.policy,
): Promise<Outcome> {
  const { tool, tier, input } = call.checked;
  const { workspace, principal, controller } = call;
  const { signal } = controller;
  const view = viewOf({ ...call, policy });
  const hostKey = { tier: 'read_only', workspace, view, principal, ...heapOf(policy, tier) } as const;
  const sealed = readsUncheckedBy(tool, input) && { isSealed: true };
  const wanted = typeof what === 'string' ? { step: what } : what;
  const job = { tool: tool.name, input, ...wanted, ...sealed, ...threadCpuOf(policy, tier) };
  const { result } = await inTime(call, timing, () => hosts.run(hostKey, job, { signal }));
  const { usage } = result;
  return result.ok ? succeeded(result.data, { usage }) : failed(errorOf(result, call), { usage });
}

/** Aborts the call with TIMEOUT at its time limit. Throws the reason of the abort if the work ends by one. */
export async function inTime<T>(call: CheckedCall, { limits, powers }: TimedParts, work: () => Promise<T>): Promise<T> {
  const timeoutMs = timeLimitOf(call, limits);
  const { signal } = call.controller;
  let excusedMs = 0;
  const end = () => {
    // Time of a person is not the call's.
    const waitedMs = personTimeOf(call)?.ms ?? 0;
    if (waitedMs <= excusedMs) return call.controller.abort(timeout(call.checked, timeoutMs));
    timer = powers.after(waitedMs - excusedMs, end);
    excusedMs = waitedMs;
  };
  let timer = powers.after(timeoutMs, end);
  try {
    return await work();
  } catch (error) {
    // Killing the host of an aborted call looks like a crash: report the reason of the abort instead.
    throw signal.aborted ? signal.reason : error;
  } finally {
    timer.cancel();
  }
}

export function timeout({ tool }: Pick<Checked, 'tool'>, limit: number): ToolError {
  return new ToolError('TIMEOUT', `\`${tool.name}\` ran longer than ${limit} ms and was ended`, {
    suggestion: 'Do less in one call, or set a longer timeout.',
    details: { limit, used: limit, enforcedBy: 'timer' },
  });
}

/** The error of a run; a result with data that arrived stands, even if an abort came at the same moment. */
export function errorOf(
  result: JobResult & { readonly ok: false },
  { controller: { signal } }: CheckedCall,
): ToolError {
  const error = ToolError.fromWire(result.error);
  if (!signal.aborted) return error;
  const { code, message, extras } = signal.reason as ToolError;
  return new ToolError(code, message, { ...extras, details: { ...extras.details, ...error.extras.details } });
}
