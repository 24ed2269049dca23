/** Changes of many files by one call: their texts, their bounds, their diffs. */
import * as z from 'zod';
import { type Code, ToolError } from '../../base/errors.ts';
import type { FileUpdate } from '../file-changes.ts';
import type { Preview, ToolContext } from '../tool.ts';
import { unifiedDiff } from './diff.ts';
import { textOf } from './text.ts';

/** The most characters of all diffs together; later files get no diff. */
const DIFF_CHARS_MAX = 1024 * 1024;

/** The most skipped files that a result names. */
const SKIPPED_MAX = 100;

/** The result of a tool that changes many files. */
export const changedFilesResult = z.strictObject({
  files: z.array(
    z.strictObject({
      path: z.string(),
      replacements: z.int().positive(),
      diff: z.string().optional().describe('Unified; absent if too large.'),
    }),
  ),
  totalReplacements: z.int().nonnegative(),
  filesSearched: z.int().nonnegative(),
  skipped: z
    .array(z.strictObject({ path: z.string(), code: z.string().describe('Why, as an error code.') }))
    .describe('Files that may not be read, are too large, or that the tool could not take.'),
});

export interface ChangedFile extends FileUpdate {
  readonly before: Buffer;
  readonly content: Buffer;
  readonly replacements: number;
}

/** The changed files of a call so far. */
export class ChangedFiles {
  readonly all: ChangedFile[] = [];
  /** Files that were not searched; of many, the first ones. */
  readonly skipped: { path: string; code: Code }[] = [];
  filesSearched = 0;
  readonly #filesMax: number;
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(filesMax: number, { limits: { changeBytesMax } }: ToolContext) {
    this.#filesMax = filesMax;
    this.#bytesMax = changeBytesMax;
  }

  /** Throws FILE_LIMIT. */
  add(file: ChangedFile): void {
    this.#bytes += file.before.length + file.content.length;
    if (this.all.push(file) > this.#filesMax) throw tooMany('files hold what is to be found', this.#filesMax);
    if (this.#bytes > this.#bytesMax) throw tooMany('bytes would be read and written', this.#bytesMax);
  }

  skip(path: string, code: Code): void {
    if (this.skipped.length < SKIPPED_MAX) this.skipped.push({ path, code });
  }

  /** Writes all files, or none if `preview` is true. `path` is the target of the call's effect. */
  async apply(
    { preview, path }: { readonly preview: boolean; readonly path: string },
    ctx: ToolContext,
  ): Promise<z.infer<typeof changedFilesResult>> {
    const files = await this.withDiffs(ctx);
    if (!preview && this.all.length > 0) await ctx.changes.replaceAll(this.all, path);
    const totalReplacements = this.all.reduce((sum, it) => sum + it.replacements, 0);
    return { files, totalReplacements, filesSearched: this.filesSearched, skipped: this.skipped };
  }

  async withDiffs(ctx: ToolContext): Promise<{ path: string; replacements: number; diff?: string | undefined }[]> {
    const withDiff = [];
    let left = DIFF_CHARS_MAX;
    for (const { path, before, content, replacements } of this.all) {
      await ctx.breathe();
      const diff = left > 0 ? await unifiedDiff(path, { before, after: content }, ctx.limits) : undefined;
      left -= diff?.length ?? 0;
      withDiff.push({ path, replacements, diff });
    }
    return withDiff;
  }

  async preview(ctx: ToolContext): Promise<Preview> {
    const changedFiles = await this.withDiffs(ctx);
    return {
      diff: changedFiles.map((it) => it.diff ?? `… ${it.path}: ${it.replacements} replacements\n`).join(''),
      preImages: this.all.map(({ path, ifHash }) => ({ path, hash: ifHash })),
    };
  }
}

const tooMany = (what: string, limit: number) =>
  new ToolError('FILE_LIMIT', `more than ${limit} ${what}; nothing was changed`, {
    suggestion: 'Narrow the globs or path, or split the work into parts.',
    details: { limit, enforcedBy: 'tool' },
  });

export interface TextFile {
  readonly before: Buffer;
  readonly text: string;
}

/** The text of a file, or the code of why it is left alone. */
export function readText(path: string, declared: string, ctx: ToolContext): TextFile | { code: Code } {
  try {
    using file = ctx.open(path, declared);
    const before = file.bytes();
    return { before, text: textOf(path, before) };
  } catch (error) {
    // Secrets, binary or too large files, and files that are gone meanwhile.
    if (error instanceof ToolError) return { code: error.code };
    throw error;
  }
}
