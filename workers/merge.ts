/** Three texts into one: what a call changed is taken back, what was changed since stays. */
import type { Limits } from '../src/limits.ts';

export interface Versions {
  /** Before the call. */
  readonly pre: Buffer;
  /** After it. */
  readonly post: Buffer;
  readonly now: Buffer;
}

/** Undefined where it is no text, too long, or both changed the same lines. */
export async function mergeBack(
  versions: Versions,
  { mergeLinesMax, journalTextBytesMax }: Limits,
): Promise<Buffer | undefined> {
  const texts = [versions.now, versions.post, versions.pre].map((it) => textOf(it, journalTextBytesMax));
  if (texts.some((it) => it === undefined)) return undefined;
  const [now, post, pre] = texts.map((it) => linesOf(it as string)) as [string[], string[], string[]];
  if ([now, post, pre].some((it) => it.length > mergeLinesMax)) return undefined;
  const { diff3Merge } = await import('node-diff3');
  const regions = diff3Merge(now, post, pre, { excludeFalseConflicts: true }) as { ok?: string[] }[];
  const merged = regions.map(({ ok }) => ok);
  if (merged.some((it) => it === undefined)) return undefined;
  return Buffer.from(merged.flat().join(''));
}

function textOf(bytes: Buffer, bytesMax: number): string | undefined {
  if (bytes.length > bytesMax || bytes.includes(0)) return undefined;
  const text = bytes.toString('utf8');
  return Buffer.from(text).equals(bytes) ? text : undefined;
}

/** With their ends, so that nothing is lost of them. */
const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
