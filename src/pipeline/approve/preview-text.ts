/** What a person is shown of a preview before it is committed: all changes, what is removed first, then the diffs. */
import type { Limits } from '../../base/limits.ts';
import type { PreviewChange } from '../../base/preview.ts';
import type { KeptPreview } from '../../store/previews.ts';
import type { Preview } from '../../tools/tool.ts';

/** The change set as the answer to a tool's own preview. */
export function previewOfCommit({ shown }: KeptPreview, { journalCallBytesMax }: Limits): Preview {
  const { changes, total, unsupported } = shown;
  const more = total - changes.length;
  const lines = [
    ...changes.map(lineOf),
    ...(more > 0 ? [`add     ${more} more files`] : []),
    ...unsupported.map(({ path, reason }) => `refused ${path}: ${reason}`),
  ];
  const diffs = changes.flatMap(({ diff }) => diff ?? []);
  // Folders that are removed count as too large: their sizes are not known.
  const replaced = changes.reduce((sum, { path, kind, bytesBefore }) => {
    return sum + (kind === 'delete' && path.endsWith('/') ? Infinity : (bytesBefore ?? 0));
  }, 0);
  const undo = replaced <= journalCallBytesMax ? 'full' : undefined;
  return { diff: `${[...lines, ...diffs].join('\n')}\n`, preImages: [], undo };
}

function lineOf({ path, kind, bytesBefore, bytesAfter, entries }: PreviewChange): string {
  const size = [bytesBefore, bytesAfter].filter((it) => it !== null).join(' → ');
  const inside = entries === undefined ? '' : ` with ${entries} files and folders`;
  return `${kind.padEnd(7)} ${path}${inside}${size === '' ? '' : ` (${size} bytes)`}`;
}
