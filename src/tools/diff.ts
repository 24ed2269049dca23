import type { Limits } from '../limits.ts';

/** Time and edits after which two texts are too different to be worth showing; 5 000 random lines otherwise run for minutes. */
const DIFF_MS = 200;
const EDITS_MAX = 2000;

/**
 * What turns `before` (undefined: no file) into `after`, as a unified diff of at most `previewDiffBytes`; undefined for what is not
 * text, too large to compare, or too different.
 */
export async function unifiedDiff(
  path: string,
  { before, after }: { before: Buffer | undefined; after: Buffer },
  { previewDiffBytes }: Limits,
): Promise<string | undefined> {
  const texts = [before ?? Buffer.alloc(0), after];
  if (texts.some((it) => it.length > 4 * previewDiffBytes || it.includes(0))) return undefined;
  const [old, fresh] = texts.map((it) => it.toString('utf8')) as [string, string];
  const { createTwoFilesPatch } = await import('diff');
  const patch = createTwoFilesPatch(before ? `a/${path}` : '/dev/null', `b/${path}`, old, fresh, undefined, undefined, {
    timeout: DIFF_MS,
    maxEditLength: EDITS_MAX,
  });
  if (patch === undefined) return undefined;
  const text = patch.replace(/^=+\n/, '');
  if (text.length <= previewDiffBytes) return text;
  return `${text.slice(0, previewDiffBytes)}\n… ${text.length - previewDiffBytes} characters more\n`;
}
