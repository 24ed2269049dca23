/**
 * Decides calls. Architecture invariant: pure, so the same inputs give the same decision; the order of rules, layers or parts does not
 * matter.
 */
import type { Decision, Effect, Tier } from '../base/call.ts';
import {
  type DecidingRuleFacts,
  isAllowable,
  LIKELY,
  MAYBE,
  mentionsOf,
  NO,
  partsOf,
  type QuestionPart,
  scriptsOf,
  toPart,
  YES,
} from './match.ts';
import type { PolicyQuestion } from './question.ts';
import { type FiledRule, indexOf, type RuleIndex } from './rule-index.ts';
import type { MatchSpec } from './schema/match.ts';
import { isOfRepository } from './schema/repository.ts';
import type { Policy, Rule } from './schema.ts';

/** Most rules listed for one decision; a command line of a thousand words may match every rule there is. */
const RULES_TOLD_MAX = 64;

export interface PolicyDecision {
  readonly decision: Decision;
  /** The rule or tier that decided: the strictest one; among equals a rule before a tier, then by id. */
  readonly by: DecidingRuleFacts;
  /** All rules that apply, and tiers for which no rule allowed; strictest first, without duplicates, at most 64. */
  readonly rules: readonly DecidingRuleFacts[];
  /** Effects of the call, one `exec` for each simple command. */
  readonly effects: readonly Effect[];
  /** Why the call may do more than `effects` lists; empty when everything is known. */
  readonly unknown: readonly string[];
}

/** Decides a call: each part by the strictest rule that matches it, or by its tier unless a rule allows the part. */
export function decide(policy: Policy, question: PolicyQuestion): PolicyDecision {
  const parts = partsOf(question);
  const [mentions, scripts] = [mentionsOf(question), scriptsOf(question)];
  const said = new Set<DecidingRuleFacts>();
  for (const layer of layersOf(policy)) {
    const index = indexOf(layer.rules);
    for (const part of parts) for (const it of decidePart({ layer, index }, part)) said.add(it);
    for (const part of mentions) for (const it of refusalsOf(index, part)) if (it.ofPaths) said.add(it.facts);
    for (const part of scripts) for (const it of refusalsOf(index, part)) said.add(it.facts);
  }
  const rules = uniqueOf(said);
  const by = rules[0] as DecidingRuleFacts;
  const unknown = [question.command?.unknown ?? [], question.command?.commands.map((it) => it.unknown) ?? []].flat();
  return {
    decision: by.decision,
    by,
    rules: rules.slice(0, RULES_TOLD_MAX),
    effects: effectsOf(question),
    unknown: [...new Set(unknown.filter((it) => it !== undefined))],
  };
}

/**
 * Sort order of deciding facts: stricter first; among equals the operator before a repository, a rule before a tier, then one with an
 * error code, then by id and source.
 */
export function compareFacts(a: DecidingRuleFacts, b: DecidingRuleFacts): number {
  return (
    STRICTNESS[b.decision] - STRICTNESS[a.decision] ||
    Number(isOfRepository(a)) - Number(isOfRepository(b)) ||
    Number(isOfTier(a)) - Number(isOfTier(b)) ||
    Number(a.code === undefined) - Number(b.code === undefined) ||
    compareText(a.id, b.id) ||
    compareText(a.source, b.source)
  );
}

const STRICTNESS: Readonly<Record<Decision, number>> = { allow: 0, ask: 1, deny: 2 };
const isOfTier = ({ id }: DecidingRuleFacts): boolean => id.startsWith('tiers.');
const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** A policy and all further policies that must agree with it. */
export const layersOf = (policy: Policy): readonly Policy[] =>
  policy.and.length === 0 ? [policy] : [policy, ...policy.and.flatMap(layersOf)];

interface IndexedPolicy {
  readonly layer: Policy;
  readonly index: RuleIndex;
}

/** The rules that match a part, plus the tier's decision unless a rule allows the part. */
function decidePart({ layer, index }: IndexedPolicy, part: QuestionPart): readonly DecidingRuleFacts[] {
  let allowable = isAllowable(part);
  const strict: DecidingRuleFacts[] = [];
  const allowing: DecidingRuleFacts[] = [];
  const ofTool: DecidingRuleFacts[] = [];
  for (const rules of index.candidates(part)) {
    for (const { decision, test, facts, isMasked, ofCommands } of rules) {
      if (isMasked && part.isInSandbox) continue;
      const level = test(part);
      if (decision !== 'allow') {
        if (level >= LIKELY) strict.push(facts);
        else if (
          isWritten(facts) &&
          (level === MAYBE || (part.kind === 'unknown' && part.question.command?.isHidden && ofCommands && level > NO))
        )
          strict.push(asking(facts));
        allowable &&= level !== MAYBE;
      } else if (level === YES) (facts.id.startsWith(OF_TOOL) ? ofTool : allowing).push(facts);
    }
  }
  // Only an allow rule replaces the tier's decision: a rule that asks must not open what the tier denies.
  if (allowable && allowing.length > 0) return [...strict, ...allowing];
  // `tools.NAME.decision` replaces the tier's decision for one tool, so it also covers what a parser can't know.
  return [...strict, ...(ofTool.length > 0 ? ofTool : [tierOf(layer, part.question)])];
}

/** Prefix of the ids of rules made from `tools`; other rule ids contain no dot. */
const OF_TOOL = 'tools.';

function tierOf({ tiers }: Policy, { tier, destructive }: PolicyQuestion): DecidingRuleFacts {
  const { approveDestructive, ...rule } = tiers[tier];
  const { id, decision, reason, source } =
    destructive && rule.decision === 'allow' && approveDestructive ? approveDestructive : rule;
  return { id, decision, reason, source, ...(rule.preview && decision === 'ask' && { preview: rule.preview }) };
}

/** Whether a person is to be asked about what the call did in a preview, and not about the call itself. */
export const requiresPreview = ({ decision, rules }: PolicyDecision): boolean =>
  decision === 'ask' && rules.some((it) => it.decision === 'ask' && it.preview === 'required');

/** Whether a person wrote the rule: it may hide in words that only the shell knows, so they are asked about such a line. */
const isWritten = ({ source }: DecidingRuleFacts): boolean => !source.startsWith('built-in:');

const asking = ({ id, reason, source }: DecidingRuleFacts): DecidingRuleFacts => ({
  id,
  decision: 'ask',
  reason,
  source,
});

/** The rules that ask or deny for a part that no rule needs to allow. */
const refusalsOf = (index: RuleIndex, part: QuestionPart): FiledRule[] =>
  index
    .candidates(part)
    .flat()
    .filter((it) => it.decision !== 'allow' && !(it.isMasked && part.isInSandbox) && it.test(part) >= LIKELY);

/** The facts in order, each rule by its strictest decision. */
function uniqueOf(said: Iterable<DecidingRuleFacts>): DecidingRuleFacts[] {
  const unique = new Map<string, DecidingRuleFacts>();
  for (const it of [...said].sort(compareFacts)) {
    const key = `${it.id} ${it.source} ${isOfTier(it) ? it.decision : ''}`;
    if (!unique.has(key)) unique.set(key, it);
  }
  return [...unique.values()];
}

function effectsOf({ effects, command }: PolicyQuestion): readonly Effect[] {
  if (!command || command.commands.length === 0) return command ? [...effects, ...command.redirects] : effects;
  const execs = command.commands.map(({ text }): Effect => ({ kind: 'exec', target: text }));
  return [...effects.filter((it) => it.kind !== 'exec'), ...execs, ...command.redirects];
}

/** Facts about a tool that are known before a call. */
export interface ToolFacts {
  readonly name: string;
  readonly aliases: readonly { readonly name: string }[];
  /** The provider that runs it, and its name there. */
  readonly runs?:
    | {
        readonly by?: string;
        readonly in?: string;
        readonly provider?: { readonly provider: string; readonly tool: string };
      }
    | undefined;
  readonly tier: Tier;
  /** The tier of the calls that need least, if lower. */
  readonly tiers?: { readonly least?: Tier } | undefined;
  readonly category: string;
  /** True if a person is asked about each call that the policy allows. */
  readonly asks?: unknown;
  /** `deletes` if each call does. */
  readonly destructive?: boolean | 'deletes';
  /** Present if calls of the tool run command lines. */
  readonly commandOf?: unknown;
}

/**
 * The decision for calls of a tool unless a rule about effects or callers says otherwise; tool lists show it. Where the
 * calls that need most are denied, it is that for those that need least.
 */
export function decideTool(policy: Policy, tool: ToolFacts): Decision {
  const leastTier = tool.tiers?.least;
  const decision = decideOfTier(policy, tool);
  if (decision === 'deny' && leastTier) return decideOfTier(policy, { ...tool, tier: leastTier });
  return decision === 'allow' && tool.asks === true ? 'ask' : decision;
}

function decideOfTier(policy: Policy, tool: ToolFacts): Decision {
  const part = toolPart(tool);
  const said = layersOf(policy).map((layer) => {
    const certain = indexOf(layer.rules).all.filter((it) => it.test(part) === YES);
    const rest = certain.some((it) => it.decision === 'allow') ? [] : [tierOf(layer, part.question)];
    return [...certain.map((it) => it.facts), ...rest].sort(compareFacts)[0] as DecidingRuleFacts;
  });
  return (said.sort(compareFacts)[0] as DecidingRuleFacts).decision;
}

/** Whether any call of a tool could be allowed, if only by a person; tool lists leave out tools without such a call. */
export const couldAllow = (policy: Policy, tool: ToolFacts): boolean => highestTier(policy, tool) !== undefined;

/** The highest tier of which a call of a tool could be allowed; undefined if there is none. */
export function highestTier(policy: Policy, tool: ToolFacts): Tier | undefined {
  return [tool.tier, tool.tiers?.least ?? tool.tier].find((it) => couldAllowOfTier(policy, { ...tool, tier: it }));
}

function couldAllowOfTier(policy: Policy, tool: ToolFacts): boolean {
  const part = toolPart(tool);
  return layersOf(policy).every((layer) => {
    const { all } = indexOf(layer.rules);
    if (all.some((it) => it.decision === 'deny' && it.test(part) === YES)) return false;
    if (layer.tiers[tool.tier].decision !== 'deny') return true;
    return all.some(
      (it, at) =>
        it.decision === 'allow' &&
        it.test(part) > NO &&
        (tool.commandOf || !needsCommand((layer.rules[at] as Rule).match)),
    );
  });
}

/** Whether the match can hold only for calls that run a command line. */
const needsCommand = ({ command, all = [], any }: MatchSpec): boolean =>
  command !== undefined || all.some(needsCommand) || (any?.every(needsCommand) ?? false);

/** Names beside its own by which policies may speak of a tool; `mcp:*` speaks of those of all providers. */
export const otherNames = ({ aliases, runs }: Pick<ToolFacts, 'aliases' | 'runs'>): string[] => [
  ...aliases.map((it) => it.name),
  ...(runs?.provider ? [`mcp:${runs.provider.provider}/${runs.provider.tool}`] : []),
];

const toolPart = ({ name, tier, category, destructive, ...it }: ToolFacts): QuestionPart =>
  toPart(
    {
      tool: name,
      aliases: otherNames(it),
      tier,
      category,
      destructive: destructive === 'deletes',
      effects: [],
      principal: '',
      session: '',
      home: '/',
    },
    'tool',
    name,
  );
