/** Tells what a command did in its overlay, and keeps the list of it beside what it wrote. */
import * as fs from 'node:fs';
import type { Limits } from '../../src/base/limits.ts';
import type { PreviewChange, PreviewReport, PreviewUnsupported } from '../../src/base/preview.ts';
import type { Overlay } from '../../src/sandbox/command/overlay.ts';
import type { CheckedFile } from '../../src/tools/tool.ts';
import { changeSetOf } from './change-set.ts';
import { diffOf } from './kept-preview.ts';
import { OldTexts } from './old-texts.ts';
import { UpperTree } from './upper-tree.ts';

export interface ReportParts {
  readonly limits: Limits;
  /** A descriptor of the workspace's folder. */
  readonly lower: number;
  /** A path as protections name it. */
  named(path: string): string;
  /** Whether the caller may not read a path. */
  isRefused(path: string): boolean;
  /** Opens a file of the workspace, under the rules for its path. */
  open(path: string): CheckedFile;
  breathe(): Promise<void>;
}

/** Changes whose diffs are looked for; one may take 0.2 s. */
const DIFFS_MAX = 32;
/** Changes that can't be committed and are listed. */
const UNSUPPORTED_MAX = 200;

/** To be called when no command changes the overlay any more. Throws FILE_LIMIT. */
export async function reportOf(overlay: Overlay, parts: ReportParts): Promise<PreviewReport> {
  const { limits, named, breathe } = parts;
  using upper = new UpperTree(overlay.upper);
  const { merged, sinceNs } = overlay;
  const oldTexts = new OldTexts(overlay.old, limits);
  const found = await changeSetOf(upper.fd, parts.lower, { merged, sinceNs, limits, oldTexts, named, breathe });
  const unsupported = listed(found.unsupported);
  const { steps, changes } = found;
  const bytes = found.bytes + oldTexts.bytes;
  fs.writeFileSync(overlay.list, JSON.stringify({ steps, changes, unsupported }), { mode: 0o600, flag: 'wx' });
  const isShown = ({ kind }: PreviewChange, index: number) => kind !== 'add' || index < limits.previewShownMax;
  const shown = await withDiffs(changes.filter(isShown), upper, parts);
  const judged = steps.map(({ kind, path }) => ({ kind, path }));
  return { changes: shown, total: changes.length, unsupported, steps: judged, bytes };
}

function listed(unsupported: readonly PreviewUnsupported[]): PreviewUnsupported[] {
  const more = unsupported.length - UNSUPPORTED_MAX;
  const first = unsupported.slice(0, UNSUPPORTED_MAX);
  return more > 0 ? [...first, { path: '…', reason: `${more} more` }] : first;
}

/** Adds diffs as long as there is room for them. */
async function withDiffs(
  changes: readonly PreviewChange[],
  upper: UpperTree,
  { limits, isRefused, open, breathe }: ReportParts,
): Promise<PreviewChange[]> {
  let room = limits.previewDiffBytes;
  let looks = 0;
  const all: PreviewChange[] = [];
  for (const change of changes) {
    const isTried = room > 0 && looks < DIFFS_MAX && !isRefused(change.path);
    const before = () => {
      using file = open(change.path);
      return file.bytes();
    };
    const diff = isTried ? await diffOf(change, { upper, before, limits }).catch(() => undefined) : undefined;
    if (isTried) looks += 1;
    const fits = diff !== undefined && diff.length <= room;
    if (fits) room -= diff.length;
    all.push(fits ? { ...change, diff } : change);
    if (isTried) await breathe();
  }
  return all;
}
