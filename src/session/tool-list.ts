/** The tools of a session, as far as some call of them could be allowed. */
import { couldAllow, decideTool } from '../policy/decide.ts';
import type { Params } from '../protocol/messages.ts';
import { toFormat, toolsOf, toToolInfo } from '../tools/registry.ts';
import type { Session } from './session.ts';

export function toolNames({ options, policy: policyNow }: Session): string[] {
  const policy = policyNow();
  return toolsOf(options.toolset)
    .filter((it) => couldAllow(policy, it))
    .map((it) => it.name);
}

/** The answer to `tools.list`. */
export function toolList(
  { options, policy: policyNow }: Session,
  { tier, category, format }: Params<'tools.list'>,
): object {
  const policy = policyNow();
  const infos = toolsOf(options.toolset)
    .filter((it) => couldAllow(policy, it))
    .filter((it) => (tier ?? it.tier) === it.tier && (category ?? it.category) === it.category)
    .map((it) => toToolInfo(it, decideTool(policy, it)));
  return { tools: infos.map((it) => toFormat(it, format)) };
}
