/**
 * Tells whether a rule matches a part of a call. Architecture invariant: pure, and linear in the agent's text; patterns are compiled once
 * and never become regular expressions with wildcards.
 */
import type { Effect } from '../base/call.ts';
import { compileText, type TextTest, toSegments, type Wildcard } from '../base/text/glob.ts';
import type { ParsedCommand, PolicyQuestion, SimpleCommand } from './question.ts';
import type { MatchSpec } from './schema/match.ts';
import { type PathPattern, toPathPatterns } from './schema/path-patterns.ts';
import type { Rule, RuleFacts } from './schema.ts';
import { publishingOf } from './shell/publishing.ts';

/** The facts reported about a rule that decided. */
export type DecidingRuleFacts = RuleFacts & Pick<Rule, 'code' | 'preview'>;

/**
 * How surely a matcher holds, from NO to YES: `not` negates the level, `all` takes the least and `any` the greatest. Allow rules need YES;
 * rules that ask or deny need LIKELY or more.
 */
export type Certainty = number;
export const YES = 3;
/** Matches as written, but something else may run: a workspace's own `git`. Strict rules hold either way, negated or not. */
export const LIKELY = 0;
/** Only the shell knows, as with `git $x`: strict rules don't hold, but no rule may allow the part either. */
export const MAYBE = -1;
/**
 * The matcher is about something that can't be seen in this part, such as the paths that a command touches. Its negation satisfies a rule
 * that denies all but some paths, never one that allows all but some.
 */
const FOREIGN = -2;
export const NO = -3;

/**
 * One thing that is decided by itself: an effect, a simple command, a path that a command names, an unknown of the parser, or the bare
 * call.
 */
export interface QuestionPart {
  readonly question: PolicyQuestion;
  /** `any`: whatever is done to a path; a rule that does not match that matches neither a read, a write nor a delete. */
  readonly kind: Effect['kind'] | 'any' | 'call' | 'command' | 'mention' | 'unknown' | 'tool';
  readonly target: string;
  /** Present for paths. */
  readonly targetPaths: TargetPaths | undefined;
  readonly command: SimpleCommand | undefined;
  /** Whether the part is judged only by refusals that see the whole line, such as `rm` together with a path. */
  readonly ofLine: boolean;
  /** Whether a command uses the path, so that rules which its sandbox holds don't judge it; see `isMaskedBy`. */
  readonly isInSandbox?: boolean;
  /** See `Question.isOrdinary`. */
  readonly isOrdinary?: PolicyQuestion['isOrdinary'];
}

/** Segments of a path for each of the three kinds of pattern; undefined if the path lies outside. */
export interface TargetPaths {
  readonly relative: readonly string[] | undefined;
  readonly absolute: readonly string[] | undefined;
  readonly home: readonly string[] | undefined;
  /** The path as it was given, in lower case. */
  readonly folded: string;
}

export interface Matcher {
  readonly test: (part: QuestionPart) => Certainty;
  /** Whether the matcher concerns paths, so that it is also asked about paths that commands name. */
  readonly ofPaths: boolean;
  /** Whether the matcher depends on the words of a command. */
  readonly ofCommands: boolean;
}

const matchers = new WeakMap<MatchSpec, Matcher>();

/** Compiles a match, once for each object. Throws INPUT_INVALID if the braces of a path expand to too many alternatives. */
export function compileMatch(match: MatchSpec): Matcher {
  const known = matchers.get(match);
  if (known) return known;
  const inner = [match.all ?? [], match.any ?? [], match.not ?? []].flat().map(compileMatch);
  const tests = toTests(match);
  const [first, ...others] = tests;
  const compiled: Matcher = {
    test: first && others.length === 0 ? first : (part) => least(tests, part),
    ofPaths: pathsOf(match).length > 0 || inner.some((it) => it.ofPaths),
    ofCommands: match.command !== undefined || match.publishes === true || inner.some((it) => it.ofCommands),
  };
  matchers.set(match, compiled);
  return compiled;
}

/** Whether a rule matches any part of a call; decides whether the examples of rules hold. */
export function ruleMatches(rule: Rule, question: PolicyQuestion): boolean {
  const { test, ofPaths } = compileMatch(rule.match);
  if (rule.decision === 'allow') return partsOf(question).some((it) => isAllowable(it) && test(it) === YES);
  const named = ofPaths ? mentionsOf(question) : [];
  const parts = [...partsOf(question), ...named, ...scriptsOf(question)];
  return parts.some((it) => !(it.isInSandbox && isMaskedBy(rule)) && test(it) >= LIKELY);
}

/**
 * Whether the sandbox holds what the rule refuses, so that the words of a command are not judged by it: a rule on secrets, or one of a
 * built-in policy, that depends on nothing but the path and the caller. Other rules of a person win over the sandbox.
 */
export const isMaskedBy = ({ code, match, source }: Pick<Rule, 'code' | 'match' | 'source'>): boolean =>
  (code === 'SENSITIVE_FILE' || source.startsWith('built-in:')) && !dependsOnCall(match);

/** Conditions on the call that no mount knows. */
export const OF_CALLS = [
  'tool',
  'tier',
  'category',
  'command',
  'publishes',
  'host',
  'database',
  'session.sawUntrusted',
] as const;

const dependsOnCall = (match: MatchSpec): boolean =>
  OF_CALLS.some((key) => match[key] !== undefined) ||
  [match.all ?? [], match.any ?? [], match.not ?? []].flat().some(dependsOnCall);

/** Whether a rule may allow the part: never if a parser could not fully know it. */
export const isAllowable = ({ kind, command }: QuestionPart): boolean =>
  kind !== 'unknown' && (!command || (command.unknown === undefined && command.words[0] !== undefined));

/** The parts of a call that are decided separately; at least one. */
export function partsOf(question: PolicyQuestion): QuestionPart[] {
  const { effects, command } = question;
  const own = command ? effects.filter((it) => it.kind !== 'exec') : effects;
  const parts = [
    ...own.map((it) => toPart(question, it.kind, it.target)),
    ...redirectsOf(question),
    ...(command?.commands ?? []).map((it) => commandPart(question, it)),
  ];
  if (command && (command.unknown.length > 0 || command.isHidden)) parts.push(toPart(question, 'unknown', ''));
  return parts.length > 0 ? parts : [toPart(question, 'call', question.tool)];
}

/** Paths that a command line names or redirects to, as further parts that only rules that ask or deny are asked about. */
export function mentionsOf(question: PolicyQuestion): QuestionPart[] {
  const named = question.command?.mentions ?? [];
  const parts = [...named.map((it) => toPart(question, 'mention', it)), ...redirectsOf(question)];
  return parts.map((it) => ({ ...it, ofLine: true, isInSandbox: true }));
}

/** Commands of scripts that the line runs by name (`npm run release`), which only rules that ask or deny are asked about. */
export const scriptsOf = (question: PolicyQuestion): QuestionPart[] =>
  (question.command?.scripts ?? []).map((it) => commandPart(question, it));

const redirectsOf = (question: PolicyQuestion): QuestionPart[] =>
  (question.command?.redirects ?? []).map((it) => ({ ...toPart(question, it.kind, it.target), isInSandbox: true }));

const commandPart = (question: PolicyQuestion, command: SimpleCommand): QuestionPart => ({
  question,
  kind: 'command',
  target: command.text,
  targetPaths: undefined,
  command,
  ofLine: false,
});

const PATH_KINDS: ReadonlySet<QuestionPart['kind']> = new Set(['read', 'write', 'delete', 'mention', 'any']);

/** A part that is not a simple command. */
export function toPart(question: PolicyQuestion, kind: QuestionPart['kind'], target: string): QuestionPart {
  const targetPaths = PATH_KINDS.has(kind) ? toTargetPaths(target, question) : undefined;
  const { isOrdinary } = question;
  return { question, kind, target, targetPaths, command: undefined, ofLine: false, isOrdinary };
}

function toTargetPaths(target: string, { home, workspace }: Pick<PolicyQuestion, 'home' | 'workspace'>): TargetPaths {
  const segments = resolved(target);
  const root = workspace === undefined ? undefined : toSegments(workspace);
  const isAbsolute = target.startsWith('/');
  const absolute = isAbsolute ? segments : root && [...root, ...segments];
  const relative = isAbsolute ? root && segmentsBelow(root, segments) : segments;
  const folded = target.toLowerCase();
  return { relative, absolute, home: absolute && segmentsBelow(toSegments(home), absolute), folded };
}

/** Segments of a path with `..` resolved. Targets come without `..`; if one has some anyway, it must not slip past a rule. */
function resolved(path: string): string[] {
  const segments = toSegments(path);
  if (!segments.includes('..')) return segments;
  const resolved: string[] = [];
  for (const it of segments) {
    if (it !== '..') resolved.push(it);
    else if (resolved.length > 0 && resolved.at(-1) !== '..') resolved.pop();
    else if (!path.startsWith('/')) resolved.push(it);
  }
  return resolved;
}

const segmentsBelow = (folder: readonly string[], path: readonly string[]): readonly string[] | undefined =>
  folder.every((it, at) => it === path[at]) ? path.slice(folder.length) : undefined;

type PartTest = (part: QuestionPart) => Certainty;
type OneOrMany<T> = T | readonly T[];

const many = <T>(value: OneOrMany<T> | undefined): readonly T[] =>
  value === undefined ? [] : Array.isArray(value) ? (value as readonly T[]) : [value as T];
const least = (tests: readonly PartTest[], part: QuestionPart): Certainty => {
  let level: Certainty = YES;
  for (const test of tests) {
    level = Math.min(level, test(part));
    if (level === NO) break;
  }
  return level;
};
const certaintyOf = (holds: boolean): Certainty => (holds ? YES : NO);

/** Tests in order of cost, cheap ones first: the first NO ends the evaluation. */
function toTests(match: MatchSpec): PartTest[] {
  const { tool, tier, category, principal, session, when, path, read, write, command, host, database, all, any, not } =
    match;
  const tests: (PartTest | undefined)[] = [
    tier === undefined ? undefined : tierTest(many(tier)),
    textTest(
      tool,
      (texts) =>
        ({ question }) =>
          certaintyOf(texts(question.tool) || question.aliases.some(texts)),
    ),
    textTest(category, (texts) => (part) => certaintyOf(texts(part.question.category))),
    ...[principal, when?.principal].map((it) => textTest(it, (texts) => whoTest((of) => texts(of.principal)))),
    ...[session, when?.session].map((it) => textTest(it, (texts) => whoTest((of) => texts(of.session)))),
    match['session.sawUntrusted'] && whoTest((of) => of.sawUntrusted === true),
    pathTest(path, ['read', 'write', 'delete', 'mention', 'any']),
    pathTest(read, ['read', 'mention', 'any']),
    pathTest(write, ['write', 'mention', 'any']),
    pathTest(match.delete, ['delete', 'mention', 'any']),
    match.holds && holdsTest,
    command && commandTest(command),
    match.publishes && publishesTest,
    host === undefined ? undefined : hostTest(many(host)),
    textTest(
      database,
      (texts) =>
        ({ kind, target }) =>
          kind === 'query' ? certaintyOf(texts(target)) : hiddenIn(kind),
    ),
  ];
  for (const it of all ?? []) tests.push(compileMatch(it).test);
  if (any) {
    const alternatives = any.map((it) => compileMatch(it).test);
    tests.push((part) => Math.max(...alternatives.map((test) => test(part))));
  }
  if (not) {
    const { test } = compileMatch(not);
    tests.push((part) => (part.kind === 'any' ? YES : -test(part)));
  }
  return tests.filter((it) => it !== undefined);
}

function textTest(globs: OneOrMany<string> | undefined, toTest: (texts: TextTest) => PartTest): PartTest | undefined {
  return globs === undefined ? undefined : toTest(anyText(many(globs)));
}

function anyText(globs: readonly string[]): TextTest {
  const wildcards = globs.map(compileText);
  const literals = new Set(wildcards.map((it) => it.literal));
  const tests = wildcards.filter((it) => it.literal === undefined).map((it) => it.test);
  return (text) => literals.has(text) || tests.some((test) => test(text));
}

const tierTest = (tiers: readonly string[]): PartTest => {
  const names = new Set(tiers);
  return ({ question }) => certaintyOf(names.has(question.tier));
};

const whoTest =
  (holds: (question: PolicyQuestion) => boolean): PartTest =>
  ({ kind, question }) =>
    kind === 'tool' ? FOREIGN : certaintyOf(holds(question));

/** The path globs of a match itself, without those in `all`, `any` and `not`. */
export const pathsOf = ({ path, read, write, delete: deleted }: MatchSpec): readonly string[] =>
  [path, read, write, deleted].flatMap((it) => many(it));

function pathTest(globs: OneOrMany<string> | undefined, kinds: readonly QuestionPart['kind'][]): PartTest | undefined {
  if (globs === undefined) return undefined;
  const patterns = many(globs).flatMap(toPathPatterns);
  const relative = patterns.filter((it) => it.base === 'relative');
  const others = patterns.filter((it) => it.base !== 'relative');
  // Most names of a workspace hold no text that a rule asks for. The texts have no wildcards, so that this takes linear time.
  const texts = new Set(relative.map((it) => it.held.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')));
  const held = new RegExp([...texts].join('|'));
  const fits = (paths: TargetPaths) => (it: PathPattern) => {
    const segments = paths[it.base];
    return segments !== undefined && it.test(segments);
  };
  const matches = (paths: TargetPaths) =>
    (held.test(paths.folded) && relative.some((it) => paths.folded.includes(it.held) && fits(paths)(it))) ||
    others.some(fits(paths));
  // A path is asked about as read, written and deleted in a row.
  let last: { readonly paths: TargetPaths; readonly isMatch: boolean } | undefined;
  return ({ kind, targetPaths: paths }) => {
    if (!paths || !kinds.includes(kind)) return hiddenIn(kind);
    if (last?.paths !== paths) last = { paths, isMatch: matches(paths) };
    return certaintyOf(last.isMatch);
  };
}

/** Runs after the path tests, since it reads the disk. */
const holdsTest: PartTest = ({ kind, target, targetPaths, isOrdinary }) =>
  targetPaths ? certaintyOf(!isOrdinary?.(target)) : hiddenIn(kind);

/** The level for a part without paths or hosts of its own: a command may touch any path and reach any host, whatever its words say. */
const hiddenIn = (kind: QuestionPart['kind']): Certainty =>
  kind === 'command' || kind === 'exec' || kind === 'unknown' || kind === 'tool' ? FOREIGN : NO;

/** Matches `host` or `host:port`, where `*` may stand for the port as well; IPv6 addresses stand in brackets. Ignores case. */
function hostTest(globs: readonly string[]): PartTest {
  const lower = globs.map((it) => it.toLowerCase());
  const matchesWithPort = anyText(lower.filter((it) => withoutPort(it) !== it));
  const matchesWithoutPort = anyText(lower.filter((it) => withoutPort(it) === it));
  return ({ kind, target }) => {
    if (kind !== 'connect') return hiddenIn(kind);
    const [host, port] = splitPort(target.toLowerCase());
    const name = host.endsWith('.') ? host.slice(0, -1) : host;
    return certaintyOf(matchesWithoutPort(name) || matchesWithPort(name + port));
  };
}

const withoutPort = (target: string): string => splitPort(target)[0];

function splitPort(target: string): [host: string, port: string] {
  const colon = target.lastIndexOf(':');
  const port = target.slice(colon + 1);
  return colon >= 0 && (port === '*' || /^\d+$/.test(port)) ? [target.slice(0, colon), `:${port}`] : [target, ''];
}

const publishesTest: PartTest = ({ kind, command }) =>
  command ? certaintyOf(publishingOf(command) !== undefined) : hiddenIn(kind);

type TokenAlternatives = readonly (readonly Wildcard[])[];

/** The last word of a `command` match that allows no further words. */
const NO_MORE = '$';

/** The alternatives for each word at the start of a command. */
export const toTokens = (command: NonNullable<MatchSpec['command']>): TokenAlternatives =>
  (command.at(-1) === NO_MORE ? command.slice(0, -1) : command).map((it) => many(it).map(compileText));

function commandTest(command: NonNullable<MatchSpec['command']>): PartTest {
  const tokens = toTokens(command).map((it) => ({
    test: (text: string) => it.some((token) => token.test(text)),
    takesAll: it.some(({ literal, test }) => literal === undefined && test('')),
  }));
  const wanted: CommandTest = { tokens, ends: command.at(-1) === NO_MORE };
  const known = new WeakMap<ParsedCommand, Certainty>();
  return ({ kind, question: { command: line }, command: simple, ofLine }) => {
    if (simple) return commandLevel(wanted, simple);
    if (!ofLine || !line) return hiddenIn(kind);
    const level = known.get(line) ?? lineLevel(line.commands.map((it) => commandLevel(wanted, it)));
    known.set(line, level);
    return level;
  };
}

/** The level for a path: one of the line's commands uses it, but which one is unknown. */
const lineLevel = (levels: readonly Certainty[]): Certainty =>
  levels.length > 0 && levels.every((it) => it === YES) ? YES : Math.min(LIKELY, Math.max(NO, ...levels));

interface CommandTest {
  readonly tokens: readonly { test: TextTest; takesAll: boolean }[];
  /** Whether no more words may follow. */
  readonly ends: boolean;
}

/** Compares words by position. A word that only the shell knows may become any number of words, so later words may have moved. */
function commandLevel({ tokens, ends }: CommandTest, { words, program }: SimpleCommand): Certainty {
  let level: Certainty = YES;
  let shifted = false;
  for (const [at, { test, takesAll }] of tokens.entries()) {
    const word = words[at];
    const holds = at === 0 && program !== undefined && test(program);
    if (holds) continue;
    if (word === undefined && at < words.length) {
      shifted = true;
      level = Math.min(level, takesAll ? LIKELY : MAYBE);
    } else if (word === undefined || !test(at === 0 ? nameOf(word) : word)) return shifted ? MAYBE : NO;
    else if (at === 0) level = LIKELY;
  }
  const rest = ends ? words.slice(tokens.length) : [];
  if (rest.length === 0) return level;
  return shifted || rest.every((it) => it === undefined) ? Math.min(level, MAYBE) : NO;
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
