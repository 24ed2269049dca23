/** Finds a text that differs only in the form of characters: composed accents, no-break spaces, curly quotes. */
import type { Range } from './replacing.ts';

/** Longer texts are compared exactly only; the folded form takes several times their memory. */
const CHARS_MAX = 2 * 1024 * 1024;

const PLAIN: Readonly<Record<string, string>> = {
  ...Object.fromEntries(Array.from('\u00a0\u2007\u202f', (it) => [it, ' '])),
  ...Object.fromEntries(Array.from('\u2018\u2019\u201a\u201b', (it) => [it, "'"])),
  ...Object.fromEntries(Array.from('\u201c\u201d\u201e\u201f', (it) => [it, '"'])),
};
const isAscii = (text: string): boolean => !/[^\0-\x7f]/.test(text);

/** The only place in `text` that is like `search`; undefined if there is none, or more than one. */
export function onlyMatch(text: string, search: string): Omit<Range, 'text'> | undefined {
  if (text.length > CHARS_MAX || (isAscii(text) && isAscii(search))) return undefined;
  const [folded, wanted] = [foldedOf(text), foldedOf(search)];
  let found: Omit<Range, 'text'> | undefined;
  for (let at = folded.text.indexOf(wanted.text); at >= 0; at = folded.text.indexOf(wanted.text, at + 1)) {
    const end = at + wanted.text.length;
    const [from, to] = [folded.from[at] as number, folded.from[end] as number];
    // Half of a composed character, or a letter without its accent, is something else.
    if (folded.from[at - 1] === from || folded.from[end - 1] === to || /^\p{M}/u.test(folded.text.slice(end, end + 2)))
      continue;
    if (found) return undefined;
    found = { from, to };
  }
  return found;
}

/** The text in one form, and for each unit of it, and its end, where the character began. */
function foldedOf(text: string): { text: string; from: Uint32Array } {
  const parts: string[] = [];
  // No character decomposes into more than four units for each of its own.
  const from = new Uint32Array(text.length * 4 + 1);
  let [at, length] = [0, 0];
  for (const point of text) {
    const plain = PLAIN[point] ?? (point < '\x80' ? point : point.normalize('NFD'));
    parts.push(plain);
    from.fill(at, length, length + plain.length);
    length += plain.length;
    at += point.length;
  }
  from[length] = at;
  return { text: parts.join(''), from };
}
