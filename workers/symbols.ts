/**
 * What a job may ask about symbols: files are found by ripgrep, which leaves out what .gitignore and the rules on paths do,
 * and only of those anything is told; TypeScript's language server and parsers say what is in them.
 */
import { ToolError } from '../src/errors.ts';
import type { Limits } from '../src/limits.ts';
import type { Powers } from '../src/powers.ts';
import type {
  FoundReference,
  FoundSymbol,
  Precision,
  ReferenceQuery,
  SymbolQuery,
  Symbols,
  SymbolType,
} from '../src/tools/symbols.ts';
import type { CheckedFile, CheckedSearch, ContentQuery } from '../src/tools/tool.ts';
import { isServed, parsedLanguage, servedLanguage } from './source-languages.ts';
import { SyntaxParser } from './syntax-parser.ts';
import {
  onePerProject,
  type Place,
  type ServedSymbol,
  type Sources,
  TypeScriptServer,
  type Where,
} from './typescript-server.ts';

/** What understands languages, kept by a thread from one job to the next. */
export class LanguageServers implements Disposable {
  readonly typescript: TypeScriptServer;
  readonly parser: SyntaxParser;

  constructor(limits: Limits, powers: Powers) {
    this.typescript = new TypeScriptServer(limits, powers);
    this.parser = new SyntaxParser(limits, powers);
  }

  [Symbol.dispose](): void {
    this.typescript[Symbol.dispose]();
    this.parser[Symbol.dispose]();
  }
}

export interface WorkspaceSymbolsOptions {
  /** Absolute. */
  readonly workspace: string;
  readonly servers: LanguageServers;
  readonly limits: Limits;
  readonly signal: AbortSignal;
  search(): CheckedSearch;
  /** A file that was found, or that the caller named when `declared` is absent. */
  open(path: string, declared?: string): CheckedFile;
}

/** A symbol or a use of one, wherever it was found. */
interface Name extends Place {
  readonly name: string;
  readonly type?: SymbolType;
}

export class WorkspaceSymbols implements Symbols {
  readonly #options: WorkspaceSymbolsOptions;
  readonly #lines = new Map<string, readonly string[]>();
  readonly #skipped = new Set<string>();
  #parserEnds = 0;
  #truncated = false;

  constructor(options: WorkspaceSymbolsOptions) {
    this.#options = options;
  }

  async find({ query, type, maxResults }: SymbolQuery): ReturnType<Symbols['find']> {
    const { servers, limits, signal } = this.#options;
    const sources = await this.#sources();
    const files = await this.#filesWith({ pattern: query, literal: true, caseSensitive: false }, sources);
    const names: Name[] = [];
    const where = await this.#whereDeclared(query, sources);
    if (where.begin.length > 0) {
      const found = await servers.typescript.symbols(query, where, signal);
      if (!found.complete) this.#truncated = true;
      names.push(...found.symbols.map((it) => ({ ...it, type: this.#typeOf(it, sources) })));
    }
    const wanted = query.toLowerCase();
    const parsed = await this.#parseAll(files, { resultsMax: limits.searchPathsMax });
    names.push(...parsed.symbols.filter((it) => it.name.toLowerCase().includes(wanted)));
    const matching = names
      .filter((it) => type === undefined || it.type === type)
      .sort((a, b) => rankOf(a.name, query) - rankOf(b.name, query) || byPlace(a, b));
    return {
      symbols: matching.slice(0, maxResults).map((it) => this.#shown(it, sources)),
      total: matching.length,
      ...this.#rest(matching, matching.length > maxResults),
    };
  }

  async references({ symbol, file, line, maxResults }: ReferenceQuery): ReturnType<Symbols['references']> {
    const { limits } = this.#options;
    const sources = await this.#sources();
    if (file !== undefined) this.#assertSource(file, sources);
    const files = await this.#filesWith({ pattern: symbol, literal: true, caseSensitive: true }, sources);
    const named = file === undefined ? undefined : this.#placesIn(file, symbol, line, sources);
    const isParsed = file === undefined || parsedLanguage(file) !== undefined;
    const own = file === undefined ? files : files.filter((it) => parsedLanguage(it) === parsedLanguage(file));
    const parsed = isParsed
      ? await this.#parseAll(own, { name: symbol, resultsMax: limits.searchPathsMax })
      : { symbols: [], uses: [] };
    const served = await this.#servedReferences(symbol, named, files, sources);
    const definitions = [...served.definitions, ...parsed.symbols].sort(byPlace);
    const all = [...served.references, ...parsed.uses].sort(byPlace);
    if (all.length === 0) throw this.#notFound(symbol, served.near);
    return {
      references: all.slice(0, maxResults).map((it) => this.#reference(it, sources)),
      definitions: definitions.slice(0, limits.symbolDefinitionsMax).map((it) => this.#shown(it, sources)),
      total: all.length,
      ...this.#rest(all, all.length > maxResults),
    };
  }

  async #servedReferences(
    symbol: string,
    named: readonly Place[] | undefined,
    files: readonly string[],
    sources: Sources,
  ): Promise<{ definitions: Name[]; references: Name[]; near: string[] }> {
    const { servers, limits, signal } = this.#options;
    const doubtful = files.filter((it) => servedLanguage(it) !== undefined);
    const where = { sources, begin: [], doubtful };
    const nothing = { definitions: [], references: [], near: [] };
    if (doubtful.length === 0 || (named && named.length === 0)) return nothing;
    const found = named ? undefined : await servers.typescript.symbols(symbol, where, signal);
    const same = (found?.symbols ?? []).filter((it) => it.name === symbol);
    const definitions = same.map((it) => ({ ...it, type: this.#typeOf(it, sources) }));
    if (definitions.length > limits.symbolDefinitionsMax) this.#truncated = true;
    const places = named ?? definitions.slice(0, limits.symbolDefinitionsMax);
    const near = [...new Set((found?.symbols ?? []).map((it) => it.name))].slice(0, NEAR_SHOWN);
    if (places.length === 0) return { ...nothing, near };
    const { places: all, complete } = await servers.typescript.references(places, where, signal);
    if (!complete) this.#truncated = true;
    return { definitions, references: all.map((it) => ({ ...it, name: symbol })), near };
  }

  /** All sources and project files that may be told of, with what changes when they do. */
  async #sources(): Promise<Sources> {
    const { workspace, limits } = this.#options;
    const stamps = new Map<string, string>();
    using search = this.#options.search();
    await search.files({}, (path) => {
      if (!isServed(path) && parsedLanguage(path) === undefined) return true;
      if (stamps.size >= limits.symbolSourcesMax) {
        this.#truncated = true;
        return false;
      }
      const stat = search.stat(path);
      if (stat) stamps.set(path, `${stat.modifiedMs} ${stat.size}`);
      return true;
    });
    return { workspace, stamps, read: (path) => this.#read(path, '.') };
  }

  /**
   * Names match in other ways than as a text, so that one file of each directory has its project looked through; those whose
   * text seems to declare it may be in none.
   */
  async #whereDeclared(query: string, sources: Sources): Promise<Where> {
    const name = query.replaceAll(/[^\p{L}\p{N}_]/gu, (it) => `\\${it}`);
    const pattern = `\\b(function|class|interface|type|enum|namespace|const|let|var)\\b[\\s*]+[\\w$]*${name}`;
    const declaring = await this.#filesWith({ pattern, literal: false, caseSensitive: false }, sources);
    const isServedSource = (it: string) => servedLanguage(it) !== undefined;
    const all = [...sources.stamps.keys()].filter(isServedSource);
    return { sources, begin: onePerProject(all, sources.stamps), doubtful: declaring.filter(isServedSource) };
  }

  /** Sources in which something stands, in their order. */
  async #filesWith(query: ContentQuery, { stamps }: Sources): Promise<string[]> {
    using search = this.#options.search();
    const found: string[] = [];
    await search.counts(query, (path) => {
      if (stamps.has(path) && !path.endsWith('.json')) found.push(path);
      return true;
    });
    return found.sort();
  }

  async #parseAll(
    files: readonly string[],
    { name, resultsMax }: { name?: string; resultsMax: number },
  ): Promise<{ symbols: Name[]; uses: Name[] }> {
    const { limits, signal, servers } = this.#options;
    const found = { symbols: [] as Name[], uses: [] as Name[] };
    let parsed = 0;
    for (const path of files) {
      const language = parsedLanguage(path);
      if (language === undefined) continue;
      parsed += 1;
      if (parsed > limits.symbolParsedMax || found.symbols.length + found.uses.length >= resultsMax) {
        this.#truncated = true;
        break;
      }
      const text = this.#read(path, '.');
      const answer =
        text === undefined || text.length > limits.symbolSourceBytesMax
          ? undefined
          : await servers.parser.parse({ language, text, resultsMax, ...(name !== undefined && { name }) }, signal);
      if (!answer) this.#skip(path, text);
      else {
        found.symbols.push(...answer.symbols.map((it) => ({ ...it, path })));
        found.uses.push(...answer.uses.map((it) => ({ ...it, path })));
      }
    }
    return found;
  }

  /** Throws where too many files of this call ended their parsers. */
  #skip(path: string, text: string | undefined): void {
    const { symbolParserEndsMax, symbolSourceBytesMax } = this.#options.limits;
    this.#skipped.add(path);
    this.#truncated = true;
    if (text === undefined || text.length > symbolSourceBytesMax) return;
    this.#parserEnds += 1;
    if (this.#parserEnds < symbolParserEndsMax) return;
    throw new ToolError('CPU_LIMIT', `${symbolParserEndsMax} files were more than their parsers take`, {
      suggestion: `Search with file_grep, or have ${[...this.#skipped].slice(0, NEAR_SHOWN).join(', ')} ignored.`,
      details: { limit: symbolParserEndsMax, enforcedBy: 'host' },
    });
  }

  #assertSource(file: string, { stamps }: Sources): void {
    // A refusal is said before anything else is.
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

  /** Where a file names it, on one line of it if that is said. Throws NOT_FOUND, INPUT_INVALID. */
  #placesIn(file: string, symbol: string, line: number | undefined, sources: Sources): Place[] {
    const path = plain(file);
    const all = this.#linesOf(path, sources).flatMap((text, at) => {
      const character = wordAt(text, symbol);
      return character === undefined ? [] : [{ path, line: at, character }];
    });
    const lines = all.slice(0, NEAR_SHOWN).map((it) => it.line + 1);
    if (all.length === 0) throw new ToolError('NOT_FOUND', `\`${symbol}\` does not stand in \`${file}\``);
    if (line === undefined) return all.slice(0, this.#options.limits.symbolDefinitionsMax);
    const asked = all.filter((it) => it.line === line - 1);
    if (asked.length > 0) return asked;
    throw new ToolError('NOT_FOUND', `\`${symbol}\` does not stand in line ${line} of \`${file}\``, {
      suggestion: `It stands in line ${lines.join(', ')}.`,
    });
  }

  #notFound(symbol: string, near: readonly string[]): ToolError {
    const known = 'Symbols of TypeScript, JavaScript, Python, Rust and Go are known.';
    const suggestion =
      near.length > 0
        ? `There are ${near.map((it) => `\`${it}\``).join(', ')}.`
        : 'Parameters are found by file and line; texts by file_grep.';
    return new ToolError('NOT_FOUND', `nothing in this workspace is called \`${symbol}\`. ${known}`, { suggestion });
  }

  #read(path: string, declared: string): string | undefined {
    try {
      using file = this.#options.open(path, declared);
      return file
        .bytes()
        .toString()
        .replace(/^\uFEFF/, '');
    } catch (error) {
      if (error instanceof ToolError) return undefined; // It went, became a link, or is too large.
      throw error;
    }
  }

  #linesOf(path: string, sources: Sources): readonly string[] {
    let lines = this.#lines.get(path);
    if (!lines) {
      lines = (sources.read(path) ?? '').split(/\r\n|\n|\r/);
      this.#lines.set(path, lines);
    }
    return lines;
  }

  #typeOf({ kind, path, line, character }: ServedSymbol, sources: Sources): SymbolType {
    if (kind !== CLASS_KIND) return TYPES[kind] ?? 'variable';
    // It calls type aliases classes.
    const before = (this.#linesOf(path, sources)[line] ?? '').slice(0, character);
    return /\btype\s+$/.test(before) ? 'type' : 'class';
  }

  #shown({ name, type = 'variable', path, line, character }: Name, sources: Sources): FoundSymbol {
    const preview = cut(this.#linesOf(path, sources)[line] ?? '', character, this.#options.limits.symbolLineChars);
    return { name, type, file: path, line: line + 1, preview };
  }

  #reference({ path, line, character }: Name, sources: Sources): FoundReference {
    const text = this.#linesOf(path, sources)[line] ?? '';
    const column = Array.from(text.slice(0, character)).length + 1;
    return { file: path, line: line + 1, column, context: cut(text, character, this.#options.limits.symbolLineChars) };
  }

  #rest(names: readonly Name[], isCut: boolean): { precision: Precision; truncated: boolean; skipped: string[] } {
    const parsed = names.filter((it) => parsedLanguage(it.path) !== undefined).length;
    const precision = parsed === 0 ? 'semantic' : parsed === names.length ? 'syntactic' : 'mixed';
    return { precision, truncated: this.#truncated || isCut, skipped: [...this.#skipped].slice(0, SKIPPED_SHOWN) };
  }
}

const NEAR_SHOWN = 5;
const SKIPPED_SHOWN = 20;
const CLASS_KIND = 5;

/** Kinds of the Language Server Protocol. */
const TYPES: Readonly<Record<number, SymbolType>> = {
  ...{ 2: 'module', 3: 'module', 4: 'module', 6: 'function', 9: 'function', 10: 'type', 11: 'interface' },
  ...{ 12: 'function', 26: 'type' },
};

const plain = (path: string): string =>
  path
    .split('/')
    .filter((it) => it !== '' && it !== '.')
    .join('/');

const byPlace = (a: Place, b: Place): number =>
  a.path === b.path ? a.line - b.line || a.character - b.character : a.path < b.path ? -1 : 1;

/** The very name, the same but for case, its beginning, a part of it, something like it. */
function rankOf(name: string, query: string): number {
  if (name === query) return 0;
  const [own, asked] = [name.toLowerCase(), query.toLowerCase()];
  if (own === asked) return 1;
  return own.startsWith(asked) ? 2 : own.includes(asked) ? 3 : 4;
}

/** Where a name first stands in a line as a word of its own, in UTF-16 units. */
function wordAt(text: string, name: string): number | undefined {
  const isPart = (it: string | undefined) => it !== undefined && /[\p{L}\p{N}_$]/u.test(it);
  for (let at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + name.length))
    if (!isPart(text[at - 1]) && !isPart(text[at + name.length])) return at;
  return undefined;
}

/** A line without its indentation; where it is long, what stands around `character`. */
function cut(line: string, character: number, charsMax: number): string {
  const text = line.trim();
  if (text.length <= charsMax) return text;
  const at = character - (line.length - line.trimStart().length);
  const from = at > charsMax / 2 ? at - Math.floor(charsMax / 2) : 0;
  const shown = text.slice(from, from + charsMax).toWellFormed();
  return `${from > 0 ? '…' : ''}${shown}${from + charsMax < text.length ? '…' : ''}`;
}
