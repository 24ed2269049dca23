/** Merges three texts into one: undoes a call's changes, and keeps those made since. */
import type { Limits } from '../../src/base/limits.ts';

export interface Versions {
  /** Content before the call. */
  readonly pre: Buffer;
  /** Content after the call. */
  readonly post: Buffer;
  readonly current: Buffer;
}

/** Milliseconds and edits after which two texts count as too different to compare. */
const DIFF_MS = 200;
const EDITS_MAX = 2000;

/** Lines from `start` up to `end` of the text after the call, and the lines of another version that replace them. */
interface Hunk {
  readonly start: number;
  readonly end: number;
  readonly lines: readonly string[];
}

/** Undefined if a version is not text, too long or too different, or if both changed the same or adjacent lines. */
export async function mergeBack({ pre, post, current }: Versions, limits: Limits): Promise<Buffer | undefined> {
  const [base, before, now] = [post, pre, current].map((it) => linesOf(it, limits));
  if (!base || !before || !now) return undefined;
  const [back, since] = [await hunksOf(base, before), await hunksOf(base, now)];
  if (!back || !since) return undefined;
  const all = [...back, ...since].sort((a, b) => a.start - b.start || a.end - b.end);
  const merged: string[] = [];
  let at = 0;
  for (const [index, { start, end, lines }] of all.entries()) {
    // A person must look at changes that touch.
    if (index > 0 && start <= at) return undefined;
    merged.push(...base.slice(at, start), ...lines);
    at = end;
  }
  return Buffer.from([...merged, ...base.slice(at)].join(''));
}

/** Lines with their endings, so that nothing is lost. */
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
