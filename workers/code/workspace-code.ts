/** Answers questions about the code of a workspace, with the thread's parser child. */

import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { Analysis, AnalysisQuery } from '../../src/tools/source/analysis.ts';
import type {
  GraphQuery,
  ImportGraphAnswer,
  ParsedCode,
  ParseQuery,
  SourceCode,
} from '../../src/tools/source/source-code.ts';
import type { WorkspaceSymbolsOptions } from '../symbols/symbols.ts';
import { complexityIn, dependenciesOf, duplicatesAmong, securityIn } from './code-analysis.ts';
import { fileNameOf, grammarOf, languageOf } from './code-languages.ts';
import { viewOf } from './graph/graph-view.ts';
import { importGraph, plainPath } from './graph/import-graph.ts';
import { SourceFiles, toText } from './source-files.ts';

export interface WorkspaceCodeOptions extends WorkspaceSymbolsOptions {
  breathe(): Promise<void>;
}

export class WorkspaceCode implements SourceCode {
  readonly #options: WorkspaceCodeOptions;

  constructor(options: WorkspaceCodeOptions) {
    this.#options = options;
  }

  async parse({ path, code, language, fileName, ast }: ParseQuery): Promise<ParsedCode> {
    const { servers, limits, signal } = this.#options;
    const text = path === undefined ? (code ?? '') : this.#read(path);
    const named = language === undefined ? (path ?? fileName ?? fileNameOf('typescript')) : fileNameOf(language);
    const grammar = grammarOf(named);
    if (grammar === undefined) throw unsupported(named);
    const { sourceNamesMax: namesMax, sourceErrorsMax } = limits;
    const request = { files: [{ path: named, language: grammar, text }], ast, namesMax: namesMax + 1 };
    const [outline] =
      (await servers.parser.inspect('outline', { ...request, timeMs: limits.sourceBatchMs }, signal)) ?? [];
    if (!outline) throw notParsed(path ?? 'code', limits);
    const { symbols, imports, exports, errors, ast: nodes } = outline;
    return {
      language: language ?? languageOf(named) ?? 'typescript',
      symbols: symbols.slice(0, namesMax),
      imports: imports.slice(0, namesMax),
      exports: exports.slice(0, namesMax),
      errors: errors.slice(0, sourceErrorsMax),
      ast: nodes?.slice(0, namesMax),
      truncated:
        [symbols, imports, exports, nodes ?? []].some((it) => it.length > namesMax) || errors.length > sourceErrorsMax,
    };
  }

  async graph(query: GraphQuery): Promise<ImportGraphAnswer> {
    const { servers, limits } = this.#options;
    const { parser, graphs: cache } = servers;
    const files = new SourceFiles({ ...this.#options, parser }, query.path);
    const graph = await importGraph({ ...this.#options, files, cache, parser });
    const { truncated, ...view } = viewOf(graph, query, limits);
    return { ...view, truncated: truncated || files.truncated, skipped: [...files.skipped].sort() };
  }

  async analyze(query: AnalysisQuery): Promise<Analysis> {
    const { servers, limits } = this.#options;
    const { parser, graphs: cache } = servers;
    const { path, checks, top } = query;
    const files = new SourceFiles({ ...this.#options, parser }, path);
    const paths = this.#isFile(path)
      ? [plainPath(path)]
      : [...(await files.list((it) => grammarOf(it) !== undefined)).keys()];
    const security = checks.includes('security') ? await securityIn(files, paths, limits) : undefined;
    const everything = new SourceFiles({ ...this.#options, parser }, '.');
    const graph = checks.includes('dependencies')
      ? await importGraph({ ...this.#options, files: everything, cache, parser })
      : undefined;
    const breathe = () => this.#options.breathe();
    return {
      files: paths.length,
      ...(checks.includes('complexity') && { complexity: await complexityIn(files, paths, query) }),
      ...(checks.includes('duplicates') && { duplicates: await duplicatesAmong(files, paths, { top, breathe }) }),
      dependencies: graph && dependenciesOf(graph, paths, limits),
      security: security?.findings,
      truncated: files.truncated || everything.truncated || security?.truncated === true,
      skipped: [...new Set([...files.skipped, ...everything.skipped])].sort(),
    };
  }

  /** Whether a path is a file, with a parser for it; throws UNSUPPORTED for one without. */
  #isFile(path: string): boolean {
    try {
      this.#options.open(path)[Symbol.dispose]();
    } catch (error) {
      // A directory, which a search opens, or something that a search refuses, too.
      if (error instanceof ToolError && error.code === 'UNSUPPORTED') return false;
      throw error;
    }
    if (grammarOf(path) === undefined) throw unsupported(path);
    return true;
  }

  /** The text of a file that the caller named. Throws as `open`, and FILE_LIMIT for one that is too large. */
  #read(path: string): string {
    const { symbolSourceBytesMax: bytesMax } = this.#options.limits;
    using file = this.#options.open(path);
    if (file.size > bytesMax)
      throw new ToolError('FILE_LIMIT', `\`${path}\` is ${file.size} bytes; at most ${bytesMax} are parsed`, {
        suggestion: 'Read the part you need with file_read.',
        details: { limit: bytesMax, used: file.size, enforcedBy: 'tool' },
      });
    return toText(file);
  }
}

const unsupported = (name: string): ToolError =>
  new ToolError('UNSUPPORTED', `no parser reads \`${name}\`; TypeScript, JavaScript, Python, Go and Rust have one`, {
    suggestion: 'Give `language` if the ending does not tell it, or search the file with file_grep.',
  });

const notParsed = (name: string, { sourceBatchMs }: Limits): ToolError =>
  new ToolError('CPU_LIMIT', `the parser crashed on \`${name}\`, or did not end within ${sourceBatchMs} ms`, {
    suggestion: 'Search it with file_grep; very deep nesting is more than parsers take.',
    details: { limit: sourceBatchMs, enforcedBy: 'host' },
  });
