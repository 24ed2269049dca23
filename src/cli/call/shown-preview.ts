/** Prints what a previewed command would change. */
import type { CommandPreview, PreviewChange } from '../../base/preview.ts';
import { harmless, say } from '../output.ts';

/** Prints what a previewed command would change, on standard error: standard output is the command's. */
export function printPreview({ id, changes, total, unsupported }: CommandPreview): void {
  if (total === 0) say('preview: the command would change no file');
  for (const it of changes) say(harmless(`preview: ${lineOf(it)}`));
  if (total > changes.length) say(`preview: add ${total - changes.length} more files`);
  for (const { path, reason } of unsupported) say(harmless(`preview: can't commit ${path}: ${reason}`));
  for (const { diff } of changes) if (diff !== undefined) process.stderr.write(harmless(diff));
  if (total > 0) say(`nothing was changed; to make these changes: ringfence commit ${id}`);
}

function lineOf({ path, kind, bytesBefore, bytesAfter, entries }: PreviewChange): string {
  const size = [bytesBefore, bytesAfter].filter((it) => it !== null).join(' to ');
  return `${kind} ${path}${entries === undefined ? '' : ` with ${entries} files and folders`}${size === '' ? '' : `, ${size} bytes`}`;
}
