/**
 * Settles what a call leaves to the workspace, such as which linter it has, before the policy decides: the policy then
 * judges, and a person is shown, exactly what will run.
 */
import { decide } from '../policy/decide.ts';
import { foundRemote, remoteTool } from '../tools/kept/remote.ts';
import { tierOfCall } from '../tools/tool.ts';
import type { RemoteKeys } from './execute/keys/key-agents.ts';
import { reachableForms } from './execute/keys/remotes.ts';
import { type ReadOnlyRunParts, runReadOnly } from './execute/read-only-run.ts';
import { type PermissionParts, questionOf } from './permission.ts';
import type { CheckedCall, Stage } from './stage.ts';

export interface ResolveParts extends ReadOnlyRunParts {
  readonly permission: PermissionParts;
  readonly remoteKeys: RemoteKeys;
}

/** More forms than any tool gives: a compromised host could send any number. */
const FORMS_MAX = 8;

export const resolve =
  (parts: ResolveParts): Stage<CheckedCall> =>
  (next) =>
  async (call) => {
    const decisionOf = (it: CheckedCall) => decide(call.policy, questionOf(it, parts.permission)).decision;
    const { resolve: resolves, remote } = call.checked.tool.before ?? {};
    if (!(resolves || remote?.isNeeded(call.checked.input as never)) || decisionOf(call) === 'deny') return next(call);
    if (remote) return next(await withRemote(call, parts));
    const isDenied = (it: CheckedCall) => decisionOf(it) === 'deny';
    const forms = await reachableForms(await formsOf(call, parts), parts.remoteKeys, isDenied);
    return next(forms.find((it) => decisionOf(it) === 'allow') ?? forms.at(-1) ?? call);
  };

/** The call completed by the remote of the workspace's repository; as it is where there is none. */
async function withRemote(call: CheckedCall, parts: ResolveParts): Promise<CheckedCall> {
  const { checked } = call;
  const asked = { ...call, checked: { ...checked, tool: remoteTool, input: { path: '.' } } } as CheckedCall;
  const { data } = await runReadOnly('resolve', asked, parts);
  const found = foundRemote.safeParse(Array.isArray(data) ? data[0] : undefined);
  const input = found.success
    ? checked.tool.before?.remote?.complete(checked.input as never, found.data)
    : checked.input;
  return { ...call, checked: { ...checked, input: checked.tool.input.parse(input) } };
}

/** The call with each of the inputs that the tool proposes. They are checked as a caller's are. */
async function formsOf(call: CheckedCall, parts: ResolveParts): Promise<CheckedCall[]> {
  const { data, error } = await runReadOnly('resolve', call, parts);
  if (error) throw error;
  const { checked } = call;
  const inputs = Array.isArray(data) ? data.slice(0, FORMS_MAX) : [];
  return inputs.map((it: unknown) => {
    const input = checked.tool.input.parse(it);
    return { ...call, checked: { ...checked, input, tier: tierOfCall(checked.tool, input) } };
  });
}
