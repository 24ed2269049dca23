/**
 * Globs without regular expressions: picomatch and `path.matchesGlob` take exponential time on patterns that callers
 * choose (`*a` twenty times and `b` hangs both). Here matching a segment costs at most its length times the glob's,
 * and matching a path at most its segments times the glob's. Characters are code points: `?` matches a whole emoji.
 */
import { ToolError } from '../errors.ts';

/** The most patterns that braces may expand to; `{a,b}` thirty times would be a billion. */
const ALTERNATIVES_MAX = 64;

export type TextTest = (text: string) => boolean;
export type PathTest = (path: readonly string[]) => boolean;

/** A compiled segment of a glob, or a compiled text with wildcards. */
export interface Wildcard {
  readonly test: TextTest;
  /** The only text that it matches; undefined if it matches more. */
  readonly literal: string | undefined;
  /** The ending of every match; may be empty. */
  readonly ending: string;
  /** ASCII text that each match holds, in any case of its letters; in lower case, and empty if there is none. */
  readonly held: string;
}

interface Alternative {
  /** Whether it matches only directories: the glob ended with `/`. */
  readonly directory: boolean;
  /** Tests names at any depth; undefined if the glob fixes the start of the path. */
  readonly name: TextTest | undefined;
  readonly path: PathTest;
}

/** A glob as its brace alternatives. */
export type Glob = readonly Alternative[];

/**
 * Parses a glob: `* ? [a-z] [!a-z] {a,b} **`, and `\` before a literal character. Brackets and braces without a
 * partner are literal. Throws INPUT_INVALID for braces that expand to too many alternatives.
 */
export function parseGlob(pattern: string): Glob {
  return unfoldBraces(pattern).map((text) => {
    const segments = toSegments(text);
    const anchored = text.startsWith('/') || text.startsWith('./');
    const single = segments.length === 1 && segments[0] !== '**' ? segments[0] : undefined;
    return {
      directory: text.endsWith('/'),
      name: single !== undefined && !anchored ? compileSegment(single).test : undefined,
      path: compilePath(segments),
    };
  });
}

/** Parses a glob like ripgrep: `a/**` means everything in `a`, without `a` itself. */
export function parseSearchGlob(pattern: string): Glob {
  return searchForms(pattern).flatMap((text) => parseGlob(text.replace(/\/\*\*(\/?)$/, '/**/*$1')));
}

/** Brackets at the beginning of a name, as web frameworks name folders and files: `[id]`, `[[...slug]].tsx`. */
const ROUTE = /(?<=^|\/)\[\[?[^\]/,{}\\]+\]\]?/g;
/** More routes in a glob are read as sets of characters only; each doubles the forms. */
const ROUTES_MAX = 4;

/** The forms of a glob in a search, without braces: `[id]` may be a set of characters or the name of a folder. */
export function searchForms(pattern: string): string[] {
  let routes = 0;
  const withNames = pattern.replaceAll(ROUTE, (route) =>
    ++routes > ROUTES_MAX ? route : `{${route},${route.replaceAll(/[[\]]/g, '\\$&')}}`,
  );
  return unfoldBraces(withNames);
}

/** A list of globs with commas, as other tools take it, in braces; it still matches names that hold these commas. */
export function inBraces(list: string): string {
  if (!list.includes(',')) return list;
  const parts = [''];
  let depth = 0;
  for (const [it] of list.matchAll(/\\.|./gsu)) {
    depth += it === '{' ? 1 : it === '}' ? -1 : 0;
    if (it === ',' && depth <= 0) parts.push('');
    else parts.push(`${parts.pop()}${it}`);
  }
  const globs = parts.map((it) => it.trim()).filter((it) => it !== '');
  return parts.length === 1 ? list : `{${[...globs, parts.join('\\,')].join(',')}}`;
}

/**
 * Whether an entry matches: by its name for a glob of one segment, else by its whole path. `./a` and `/a` match `a`
 * at the root only. A path that ends with `/` is a directory's; only that matches `a/`.
 */
export function matchGlob(glob: Glob, name: string, path: string): boolean {
  const isDirectory = path.endsWith('/');
  let segments: readonly string[] | undefined;
  return glob.some((it) => {
    if (it.directory && !isDirectory) return false;
    if (it.name) return it.name(name);
    segments ??= (isDirectory ? path.slice(0, -1) : path).split('/');
    return it.path(segments);
  });
}

/** Whether a plain text (a tool's name, a host, a word) matches a pattern: `*` any characters, `?` one; see `compileText`. */
export const matchText = (pattern: string, text: string): boolean => compileText(pattern).test(text);

/** Whether a text consists of these pieces with anything between them; takes linear time. */
export function matchPieces([head = '', ...rest]: readonly string[], text: string): boolean {
  const tail = rest.pop();
  if (tail === undefined) return text === head;
  if (!text.startsWith(head) || !text.endsWith(tail)) return false;
  let at = head.length;
  for (const piece of rest) {
    const found = text.indexOf(piece, at);
    if (found < 0) return false;
    at = found + piece.length;
  }
  return at <= text.length - tail.length;
}

/** Compiles a text in which `*` means any characters, `/` included, and `?` one; `\` before `* ? $ \` makes them literal. */
export function compileText(pattern: string): Wildcard {
  const tokens: Token[] = [];
  const points = Array.from(pattern, toPoint);
  for (let at = 0; at < points.length; at++) {
    const [it, next] = [points[at] as number, points[at + 1]];
    if (it === BACKSLASH && next !== undefined && PLAIN_AFTER_BACKSLASH.has(next)) tokens.push(points[++at] as number);
    else tokens.push(it === ASTERISK ? STAR : it === QUESTION ? ANY : it);
  }
  return toWildcard(tokens);
}

/** The segments of a path or a glob, without empty ones and `.`. */
export const toSegments = (path: string): string[] => path.split('/').filter((it) => it !== '' && it !== '.');

/** A pair of braces being parsed, or the whole pattern. */
interface Braces {
  /** Expansions of the alternatives before the last comma. */
  readonly done: Set<string>;
  /** Expansions of the text after it. */
  sequence: readonly string[];
}

/**
 * Expands the braces of a pattern, without duplicates and with escapes kept: `{a,b{c,d}}` becomes `a`, `bc` and `bd`.
 * Throws INPUT_INVALID for too many.
 */
export function unfoldBraces(pattern: string): string[] {
  if (!pattern.includes('{')) return [pattern];
  const paired = pairedBraces(pattern);
  const open: [Braces, ...Braces[]] = [{ done: new Set(), sequence: [''] }];
  let plainFrom = 0;
  for (let at = 0; at < pattern.length; at++) {
    const it = pattern[at] as string;
    if (it === '\\') at += 1;
    else if (paired.has(at) || (it === ',' && open.length > 1)) {
      const inner = open.at(-1) as Braces;
      inner.sequence = product(inner.sequence, [pattern.slice(plainFrom, at)]);
      plainFrom = at + 1;
      if (it === '{') open.push({ done: new Set(), sequence: [''] });
      else endAlternative(inner);
      if (it === '}') {
        open.pop();
        const outer = open.at(-1) as Braces;
        outer.sequence = product(outer.sequence, [...inner.done]);
      }
    }
  }
  return product(open[0].sequence, [pattern.slice(plainFrom)]);
}

/** Positions of braces that have a partner. */
function pairedBraces(pattern: string): Set<number> {
  const paired = new Set<number>();
  const open: number[] = [];
  for (let at = 0; at < pattern.length; at++) {
    if (pattern[at] === '\\') at += 1;
    else if (pattern[at] === '{') open.push(at);
    else if (pattern[at] === '}' && open.length > 0) paired.add(open.pop() as number).add(at);
  }
  return paired;
}

function endAlternative(braces: Braces): void {
  for (const it of braces.sequence) braces.done.add(it);
  braces.sequence = [''];
  assertFew(braces.done.size);
}

function product(heads: readonly string[], tails: readonly string[]): string[] {
  const [tail = ''] = tails;
  // Different texts with the same end stay different. To compare them would take the square of a pattern of many braces.
  if (tails.length === 1) return tail === '' ? [...heads] : heads.map((head) => head + tail);
  assertFew(heads.length * tails.length);
  return [...new Set(heads.flatMap((head) => tails.map((tail) => head + tail)))];
}

function assertFew(alternatives: number): void {
  if (alternatives <= ALTERNATIVES_MAX) return;
  throw new ToolError('INPUT_INVALID', `pattern expands to more than ${ALTERNATIVES_MAX} alternatives`);
}

/** Compiles a path; `**` matches any number of segments, none included. The most common shapes in policies get faster tests. */
export function compilePath(segments: readonly string[]): PathTest {
  const tests = segments.map((it) => (it === '**' ? undefined : compileSegment(it).test));
  const [first, second, third] = tests;
  if (tests.every((it) => it !== undefined)) {
    return (path) => path.length === tests.length && tests.every((test, at) => test(path[at] as string));
  }
  if (first === undefined && second && tests.length === 2) {
    return (path) => path.length > 0 && second(path.at(-1) as string);
  }
  if (first === undefined && second && third === undefined && tests.length === 3) return (path) => path.some(second);
  return (path) => matchTests(tests, path);
}

/** Backtracking only to the last `**` is enough: anything that an earlier one could match, the last one can, too. */
function matchTests(tests: readonly (TextTest | undefined)[], path: readonly string[]): boolean {
  let [at, next, back, backAt] = [0, 0, -1, 0];
  while (at < path.length) {
    const test = tests[next];
    if (next < tests.length && test === undefined) {
      back = next++;
      backAt = at;
    } else if (test?.(path[at] as string)) {
      at += 1;
      next += 1;
    } else if (back >= 0) {
      next = back + 1;
      at = ++backAt;
    } else return false;
  }
  return tests.slice(next).every((it) => it === undefined);
}

const STAR = -1;
const ANY = -2;
interface CharacterSet {
  readonly negated: boolean;
  readonly ranges: readonly (readonly [from: number, to: number])[];
}
/** A literal code point, a wildcard, or a set of code points. */
type Token = number | CharacterSet;

const toPoint = (character: string): number => character.codePointAt(0) as number;
const ASTERISK = toPoint('*');
const QUESTION = toPoint('?');
const BACKSLASH = toPoint('\\');
const OPENING = toPoint('[');
const CLOSING = toPoint(']');
const DASH = toPoint('-');
const PLAIN_AFTER_BACKSLASH: ReadonlySet<number> = new Set(Array.from('*?$\\', toPoint));

/** Compiles a segment of a glob without braces: `* ? [a-z]` and escapes. In brackets `\` is literal, and so is `]` if it comes first. */
export function compileSegment(segment: string): Wildcard {
  const points = Array.from(segment, toPoint);
  const lastClosing = points.lastIndexOf(CLOSING);
  const tokens: Token[] = [];
  for (let at = 0; at < points.length; at++) {
    const it = points[at] as number;
    const end = it === OPENING && at < lastClosing ? endOfSet(points, at) : -1;
    if (end >= 0) {
      tokens.push(toSet(points.slice(at + 1, end)));
      at = end;
    } else if (it === BACKSLASH && at + 1 < points.length) tokens.push(points[++at] as number);
    else tokens.push(it === ASTERISK ? STAR : it === QUESTION ? ANY : it);
  }
  return toWildcard(tokens);
}

function endOfSet(points: readonly number[], opening: number): number {
  const first = isNegation(points[opening + 1]) ? opening + 2 : opening + 1;
  return points.indexOf(CLOSING, points[first] === CLOSING ? first + 1 : first);
}

const isNegation = (point: number | undefined): boolean => point === toPoint('!') || point === toPoint('^');

function toSet(inside: readonly number[]): CharacterSet {
  const negated = isNegation(inside[0]);
  const ranges: [number, number][] = [];
  for (let at = negated ? 1 : 0; at < inside.length; at++) {
    const from = inside[at] as number;
    const isRange = inside[at + 1] === DASH && at + 2 < inside.length;
    if (isRange) at += 2;
    ranges.push([from, inside[at] as number]);
  }
  return { negated, ranges };
}

function toWildcard(tokens: readonly Token[]): Wildcard {
  const isWild = (it: Token) => typeof it !== 'number' || it < 0;
  const lastWild = tokens.findLastIndex(isWild);
  const ending = toText(tokens.slice(lastWild + 1));
  const held = heldBy(tokens);
  if (lastWild < 0) return { test: (text) => text === ending, literal: ending, ending, held };
  const plain = tokens.every((it) => typeof it === 'number' && it !== ANY);
  if (plain) return { test: compileChunks(tokens), literal: undefined, ending, held };
  const beginning = toText(tokens.slice(0, tokens.findIndex(isWild)));
  const isLikely = compileFolded(tokens);
  const test: TextTest = (text) =>
    text.startsWith(beginning) && text.endsWith(ending) && isLikely(text) && matchTokens(tokens, text);
  return { test, literal: undefined, ending, held };
}

/** The longest run of ASCII characters of which only the case may vary. */
function heldBy(tokens: readonly Token[]): string {
  const runs = [''];
  for (const it of tokens) {
    const point = foldedOf(it);
    if (point === undefined || point === STAR) runs.push('');
    else runs.push(`${runs.pop()}${String.fromCharCode(point)}`);
  }
  return runs.reduce((longest, it) => (it.length > longest.length ? it : longest));
}

/**
 * Whether a text could match tokens that are ASCII letters in any case (`[pP]`), other ASCII characters and stars: policies
 * have dozens of those, and ask about each name of a workspace. Any text for other tokens.
 */
function compileFolded(tokens: readonly Token[]): TextTest {
  const folded = tokens.map(foldedOf);
  if (!folded.every((it) => it !== undefined)) return () => true;
  const test = compileChunks(folded);
  return (text) => test(text.toLowerCase());
}

function foldedOf(token: Token): number | undefined {
  if (typeof token === 'number') return token < 0x80 && token !== ANY ? toLower(token) : undefined;
  const [one, other, more] = token.ranges;
  const isLetter = one && other && !more && !token.negated && one[0] === one[1] && other[0] === other[1];
  const isPair = isLetter && Math.max(one[0], other[0]) < 0x80 && toLower(one[0]) === toLower(other[0]);
  return isPair ? toLower(one[0]) : undefined;
}

const toLower = (point: number): number => (point < 0 ? point : toPoint(String.fromCharCode(point).toLowerCase()));

const toText = (tokens: readonly Token[]): string => tokens.map((it) => String.fromCodePoint(it as number)).join('');

/** Finds the texts between the stars with the engine's own search: each as early as possible, the last at the end. */
function compileChunks(tokens: readonly Token[]): TextTest {
  const stars = tokens.flatMap((it, at) => (it === STAR ? [at] : []));
  const chunks = [-1, ...stars].map((star, at) => toText(tokens.slice(star + 1, stars[at])));
  return (text) => matchPieces(chunks, text);
}

/** Backtracking only to the last `*` is enough, as with `**`. */
function matchTokens(tokens: readonly Token[], text: string): boolean {
  let [at, token, star, starAt] = [0, 0, -1, 0];
  while (at < text.length) {
    const it = tokens[token];
    const point = text.codePointAt(at) as number;
    if (it === STAR) {
      star = token++;
      starAt = at;
    } else if (it !== undefined && matchOne(it, point)) {
      at += widthOf(point);
      token += 1;
    } else if (star >= 0) {
      token = star + 1;
      starAt += widthOf(text.codePointAt(starAt) as number);
      at = starAt;
    } else return false;
  }
  return tokens.slice(token).every((it) => it === STAR);
}

const widthOf = (point: number): number => (point > 0xffff ? 2 : 1);

function matchOne(token: Token, point: number): boolean {
  if (typeof token === 'number') return token === ANY || token === point;
  return token.ranges.some(([from, to]) => from <= point && point <= to) !== token.negated;
}
