import { ToolError } from '../errors.ts';
import type { Hosts, PathView } from '../hosts/hosts.ts';
import type { JobResult } from '../hosts/job.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { Preview } from '../tools/tool.ts';
import { commandBoundsOf, timeLimitOf } from './bounds.ts';
import { type Call, type Checked, checkedOf, type Handler } from './stage.ts';

export interface ExecuteParts {
  readonly hosts: Hosts;
  readonly limits: Limits;
  readonly powers: Powers;
  /** The rules on paths that the call's policy holds its host and commands to. */
  viewOf(call: Call): PathView;
}

/** Runs the call in its tier host, under its time limit. The innermost stage: there is no next. */
export const execute =
  (parts: ExecuteParts): Handler =>
  async (call) => {
    const { limits, powers } = parts;
    if (call.options.preview) return previewOf(call, parts);
    const checked = checkedOf(call);
    const timeoutMs = timeLimitOf(call, limits);
    await call.confirm?.();
    call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
    const timer = powers.after(timeoutMs, () => call.controller.abort(timeout(checked, timeoutMs)));
    try {
      return await run(call, parts);
    } finally {
      timer.cancel();
    }
  };

async function run(call: Call, { hosts, viewOf, limits }: ExecuteParts): Promise<unknown> {
  const { tier, tool, input } = checkedOf(call);
  const { signal } = call.controller;
  const stream = call.options.progress === true;
  const job = {
    ...{ tool: tool.name, input, stream },
    ...(call.approvalGranted && { lifted: shownTargets(call) }),
    ...(tier === 'execute' && { bounds: commandBoundsOf(call.policy, limits) }),
  };
  const options = { signal, ...(stream && { onOutput: call.output }) };
  call.started = true;
  const { result, pid } = await hosts
    .run({ tier, workspace: call.workspace, view: viewOf(call) }, job, options)
    .catch((error: unknown) => {
      // A host that had to be killed under an aborted call did not crash: why it was aborted is the reason.
      throw signal.aborted ? signal.reason : error;
    });
  call.hostPid = pid;
  call.usage = result.usage;
  return dataOf(result, call);
}

/** Paths that the person saw before saying yes: what rules ask about is not held against the call there. */
function shownTargets({ question }: Call): string[] {
  const { effects = [], command } = question ?? {};
  return [...effects, ...(command?.redirects ?? [])]
    .map((it) => it.target)
    .concat(command?.mentions ?? [])
    .slice(0, SHOWN_TARGETS_MAX);
}

/** As many as one command line names, with room. */
const SHOWN_TARGETS_MAX = 4096;

/** What the call would do, found out by a host that can change nothing. Throws UNSUPPORTED for tools that can't tell. */
export async function previewOf(call: Call, { hosts, viewOf }: ExecuteParts): Promise<Preview> {
  const { tool, input } = checkedOf(call);
  if (!tool.preview)
    throw new ToolError('UNSUPPORTED', `\`${tool.name}\` can't tell what it would do without doing it`);
  const place = { tier: 'read_only', workspace: call.workspace, view: viewOf(call) } as const;
  const job = { tool: tool.name, input, stream: false, preview: true };
  const { result } = await hosts.run(place, job, { signal: call.controller.signal });
  return dataOf(result, call) as Preview;
}

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
