/** The sources that a call lints or formats, the plan of their new texts, and the writing of them. */
import { type Code, ToolError } from '../../base/errors.ts';
import { ChangedFiles, readText } from '../edit/changed-files.ts';
import { bytesOf } from '../edit/text.ts';
import { selectFiles } from '../selection.ts';
import type { SourceText } from '../source/checkers.ts';
import type { ToolContext } from '../tool.ts';
import { changedFile, editBetween, type PlannedFile, PlannedFiles } from './planned-changes.ts';

export interface SkippedFile {
  path: string;
  code: Code;
}

export interface CheckedSources {
  readonly sources: CheckedSource[];
  readonly skipped: SkippedFile[];
}

interface CheckedSource extends SourceText {
  readonly before: Buffer;
  /** The path of the call in which it was found. */
  readonly declared: string;
}

const SKIPPED_TOLD = 100;

/** Reads the files of some paths; of directories those that match `glob`. Throws FILE_LIMIT, and for a path that is missing. */
export async function readSources(paths: readonly string[], glob: string, ctx: ToolContext): Promise<CheckedSources> {
  const { checkedFilesMax, checkedBytesMax } = ctx.limits;
  const sources = new Map<string, CheckedSource>();
  const skipped: SkippedFile[] = [];
  let bytes = 0;
  for (const declared of paths)
    for await (const path of filesAt(declared, glob, ctx)) {
      if (sources.has(path)) continue;
      await ctx.breathe();
      const found = readText(path, declared, ctx);
      if ('code' in found) {
        if (skipped.length < SKIPPED_TOLD) skipped.push({ path, code: found.code });
        continue;
      }
      sources.set(path, { path, declared, ...found });
      bytes += found.before.length;
      if (sources.size > checkedFilesMax) throw tooMany('files', checkedFilesMax);
      if (bytes > checkedBytesMax) throw tooMany('bytes', checkedBytesMax);
    }
  return { sources: [...sources.values()], skipped };
}

async function* filesAt(path: string, glob: string, ctx: ToolContext): AsyncGenerator<string> {
  if (isDirectory(path, ctx)) yield* selectFiles({ path, include: [glob], exclude: [] }, ctx);
  else {
    ctx.open(path)[Symbol.dispose]();
    yield path.replace(/^(?:\.\/+)+/, '');
  }
}

function isDirectory(path: string, ctx: ToolContext): boolean {
  try {
    ctx.openDirectory(path)[Symbol.dispose]();
    return true;
  } catch (error) {
    if (error instanceof ToolError && error.code === 'UNSUPPORTED') return false;
    throw error;
  }
}

const tooMany = (what: string, limit: number) =>
  new ToolError('FILE_LIMIT', `these paths hold more than ${limit} ${what}`, {
    suggestion: 'Name fewer of them.',
    details: { limit, enforcedBy: 'tool' },
  });

/** The files whose text changes, and the plan by which the write host makes the same changes. */
export function changesOf(
  sources: readonly CheckedSource[],
  texts: readonly SourceText[],
  ctx: ToolContext,
): { changes: ChangedFiles; planned: PlannedFile[] } {
  const byPath = new Map(sources.map((it) => [it.path, it]));
  const changes = new ChangedFiles(ctx.limits.checkedFilesMax, ctx);
  const planned = new PlannedFiles(ctx);
  for (const { path, text } of texts) {
    const source = byPath.get(path);
    if (!source) continue;
    const { before, declared, text: old } = source;
    const content = bytesOf(path, text, ctx.limits.fileBytesMax);
    if (content.equals(before)) continue;
    const file = { path, before, content, replacements: 1, ifHash: ctx.hashOf(before), declared };
    changes.add(file);
    planned.add(file, declared, [editBetween(old, text)]);
  }
  return { changes, planned: planned.all };
}

/** Writes what the read_only host planned, and gives the files with their diffs. */
export async function writePlanned(
  planned: readonly PlannedFile[],
  isAsked: (path: string, declared: string) => boolean,
  ctx: ToolContext,
) {
  const changes = new ChangedFiles(ctx.limits.checkedFilesMax, ctx);
  for (const it of planned) changes.add(changedFile(it, isAsked, ctx));
  const changedFiles = await changes.withDiffs(ctx);
  if (changes.all.length > 0) await ctx.changes.replaceAll(changes.all, '.');
  return changedFiles;
}
