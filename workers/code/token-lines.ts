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

interface Token {
  readonly token: string;
  /** Offset of the beginning, in UTF-16 units. */
  readonly at: number;
  readonly kind: 'name' | 'text' | 'number' | 'other';
}

/** The tokens of a source in their order, without comments. */
export function* tokensIn({ language, text }: SourceText): Generator<Token> {
  const hasHashComments = language === 'python';
  for (const match of text.matchAll(TOKEN)) {
    const [token] = match;
    const { hash, text: quoted, number, word } = match.groups ?? {};
    if (/^\/[/*]/.test(token) || (hash !== undefined && hasHashComments)) continue;
    const isName = word !== undefined && !KEYWORDS.has(word);
    const kind = isName ? 'name' : quoted !== undefined ? 'text' : number !== undefined ? 'number' : 'other';
    yield { token, at: match.index, kind };
  }
}

export function tokensOf(source: SourceText): TokenTable {
  const { text } = source;
  const numbers: number[] = [];
  let line = 1;
  let counted = 0;
  for (const { token, at: start, kind } of tokensIn(source)) {
    for (let at = text.indexOf('\n', counted); at >= 0 && at < start; at = text.indexOf('\n', counted)) {
      line += 1;
      counted = at + 1;
    }
    numbers.push(kind === 'other' ? hashOf(token) : SHAPES[kind], hashOf(token), line);
  }
  const bytes = Buffer.from(Uint32Array.from(numbers).buffer);
  return { tokens: bytes.toString('base64') };
}

const SHAPES = { name: 1, text: 2, number: 3 } as const;

/** FNV-1a. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return hash >>> 0;
}
