/** Changes of many files by one call: their texts, their bounds, their diffs. */
import { type Code, ToolError } from '../../errors.ts';
import type { FileUpdate } from '../file-changes.ts';
import type { Preview, ToolContext } from '../tool.ts';
import { unifiedDiff } from './diff.ts';
import { textOf } from './text.ts';

/** The most characters of all diffs together; later files get no diff. */
const DIFF_CHARS_MAX = 1024 * 1024;

export interface ChangedFile extends FileUpdate {
  readonly before: Buffer;
  readonly content: Buffer;
  readonly replacements: number;
}

/** The changed files of a call so far. */
export class ChangedFiles {
  readonly all: ChangedFile[] = [];
  readonly #filesMax: number;
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(filesMax: number, { limits: { changeBytesMax } }: ToolContext) {
    this.#filesMax = filesMax;
    this.#bytesMax = changeBytesMax;
  }

  get totalReplacements(): number {
    return this.all.reduce((sum, it) => sum + it.replacements, 0);
  }

  /** Throws FILE_LIMIT. */
  add(file: ChangedFile): void {
    this.#bytes += file.before.length + file.content.length;
    if (this.all.push(file) > this.#filesMax) throw tooMany('files hold what is to be found', this.#filesMax);
    if (this.#bytes > this.#bytesMax) throw tooMany('bytes would be read and written', this.#bytesMax);
  }

  async withDiffs(ctx: ToolContext): Promise<{ path: string; replacements: number; diff?: string }[]> {
    const withDiff = [];
    let left = DIFF_CHARS_MAX;
    for (const { path, before, content, replacements } of this.all) {
      await ctx.breathe();
      const diff = left > 0 ? await unifiedDiff(path, { before, after: content }, ctx.limits) : undefined;
      left -= diff?.length ?? 0;
      withDiff.push({ path, replacements, ...(diff !== undefined && { diff }) });
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
