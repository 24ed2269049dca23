/**
 * The rules on paths alone, apart from the calls that come by them: what mounts and file tools are held to, whichever
 * program asks. Plain data, which crosses to hosts and threads.
 */
import { createHash } from 'node:crypto';
import { compileSegment, type TextTest, toSegments } from '../glob.ts';
import { compareFacts, layersOf } from './decide.ts';
import { compileMatch, type Facts, LIKELY, toPart, toPathPatterns, YES } from './match.ts';
import type { Question } from './question.ts';
import { indexOf } from './rule-index.ts';
import type { MatchSpec, Policy, Rule } from './schema.ts';

/** For whom rules are taken. */
export interface Who {
  readonly principal: string;
  readonly session: string;
  /** Absolute. */
  readonly home: string;
  /** Absolute; patterns from the root or from home then hold for what they reach inside it too. */
  readonly workspace?: string;
}

/**
 * The rules of all layers that ask or deny and whose match depends on nothing but paths, once it is known who calls. Of an
 * `any` that depends on more, what is of paths is kept: a rule may say less here than in a decision, never more.
 */
export function pathRulesOf(policy: Policy, who: Who): readonly Rule[] {
  const rules = layersOf(policy).flatMap((layer) => layer.rules.filter((it) => it.decision !== 'allow'));
  return rules.flatMap(({ id, match, decision, reason, source, code }) => {
    const left = simplify(match, who, false);
    return typeof left === 'object' ? [{ id, match: left, decision, reason, source, ...(code && { code }) }] : [];
  });
}

/** The strictest of such rules that holds for a path: relative to the workspace where inside it, else absolute. `isOrdinary` as of a question. */
export function pathDecision(
  rules: readonly Rule[],
  kind: 'read' | 'write' | 'delete',
  target: string,
  home: string,
  isOrdinary?: Question['isOrdinary'],
): Facts | undefined {
  if (rules.length === 0) return undefined;
  if (nobody.home !== home) nobody = questionOf({ principal: '', session: '', home });
  const plain = toPart(nobody, kind, target);
  const part = isOrdinary ? { ...plain, isOrdinary } : plain;
  let by: Facts | undefined;
  for (const list of indexOf(rules).candidates(part)) {
    for (const { test, facts } of list) {
      if (test(part) >= LIKELY && (by === undefined || compareFacts(facts, by) < 0)) by = facts;
    }
  }
  return by;
}

/** Equal for equal sets of rules, in whatever order and wherever they stand. `sha256:<hex>`. */
export function viewKey(rules: readonly Rule[]): string {
  const texts = rules.map(({ id, decision, code, match }) => JSON.stringify([id, decision, code ?? null, match]));
  return `sha256:${createHash('sha256')
    .update(JSON.stringify([...new Set(texts)].sort()))
    .digest('hex')}`;
}

/** Rules on paths don't look at the rest. */
const questionOf = ({ principal, session, home }: Pick<Who, 'principal' | 'session' | 'home'>): Question => ({
  ...{ tool: '', aliases: [], tier: 'read_only', category: '', destructive: false, effects: [] },
  ...{ principal, session, home },
});

/** Of the home that was asked for last: a process has one, and 100 000 names are asked for in a row. */
let nobody = questionOf({ principal: '', session: '', home: '/' });

/** What is left of a match to be asked of paths; `depends` when a call is needed for more. */
type Left = MatchSpec | boolean | 'depends';

const OF_CALLS = ['tool', 'tier', 'category', 'command', 'host'] as const;

/** `exact`: inside a `not`, where saying less would be saying more. */
function simplify(match: MatchSpec, who: Who, exact: boolean): Left {
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

function simplifyAny(any: readonly MatchSpec[], who: Who, exact: boolean): Left {
  const lefts = any.map((it) => simplify(it, who, exact));
  if (lefts.includes(true)) return true;
  const specs = lefts.filter((it) => typeof it === 'object');
  if (lefts.includes('depends') && (exact || specs.length === 0)) return 'depends';
  return specs.length > 0 && { any: specs };
}

function opposite(left: Left): Left {
  if (left === 'depends') return left;
  return typeof left === 'boolean' ? !left : { not: left };
}

function isOf({ principal, session, when }: MatchSpec, who: Who): boolean {
  return compileMatch({ principal, session, when }).test(toPart(questionOf(who), 'call', '')) === YES;
}

function pathsFor({ path, read, write, delete: deleted, holds }: MatchSpec, who: Who): MatchSpec {
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

/** What a pattern from the root or from home says of paths relative to the workspace: what is left of it once it got there. */
function insideWorkspace(glob: string, { home, workspace }: Who): string[] {
  if (workspace === undefined) return [];
  const folders = toSegments(workspace);
  return toPathPatterns(glob).flatMap(({ place, segments }) => {
    if (place === 'relative') return [];
    const whole = place === 'home' ? [...toSegments(home).map(escapeGlob), ...segments] : segments;
    return [...positionsAfter(whole, folders)].map((at) => ['.', ...whole.slice(at)].join('/'));
  });
}

/** Where in a pattern one can be after some folders. */
function positionsAfter(segments: readonly string[], folders: readonly string[]): Set<number> {
  const tests = segments.map((it): TextTest | undefined => (it === '**' ? undefined : compileSegment(it).test));
  let reached = new Set([0]);
  for (const folder of folders) {
    const next = new Set<number>();
    for (const start of reached) {
      let at = start;
      // `**` may take this folder, or leave it to what comes next.
      while (at < tests.length && tests[at] === undefined) next.add(at++);
      if (tests[at]?.(folder)) next.add(at + 1);
    }
    reached = next;
  }
  return reached;
}

/** A path as a glob for itself alone. */
export const escapeGlob = (path: string): string => path.replaceAll(/[*?[\]{}\\]/g, '\\$&');
