/** Three texts into one: what a call changed is taken back, what was changed since stays. */
import type { Limits } from '../src/limits.ts';

export interface Versions {
  /** Before the call. */
  readonly pre: Buffer;
  /** After it. */
  readonly post: Buffer;
  readonly now: Buffer;
}

/** Time and edits after which two texts are too different to be compared. */
const DIFF_MS = 200;
const EDITS_MAX = 2000;

/** Lines of the text in the middle, from `start` up to `end`, that another one has replaced. */
interface Hunk {
  readonly start: number;
  readonly end: number;
  readonly lines: readonly string[];
}

/** Undefined where one is no text, too long or too different, or where both changed the same lines, or neighbours. */
export async function mergeBack({ pre, post, now }: Versions, limits: Limits): Promise<Buffer | undefined> {
  const [base, before, current] = [post, pre, now].map((it) => linesOf(it, limits));
  if (!base || !before || !current) return undefined;
  const [back, since] = [await hunksOf(base, before), await hunksOf(base, current)];
  if (!back || !since) return undefined;
  const all = [...back, ...since].sort((a, b) => a.start - b.start || a.end - b.end);
  const merged: string[] = [];
  let at = 0;
  for (const [index, { start, end, lines }] of all.entries()) {
    // Changes that touch each other are somebody's to look at.
    if (index > 0 && start <= at) return undefined;
    merged.push(...base.slice(at, start), ...lines);
    at = end;
  }
  return Buffer.from([...merged, ...base.slice(at)].join(''));
}

/** With their ends, so that nothing is lost of them. */
function linesOf(bytes: Buffer, { journalTextBytesMax, mergeLinesMax }: Limits): string[] | undefined {
  if (bytes.length > journalTextBytesMax || bytes.includes(0)) return undefined;
  const text = bytes.toString('utf8');
  if (!Buffer.from(text).equals(bytes)) return undefined;
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  return lines.length > mergeLinesMax ? undefined : lines;
}

async function hunksOf(base: string[], other: string[]): Promise<Hunk[] | undefined> {
  const { diffArrays } = await import('diff');
  const parts = diffArrays(base, other, { timeout: DIFF_MS, maxEditLength: EDITS_MAX });
  if (!parts) return undefined;
  const hunks: Hunk[] = [];
  let at = 0;
  let open: { start: number; end: number; lines: string[] } | undefined;
  for (const { value, added, removed } of parts) {
    if (!added && !removed) {
      if (open) hunks.push(open);
      open = undefined;
      at += value.length;
      continue;
    }
    open ??= { start: at, end: at, lines: [] };
    if (added) open.lines.push(...value);
    else {
      at += value.length;
      open.end = at;
    }
  }
  return open ? [...hunks, open] : hunks;
}
