/** The tools of a session for which some call could be allowed. */

import type { Pipeline } from '../pipeline/pipeline.ts';
import { couldAllow, decideTool, highestTier } from '../policy/decide.ts';
import type { Policy } from '../policy/schema.ts';
import { declarationsOf } from '../tools/declarations.ts';
import { toFormat, toolsOf, toToolInfo } from '../tools/registry.ts';
import { runsBy } from '../tools/runs.ts';
import type { Tool } from '../tools/tool.ts';
import { type FoundTools, searchTools } from '../tools/tools/find.ts';
import type { Params } from '../wire/protocol/messages.ts';
import type { Session } from './session.ts';

/** Tools for which some call could be allowed, with the highest tier of such calls, in order of their names. */
export function visibleTools({ options, policy: policyNow }: Session): Tool[] {
  const policy = policyNow();
  return toolsOf(options.toolset).flatMap((it) => {
    const tier = highestTier(policy, it);
    if (tier === undefined) return [];
    return tier === it.tier ? it : { ...it, tier };
  });
}

export const toolNames = (session: Session): string[] => visibleTools(session).map((it) => it.name);

/** Answers `tools.search`. */
export function foundTools(
  session: Session,
  query: Params<'tools.search'>,
  { learned }: Pick<Pipeline, 'learned'>,
): FoundTools {
  const policy = session.policy();
  return searchTools(
    visibleTools(session).map((it) => toToolInfo(it, decideTool(policy, it))),
    query,
    learned.of(session.options.workspace, query),
  );
}

/** Tools that find the others, listed where others are left out for their number. */
const FINDING: ReadonlySet<string> = new Set(['tools_search', 'tools_describe']);

const isForeign = (tool: Tool): boolean => (runsBy(tool, 'providers') ?? runsBy(tool, 'connectors')) !== undefined;

/**
 * The tools of a model's list that stays short: those that the policy names, and the others for which `isUsual` holds. If there are
 * too many tools of providers and connectors, those are left out, and the tools that find them are listed.
 */
export function shortList(tools: readonly Tool[], session: Session, isUsual: (tool: Tool) => boolean): Tool[] {
  const policy = session.policy();
  const { foreignToolsListedMax } = session.options.limits;
  const isCrowded = tools.filter((it) => isForeign(it) && isUsual(it)).length > foreignToolsListedMax;
  return tools.filter((it) => {
    if (isNamedBy(policy, it.name)) return true;
    return isCrowded && (isForeign(it) || FINDING.has(it.name)) ? !isForeign(it) : isUsual(it);
  });
}

/** Whether a policy sets a decision for this tool under `tools`. */
export const isNamedBy = ({ rules, and }: Policy, name: string): boolean =>
  [rules, ...and.map((it) => it.rules)].flat().some(({ id }) => id === `tools.${name}.decision`);

/** Adds the callable tools to the description of the tool that runs programs. */
function withTools(description: string, { toolset, limits }: Session['options'], policy: Policy): string {
  const callable = toolsOf(toolset).filter((it) => !runsBy(it, 'isolates') && couldAllow(policy, it));
  // Lists a provider's tools by name only, since hundreds of them would crowd out ours.
  const infos = callable.filter((it) => !runsBy(it, 'providers')).map((it) => toToolInfo(it, decideTool(policy, it)));
  const provided = callable.filter((it) => runsBy(it, 'providers')).map((it) => it.name);
  const more = provided.length === 0 ? '' : `\nOf providers: ${provided.join(' ')}`.slice(0, PROVIDED_CHARS_MAX);
  return `${description}\n${declarationsOf(infos, limits.codeDeclarationsChars)}${more}`;
}

const PROVIDED_CHARS_MAX = 2000;

/** Answers `tools.stats`: counts of the session's visible tools. */
export function toolStats(session: Session): Stats {
  const policy = session.policy();
  const stats: Stats = { totalTools: 0, requireApproval: 0, cacheable: 0, byCategory: {}, byTier: {} };
  for (const it of visibleTools(session)) {
    stats.totalTools += 1;
    if (decideTool(policy, it) === 'ask') stats.requireApproval += 1;
    if (it.cacheable) stats.cacheable += 1;
    stats.byCategory[it.category] = (stats.byCategory[it.category] ?? 0) + 1;
    stats.byTier[it.tier] = (stats.byTier[it.tier] ?? 0) + 1;
  }
  return stats;
}

interface Stats {
  totalTools: number;
  /** Tools whose calls need approval when nothing is known of their input. */
  requireApproval: number;
  cacheable: number;
  byCategory: Record<string, number>;
  byTier: Record<string, number>;
}

/** Answers `tools.list`. */
export function toolList(
  session: Session,
  { tier, category, format, tools }: Omit<Params<'tools.list'>, 'estimates'>,
  { health: known }: Partial<Pick<Pipeline, 'health'>> = {},
): { tools: object[] } {
  const { options, policy: policyNow } = session;
  const policy = policyNow();
  // A request for a category or tier, or for a format that models don't read, gets all matching tools.
  const isWhole = tools === 'all' || format === 'ringfence' || tier !== undefined || category !== undefined;
  const visible = visibleTools(session);
  const infos = (isWhole ? visible : shortList(visible, session, (it) => !it.isExtra))
    .filter((it) => (tier ?? it.tier) === it.tier && (category ?? it.category) === it.category)
    .map((it) => {
      const health = known?.badHealthOf(it.name, options.workspace);
      const info = { ...toToolInfo(it, decideTool(policy, it)), health };
      const program = runsBy(it, 'isolates');
      return program && !program.plugin ? { ...info, description: withTools(info.description, options, policy) } : info;
    });
  return { tools: infos.map((it) => toFormat(it, format)) };
}

/** The list with the usual times of calls. */
export const withTimes = ({ tools }: { tools: object[] }, times: ReadonlyMap<string, number>): { tools: object[] } => ({
  tools: tools.map((it) => {
    const estimatedTime = 'tier' in it && 'name' in it ? times.get(String(it.name)) : undefined;
    return estimatedTime === undefined ? it : { ...it, estimatedTime };
  }),
});
