/**
 * Settles what a call leaves to the workspace, such as which linter it has, before the policy decides: the policy then
 * judges, and a person is shown, exactly what will run.
 */
import { ToolError } from '../errors.ts';
import type { Hosts, PathView } from '../hosts/hosts.ts';
import { decide } from '../policy/decide.ts';
import { tierOfCall } from '../tools/tool.ts';
import { type PermissionParts, questionOf } from './permission.ts';
import type { Call, CheckedCall, Stage } from './stage.ts';

export interface ResolveParts {
  readonly hosts: Hosts;
  readonly permission: PermissionParts;
  viewOf(of: Pick<Call, 'policy' | 'principal' | 'sessionId' | 'workspace' | 'root'>): PathView;
}

/** More forms than any tool gives: a compromised host could send any number. */
const FORMS_MAX = 8;

export const resolve =
  (parts: ResolveParts): Stage<CheckedCall> =>
  (next) =>
  async (call) => {
    const decisionOf = (it: CheckedCall) => decide(call.policy, questionOf(it, parts.permission)).decision;
    if (!call.checked.tool.resolve || decisionOf(call) === 'deny') return next(call);
    const forms = await formsOf(call, parts);
    return next(forms.find((it) => decisionOf(it) === 'allow') ?? forms.at(-1) ?? call);
  };

/** The call with each of the inputs that the tool proposes. They are checked as a caller's are. */
async function formsOf(call: CheckedCall, { hosts, viewOf }: ResolveParts): Promise<CheckedCall[]> {
  const { checked, workspace, controller } = call;
  const { signal } = controller;
  const hostKey = { tier: 'read_only', workspace, view: viewOf(call) } as const;
  const job = { tool: checked.tool.name, input: checked.input, resolve: true };
  const { result } = await hosts.run(hostKey, job, { signal }).catch((error: unknown) => {
    throw signal.aborted ? signal.reason : error;
  });
  if (!result.ok) throw ToolError.fromWire(result.error);
  const inputs = Array.isArray(result.data) ? result.data.slice(0, FORMS_MAX) : [];
  return inputs.map((it: unknown) => {
    const input = checked.tool.input.parse(it);
    return { ...call, checked: { ...checked, input, tier: tierOfCall(checked.tool, input) } };
  });
}
