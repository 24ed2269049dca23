/** The sources of a directory: which there are, their texts, and what the parser child says of them. */
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { CheckedFile, CheckedSearch } from '../../src/tools/tool.ts';
import type { SyntaxParser } from '../syntax-parser.ts';
import { grammarOf } from './code-languages.ts';
import type { Inspections } from './inspections.ts';
import type { SourceText } from './module-table.ts';

export interface SourceFilesOptions {
  readonly parser: SyntaxParser;
  readonly limits: Limits;
  readonly signal: AbortSignal;
  /** Opens a directory for searching. */
  search(path: string): CheckedSearch;
  /** Opens a file that was found in `declared`, or that the caller named if that is absent. */
  open(path: string, declared?: string): CheckedFile;
}

export class SourceFiles {
  /** Files that were not read or that no parser could read. */
  readonly skipped = new Set<string>();
  truncated = false;
  readonly #options: SourceFilesOptions;
  /** The target of the call's effect. */
  readonly #declared: string;
  #parserEnds = 0;
  #bytes = 0;

  constructor(options: SourceFilesOptions, declared: string) {
    this.#options = options;
    this.#declared = declared;
  }

  /**
   * The files that .gitignore and the policy show, sorted, each with a stamp that changes with it; only those that
   * `isWanted` takes.
   */
  async list(isWanted: (path: string) => boolean): Promise<Map<string, string>> {
    const { limits } = this.#options;
    const found: [path: string, stamp: string][] = [];
    using search = this.#options.search(this.#declared);
    await search.files({}, (path) => {
      if (!isWanted(path)) return true;
      if (found.length >= limits.sourceFilesMax) {
        this.truncated = true;
        return false;
      }
      const stat = search.stat(path);
      if (stat) found.push([path, `${stat.modifiedMs} ${stat.size}`]);
      return true;
    });
    return new Map(found.sort(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** The text of a file; undefined if it is gone, became a link, must not be read, or is too large. */
  read(path: string): string | undefined {
    const { symbolSourceBytesMax, sourceBytesMax } = this.#options.limits;
    try {
      using file = this.#options.open(path, this.#declared);
      this.#bytes += file.size;
      if (this.#bytes > sourceBytesMax) this.truncated = true;
      if (file.size <= symbolSourceBytesMax && this.#bytes <= sourceBytesMax) return toText(file);
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
    }
    this.skipped.add(path);
    return undefined;
  }

  /** Asks the parser child about files, and passes each answer to `take`; files without one are skipped. */
  async inspect<W extends keyof Inspections>(
    what: W,
    paths: readonly string[],
    take: (path: string, answer: Inspections[W], text: string) => void,
  ): Promise<void> {
    let asked: Promise<void> = Promise.resolve();
    for (const batch of this.#batches(paths)) {
      await asked;
      asked = this.#inspectBatch(what, batch, take);
      // The next batch is read while this one is parsed; its failure is met above or below.
      asked.catch(() => {});
    }
    await asked;
  }

  *#batches(paths: readonly string[]): Generator<SourceText[]> {
    const { sourceBatchBytes, sourceBatchFilesMax } = this.#options.limits;
    let batch: SourceText[] = [];
    let chars = 0;
    for (const path of paths) {
      const text = this.read(path);
      if (text === undefined) continue;
      batch.push({ path, language: grammarOf(path) ?? 'typescript', text });
      chars += text.length;
      if (chars < sourceBatchBytes && batch.length < sourceBatchFilesMax) continue;
      yield batch;
      batch = [];
      chars = 0;
    }
    if (batch.length > 0) yield batch;
  }

  async #inspectBatch<W extends keyof Inspections>(
    what: W,
    files: readonly SourceText[],
    take: (path: string, answer: Inspections[W], text: string) => void,
  ): Promise<void> {
    const { parser, limits, signal } = this.#options;
    const answers = await parser.inspect(what, { files, timeMs: limits.sourceBatchMs }, signal);
    if (answers) for (const [at, it] of files.entries()) take(it.path, answers[at] as Inspections[W], it.text);
    else if (files.length > 1) for (const it of files) await this.#inspectBatch(what, [it], take);
    else for (const it of files) this.#skip(it.path);
  }

  /** Notes a file that ended its parser. Throws if there are too many of them. */
  #skip(path: string): void {
    const { symbolParserEndsMax } = this.#options.limits;
    this.skipped.add(path);
    this.#parserEnds += 1;
    if (this.#parserEnds < symbolParserEndsMax) return;
    throw new ToolError('CPU_LIMIT', `the parsers failed on ${symbolParserEndsMax} files, which is the maximum`, {
      suggestion: `Ask about another directory, or have ${[...this.skipped].slice(0, 5).join(', ')} ignored by git.`,
      details: { limit: symbolParserEndsMax, enforcedBy: 'host' },
    });
  }
}

/** The text of an open file, without a byte order mark. */
export const toText = (file: CheckedFile): string =>
  file
    .bytes()
    .toString()
    .replace(/^\uFEFF/, '');
