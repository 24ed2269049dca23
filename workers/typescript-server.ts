/**
 * TypeScript's language server, ours: a workspace's own is code that an agent can write. It stays while it is used, is told
 * what changed on disk before each question, and is started anew when it has ended.
 */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ToolError } from '../src/errors.ts';
import type { Limits } from '../src/limits.ts';
import type { Powers, Timer } from '../src/powers.ts';
import { LanguageProcess, Unanswered } from './language-process.ts';
import { isProject, isServed, servedLanguage } from './source-languages.ts';
import { Turns } from './turns.ts';

/** The files of a workspace as one call may see them. */
export interface Sources {
  /** Absolute. */
  readonly workspace: string;
  /** Paths from its root, each with a text that changes with its file. */
  readonly stamps: ReadonlyMap<string, string>;
  /** Undefined for what may not be read, is gone or too large. */
  read(path: string): string | undefined;
}

/** From 0, characters in UTF-16 units, as in the Language Server Protocol. */
export interface Place {
  readonly path: string;
  readonly line: number;
  readonly character: number;
}

export interface ServedSymbol extends Place {
  readonly name: string;
  /** A SymbolKind of the protocol. */
  readonly kind: number;
}

/** Where it is to look, beside what it has looked at anyway. */
export interface Where {
  readonly sources: Sources;
  /** Files whose projects are loaded. */
  readonly begin: readonly string[];
  /** Files that may have what is asked for, as their text says. */
  readonly doubtful: readonly string[];
}

interface GivenSymbol {
  readonly name: string;
  readonly kind: number;
  readonly location: Location;
}

interface Location {
  readonly uri: string;
  readonly range: { readonly start: { readonly line: number; readonly character: number } };
}

/** Part of its memory from which on it collects garbage in earnest. */
const COLLECT_AT = 0.75;
/** Most symbols that it gives to one question. */
const SYMBOLS_GIVEN = 256;
const CREATED = 1;
const CHANGED = 2;
const DELETED = 3;

/** One call, while it is this server's. */
interface Turn {
  readonly server: LanguageProcess;
  readonly sources: Sources;
  readonly signal: AbortSignal;
}

export class TypeScriptServer implements Disposable {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #turns = new Turns();
  #process: LanguageProcess | undefined;
  #told: ReadonlyMap<string, string> = new Map();
  /** Opened files with the stamp of what it has of them; those used last are last. */
  #open = new Map<string, string>();
  #idle: Timer | undefined;
  /** Of the project that a new one could not even load. */
  #tooMuch: { error: ToolError; stamps: ReadonlyMap<string, string>; untilMs: number } | undefined;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** For tests of what its end does. */
  get pid(): number | undefined {
    return this.#process?.alive ? this.#process.pid : undefined;
  }

  /** Symbols that match `query`, the best first. */
  symbols(query: string, where: Where, signal: AbortSignal): Promise<{ symbols: ServedSymbol[]; complete: boolean }> {
    return this.#turn(where.sources, signal, async (turn) => {
      const ask = () => turn.server.request<GivenSymbol[] | null>('workspace/symbol', { query }, signal);
      const { found, complete } = await this.#askAll(turn, where, async () => {
        const given = (await ask()) ?? [];
        return given.flatMap(({ name, kind, location }) => {
          const place = placeOf(location, where.sources);
          return place ? [{ name, kind, ...place }] : [];
        });
      });
      return { symbols: found, complete: complete && found.length < SYMBOLS_GIVEN };
    });
  }

  /** All that refers to what stands at one of `places`, themselves included. */
  references(
    places: readonly Place[],
    where: Where,
    signal: AbortSignal,
  ): Promise<{ places: Place[]; complete: boolean }> {
    const { sources } = where;
    return this.#turn(sources, signal, async (turn) => {
      const context = { includeDeclaration: true };
      const askAt = ({ path, line, character }: Place) => {
        const params = { textDocument: { uri: uriOf(path, sources) }, position: { line, character }, context };
        return turn.server.request<Location[] | null>('textDocument/references', params, signal).catch(orNothing);
      };
      const begin = [...new Set(places.map((it) => it.path))];
      const { found, complete } = await this.#askAll(turn, { ...where, begin }, async () => {
        const all = new Map<string, Place>();
        for (const asked of places)
          for (const it of (await askAt(asked)) ?? []) {
            const place = placeOf(it, sources);
            if (place) all.set(`${place.path}\0${place.line}\0${place.character}`, place);
          }
        return [...all.values()];
      });
      return { places: found, complete };
    });
  }

  [Symbol.dispose](): void {
    this.#idle?.cancel();
    this.#process?.kill();
    this.#process = undefined;
  }

  #turn<T>(sources: Sources, signal: AbortSignal, work: (turn: Turn) => Promise<T>): Promise<T> {
    return this.#turns.take(signal, async () => {
      this.#idle?.cancel();
      const isFresh = !this.#process?.alive;
      this.#assertWorthwhile(sources);
      try {
        const server = await this.#synced(sources, signal);
        return await work({ server, sources, signal });
      } catch (error) {
        // It would take seconds, and end the same way.
        if (isFresh && error instanceof ToolError && error.code === 'MEMORY_LIMIT')
          this.#tooMuch = {
            error,
            stamps: sources.stamps,
            untilMs: this.#powers.monotonicMs() + this.#limits.symbolsIdleMs,
          };
        throw error;
      } finally {
        this.#idle = this.#powers.after(this.#limits.symbolsIdleMs, () => this[Symbol.dispose]());
      }
    });
  }

  /** Throws what ended the last one, for a while, where nothing has changed since. */
  #assertWorthwhile(sources: Sources): void {
    const last = this.#tooMuch;
    this.#tooMuch = undefined;
    if (!last || last.untilMs < this.#powers.monotonicMs()) return;
    if (changesBetween(last.stamps, sources).length > 0) return;
    this.#tooMuch = last;
    throw last.error;
  }

  /** The server, which now knows of all that changed since it was asked last. */
  async #synced(sources: Sources, signal: AbortSignal): Promise<LanguageProcess> {
    if (!this.#process?.alive) {
      this.#open = new Map();
      this.#told = sources.stamps;
      this.#process = await this.#start(sources.workspace, signal);
      return this.#process;
    }
    const server = this.#process;
    const changes = changesBetween(this.#told, sources);
    this.#told = sources.stamps;
    if (changes.length > 0) await server.notify('workspace/didChangeWatchedFiles', { changes }, signal);
    for (const [path, stamp] of this.#open) {
      const now = sources.stamps.get(path);
      if (now === stamp) continue;
      await this.#close({ server, sources, signal }, path);
      if (now !== undefined) await this.#openOne({ server, sources, signal }, path);
    }
    return server;
  }

  async #start(workspace: string, signal: AbortSignal): Promise<LanguageProcess> {
    const { symbolServerMemoryBytes: memoryBytes, symbolAnswerBytes: answerBytesMax } = this.#limits;
    const env = {
      GOMEMLIMIT: `${Math.floor(memoryBytes * COLLECT_AT)}`,
      GOMAXPROCS: `${this.#limits.searchThreadsMax}`,
    };
    const server = new LanguageProcess({
      ...{ name: "TypeScript's language server", program: programOf(), args: ['--lsp', '--stdio'], env },
      ...{ memoryBytes, answerBytesMax, powers: this.#powers },
    });
    const rootUri = pathToFileURL(workspace).href;
    // With watches registered it leaves watching to us, and nothing is pushed.
    const capabilities = { workspace: { didChangeWatchedFiles: { dynamicRegistration: true } } };
    const initializationOptions = { disablePushDiagnostics: true };
    try {
      await server.request('initialize', { processId: null, rootUri, capabilities, initializationOptions }, signal);
      await server.notify('initialized', {}, signal);
      return server;
    } catch (error) {
      server.kill();
      throw error;
    }
  }

  /**
   * What `ask` finds when the projects of all files in question are loaded. Files that seem to belong to a project may be ones
   * that it leaves out: those of which nothing was found are opened themselves, and it is asked again.
   */
  async #askAll<T extends Place>(
    turn: Turn,
    { begin, doubtful, sources }: Where,
    ask: () => Promise<T[]>,
  ): Promise<{ found: T[]; complete: boolean }> {
    const { symbolFilesOpenMax, symbolFilesDoubtedMax } = this.#limits;
    const first = [...new Set([...begin, ...onePerProject(doubtful, sources.stamps)])];
    await this.#openAll(turn, first.slice(0, symbolFilesOpenMax));
    const found = await ask();
    const known = new Set(found.map((it) => it.path));
    const { files, directories } = oneEach(doubtful.filter((it) => !known.has(it) && !this.#open.has(it)));
    const complete = first.length <= symbolFilesOpenMax && directories <= symbolFilesDoubtedMax;
    if (files.length === 0) return { found, complete };
    await this.#openAll(turn, files.slice(0, symbolFilesDoubtedMax));
    return { found: await ask(), complete };
  }

  async #openAll(turn: Turn, paths: readonly string[]): Promise<void> {
    for (const path of paths) await this.#openOne(turn, path);
    for (const path of this.#open.keys()) {
      if (this.#open.size <= this.#limits.symbolFilesOpenMax) break;
      await this.#close(turn, path);
    }
  }

  async #openOne({ server, sources, signal }: Turn, path: string): Promise<void> {
    const stamp = sources.stamps.get(path);
    if (stamp === undefined) return;
    if (this.#open.delete(path)) {
      this.#open.set(path, stamp);
      return;
    }
    const text = sources.read(path);
    if (text === undefined) return;
    const languageId = servedLanguage(path) as string;
    const textDocument = { uri: uriOf(path, sources), languageId, version: 1, text };
    await server.notify('textDocument/didOpen', { textDocument }, signal);
    this.#open.set(path, stamp);
  }

  async #close({ server, sources, signal }: Turn, path: string): Promise<void> {
    this.#open.delete(path);
    await server.notify('textDocument/didClose', { textDocument: { uri: uriOf(path, sources) } }, signal);
  }
}

function changesBetween(before: ReadonlyMap<string, string>, sources: Sources): { uri: string; type: number }[] {
  const { stamps } = sources;
  const changes: { uri: string; type: number }[] = [];
  const add = (path: string, type: number) => {
    if (isServed(path)) changes.push({ uri: uriOf(path, sources), type });
  };
  for (const [path, stamp] of stamps) {
    const old = before.get(path);
    if (old !== stamp) add(path, old === undefined ? CREATED : CHANGED);
  }
  for (const path of before.keys()) if (!stamps.has(path)) add(path, DELETED);
  return changes;
}

/** One file of each project, and all that seem to be in none: they make the server look there at all. */
export function onePerProject(paths: readonly string[], stamps: ReadonlyMap<string, string>): string[] {
  const projects = new Set([...stamps.keys()].filter(isProject).map((it) => dirname(it)));
  const homeOf = (directory: string): string | undefined => {
    if (projects.has(directory)) return directory;
    return directory === '.' ? undefined : homeOf(dirname(directory));
  };
  const met = new Set<string>();
  return paths.filter((path) => {
    const home = homeOf(dirname(path));
    if (home === undefined) return true;
    return !met.has(home) && met.add(home);
  });
}

/** One file of each directory first: a project mostly leaves out whole ones. */
function oneEach(paths: readonly string[]): { files: string[]; directories: number } {
  const met = new Set<string>();
  const first: string[] = [];
  const rest: string[] = [];
  for (const path of paths) {
    (met.has(dirname(path)) ? rest : first).push(path);
    met.add(dirname(path));
  }
  return { files: [...first, ...rest], directories: met.size };
}

const uriOf = (path: string, { workspace }: Sources): string => pathToFileURL(join(workspace, path)).href;

/** Undefined for what lies outside, is ignored, or may not be told of. */
function placeOf({ uri, range: { start } }: Location, { workspace, stamps }: Sources): Place | undefined {
  let absolute: string;
  try {
    absolute = fileURLToPath(uri);
  } catch {
    return undefined; // Not a file, or one whose name is not UTF-8, which is not among ours either.
  }
  if (!absolute.startsWith(`${workspace}/`)) return undefined;
  const path = absolute.slice(workspace.length + 1);
  return stamps.has(path) ? { path, line: start.line, character: start.character } : undefined;
}

function orNothing(error: unknown): null {
  if (error instanceof Unanswered) return null;
  throw error;
}

/** The native program of our own `typescript`, in the package of this platform. */
function programOf(): string {
  const { resolve } = createRequire(import.meta.resolve('typescript'));
  try {
    const manifest = resolve(`@typescript/typescript-${process.platform}-${process.arch}/package.json`);
    return join(dirname(manifest), 'lib', 'tsc');
  } catch {
    // MODULE_NOT_FOUND
    throw new ToolError('UNSUPPORTED', 'TypeScript, by which symbols are found, is not installed for this platform', {
      suggestion: 'Install Ringfence again without --omit=optional.',
    });
  }
}
