/** Globs, beside a slow reading of the same patterns that shares no code with ours but the braces. */
import { basename } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import { matchGlob, parseGlob, toSegments, unfoldBraces } from '../../src/base/text/glob.ts';
import { type Grammar, some, word } from './grammar.ts';
import { holds } from './outcome.ts';
import type { FuzzTarget } from './targets.ts';

const SEPARATOR = '\n';
const GLOB_SPECIAL = /[*?[\]{},\\!]/g;
/** Longer patterns and paths are not read slowly: that takes the product of their lengths, and more for each `[`. */
const SLOW_CHARS_MAX = 400;

type Test<T> = 'many' | ((item: T) => boolean);

/** Whether all items fit the tests in their order; `many` fits any number of items. */
function fits<T>(tests: readonly Test<T>[], items: readonly T[]): boolean {
  // reached[i]: whether the tests so far can end behind the first i items.
  let reached = [true, ...items.map(() => false)];
  for (const test of tests) {
    const next = items.map(() => false);
    reached =
      test === 'many'
        ? reached.map((_, at) => reached.slice(0, at + 1).includes(true))
        : [false, ...next.map((_, at) => (reached[at] as boolean) && test(items[at] as T))];
  }
  return reached.at(-1) as boolean;
}

const TOKEN = /\[(?:[!^][\s\S][^\]]*|[^!^][^\]]*)\]|\\[\s\S]|[\s\S]/gu;

function inSet(inside: string, character: string): boolean {
  const ranges = inside.match(/[\s\S]-[\s\S]|[\s\S]/gu) ?? [];
  return ranges.some((it) => {
    const [from = '', dash, to] = Array.from(it);
    const [least, most] = [from, dash === undefined ? from : (to as string)].map((end) => end.codePointAt(0) as number);
    const point = character.codePointAt(0) as number;
    return (least as number) <= point && point <= (most as number);
  });
}

function testOf(token: string): Test<string> {
  if (token === '*') return 'many';
  if (token === '?') return () => true;
  if (token.length > 1 && token.startsWith('\\')) return (it) => it === token.slice(1);
  if (token.length < 3 || !token.startsWith('[')) return (it) => it === token;
  const isNegated = /^\[[!^]/.test(token);
  return (it) => inSet(token.slice(isNegated ? 2 : 1, -1), it) !== isNegated;
}

const fitsSegment = (segment: string, text: string): boolean =>
  fits((segment.match(TOKEN) ?? []).map(testOf), Array.from(text));

function fitsSlowly(pattern: string, path: string): boolean {
  return unfoldBraces(pattern).some((text) => {
    const segments = toSegments(text);
    if (text.endsWith('/') && !path.endsWith('/')) return false;
    const names = path.replace(/\/$/, '').split('/');
    const isName = segments.length === 1 && segments[0] !== '**' && !/^\.?\//.test(text);
    if (isName) return fitsSegment(segments[0] as string, basename(path));
    return fits<string>(
      segments.map((it) => (it === '**' ? 'many' : (name: string) => fitsSegment(it, name))),
      names,
    );
  });
}

const SIGNS: Readonly<Record<string, RegExp>> = {
  deep: /\*\*/,
  star: /(?<!\*)\*(?!\*)/,
  any: /\?/,
  set: /\[[^!]/,
  negated: /\[!/,
  braces: /\{.*,.*\}/,
  escape: /\\/,
  root: /^\.?\//,
  folder: /\/$/,
};

/** The names of the signs that a pattern has. */
const signsOf = (pattern: string): string =>
  Object.entries(SIGNS)
    .flatMap(([name, sign]) => (sign.test(pattern) ? [name] : []))
    .join(' ');

const letters = word('a', 'b', 'ab', '.ts', '-', 'é', '\u{1f600}', '!', ']', '{', '}', ',', '\\');
const set = word('[a-c]', '[!a]', '[]a]', '[!]]', '[a', '[]', '[z-a]', '[a-]', '[^b-d]', '[\\]', '[\u{1f600}]');
const piece: Grammar = (random) => {
  const inner = () => some(letters, 2)(random).join('');
  const braces = `{${inner()},${inner()}${word('', ',', ',{a,b}', ',*')(random)}}`;
  return word('*', '?', '*', letters(random), letters(random), set(random), braces, `\\${letters(random)}`)(random);
};
const segment: Grammar = (random) =>
  word('**', some(piece, 4)(random).join(''), some(piece, 2)(random).join(''))(random);
const pattern: Grammar = (random) =>
  word('', '', '', '/', './')(random) + some(segment, 4)(random).join('/') + word('', '', '', '/')(random);
const path: Grammar = (random) =>
  some((inner) => some(letters, 3)(inner).join(''), 5)(random).join('/') + word('', '', '/')(random);

export const globTarget: FuzzTarget = {
  seeds: [`**/*.{ts,js}${SEPARATOR}src/a.ts`, `[!a-z]?\\*/**/b${SEPARATOR}a/b`, `/x/{a,b{c,d}}${SEPARATOR}x/bc`],
  words: ['**', '*', '?', '[', ']', '[!', '{', '}', ',', '\\', '/', './', '{a,b}', '*'.repeat(20)],
  generate: (random) => pattern(random) + SEPARATOR + path(random),
  run(input) {
    const [glob = '', text = ''] = input.toString().split(SEPARATOR, 2);
    const segments = toSegments(text);
    const clean = segments.join('/');
    if (clean !== '') {
      const literal = parseGlob(`/${clean.replace(GLOB_SPECIAL, '\\$&')}`);
      holds(matchGlob(literal, basename(clean), clean), 'a path with every sign escaped matches itself');
      holds(!matchGlob(literal, 'x', `${clean}/x`), 'a path with every sign escaped matches no other');
    }
    const entry = clean !== '' && text.endsWith('/') ? `${clean}/` : clean;
    try {
      const isMatch = matchGlob(parseGlob(glob), segments.at(-1) ?? '', entry);
      if (Math.max(glob.length, entry.length) <= SLOW_CHARS_MAX)
        holds(isMatch === fitsSlowly(glob, entry), `a slow reading agrees: ${JSON.stringify([glob, entry, isMatch])}`);
      return `${isMatch ? 'matches' : 'misses'} ${signsOf(glob.slice(0, 100))}`;
    } catch (error) {
      if (!(error instanceof ToolError) || error.code !== 'INPUT_INVALID') throw error;
      return error.message;
    }
  },
};
