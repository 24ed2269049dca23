/** Explains decisions in words: what decided, and what to write where for another decision. Pure. */
import { createHash } from 'node:crypto';
import type { Decision, Effect } from '../base/call.ts';
import { visibleInLine } from '../base/text/shown-text.ts';
import type { PolicyDecision } from './decide.ts';
import { escapeGlob } from './paths.ts';
import type { PolicyQuestion, SimpleCommand } from './question.ts';
import type { MatchSpec } from './schema/match.ts';
import { isOfRepository } from './schema/repository.ts';
import type { Policy, RuleFacts } from './schema.ts';
import { isAboutTool } from './tool-decisions.ts';

/** `Decision` of docs/protocol-reference.md. */
export interface WireDecision {
  readonly decision: Decision;
  readonly effects: readonly Effect[];
  /** Strictest first. */
  readonly rules: readonly RuleFacts[];
  /** What to change, and where; absent when the call is allowed. */
  readonly suggestion?: string;
}

/** The wire form of a decision; with `question` the suggestion contains a rule for this call. */
export function toDecision(decided: PolicyDecision, policy: Policy, question?: PolicyQuestion): WireDecision {
  const { decision, effects, rules } = decided;
  const suggestion = suggest(decided, policy, question);
  return {
    decision,
    effects,
    rules: rules.map(({ id, decision: said, reason, source }) => ({ id, decision: said, reason, source })),
    ...(suggestion !== undefined && { suggestion }),
  };
}

/** What would have to change for the call to be allowed, in one or two sentences; undefined when it already is. */
export function suggest(
  { decision, by, unknown }: PolicyDecision,
  policy: Policy,
  question?: PolicyQuestion,
): string | undefined {
  if (decision === 'allow') return undefined;
  const { id, source } = by;
  const where = `in policy ${policy.name} (${source})`;
  const [section, name = ''] = id.split('.');
  if (id === 'tools.disable') return `Take it out of \`tools.disable\` ${where}.`;
  if (section === 'tools') return `Write \`tools: {${id.slice(6, -9)}: {decision: allow}}\` ${where}.`;
  if (section !== 'tiers') {
    const rule = policy.rules.find((it) => it.id === id);
    const [, parent] = /^built-in:(default|careful):/.exec(source) ?? [];
    if (rule && question && parent && isAboutTool(rule.match, question.tool))
      return `Write \`tools: {${question.tool}: {decision: allow}}\` in a policy file that extends \`${parent}\`.`;
    return `Change or narrow rule \`${id}\` ${where}; the strictest rule counts, so no rule that allows outweighs it.`;
  }
  const otherTool = question && gitToolFor(question);
  const hint = otherTool ? `${otherTool} ` : '';
  const wide = id.endsWith('.approve') ? 'approve: []' : 'decision: allow';
  const tier = `\`tiers: {${name}: {${wide}}}\` ${where}`;
  if (unknown.length > 0) return `${hint}No rule can allow it, since ${unknown[0]}; only the tier can: ${tier}.`;
  const rule = question && ruleFor(question);
  return typeof rule === 'object'
    ? `${hint}Add under \`rules\` of a policy file: ${toYaml(rule)} Or for all of the tier: write ${tier}.`
    : `${hint}Write ${tier}.`;
}

/** The first of the rules that ask, with the words of the repositories that ask as well. */
export function firstAskerOf(asking: readonly RuleFacts[]): Pick<RuleFacts, 'id' | 'reason'> {
  const [{ id, reason }, ...others] = asking as [RuleFacts, ...RuleFacts[]];
  const also = others.filter(isOfRepository).slice(0, ASKERS_MAX);
  const words = also.map((it) => `; rule \`${it.id}\` (${visibleInLine(it.source)}) asks, too: ${it.reason}`);
  return { id, reason: [reason, ...words].join('') };
}
const ASKERS_MAX = 4;

/** Subcommands of git for which a tool exists. */
const GIT_TOOLS: ReadonlySet<string | undefined> = new Set(['status', 'diff', 'log', 'show', 'branch', 'commit']);

/** Names the tool that does the same as a git command of the line; undefined if there is none. */
export function gitToolFor({ command }: PolicyQuestion): string | undefined {
  const found = command?.commands.find(({ program, words }) => program === 'git' && GIT_TOOLS.has(words[1]));
  const tool = found && `git_${found.words[1]}`;
  return tool && `The tool \`${tool}\` does it without running what the repository's configuration names.`;
}

/**
 * An allow rule as one line of YAML that covers this call and as little else as possible: its tool, its principal, each of its commands
 * word for word, each of its paths and hosts. If no rule can cover it, a YAML comment that says why.
 */
export function proposeRule(question: PolicyQuestion): string {
  const rule = ruleFor(question);
  return typeof rule === 'object' ? toYaml(rule) : `# no rule can allow exactly this call: ${rule}`;
}

interface ProposedRule {
  readonly id: string;
  readonly match: MatchSpec;
  readonly decision: 'allow';
  readonly reason: string;
}

/** Bounds of the policy file's schema. */
const MOST = { words: 32, alternatives: 32, word: 256, glob: 512, id: 64 } as const;

/** The rule, or the reason why there is none. */
function ruleFor(question: PolicyQuestion): ProposedRule | string {
  const { tool, principal, command, effects } = question;
  if (command && command.unknown.length > 0) return quoteForMessage(command.unknown[0] as string);
  const own = command ? effects.filter((it) => it.kind !== 'exec') : effects;
  const matches = [
    ...(command?.commands ?? []).map(matchOfCommand),
    ...[...own, ...(command?.redirects ?? [])].map(matchOfEffect),
  ];
  const problem = matches.find((it) => typeof it === 'string');
  if (problem !== undefined) return problem;
  const unique = [...new Map(matches.map((it) => [JSON.stringify(it), it as MatchSpec])).values()];
  if (unique.length > MOST.alternatives) return `it does more than ${MOST.alternatives} things`;
  const what = unique.length > 1 ? { any: unique } : unique[0];
  const match: MatchSpec = { tool: escapeText(tool), ...what, principal: escapeText(principal) };
  const words = command?.commands[0]?.words.slice(0, 2) ?? [tool];
  return { id: idOf(words.join('-'), match), match, decision: 'allow', reason: 'A person allowed this call for good.' };
}

function matchOfCommand({ words, program, unknown, text }: SimpleCommand): MatchSpec | string {
  if (unknown !== undefined) return quoteForMessage(unknown);
  if (program === undefined) return `\`${quoteForMessage(text)}\` runs no program of the system`;
  const tokens = [program, ...words.slice(1)].map((it) => it && escapeText(it));
  if (tokens.some((it) => !it))
    return `\`${quoteForMessage(text)}\` has words that only the shell knows, or empty ones`;
  if (tokens.length >= MOST.words || tokens.some((it) => (it as string).length > MOST.word)) {
    return `\`${quoteForMessage(text)}\` is too long for a rule`;
  }
  return { command: [...(tokens as string[]), '$'] };
}

function matchOfEffect({ kind, target }: Effect): MatchSpec | string {
  if (kind === 'exec') return `it runs \`${quoteForMessage(target)}\`, whose words are not known`;
  if (kind === 'query') return { database: escapeText(target) };
  const escaped = kind === 'connect' ? escapeText(target) : escapeGlob(target);
  // A folder called `~` is not the person's home.
  const glob = escaped === '~' || escaped.startsWith('~/') ? `./${escaped}` : escaped;
  if (glob.length > MOST.glob) return `\`${quoteForMessage(target)}\` is too long for a rule`;
  return kind === 'connect' ? { host: glob } : { [kind]: glob };
}

const escapeText = (text: string): string => text.replaceAll(/[*?\\]/g, '\\$&');

/** A rule id that is stable for the same match; another match almost certainly gets another one. */
function idOf(words: string, match: MatchSpec): string {
  const hash = createHash('sha256').update(JSON.stringify(match)).digest('hex').slice(0, 8);
  const slug = words
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .slice(0, MOST.id - 16);
  return `allow-${slug}-${hash}`.replaceAll(/-+/g, '-');
}

const SHOWN_CHARS = 80;
const quoteForMessage = (text: string): string => {
  const line = text.replaceAll(/[^\p{L}\p{N}\p{P}\p{S} ]/gu, ' ');
  return line.length > SHOWN_CHARS ? `${line.slice(0, SHOWN_CHARS)}…` : line;
};

const toYaml = (rule: ProposedRule): string => `- ${toFlow(rule)}`;

/** One line of YAML with invisible characters escaped. */
function toFlow(value: unknown): string {
  if (typeof value === 'string') return toScalar(value);
  if (Array.isArray(value)) return `[${value.map(toFlow).join(', ')}]`;
  const entries = Object.entries(value as object).map(([key, it]) => `${key}: ${toFlow(it)}`);
  return `{ ${entries.join(', ')} }`;
}

/** Unquoted words that YAML does not read as text. */
const NOT_TEXT = /^(true|false|null|yes|no|on|off|y|n)$/i;
const PLAIN = /^[A-Za-z][\w ./-]*[\w.$/-]$|^\$$|^[A-Za-z]$/;

function toScalar(text: string): string {
  if (PLAIN.test(text) && !NOT_TEXT.test(text)) return text;
  const quoted = text.replaceAll(/["\\]/g, '\\$&');
  return `"${quoted.replaceAll(/[^\p{L}\p{N}\p{P}\p{S} ]/gu, toEscape)}"`;
}

const toEscape = (character: string): string =>
  `\\U${(character.codePointAt(0) as number).toString(16).padStart(8, '0')}`;
