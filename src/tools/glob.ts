/**
 * Globs in linear time per segment. picomatch and `path.matchesGlob` take exponential time over patterns that callers
 * choose (`*a` twenty times and `b` hangs both), so callers' globs never become regular expressions here.
 */
import { ToolError } from '../errors.ts';

/** Patterns that braces may unfold to, all in all; `{a,b}` thirty times would be a billion. */
const ALTERNATIVES_MAX = 64;

/** A glob as its brace alternatives, each split at `/`. */
export type Glob = readonly (readonly string[])[];

/** Throws INPUT_INVALID for unbalanced brackets or braces that unfold to too many alternatives. */
export function parseGlob(pattern: string): Glob {
  return unfold(pattern).map((it) => it.split('/').filter((segment) => segment !== '' && segment !== '.'));
}

/** Whether `name`, or `path` where the glob has more than one segment, matches. */
export function matchGlob(glob: Glob, name: string, path: string): boolean {
  return glob.some((segments) =>
    segments.length === 1 && segments[0] !== '**'
      ? matchSegment(segments[0] as string, name)
      : matchSegments(segments, path.split('/')),
  );
}

function unfold(pattern: string): string[] {
  let done: string[] = [];
  let open = [pattern];
  while (open.length > 0) {
    if (done.length + open.length > ALTERNATIVES_MAX) {
      throw new ToolError('INPUT_INVALID', `pattern unfolds to more than ${ALTERNATIVES_MAX} alternatives`);
    }
    const next: string[] = [];
    for (const it of open) {
      const braces = /\{([^{}]*)\}/.exec(it);
      if (!braces) done = [...done, it];
      else for (const part of (braces[1] as string).split(',')) next.push(it.replace(braces[0], () => part));
    }
    open = next;
  }
  return done;
}

/** `**` matches any number of whole segments; the rows of a table, so that several of them stay quadratic. */
function matchSegments(glob: readonly string[], path: readonly string[]): boolean {
  let reached = new Set([0]);
  for (const segment of glob) {
    const next = new Set<number>();
    for (const at of reached) {
      if (segment === '**') for (let to = at; to <= path.length; to++) next.add(to);
      else if (at < path.length && matchSegment(segment, path[at] as string)) next.add(at + 1);
    }
    reached = next;
  }
  return reached.has(path.length);
}

/** Going back only to the last `*` is enough, since whatever an earlier one could take, the later one can too. */
function matchSegment(glob: string, name: string): boolean {
  const tokens = tokenize(glob);
  let [at, token, star, starAt] = [0, 0, -1, 0];
  while (at < name.length) {
    const it = tokens[token];
    if (it === '*') {
      star = token++;
      starAt = at;
    } else if (it !== undefined && matchOne(it, name[at] as string)) {
      at += 1;
      token += 1;
    } else if (star >= 0) {
      token = star + 1;
      at = ++starAt;
    } else return false;
  }
  while (tokens[token] === '*') token += 1;
  return token === tokens.length;
}

function tokenize(glob: string): string[] {
  return glob.match(/\[[!^]?\]?[^\]]*\]|\\.|[\s\S]/gu) ?? [];
}

function matchOne(token: string, char: string): boolean {
  if (token === '?') return true;
  if (token.length === 1 || token.startsWith('\\')) return token.at(-1) === char;
  if (!token.startsWith('[')) return token === char;
  const negated = token[1] === '!' || token[1] === '^';
  const set = token.slice(negated ? 2 : 1, -1);
  let found = false;
  for (let at = 0; at < set.length; at++) {
    if (set[at + 1] === '-' && at + 2 < set.length) {
      if ((set[at] as string) <= char && char <= (set[at + 2] as string)) found = true;
      at += 2;
    } else if (set[at] === char) found = true;
  }
  return found !== negated;
}
