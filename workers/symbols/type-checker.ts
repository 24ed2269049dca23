/** Checks types: of files by the language server, which is warm after its first use, of projects by the compiler. */

import { createRequire } from 'node:module';
import { join } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import { textOf } from '../../src/tools/edit/text.ts';
import type {
  ProjectCheckQuery,
  RefactorPlan,
  RefactorQuery,
  TypeCheck,
  TypeCheckQuery,
  TypeProblem,
  TypeScript,
} from '../../src/tools/source/typescript.ts';
import type { ContentQuery } from '../../src/tools/tool.ts';
import { toText } from '../code/source-files.ts';
import { hashOf } from '../context/files.ts';
import { addImports, tidyImports } from './imports.ts';
import { moveDirectory } from './move-directory.ts';
import { moveFile } from './move-file.ts';
import { Refactoring } from './refactoring.ts';
import { renameSymbol } from './rename-symbol.ts';
import { parsedLanguage, servedLanguage } from './source-languages.ts';
import type { WorkspaceSymbolsOptions } from './symbols.ts';
import { type Diagnostic, type FileDiagnostic, TypeProblems } from './type-problems.ts';
import { filesWith, listStamps, plain, uriOf, type WorkspaceSources } from './workspace-sources.ts';

export interface TypeCheckerOptions extends WorkspaceSymbolsOptions {
  isRefused(path: string): boolean;
  isWriteRefused(path: string): boolean;
}

export class TypeChecker implements TypeScript {
  readonly #options: TypeCheckerOptions;
  readonly #problems: TypeProblems;

  constructor(options: TypeCheckerOptions) {
    this.#options = options;
    this.#problems = new TypeProblems(options);
  }

  async checkFiles({ paths, severity, maxProblems }: TypeCheckQuery): Promise<TypeCheck> {
    const { servers, limits, signal } = this.#options;
    const { sources, complete } = await this.#sources();
    const all = paths.flatMap((it) => this.#sourcesAt(it, sources));
    const files = [...new Set(all)].slice(0, limits.typeCheckFilesMax);
    const most = SEVERITIES[severity];
    const found = await servers.typescript.use(sources, signal, async (turn) => {
      const diagnostics: FileDiagnostic[] = [];
      for (const path of files) {
        await turn.open(path);
        const textDocument = { uri: uriOf(path, sources) };
        const answer = await turn.ask<{ items?: Diagnostic[] }>('textDocument/diagnostic', { textDocument });
        for (const it of answer?.items ?? []) if ((it.severity ?? 1) <= most) diagnostics.push({ ...it, path });
      }
      return diagnostics;
    });
    const isCut = !complete || files.length < all.length;
    return this.#answer(found, { checkedFiles: files.length, isCut, maxProblems });
  }

  async checkProject({ project, strict, maxProblems }: ProjectCheckQuery): Promise<TypeCheck> {
    const { servers, signal, workspace, isRefused } = this.#options;
    const path = this.projectOf(project) ?? project;
    this.#options.open(path)[Symbol.dispose]();
    const { diagnostics, files } = await servers.compiler.check({ workspace, path, strict }, signal);
    const shown = diagnostics.flatMap((it): FileDiagnostic[] => {
      // Such as the compiler's own declarations, and files that the policy hides.
      if (it.path.startsWith('/') || it.path.startsWith('..') || isRefused(it.path))
        return [{ ...it, ...ELSEWHERE, path }];
      return [it];
    });
    return this.#answer(shown, {
      checkedFiles: files.filter((it) => !isRefused(it)).length,
      isCut: false,
      maxProblems,
    });
  }

  async refactor(query: RefactorQuery): Promise<RefactorPlan> {
    const { servers, limits, signal, isRefused } = this.#options;
    const { sources } = await this.#sources();
    const path = plain(query.path);
    const isDirectory = this.#sourcesAt(query.path, sources)[0] !== path;
    if (isDirectory && query.operation !== 'move_file')
      throw new ToolError('UNSUPPORTED', `\`${query.path}\` is a directory; name one source file`);
    const plan = await servers.typescript.use(sources, signal, (turn) => {
      const take = (it: string) => this.#take(it);
      const find = (it: ContentQuery) => filesWith(this.#options.search('.'), it, sources);
      const work = new Refactoring({ turn, sources, limits, signal, take, filesWith: find, isRefused });
      switch (query.operation) {
        case 'rename':
          return renameSymbol({ ...query, path }, work);
        case 'move_file':
          if (isDirectory) return moveDirectory(path, query.to, work, servers.parser);
          return moveFile(path, query.to, work);
        case 'add_missing_imports':
          return addImports(path, work);
        default:
          return tidyImports(query.operation, path, work);
      }
    });
    return plan;
  }

  /** Content that will be changed. Throws POLICY_DENIED and what refuses to read it. */
  #take(path: string): { text: string; hash: string } {
    using file = this.#options.open(path, '.');
    if (this.#options.isWriteRefused(path))
      throw new ToolError('POLICY_DENIED', `this would change \`${path}\`, which a rule protects`, {
        suggestion: 'Ask the person to change that file.',
      });
    const bytes = file.bytes();
    return { text: textOf(path, bytes).replace(/^\uFEFF/, ''), hash: hashOf(bytes) };
  }

  projectOf(directory: string): string | undefined {
    for (const name of ['tsconfig.json', 'jsconfig.json']) {
      const path = join(directory, name);
      try {
        this.#options.open(path)[Symbol.dispose]();
        return path;
      } catch (error) {
        // Most directories have none, and `directory` may be a file.
        if (!(error instanceof ToolError)) throw error;
      }
    }
    return undefined;
  }

  #answer(
    found: readonly FileDiagnostic[],
    { checkedFiles, isCut, maxProblems }: { checkedFiles: number; isCut: boolean; maxProblems: number },
  ): TypeCheck {
    this.#options.signal.throwIfAborted();
    const errors = found.filter((it) => (it.severity ?? 1) === 1);
    const warnings = found.filter((it) => (it.severity ?? 1) > 1);
    const shown = (some: readonly FileDiagnostic[]): TypeProblem[] =>
      some.slice(0, maxProblems).map((it) => this.#problems.toProblem(it));
    return {
      errors: shown(errors),
      warnings: shown(warnings),
      totalErrors: errors.length,
      checkedFiles,
      truncated: isCut || errors.length > maxProblems || warnings.length > maxProblems,
      engine: ENGINE,
    };
  }

  async #sources(): Promise<{ sources: WorkspaceSources; complete: boolean }> {
    const { workspace, limits } = this.#options;
    using search = this.#options.search('.');
    const { stamps, complete } = await listStamps(search, limits);
    return { sources: { workspace, stamps, read: (path) => this.#read(path) }, complete };
  }

  /** The file, or all sources of the directory, that the caller named. */
  #sourcesAt(named: string, { stamps }: WorkspaceSources): string[] {
    const path = plain(named);
    if (stamps.has(path) && servedLanguage(path) !== undefined) return [path];
    const below = [...stamps.keys()].filter(
      (it) => servedLanguage(it) !== undefined && (path === '' || it.startsWith(`${path}/`)),
    );
    if (below.length > 0) return below.sort();
    // A refusal is told before anything else.
    this.#options.open(named)[Symbol.dispose]();
    const why = servedLanguage(path) === undefined ? 'is not TypeScript or JavaScript' : 'is hidden, ignored or a link';
    throw new ToolError('UNSUPPORTED', `\`${named}\` ${why}`, {
      suggestion: adviceFor(path),
    });
  }

  #read(path: string): string | undefined {
    try {
      using file = this.#options.open(path, '.');
      if (file.size > this.#options.limits.symbolSourceBytesMax) return undefined;
      return toText(file);
    } catch (error) {
      if (error instanceof ToolError) return undefined;
      throw error;
    }
  }
}

const SEVERITIES = { error: 1, warning: 2, suggestion: 4 } as const;
const START = { line: 0, character: 0 };
const ELSEWHERE = {
  range: { start: START, end: START },
  message: 'an error in a file of this project that lies outside of the workspace, or may not be shown',
};

const manifest: unknown = createRequire(import.meta.url)('typescript/package.json');
const ENGINE = { name: 'typescript', version: (manifest as { version: string }).version };

/** What does it for a language that TypeScript's server does not read. */
const adviceFor = (path: string): string =>
  parsedLanguage(path) === undefined
    ? 'Name a source file, a directory with sources, or a tsconfig as project.'
    : 'Only `rename` works in Python, Go and Rust. workspace_find_references names the uses, file_multi_edit changes them.';
