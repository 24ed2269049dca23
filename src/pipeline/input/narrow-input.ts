/** Rewrites the arguments of calls: by the policy, then by the settings of a provider or the manifest of a plugin. */
import { posix } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Effect } from '../../base/call.ts';
import { ToolError } from '../../base/errors.ts';
import { isInside } from '../../base/paths.ts';
import { TIERS } from '../../base/result-shapes.ts';
import { isRecord } from '../../base/text/values.ts';
import { otherNames } from '../../policy/decide.ts';
import { type ArgumentParts, rewritten } from '../../policy/schema/arguments.ts';
import type { Policy } from '../../policy/schema.ts';
import { type Tool, tierOfCall } from '../../tools/tool.ts';

/** Parts with who wrote them, for messages. */
interface Narrowing {
  readonly parts: ArgumentParts;
  readonly source: string;
}

export interface NarrowedInput {
  readonly input: unknown;
  /** Whose parts changed something. */
  readonly by: readonly string[];
}

/**
 * The checked input after all parts that speak of its tool, checked again. The policy of the daemon comes after those that
 * narrow it, so that its values hold. Throws POLICY_DENIED for parts that would let a call do more, or do not fit the tool.
 */
export function narrowInput(tool: Tool, given: unknown, policy: Policy): NarrowedInput {
  if (!isRecord(given)) return { input: given, by: [] };
  const names = [tool.name, ...otherNames(tool)];
  const ofPolicies = [...policy.and, policy].flatMap(({ arguments: all = [] }) =>
    all.filter((it) => it.tool.some((name) => names.includes(name))),
  );
  const own = tool.narrows ? [{ parts: tool.narrows, source: `the settings of \`${tool.name}\`` }] : [];
  let input: Readonly<Record<string, unknown>> = given;
  const by: string[] = [];
  for (const { parts, source } of [...ofPolicies, ...own] satisfies Narrowing[]) {
    const next = narrowedBy({ parts, source }, input, tool);
    if (!isDeepStrictEqual(next, input)) by.push(source);
    input = next;
  }
  return { input, by };
}

function narrowedBy({ parts, source }: Narrowing, input: Readonly<Record<string, unknown>>, tool: Tool) {
  const changed = rewritten(input, parts);
  if (changed === input) return input;
  const checked = tool.input.safeParse(changed);
  const refused = (why: string) =>
    new ToolError('POLICY_DENIED', `the arguments that ${source} sets for \`${tool.name}\` ${why}`, {
      rule: 'arguments',
      suggestion: 'A person has to change them.',
    });
  if (!checked.success) throw refused(`do not fit it: ${checked.error.issues[0]?.message ?? ''}`);
  // What others looked up for the input, such as a connection, stands beside its parameters.
  const next = { ...input, ...checked.data };
  for (const key of Object.keys(input)) if (!(key in changed) && !(key in checked.data)) delete next[key];
  if (!isNarrower(tool, input, next)) throw refused('would let the call do more than it asked for');
  return next;
}

const isPath = (kind: Effect['kind']): boolean => kind === 'read' || kind === 'write' || kind === 'delete';
/** Whether a path of the workspace lies in another one. */
const lies = (path: string, folder: string): boolean => isInside(posix.join('/ws', folder), posix.join('/ws', path));

/** Whether a call does no more than another one: the same command, no further effect, no higher tier. */
function isNarrower(tool: Tool, before: unknown, after: unknown): boolean {
  const [was, is] = [before, after].map((it) => tool.effects(it as never));
  const [old, now] = [before, after].map((it) => tool.commandOf?.(it as never)?.command);
  const isCovered = is?.every(({ kind, target }) =>
    was?.some((it) => it.kind === kind && (it.target === target || (isPath(kind) && lies(target, it.target)))),
  );
  const [low, high] = [after, before].map((it) => TIERS.indexOf(tierOfCall(tool, it)));
  return old === now && isCovered === true && (low ?? 0) <= (high ?? 0);
}
