import type { Limits } from '../../base/limits.ts';

/** Milliseconds and edits after which two texts count as too different to show; 5 000 random lines would run for minutes. */
const DIFF_MS = 200;
const EDITS_MAX = 2000;
const CONTEXT_LINES = 4;

/**
 * A unified diff from `before` (undefined: no file) to `after`, of at most `previewDiffBytes`; undefined for content
 * that is not text, too large to compare or too different. Their common start and end are cut first, so that an edit
 * of a large file costs no more than the changed part.
 */
export async function unifiedDiff(
  path: string,
  { before, after }: { before: Buffer | undefined; after: Buffer },
  { previewDiffBytes }: Limits,
): Promise<string | undefined> {
  const old = before ?? Buffer.alloc(0);
  if (old.includes(0) || after.includes(0)) return undefined;
  const same = sameAround(old, after);
  const [fresh, gone] = [after, old].map((it) => it.subarray(same.start, it.length - same.end)) as [Buffer, Buffer];
  if (Math.max(fresh.length, gone.length) > 4 * previewDiffBytes) return undefined;
  const { structuredPatch, formatPatch } = await import('diff');
  const name = before ? `a/${path}` : '/dev/null';
  const patch = structuredPatch(
    name,
    `b/${path}`,
    gone.toString('utf8'),
    fresh.toString('utf8'),
    undefined,
    undefined,
    {
      timeout: DIFF_MS,
      maxEditLength: EDITS_MAX,
    },
  );
  if (patch === undefined) return undefined;
  const skipped = linesIn(old.subarray(0, same.start));
  for (const hunk of patch.hunks) {
    hunk.oldStart += skipped;
    hunk.newStart += skipped;
  }
  const text = formatPatch(patch).replace(/^=+\n/, '');
  if (text.length <= previewDiffBytes) return text;
  return `${text.slice(0, previewDiffBytes)}\n… ${text.length - previewDiffBytes} characters more\n`;
}

const NEWLINE = 10;

/** Lengths in bytes of the common start and end, in whole lines, without the context lines that a diff shows around a change. */
function sameAround(a: Buffer, b: Buffer): { start: number; end: number } {
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  for (let line = 0; line <= CONTEXT_LINES && start > 0; line++) {
    start = start < 2 ? 0 : a.lastIndexOf(NEWLINE, start - 2) + 1;
  }
  let from = a.length - end;
  for (let line = 0; line <= CONTEXT_LINES && from < a.length; line++) {
    const newline = a.indexOf(NEWLINE, from);
    from = newline < 0 ? a.length : newline + 1;
  }
  return { start, end: a.length - from };
}

function linesIn(bytes: Buffer): number {
  let lines = 0;
  for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) lines += 1;
  return lines;
}
