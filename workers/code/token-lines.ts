/** The tokens of a source as numbers, for the search for duplicates. Runs in the parser child. */
import type { SourceText } from './module-table.ts';

/** Three numbers for each token, as base64 of unsigned 32-bit integers: its shape, itself, its line. */
export interface TokenTable {
  readonly tokens: string;
}

/** Comments and white space are left out; each alternative ends at the first character that does not fit. */
const TOKEN =
  /\/\/[^\n]*|\/\*[\s\S]*?\*\/|(?<hash>#[^\n]*)|(?<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|(?<number>\d[\w.]*)|(?<word>[\p{L}_$][\p{L}\p{N}_$]*)|[^\s\w]/gu;

/** Words that are never names, so that they count for the shape. */
const KEYWORDS = new Set(
  'abstract as async await break case catch class const continue def default del do elif else enum except export extends fn for from func function go if impl implements import in instanceof interface lambda let loop match mod new not or and pass private protected pub public raise readonly return self static struct super switch this throw trait try type typeof use var void where while with yield true false null None undefined'.split(
    ' ',
  ),
);

export function tokensOf({ language, text }: SourceText): TokenTable {
  const numbers: number[] = [];
  const hasHashComments = language === 'python';
  let line = 1;
  let counted = 0;
  for (const match of text.matchAll(TOKEN)) {
    const [token] = match;
    const { hash, text: quoted, number, word } = match.groups ?? {};
    if (/^\/[/*]/.test(token) || (hash !== undefined && hasHashComments)) continue;
    for (let at = text.indexOf('\n', counted); at >= 0 && at < match.index; at = text.indexOf('\n', counted)) {
      line += 1;
      counted = at + 1;
    }
    const isName = word !== undefined && !KEYWORDS.has(word);
    const shape = isName ? NAME : quoted !== undefined ? TEXT : number !== undefined ? NUMBER : hashOf(token);
    numbers.push(shape, hashOf(token), line);
  }
  const bytes = Buffer.from(Uint32Array.from(numbers).buffer);
  return { tokens: bytes.toString('base64') };
}

const NAME = 1;
const TEXT = 2;
const NUMBER = 3;

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
