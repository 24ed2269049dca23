/**
 * Whether a rule holds for a part of a call. Architecture invariant: pure, and linear in what an agent wrote; patterns are
 * compiled once and never become regular expressions.
 */
import type { Effect } from '../call.ts';
import {
  compilePath,
  compileText,
  type PathTest,
  type TextTest,
  toSegments,
  unfoldBraces,
  type Wildcard,
} from '../glob.ts';
import type { ParsedCommand, Question, SimpleCommand } from './question.ts';
import type { MatchSpec, Rule, RuleFacts } from './schema.ts';

/** What is told of a rule that decided. */
export type Facts = RuleFacts & Pick<Rule, 'code'>;

/**
 * How far a matcher holds, from NO to YES; the opposite of a level is its negative, `all` is the least and `any` the most.
 * A rule that allows takes YES only; one that asks or denies takes LIKELY and more.
 */
export type Level = number;
export const YES = 3;
/** As it is written, but that may not be what runs: a workspace's own `git`. Strict rules hold either way, negated or not. */
export const LIKELY = 0;
/** Only the shell knows, as with `git $x`: strict rules don't hold, but no rule may allow it either. */
export const MAYBE = -1;
/**
 * Speaks of something that can't be seen in this part: which paths a command touches. Its opposite is enough for a rule
 * that denies all but some paths, and never for one that allows all but some.
 */
const FOREIGN = -2;
export const NO = -3;

/** What is decided by itself: an effect, a simple command, a path named by one, what a parser could not know, or the bare call. */
export interface Part {
  readonly question: Question;
  readonly kind: Effect['kind'] | 'call' | 'command' | 'mention' | 'unknown' | 'tool';
  readonly target: string;
  /** Of a path. */
  readonly places: Places | undefined;
  readonly command: SimpleCommand | undefined;
  /** Whether it is only asked for refusals that know the whole line: `rm` and a path together. */
  readonly ofLine: boolean;
  /** Whether a command only makes or overwrites it, so that no secret is read. */
  readonly isDestination?: boolean;
  /** As of a question. */
  readonly isOrdinary?: Question['isOrdinary'];
}

/** A path as the three kinds of pattern see it, by segments; undefined where it lies elsewhere. */
export interface Places {
  readonly relative: readonly string[] | undefined;
  readonly absolute: readonly string[] | undefined;
  readonly home: readonly string[] | undefined;
}

export interface Matcher {
  readonly test: (part: Part) => Level;
  /** Whether paths are any of its business, so that it is asked of paths that commands name. */
  readonly ofPaths: boolean;
}

const matchers = new WeakMap<MatchSpec, Matcher>();

/** Ready to be asked, made once for each object. Throws INPUT_INVALID for a path whose braces unfold to too many. */
export function compileMatch(match: MatchSpec): Matcher {
  const known = matchers.get(match);
  if (known) return known;
  const inner = [match.all ?? [], match.any ?? [], match.not ?? []].flat().map(compileMatch);
  const tests = toTests(match);
  const [first, ...others] = tests;
  const compiled: Matcher = {
    test: first && others.length === 0 ? first : (part) => least(tests, part),
    ofPaths: pathsOf(match).length > 0 || inner.some((it) => it.ofPaths),
  };
  matchers.set(match, compiled);
  return compiled;
}

/** Whether a rule holds for any part of a call; what the examples of rules are judged by. */
export function ruleMatches(rule: Rule, question: Question): boolean {
  const { test, ofPaths } = compileMatch(rule.match);
  if (rule.decision === 'allow') return partsOf(question).some((it) => isAllowable(it) && test(it) === YES);
  const parts = ofPaths ? [...partsOf(question), ...mentionsOf(question)] : partsOf(question);
  return parts.some((it) => isAsked(rule, it) && test(it) >= LIKELY);
}

/** Whether a rule is asked about a path that a command names: one on secrets is not where nothing is read. */
export const isAsked = ({ code }: Pick<Rule, 'code'>, { isDestination }: Part): boolean =>
  !(isDestination && code === 'SENSITIVE_FILE');

/** Whether a rule may allow it at all: never what a parser could not know. */
export const isAllowable = ({ kind, command }: Part): boolean =>
  kind !== 'unknown' && (!command || (command.unknown === undefined && command.words[0] !== undefined));

/** What of a call is decided, each for itself; at least one. */
export function partsOf(question: Question): Part[] {
  const { effects, command } = question;
  const own = command ? effects.filter((it) => it.kind !== 'exec') : effects;
  const parts = [...own, ...(command?.redirects ?? [])].map((it) => toPart(question, it.kind, it.target));
  for (const it of command?.commands ?? []) {
    parts.push({ question, kind: 'command', target: it.text, places: undefined, command: it, ofLine: false });
  }
  if (command && command.unknown.length > 0) parts.push(toPart(question, 'unknown', ''));
  return parts.length > 0 ? parts : [toPart(question, 'call', question.tool)];
}

/** Paths that a command line names or redirects to, once more: only rules that ask or deny are asked for them. */
export function mentionsOf(question: Question): Part[] {
  const { mentions = [], destinations = [], redirects = [] } = question.command ?? {};
  const made = new Set(destinations);
  const named = mentions.map((it) => ({ ...toPart(question, 'mention', it), isDestination: made.has(it) }));
  const redirected = redirects.map((it) => toPart(question, it.kind, it.target));
  return [...named, ...redirected].map((it) => ({ ...it, ofLine: true }));
}

const PATH_KINDS: ReadonlySet<Part['kind']> = new Set(['read', 'write', 'delete', 'mention']);

/** A part that is no simple command. */
export function toPart(question: Question, kind: Part['kind'], target: string): Part {
  const places = PATH_KINDS.has(kind) ? toPlaces(target, question) : undefined;
  const { isOrdinary } = question;
  return { question, kind, target, places, command: undefined, ofLine: false, ...(isOrdinary && { isOrdinary }) };
}

function toPlaces(target: string, { home, workspace }: Pick<Question, 'home' | 'workspace'>): Places {
  const segments = resolved(target);
  const root = workspace === undefined ? undefined : toSegments(workspace);
  const isAbsolute = target.startsWith('/');
  const absolute = isAbsolute ? segments : root && [...root, ...segments];
  const relative = isAbsolute ? root && below(root, segments) : segments;
  return { relative, absolute, home: absolute && below(toSegments(home), absolute) };
}

/** Targets come without `..`; one that has some all the same must not get past a rule by it. */
function resolved(path: string): string[] {
  const segments = toSegments(path);
  if (!segments.includes('..')) return segments;
  const kept: string[] = [];
  for (const it of segments) {
    if (it !== '..') kept.push(it);
    else if (kept.length > 0 && kept.at(-1) !== '..') kept.pop();
    else if (!path.startsWith('/')) kept.push(it);
  }
  return kept;
}

const below = (folder: readonly string[], path: readonly string[]): readonly string[] | undefined =>
  folder.every((it, at) => it === path[at]) ? path.slice(folder.length) : undefined;

type Test = (part: Part) => Level;
type OneOrMany<T> = T | readonly T[];

const many = <T>(value: OneOrMany<T> | undefined): readonly T[] =>
  value === undefined ? [] : Array.isArray(value) ? (value as readonly T[]) : [value as T];
const least = (tests: readonly Test[], part: Part): Level => {
  let level: Level = YES;
  for (const test of tests) {
    level = Math.min(level, test(part));
    if (level === NO) break;
  }
  return level;
};
const sure = (holds: boolean): Level => (holds ? YES : NO);

/** The quick ones first, since the first NO ends it. */
function toTests(match: MatchSpec): Test[] {
  const { tool, tier, category, principal, session, when, path, read, write, command, host, all, any, not } = match;
  const tests: (Test | undefined)[] = [
    tier === undefined ? undefined : tierTest(many(tier)),
    textTest(
      tool,
      (texts) =>
        ({ question }) =>
          sure(texts(question.tool) || question.aliases.some(texts)),
    ),
    textTest(category, (texts) => (part) => sure(texts(part.question.category))),
    ...[principal, when?.principal].map((it) => textTest(it, (texts) => whoTest((of) => texts(of.principal)))),
    ...[session, when?.session].map((it) => textTest(it, (texts) => whoTest((of) => texts(of.session)))),
    pathTest(path, ['read', 'write', 'delete', 'mention']),
    pathTest(read, ['read', 'mention']),
    pathTest(write, ['write', 'mention']),
    pathTest(match.delete, ['delete', 'mention']),
    match.holds && holdsTest,
    command && commandTest(command),
    host === undefined ? undefined : hostTest(many(host)),
  ];
  for (const it of all ?? []) tests.push(compileMatch(it).test);
  if (any) {
    const alternatives = any.map((it) => compileMatch(it).test);
    tests.push((part) => Math.max(...alternatives.map((test) => test(part))));
  }
  if (not) {
    const { test } = compileMatch(not);
    tests.push((part) => -test(part));
  }
  return tests.filter((it) => it !== undefined);
}

function textTest(globs: OneOrMany<string> | undefined, toTest: (texts: TextTest) => Test): Test | undefined {
  return globs === undefined ? undefined : toTest(anyText(many(globs)));
}

function anyText(globs: readonly string[]): TextTest {
  const wildcards = globs.map(compileText);
  const literals = new Set(wildcards.map((it) => it.literal));
  const tests = wildcards.filter((it) => it.literal === undefined).map((it) => it.test);
  return (text) => literals.has(text) || tests.some((test) => test(text));
}

const tierTest = (tiers: readonly string[]): Test => {
  const names = new Set(tiers);
  return ({ question }) => sure(names.has(question.tier));
};

const whoTest =
  (holds: (question: Question) => boolean): Test =>
  ({ kind, question }) =>
    kind === 'tool' ? FOREIGN : sure(holds(question));

/** A pattern of paths: from the workspace, from the root, or from home. */
export interface PathPattern {
  readonly place: keyof Places;
  readonly segments: readonly string[];
  readonly test: PathTest;
}

/** The alternatives of a rule's glob for paths; `docs/` is all of `docs/**`. Throws INPUT_INVALID when there are too many. */
export function toPathPatterns(glob: string): PathPattern[] {
  return unfoldBraces(glob).map((text) => {
    const isHome = text === '~' || text.startsWith('~/');
    const segments = toSegments(isHome ? text.slice(1) : text);
    if (text.endsWith('/')) segments.push('**');
    const place = isHome ? 'home' : text.startsWith('/') ? 'absolute' : 'relative';
    return { place, segments, test: compilePath(segments) };
  });
}

/** The globs for paths that a match says itself, not in `all any not`. */
export const pathsOf = ({ path, read, write, delete: deleted }: MatchSpec): readonly string[] =>
  [path, read, write, deleted].flatMap((it) => many(it));

function pathTest(globs: OneOrMany<string> | undefined, kinds: readonly Part['kind'][]): Test | undefined {
  if (globs === undefined) return undefined;
  const patterns = many(globs).flatMap(toPathPatterns);
  return ({ kind, places }) => {
    if (!places || !kinds.includes(kind)) return hiddenIn(kind);
    return sure(
      patterns.some(({ place, test }) => {
        const segments = places[place];
        return segments !== undefined && test(segments);
      }),
    );
  };
}

/** After the tests of the path, since it looks at the disk. */
const holdsTest: Test = ({ kind, target, places, isOrdinary }) =>
  places ? sure(!isOrdinary?.(target)) : hiddenIn(kind);

/** A command may touch any path and reach any host, whatever can be read from its words. */
const hiddenIn = (kind: Part['kind']): Level =>
  kind === 'command' || kind === 'exec' || kind === 'unknown' || kind === 'tool' ? FOREIGN : NO;

/** `host` or `host:port`, where `*` may stand for the port too; IPv6 addresses in brackets. Case does not matter. */
function hostTest(globs: readonly string[]): Test {
  const lower = globs.map((it) => it.toLowerCase());
  const whole = anyText(lower.filter((it) => withoutPort(it) !== it));
  const bare = anyText(lower.filter((it) => withoutPort(it) === it));
  return ({ kind, target }) => {
    if (kind !== 'connect') return hiddenIn(kind);
    const [host, port] = splitPort(target.toLowerCase());
    const name = host.endsWith('.') ? host.slice(0, -1) : host;
    return sure(bare(name) || whole(name + port));
  };
}

const withoutPort = (target: string): string => splitPort(target)[0];

function splitPort(target: string): [host: string, port: string] {
  const colon = target.lastIndexOf(':');
  const port = target.slice(colon + 1);
  return colon >= 0 && (port === '*' || /^\d+$/.test(port)) ? [target.slice(0, colon), `:${port}`] : [target, ''];
}

type Tokens = readonly (readonly Wildcard[])[];

/** The words of the end of a command, in a rule. */
const NO_MORE = '$';

/** The alternatives for each of the first words that a rule wants. */
export const toTokens = (command: NonNullable<MatchSpec['command']>): Tokens =>
  (command.at(-1) === NO_MORE ? command.slice(0, -1) : command).map((it) => many(it).map(compileText));

function commandTest(command: NonNullable<MatchSpec['command']>): Test {
  const tokens = toTokens(command).map((it) => ({
    test: (text: string) => it.some((token) => token.test(text)),
    takesAll: it.some(({ literal, test }) => literal === undefined && test('')),
  }));
  const wanted: Wanted = { tokens, ends: command.at(-1) === NO_MORE };
  const known = new WeakMap<ParsedCommand, Level>();
  return ({ kind, question: { command: line }, command: simple, ofLine }) => {
    if (simple) return commandLevel(wanted, simple);
    if (!ofLine || !line) return hiddenIn(kind);
    const level = known.get(line) ?? lineLevel(line.commands.map((it) => commandLevel(wanted, it)));
    known.set(line, level);
    return level;
  };
}

/** A path is of one of the line's commands, but which one is not known. */
const lineLevel = (levels: readonly Level[]): Level =>
  levels.length > 0 && levels.every((it) => it === YES) ? YES : Math.min(LIKELY, Math.max(NO, ...levels));

interface Wanted {
  readonly tokens: readonly { test: TextTest; takesAll: boolean }[];
  /** Whether no more words may follow. */
  readonly ends: boolean;
}

/** Words by position; one that only the shell knows may be any number of words, so what follows it may stand elsewhere. */
function commandLevel({ tokens, ends }: Wanted, { words, program }: SimpleCommand): Level {
  let level: Level = YES;
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
