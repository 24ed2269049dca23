/** Finds stretches of tokens that occur twice. */
import type { Duplicate } from '../../src/tools/source/analysis.ts';

/** The tokens of a file, in its order. */
export interface FileTokens {
  readonly file: string;
  readonly shapes: Uint32Array;
  readonly values: Uint32Array;
  readonly lines: Uint32Array;
}

/** Shortest stretch that counts, in tokens: about eight lines. */
const TOKENS_MIN = 60;
const LINES_MIN = 5;
/** Stretches of the same shape with fewer equal tokens only look alike, as tables and lists of imports do. */
const SIMILARITY_MIN = 0.8;

export function toFileTokens(file: string, base64: string): FileTokens {
  const bytes = Buffer.from(base64, 'base64');
  const count = Math.floor(bytes.length / 12);
  const all = [new Uint32Array(count), new Uint32Array(count), new Uint32Array(count)] as const;
  for (let at = 0; at < count; at += 1)
    for (const [part, numbers] of all.entries()) numbers[at] = bytes.readUInt32LE(at * 12 + part * 4);
  const [shapes, values, lines] = all;
  return { file, shapes, values, lines };
}

interface Position {
  readonly tokens: FileTokens;
  readonly at: number;
}

/**
 * Compares each stretch that begins a line with the first of the same shape; a stretch that was found is not compared
 * again. The longest come first.
 */
export async function duplicatesIn(
  files: readonly FileTokens[],
  { breathe }: { readonly breathe: () => Promise<void> },
): Promise<Duplicate[]> {
  const first = new Map<number, Position>();
  const found: Duplicate[] = [];
  for (const tokens of files) {
    await breathe();
    for (let at = 0; at + TOKENS_MIN <= tokens.shapes.length; ) {
      if (at > 0 && tokens.lines[at] === tokens.lines[at - 1]) {
        at += 1;
        continue;
      }
      const hash = hashAt(tokens, at);
      const known = first.get(hash);
      if (!known) first.set(hash, { tokens, at });
      const duplicate = known && duplicateAt(known, { tokens, at });
      if (duplicate) found.push(duplicate.found);
      at += duplicate?.length ?? 1;
    }
  }
  return found.sort((a, b) => b.lines - a.lines || (a.file1 < b.file1 ? -1 : 1));
}

function hashAt({ shapes }: FileTokens, from: number): number {
  let hash = 0;
  for (let at = from; at < from + TOKENS_MIN; at += 1) hash = (Math.imul(hash, 31) + (shapes[at] ?? 0)) >>> 0;
  return hash;
}

function duplicateAt(one: Position, two: Position): { found: Duplicate; length: number } | undefined {
  const [a, b] = [one.tokens, two.tokens];
  // A stretch in one file ends where the other begins.
  const end = a === b ? two.at - one.at : Number.POSITIVE_INFINITY;
  let length = 0;
  let equal = 0;
  for (; length < end && one.at + length < a.shapes.length && two.at + length < b.shapes.length; length += 1) {
    if (a.shapes[one.at + length] !== b.shapes[two.at + length]) break;
    if (a.values[one.at + length] === b.values[two.at + length]) equal += 1;
  }
  const lineOf = ({ lines }: FileTokens, at: number): number => lines[at] ?? 0;
  const lines = lineOf(b, two.at + length - 1) - lineOf(b, two.at) + 1;
  const similarity = Math.floor((equal / length) * 100) / 100;
  if (length < TOKENS_MIN || lines < LINES_MIN || similarity < SIMILARITY_MIN) return undefined;
  const [line1, line2] = [lineOf(a, one.at), lineOf(b, two.at)];
  return { found: { file1: a.file, line1, file2: b.file, line2, lines, similarity }, length };
}
