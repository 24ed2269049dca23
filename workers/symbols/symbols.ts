/**
 * Answers symbol queries. ripgrep finds the files, without those that .gitignore and path rules exclude, and only
 * these appear in answers; TypeScript's language server and parsers read their content.
 */

import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type {
  FoundReference,
  FoundSymbol,
  ReferenceQuery,
  SymbolQuery,
  SymbolResult,
  Symbols,
  SymbolType,
} from '../../src/tools/source/symbols.ts';
import type { CheckedFile, CheckedSearch, ContentQuery } from '../../src/tools/tool.ts';
import { toText } from '../code/source-files.ts';
import type { LanguageServers } from './language-servers.ts';
import { type ParsedLanguage, parsedInstead, parsedLanguage, servedLanguage } from './source-languages.ts';
import { SourceLines, showAround, wordsAt } from './source-lines.ts';
import type { ProjectSelection, ServedSymbol } from './typescript-server.ts';
import {
  type FilePosition,
  filesWith,
  listStamps,
  onePerProject,
  plain,
  type WorkspaceSources,
} from './workspace-sources.ts';

export interface WorkspaceSymbolsOptions {
  /** Absolute path. */
  readonly workspace: string;
  readonly servers: LanguageServers;
  readonly limits: Limits;
  readonly signal: AbortSignal;
  /** Opens a directory for searching. */
  search(path: string): CheckedSearch;
  /** Opens a file that was found in `declared`, or that the caller named if that is absent. */
  open(path: string, declared?: string): CheckedFile;
}

/** A symbol or a use of one, found by either means. */
interface FoundName extends FilePosition {
  readonly name: string;
  readonly type?: SymbolType;
}

interface FoundNames {
  readonly symbols: FoundName[];
  readonly uses: FoundName[];
  /** Names similar to the query. */
  readonly near?: string[];
}

const NOTHING: FoundNames = { symbols: [], uses: [] };

export class WorkspaceSymbols implements Symbols {
  readonly #options: WorkspaceSymbolsOptions;
  readonly #skipped = new Set<string>();
  readonly #lines: SourceLines;
  #parserEnds = 0;
  #truncated = false;
  #warning: string | undefined;

  constructor(options: WorkspaceSymbolsOptions) {
    this.#options = options;
    this.#lines = new SourceLines((path) => this.#read(path) ?? '', options.signal);
  }

  async find({ query, type, maxResults }: SymbolQuery): ReturnType<Symbols['find']> {
    const sources = await this.#sources();
    const files = await this.#filesWith({ pattern: query, literal: true, caseSensitive: false }, sources);
    const served = await this.#orParsed(
      () => this.#servedSymbols(query, sources),
      () => this.#parseAll(files, parsedInstead),
    );
    const parsed = await this.#parseAll(files, parsedLanguage);
    const wanted = query.toLowerCase();
    const isFuzzy = this.#warning === undefined;
    const matching = [...served.symbols, ...parsed.symbols]
      .filter((it) => type === undefined || it.type === type)
      .filter((it) => (isFuzzy && servedLanguage(it.path)) || it.name.toLowerCase().includes(wanted))
      .sort((a, b) => rankOf(a.name, query) - rankOf(b.name, query) || byPosition(a, b));
    return {
      symbols: await this.#shownAll(matching.slice(0, maxResults)),
      total: matching.length,
      ...this.#summaryOf(matching, matching.length > maxResults),
    };
  }

  async references({ symbol, file, line, maxResults }: ReferenceQuery): ReturnType<Symbols['references']> {
    const { limits } = this.#options;
    const sources = await this.#sources();
    if (file !== undefined) this.#assertSource(file, sources);
    const files = await this.#filesWith({ pattern: symbol, literal: true, caseSensitive: true }, sources);
    const named = file === undefined ? undefined : await this.#placesIn(file, symbol, line);
    const language = file === undefined ? undefined : parsedLanguage(file);
    const served =
      language === undefined
        ? await this.#orParsed(
            () => this.#servedReferences(symbol, named, files, sources),
            () => this.#parseAll(files, parsedInstead, symbol),
          )
        : NOTHING;
    const own = files.filter((it) => file === undefined || (language && parsedLanguage(it) === language));
    const parsed = await this.#parseAll(own, parsedLanguage, symbol);
    const uses = [...served.uses, ...parsed.uses].sort(byPosition);
    if (uses.length === 0) throw notFound(symbol, file, served.near ?? []);
    const references: FoundReference[] = [];
    for (const it of uses.slice(0, maxResults)) references.push(await this.#reference(it));
    const definitions = [...served.symbols, ...parsed.symbols].sort(byPosition).slice(0, limits.symbolDefinitionsMax);
    return {
      references,
      definitions: await this.#shownAll(definitions),
      total: uses.length,
      ...this.#summaryOf(uses, uses.length > maxResults),
    };
  }

  /** Asks the language server; if that fails, the parsers. */
  async #orParsed(served: () => Promise<FoundNames>, parsed: () => Promise<FoundNames>): Promise<FoundNames> {
    try {
      return await served();
    } catch (error) {
      const isItsEnd = error instanceof ToolError && ITS_ENDS.has(error.code);
      if (!isItsEnd || this.#options.signal.aborted) throw error;
      this.#warning = `${error.message}; names were found by their syntax alone`;
      return parsed();
    }
  }

  async #servedSymbols(query: string, sources: WorkspaceSources): Promise<FoundNames> {
    const { servers, signal } = this.#options;
    const where = await this.#whereDeclared(query, sources);
    if (where.firstFiles.length === 0) return NOTHING;
    const { symbols, complete } = await servers.typescript.symbols(query, where, signal);
    if (!complete) this.#truncated = true;
    return { symbols: await this.#typed(symbols), uses: [] };
  }

  async #servedReferences(
    symbol: string,
    named: readonly FilePosition[] | undefined,
    files: readonly string[],
    sources: WorkspaceSources,
  ): Promise<FoundNames> {
    const { servers, limits, signal } = this.#options;
    const candidates = files.filter((it) => servedLanguage(it) !== undefined);
    const where = { sources, firstFiles: [], candidates };
    if (candidates.length === 0 || named?.length === 0) return NOTHING;
    const found = named ? [] : (await servers.typescript.symbols(symbol, where, signal)).symbols;
    const same = found.filter((it) => it.name === symbol);
    if (same.length > limits.symbolDefinitionsMax) this.#truncated = true;
    const symbols = await this.#typed(same);
    const positions = named ?? symbols.slice(0, limits.symbolDefinitionsMax);
    const near = [...new Set(found.map((it) => it.name))].slice(0, NEAR_SHOWN);
    if (positions.length === 0) return { ...NOTHING, near };
    const { positions: all, complete } = await servers.typescript.references(positions, where, signal);
    if (!complete) this.#truncated = true;
    return { symbols, uses: all.map((it) => ({ ...it, name: symbol })), near };
  }

  /** All sources and project files that answers may name, each with a stamp that changes with the file. */
  async #sources(): Promise<WorkspaceSources> {
    const { workspace, limits } = this.#options;
    using search = this.#options.search('.');
    const { stamps, complete } = await listStamps(search, limits);
    if (!complete) this.#truncated = true;
    return { workspace, stamps, read: (path) => this.#read(path) };
  }

  /**
   * Chooses files to load: one file of each directory, so that its project is searched, since names also match in
   * ways other than as text; and files whose text seems to declare the name, which may be in no project.
   */
  async #whereDeclared(query: string, sources: WorkspaceSources): Promise<ProjectSelection> {
    const name = query.replaceAll(/[^\p{L}\p{N}_]/gu, (it) => `\\${it}`);
    const pattern = `\\b(function|class|interface|type|enum|namespace|const|let|var)\\b[\\s*]+[\\w$]*${name}`;
    const declaring = await this.#filesWith({ pattern, literal: false, caseSensitive: false }, sources);
    const isServedSource = (it: string) => servedLanguage(it) !== undefined;
    const all = [...sources.stamps.keys()].filter(isServedSource);
    return { sources, firstFiles: onePerProject(all, sources.stamps), candidates: declaring.filter(isServedSource) };
  }

  /** The sources that match a text query, sorted. */
  #filesWith(query: ContentQuery, sources: WorkspaceSources): Promise<string[]> {
    return filesWith(this.#options.search('.'), query, sources);
  }

  /** Parses those of `files` that have a parser; gives all symbols, or only those called `name`. */
  async #parseAll(
    files: readonly string[],
    languageOf: (path: string) => ParsedLanguage | undefined,
    name?: string,
  ): Promise<FoundNames> {
    const { limits, signal, servers } = this.#options;
    const found: FoundNames = { symbols: [], uses: [] };
    const sources = files.filter((it) => languageOf(it) !== undefined);
    const resultsMax = limits.searchPathsMax;
    for (const [at, path] of sources.entries()) {
      if (at >= limits.symbolParsedMax || found.symbols.length + found.uses.length >= resultsMax) {
        this.#truncated = true;
        break;
      }
      const language = languageOf(path) as ParsedLanguage;
      const text = this.#read(path);
      const request = text !== undefined && { language, text, resultsMax, name };
      const answer = request ? await servers.parser.parse(request, signal) : undefined;
      if (!answer) this.#skip(path, text !== undefined);
      else {
        for (const it of answer.symbols) found.symbols.push({ ...it, path });
        for (const it of answer.uses) found.uses.push({ ...it, path });
      }
    }
    return found;
  }

  /** Notes a skipped file. Throws if too many files of this call crashed their parsers. */
  #skip(path: string, wasParsed: boolean): void {
    const { symbolParserEndsMax } = this.#options.limits;
    this.#skipped.add(path);
    this.#truncated = true;
    if (!wasParsed) return;
    this.#parserEnds += 1;
    if (this.#parserEnds < symbolParserEndsMax) return;
    throw new ToolError('CPU_LIMIT', `the parsers failed on ${symbolParserEndsMax} files, which is the maximum`, {
      suggestion: `Search with file_grep, or have ${[...this.#skipped].slice(0, NEAR_SHOWN).join(', ')} ignored by git.`,
      details: { limit: symbolParserEndsMax, enforcedBy: 'host' },
    });
  }

  #assertSource(file: string, { stamps }: WorkspaceSources): void {
    // Opening the file reports a refusal before any other error.
    this.#options.open(file)[Symbol.dispose]();
    if (servedLanguage(file) === undefined && parsedLanguage(file) === undefined)
      throw new ToolError('UNSUPPORTED', `\`${file}\` is not TypeScript, JavaScript, Python, Rust or Go`, {
        suggestion: 'Search it with file_grep.',
      });
    if (stamps.has(plain(file))) return;
    throw new ToolError('UNSUPPORTED', `\`${file}\` is hidden, ignored, a link, or one of too many sources`, {
      suggestion: 'Search it with file_grep.',
    });
  }

  /** Positions in a file that name the symbol, on one line if given. Throws NOT_FOUND. */
  async #placesIn(file: string, symbol: string, line: number | undefined): Promise<FilePosition[]> {
    const path = plain(file);
    const lines = await this.#lines.linesOf(path);
    const all = lines.flatMap((text, at) => wordsAt(text, symbol).map((character) => ({ path, line: at, character })));
    if (all.length === 0) throw new ToolError('NOT_FOUND', `\`${symbol}\` does not occur in \`${file}\``);
    const asked = all.filter((it) => line === undefined || it.line === line - 1);
    if (asked.length > 0) return asked.slice(0, this.#options.limits.symbolDefinitionsMax);
    const shown = [...new Set(all.map((it) => it.line + 1))].slice(0, NEAR_SHOWN);
    throw new ToolError('NOT_FOUND', `\`${symbol}\` does not occur in line ${line} of \`${file}\``, {
      suggestion: `It occurs in line ${shown.join(', ')}.`,
    });
  }

  /** The text of a file; undefined if it is gone, became a link, must not be read, or is too large. */
  #read(path: string): string | undefined {
    try {
      using file = this.#options.open(path, '.');
      if (file.size > this.#options.limits.symbolSourceBytesMax) {
        this.#skip(path, false);
        return undefined;
      }
      return toText(file);
    } catch (error) {
      if (error instanceof ToolError) return undefined;
      throw error;
    }
  }

  async #typed(symbols: readonly ServedSymbol[]): Promise<FoundName[]> {
    const names: FoundName[] = [];
    for (const { kind, ...it } of symbols.toSorted(byPosition)) {
      // The server reports type aliases as classes.
      const before = kind === CLASS_KIND ? ((await this.#lines.linesOf(it.path))[it.line] ?? '') : '';
      const isAlias = /\btype\s+$/.test(before.slice(0, it.character));
      names.push({ ...it, type: isAlias ? 'type' : (TYPES[kind] ?? 'variable') });
    }
    return names;
  }

  /** Adds the source lines, and keeps the order of `names`; reads one file after another. */
  async #shownAll(names: readonly FoundName[]): Promise<FoundSymbol[]> {
    const shown = new Map<FoundName, FoundSymbol>();
    for (const it of names.toSorted(byPosition)) {
      const line = (await this.#lines.linesOf(it.path))[it.line] ?? '';
      const preview = showAround(line, it.character, this.#options.limits.symbolLineChars);
      shown.set(it, { name: it.name, type: it.type ?? 'variable', file: it.path, line: it.line + 1, preview });
    }
    return names.map((it) => shown.get(it) as FoundSymbol);
  }

  async #reference({ path, line, character }: FoundName): Promise<FoundReference> {
    const text = (await this.#lines.linesOf(path))[line] ?? '';
    return {
      file: path,
      line: line + 1,
      column: character + 1,
      context: showAround(text, character, this.#options.limits.symbolLineChars),
    };
  }

  #summaryOf(names: readonly FoundName[], isCut: boolean): SymbolResult {
    const isParsed = ({ path }: FoundName) => this.#warning !== undefined || parsedLanguage(path) !== undefined;
    const parsed = names.filter(isParsed).length;
    const none = this.#warning === undefined ? 'semantic' : 'syntactic';
    const precision = parsed === 0 ? none : parsed === names.length ? 'syntactic' : 'mixed';
    const skipped = [...this.#skipped].slice(0, SKIPPED_SHOWN);
    return {
      precision,
      truncated: this.#truncated || isCut,
      skipped,
      warning: this.#warning,
    };
  }
}

function notFound(symbol: string, file: string | undefined, near: readonly string[]): ToolError {
  if (file !== undefined)
    return new ToolError('NOT_FOUND', `\`${symbol}\` in \`${file}\` is not a symbol`, {
      suggestion: 'Give the line too, or search for the text with file_grep.',
    });
  const known = 'Supported languages: TypeScript, JavaScript, Python, Rust and Go.';
  const suggestion =
    near.length > 0
      ? `There are ${near.map((it) => `\`${it}\``).join(', ')}.`
      : 'Parameters are found by file and line; texts by file_grep.';
  return new ToolError('NOT_FOUND', `no symbol in this workspace is named \`${symbol}\`. ${known}`, { suggestion });
}

/** Error codes with which the language server may fail. */
const ITS_ENDS: ReadonlySet<string> = new Set(['MEMORY_LIMIT', 'HOST_CRASHED', 'OUTPUT_LIMIT']);

const NEAR_SHOWN = 5;
const SKIPPED_SHOWN = 20;
const CLASS_KIND = 5;

/** Symbol kinds of the Language Server Protocol. */
const TYPES: Readonly<Record<number, SymbolType>> = {
  [CLASS_KIND]: 'class',
  2: 'module',
  3: 'module',
  4: 'module',
  6: 'function',
  9: 'function',
  10: 'type',
  11: 'interface',
  12: 'function',
  26: 'type',
};

const byPosition = (a: FilePosition, b: FilePosition): number =>
  a.path === b.path ? a.line - b.line || a.character - b.character : a.path < b.path ? -1 : 1;

/** Rank of a match: equal, equal ignoring case, prefix, substring, anything else. */
function rankOf(name: string, query: string): number {
  if (name === query) return 0;
  const [own, asked] = [name.toLowerCase(), query.toLowerCase()];
  if (own === asked) return 1;
  return own.startsWith(asked) ? 2 : own.includes(asked) ? 3 : 4;
}
