/**
 * Decisions. Architecture invariant: pure, the same inputs give the same decision; no order of rules, layers or parts
 * changes it.
 */
import type { Decision, Effect, Tier } from '../call.ts';
import { compileSegment, toSegments, unfoldBraces } from '../glob.ts';
import {
  type Facts,
  isAllowable,
  isAsked,
  LIKELY,
  MAYBE,
  mentionsOf,
  NO,
  type Part,
  partsOf,
  pathsOf,
  toPart,
  toPathPatterns,
  YES,
} from './match.ts';
import type { ParsedCommand, Question } from './question.ts';
import { indexOf, type RuleIndex } from './rule-index.ts';
import type { MatchSpec, Policy, Rule } from './schema.ts';

/** Rules told of one decision; a command line of a thousand words may meet every rule there is. */
const RULES_TOLD_MAX = 64;

/** What was decided and why. */
export interface Decided {
  readonly decision: Decision;
  /** What decided: of the strictest ones a rule before a tier, then by id. */
  readonly by: Facts;
  /** All that had a say, tiers where no rule allowed; strictest first, each id and source once, at most 64. */
  readonly rules: readonly Facts[];
  /** What the call does, one `exec` for each simple command. */
  readonly effects: readonly Effect[];
  /** Why more may happen than that; empty when all is known. */
  readonly unknown: readonly string[];
}

/** Decides a call: each of its parts by the strictest rule that holds for it, by the tier unless one of them allows it. */
export function decide(policy: Policy, question: Question): Decided {
  const parts = partsOf(question);
  const mentions = mentionsOf(question);
  const said = new Set<Facts>();
  for (const layer of layersOf(policy)) {
    const layered = { layer, index: indexOf(layer.rules), blind: false };
    if (question.command?.mentionGlobs?.length) layered.blind = mayFindDenied(layer.rules, question.command);
    for (const part of parts) for (const it of decidePart(layered, part)) said.add(it);
    for (const part of mentions) for (const it of refusalsOf(layered.index, part)) said.add(it);
  }
  const rules = uniqueOf(said);
  const by = rules[0] as Facts;
  const unknown = [question.command?.unknown ?? [], question.command?.commands.map((it) => it.unknown) ?? []].flat();
  return {
    decision: by.decision,
    by,
    rules: rules.slice(0, RULES_TOLD_MAX),
    effects: effectsOf(question),
    unknown: [...new Set(unknown.filter((it) => it !== undefined))],
  };
}

/** Which of two decides: the stricter; of equal ones a rule before a tier, one with a code of its own, then by id and source. */
export function compareFacts(a: Facts, b: Facts): number {
  return (
    STRICTNESS[b.decision] - STRICTNESS[a.decision] ||
    Number(isOfTier(a)) - Number(isOfTier(b)) ||
    Number(a.code === undefined) - Number(b.code === undefined) ||
    compareText(a.id, b.id) ||
    compareText(a.source, b.source)
  );
}

const STRICTNESS: Readonly<Record<Decision, number>> = { allow: 0, ask: 1, deny: 2 };
const isOfTier = ({ id }: Facts): boolean => id.startsWith('tiers.');
const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** A policy and all that must agree with it. */
export const layersOf = (policy: Policy): readonly Policy[] =>
  policy.and.length === 0 ? [policy] : [policy, ...policy.and.flatMap(layersOf)];

interface Layered {
  readonly layer: Policy;
  readonly index: RuleIndex;
  /** Whether a glob of the command line may find what a rule refuses: then no rule may allow its commands. */
  readonly blind: boolean;
}

/** The rules that hold for a part, and what the tier says where none of them allows it. */
function decidePart({ layer, index, blind }: Layered, part: Part): readonly Facts[] {
  let allowable = isAllowable(part) && !(blind && part.kind === 'command');
  const strict: Facts[] = [];
  const allowing: Facts[] = [];
  const ofTool: Facts[] = [];
  for (const rules of index.candidates(part)) {
    for (const { decision, test, facts } of rules) {
      const level = test(part);
      if (decision !== 'allow') {
        if (level >= LIKELY) strict.push(facts);
        allowable &&= level !== MAYBE;
      } else if (level === YES) (facts.id.startsWith(OF_TOOL) ? ofTool : allowing).push(facts);
    }
  }
  // Only a rule that allows stands in for the tier: one that asks must not open what the tier denies.
  if (allowable && allowing.length > 0) return [...strict, ...allowing];
  // `tools.NAME.decision` says of one tool what the tier says of many, so also of what a parser can't know.
  return [...strict, ...(ofTool.length > 0 ? ofTool : [tierOf(layer, part.question)])];
}

/** How the ids of rules begin that `tools` makes; ids of other rules have no dot. */
const OF_TOOL = 'tools.';

function tierOf({ tiers }: Policy, { tier, destructive }: Question): Facts {
  const { approveDestructive, ...rule } = tiers[tier];
  const { id, decision, reason, source } =
    destructive && rule.decision === 'allow' && approveDestructive ? approveDestructive : rule;
  return { id, decision, reason, source };
}

/** The rules that ask or deny for a path that a command names; what is not refused is not allowed by that either. */
function refusalsOf(index: RuleIndex, part: Part): Facts[] {
  const rules = index.candidates(part).flat();
  return rules
    .filter((it) => it.ofPaths && it.decision !== 'allow' && isAsked(it.facts, part) && it.test(part) >= LIKELY)
    .map((it) => it.facts);
}

function uniqueOf(said: Iterable<Facts>): Facts[] {
  const unique: Facts[] = [];
  for (const it of [...said].sort(compareFacts)) {
    const last = unique.at(-1);
    if (last?.id !== it.id || last.source !== it.source || last.decision !== it.decision) unique.push(it);
  }
  return unique;
}

function effectsOf({ effects, command }: Question): readonly Effect[] {
  if (!command || command.commands.length === 0) return command ? [...effects, ...command.redirects] : effects;
  const execs = command.commands.map(({ text }): Effect => ({ kind: 'exec', target: text }));
  return [...effects.filter((it) => it.kind !== 'exec'), ...execs, ...command.redirects];
}

const deniedNames = new WeakMap<readonly Rule[], ReadonlySet<string>>();

/**
 * Whether a glob of a command line might find a path that a rule refuses. Which files there are is not known here, and the
 * sandbox hides the refused ones anyway; so this is no denial, it only keeps rules from allowing the line. Might find, kept
 * simple: a segment of the glob begins with a dot, or matches a name that stands in a rule that asks or denies. Like the
 * shell, `*` finds no name that begins with a dot.
 */
function mayFindDenied(rules: readonly Rule[], { mentionGlobs = [] }: ParsedCommand): boolean {
  const names = deniedNames.get(rules) ?? namesDenied(rules);
  deniedNames.set(rules, names);
  return mentionGlobs.some((glob) => segmentsOf(glob).some((it) => it.startsWith('.') || finds(it, names)));
}

function segmentsOf(glob: string): string[] {
  try {
    return unfoldBraces(glob).flatMap(toSegments);
  } catch {
    return ['.']; // Braces unfold to too many to look at: it may find anything.
  }
}

function finds(segment: string, names: ReadonlySet<string>): boolean {
  const { test, literal } = compileSegment(segment);
  if (literal !== undefined) return names.has(literal);
  for (const it of names) if (!it.startsWith('.') && test(it)) return true;
  return false;
}

/** The last plain name of each pattern. */
function namesDenied(rules: readonly Rule[]): Set<string> {
  const globs = rules.filter((it) => it.decision !== 'allow').flatMap(({ match }) => globsIn(match));
  const literals = globs
    .flatMap(toPathPatterns)
    .map(({ segments }) => segments.map((it) => compileSegment(it).literal));
  return new Set(literals.flatMap((names) => names.findLast((it) => it !== undefined) ?? []));
}

const globsIn = (match: MatchSpec): readonly string[] => [
  ...pathsOf(match),
  ...[match.all ?? [], match.any ?? [], match.not ?? []].flat().flatMap(globsIn),
];

/** What is known of a tool before it is called. */
export interface ToolFacts {
  readonly name: string;
  readonly aliases: readonly { readonly name: string }[];
  readonly tier: Tier;
  readonly category: string;
  /** Present where its calls run command lines. */
  readonly commandOf?: unknown;
}

/** What calls of a tool get where no rule about effects or callers says otherwise; what tool lists show. */
export function decideTool(policy: Policy, tool: ToolFacts): Decision {
  const part = toolPart(tool);
  const said = layersOf(policy).map((layer) => {
    const certain = indexOf(layer.rules).all.filter((it) => it.test(part) === YES);
    const rest = certain.some((it) => it.decision === 'allow') ? [] : [layer.tiers[tool.tier]];
    return [...certain.map((it) => it.facts), ...rest].sort(compareFacts)[0] as Facts;
  });
  return (said.sort(compareFacts)[0] as Facts).decision;
}

/** Whether any call of a tool could be allowed, if only by a person; tools without such a call are not shown. */
export function couldAllow(policy: Policy, tool: ToolFacts): boolean {
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

/** Whether only calls that run a command line can match. */
const needsCommand = ({ command, all = [], any }: MatchSpec): boolean =>
  command !== undefined || all.some(needsCommand) || (any?.every(needsCommand) ?? false);

const toolPart = ({ name, aliases, tier, category }: ToolFacts): Part =>
  toPart(
    {
      ...{ tool: name, aliases: aliases.map((it) => it.name), tier, category, destructive: false, effects: [] },
      ...{ principal: '', session: '', home: '/' },
    },
    'tool',
    name,
  );
