/**
 * The rules on paths alone, independent of tool and command: mounts and file tools obey them, whichever program asks. Plain data, which is
 * sent to hosts and threads.
 */
import { createHash } from 'node:crypto';
import { compileSegment, toSegments } from '../base/text/glob.ts';
import { compareFacts, layersOf } from './decide.ts';
import { compileMatch, type DecidingRuleFacts, LIKELY, OF_CALLS, type QuestionPart, toPart, YES } from './match.ts';
import type { PolicyQuestion } from './question.ts';
import { type FiledRule, indexOf } from './rule-index.ts';
import type { MatchSpec } from './schema/match.ts';
import { toPathTexts } from './schema/path-patterns.ts';
import type { Policy, Rule } from './schema.ts';

/** The caller that rules are evaluated for. */
export interface PathCaller {
  readonly principal: string;
  readonly session: string;
  /** Absolute path. */
  readonly home: string;
  /** Absolute path; with it, absolute and home patterns also apply to paths inside the workspace. */
  readonly workspace?: string;
}

/**
 * The rules of all layers that ask or deny and depend only on paths once the caller is known. If some alternatives of an `any` depend on
 * more, only those on paths are kept: a rule may refuse less here than in a decision, never more.
 */
export function pathRulesOf(policy: Policy, who: PathCaller): readonly Rule[] {
  const rules = layersOf(policy).flatMap((layer) => layer.rules.filter((it) => it.decision !== 'allow'));
  return rules.flatMap(({ id, match, decision, reason, source, code }) => {
    const left = simplify(match, who, false);
    return typeof left === 'object' ? [{ id, match: left, decision, reason, source, code }] : [];
  });
}

/**
 * The strictest of `rules` that matches a path; undefined if none does. `target` is relative to the workspace if inside it, else absolute.
 * See `Question.isOrdinary`.
 */
export function pathDecision(
  rules: readonly Rule[],
  kind: 'read' | 'write' | 'delete',
  target: string,
  home: string,
  isOrdinary?: PolicyQuestion['isOrdinary'],
): DecidingRuleFacts | undefined {
  if (rules.length === 0) return undefined;
  if (last.rules !== rules || last.part.question.home !== home || last.part.target !== target)
    last = lookedAt(rules, target, home);
  if (last.fitting.length === 0) return undefined;
  const part = { ...last.part, kind, isOrdinary };
  let by: DecidingRuleFacts | undefined;
  for (const { test, facts } of last.fitting)
    if (test(part) >= LIKELY && (by === undefined || compareFacts(facts, by) < 0)) by = facts;
  return by;
}

/** Whether the rules of a policy differ between sessions of one principal. */
export const namesSessions = (policy: Policy): boolean =>
  layersOf(policy).some(({ rules }) => rules.some(({ match }) => namesSession(match)));

const namesSession = ({ session, when, all = [], any = [], not }: MatchSpec): boolean =>
  (session ?? when?.session) !== undefined || [...all, ...any, ...(not ? [not] : [])].some(namesSession);

/** Hash that is equal for equal sets of rules, whatever their order and source. `sha256:<hex>`. */
export function viewKey(rules: readonly Rule[]): string {
  const texts = rules.map(({ id, decision, code, match }) => JSON.stringify([id, decision, code ?? null, match]));
  return `sha256:${createHash('sha256')
    .update(JSON.stringify([...new Set(texts)].sort()))
    .digest('hex')}`;
}

/** A question for rules on paths, which ignore the other fields. */
const questionOf = ({
  principal,
  session,
  home,
}: Pick<PathCaller, 'principal' | 'session' | 'home'>): PolicyQuestion => ({
  tool: '',
  aliases: [],
  tier: 'read_only',
  category: '',
  destructive: false,
  effects: [],
  principal,
  session,
  home,
});

/** A path, and the rules that may match it, whatever is done to it. */
interface LookedAt {
  readonly rules: readonly Rule[];
  readonly part: QuestionPart;
  readonly fitting: readonly FiledRule[];
}

/** Most names fit no rule, which is found out once for all that may be done to them. */
function lookedAt(rules: readonly Rule[], target: string, home: string): LookedAt {
  const { question } = last.part;
  const part = toPart(
    question.home === home ? question : questionOf({ principal: '', session: '', home }),
    'any',
    target,
  );
  const fitting: FiledRule[] = [];
  for (const list of indexOf(rules).candidates(part))
    for (const it of list) if (it.test(part) >= LIKELY) fitting.push(it);
  return { rules, part, fitting };
}

/** The path that was asked about last: a process has one home, and asks about 100 000 names in a row, each as three kinds. */
let last: LookedAt = {
  rules: [],
  part: toPart(questionOf({ principal: '', session: '', home: '/' }), 'any', '.'),
  fitting: [],
};

/** What remains of a match after evaluating the caller; `depends` if only a call can tell. */
type SimplifiedMatch = MatchSpec | boolean | 'depends';

/** Reduces a match to its path conditions. `exact` is set inside a `not`, where dropping an alternative would make the rule match more. */
function simplify(match: MatchSpec, who: PathCaller, exact: boolean): SimplifiedMatch {
  const { all = [], any, not } = match;
  const lefts = all.map((it) => simplify(it, who, exact));
  if (any) lefts.push(simplifyAny(any, who, exact));
  if (not) lefts.push(opposite(simplify(not, who, true)));
  if (!isOf(match, who) || lefts.includes(false)) return false;
  if (OF_CALLS.some((key) => match[key] !== undefined) || lefts.includes('depends')) return 'depends';
  const paths = pathsFor(match, who);
  const must = [...(Object.keys(paths).length > 0 ? [paths] : []), ...lefts.filter((it) => typeof it === 'object')];
  if (must.length === 0) return true;
  return must.length === 1 ? (must[0] as MatchSpec) : { all: must };
}

function simplifyAny(any: readonly MatchSpec[], who: PathCaller, exact: boolean): SimplifiedMatch {
  const lefts = any.map((it) => simplify(it, who, exact));
  if (lefts.includes(true)) return true;
  const specs = lefts.filter((it) => typeof it === 'object');
  if (lefts.includes('depends') && (exact || specs.length === 0)) return 'depends';
  return specs.length > 0 && { any: specs };
}

function opposite(left: SimplifiedMatch): SimplifiedMatch {
  if (left === 'depends') return left;
  return typeof left === 'boolean' ? !left : { not: left };
}

function isOf({ principal, session, when }: MatchSpec, who: PathCaller): boolean {
  return compileMatch({ principal, session, when }).test(toPart(questionOf(who), 'call', '')) === YES;
}

function pathsFor({ path, read, write, delete: deleted, holds }: MatchSpec, who: PathCaller): MatchSpec {
  const globs = (value: string | string[] | undefined) =>
    [value ?? []].flat().flatMap((glob) => [glob, ...insideWorkspace(glob, who)]);
  return {
    ...(path !== undefined && { path: globs(path) }),
    ...(read !== undefined && { read: globs(read) }),
    ...(write !== undefined && { write: globs(write) }),
    ...(deleted !== undefined && { delete: globs(deleted) }),
    ...(holds !== undefined && { holds }),
  };
}

/** The parts of an absolute or home pattern that apply to paths relative to the workspace. */
function insideWorkspace(glob: string, { home, workspace }: PathCaller): string[] {
  if (workspace === undefined) return [];
  const folders = toSegments(workspace);
  return toPathTexts(glob).flatMap(({ base, segments }) => {
    if (base === 'relative') return [];
    const wholePattern = base === 'home' ? [...toSegments(home).map(escapeGlob), ...segments] : segments;
    return [...positionsAfter(wholePattern, folders)].map((at) => ['.', ...wholePattern.slice(at)].join('/'));
  });
}

/** Indexes of the segments that a pattern can continue with after matching `folders`. */
function positionsAfter(segments: readonly string[], folders: readonly string[]): Set<number> {
  const isAny = (at: number) => segments[at] === '**';
  let reached = new Set([0]);
  for (const folder of folders) {
    const next = new Set<number>();
    for (const start of reached) {
      let at = start;
      // `**` may consume this folder, or end before it.
      while (isAny(at)) next.add(at++);
      const segment = segments[at];
      if (segment !== undefined && compileSegment(segment).test(folder)) next.add(at + 1);
    }
    reached = next;
  }
  return reached;
}

/** A glob that matches only the given path. */
export const escapeGlob = (path: string): string => path.replaceAll(/[*?[\]{}\\]/g, '\\$&');
