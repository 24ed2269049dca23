import { ToolError } from '../errors.ts';
import type { Hosts } from '../hosts/hosts.ts';
import type { JobResult } from '../hosts/job.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { type Call, type Checked, checkedOf, type Handler } from './stage.ts';

/** Runs the call in its tier host, under its time limit. The innermost stage: there is no next. */
export const execute =
  (hosts: Hosts, limits: Limits, powers: Powers): Handler =>
  async (call) => {
    const checked = checkedOf(call);
    const { signal } = call.controller;
    const limit = limits.callTimeoutMs[checked.tier];
    const timeoutMs = Math.min(limit, checked.tool.timeoutMs?.(checked.input as never) ?? limit);
    call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
    const timer = powers.after(timeoutMs, () => call.controller.abort(timeout(checked, timeoutMs)));
    try {
      const { tier, tool, input } = checked;
      const stream = call.options.progress === true;
      const job = { tool: tool.name, input, stream };
      const { result, pid } = await hosts
        .run(tier, call.workspace, job, { signal, ...(stream && { onOutput: call.output }) })
        .catch((error: unknown) => {
          // A host that had to be killed under an aborted call did not crash: why it was aborted is the reason.
          throw signal.aborted ? signal.reason : error;
        });
      call.hostPid = pid;
      call.usage = result.usage;
      return dataOf(result, call);
    } finally {
      timer.cancel();
    }
  };

function timeout({ tool }: Pick<Checked, 'tool'>, limit: number): ToolError {
  return new ToolError('TIMEOUT', `\`${tool.name}\` ran longer than ${limit} ms and was ended`, {
    suggestion: 'Do less in one call, or allow it more time.',
    details: { limit, used: limit, enforcedBy: 'timer' },
  });
}

function dataOf(result: JobResult, { controller: { signal } }: Call): unknown {
  // What was done in time stands, also when the abort came at the same moment.
  if (result.ok) return result.data;
  const error = ToolError.fromWire(result.error);
  if (!signal.aborted) throw error;
  const { code, message, extras } = signal.reason as ToolError;
  throw new ToolError(code, message, { ...extras, details: { ...extras.details, ...error.extras.details } });
}
