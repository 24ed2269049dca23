/**
 * Runs our own TypeScript language server: an agent could rewrite the workspace's. It is kept while it is used, is
 * told of changes on disk before each request, and is restarted if it has ended.
 */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { Powers, Timer } from '../../src/base/powers.ts';
import { TaskQueue } from '../task-queue.ts';
import { ErrorResponse, LanguageProcess } from './language-process.ts';
import { servedLanguage } from './source-languages.ts';
import {
  changesBetween,
  type FilePosition,
  type Location,
  oneEach,
  onePerProject,
  toPosition,
  uriOf,
  type WorkspaceSources,
} from './workspace-sources.ts';

export interface ServedSymbol extends FilePosition {
  readonly name: string;
  /** SymbolKind of the protocol. */
  readonly kind: number;
}

/** Which files to load for a query, beside those already loaded. */
export interface ProjectSelection {
  readonly sources: WorkspaceSources;
  /** Files whose projects are loaded first. */
  readonly firstFiles: readonly string[];
  /** Files that may match, by their text. */
  readonly candidates: readonly string[];
}

interface GivenSymbol {
  readonly name: string;
  readonly kind: number;
  readonly location: Location;
}

/** Share of its memory at which it begins to collect garbage thoroughly. */
const COLLECT_AT = 0.75;
/** The most symbols that the server gives per request. */
const SYMBOLS_GIVEN = 256;

/** One call that uses this server. */
interface ServerCall {
  readonly server: LanguageProcess;
  readonly sources: WorkspaceSources;
  readonly signal: AbortSignal;
}

/** What one turn at the server may do. Texts laid over files are taken back when the turn ends. */
export interface ServerTurn {
  /** Sends a request about an open file; null if the server has no answer. */
  ask<T>(method: string, params: object): Promise<T | null>;
  /** Opens a file as it is on disk, so that its project is loaded. */
  open(path: string): Promise<void>;
  /**
   * Runs `ask` with the projects of all files concerned loaded, and again with files that a project may leave out. Not
   * complete if there are too many.
   */
  everywhere<T extends FilePosition>(
    where: ProjectSelection,
    ask: () => Promise<T[]>,
  ): Promise<{ found: T[]; complete: boolean }>;
  /** Makes the server read `text` for a file, whatever is on disk. */
  lay(path: string, text: string): Promise<void>;
}

export class TypeScriptServer implements Disposable {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #turns = new TaskQueue();
  #process: LanguageProcess | undefined;
  #reportedStamps: ReadonlyMap<string, string> = new Map();
  /** Open files, each with the stamp that the server knows; the last used come last. */
  #open = new Map<string, string>();
  #idle: Timer | undefined;
  /** The failure of a fresh server to load a project. */
  #tooMuch: { error: ToolError; stamps: ReadonlyMap<string, string>; untilMs: number } | undefined;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** For tests that kill the server. */
  get pid(): number | undefined {
    return this.#process?.alive ? this.#process.pid : undefined;
  }

  /** Symbols that match `query`, the best first. */
  symbols(
    query: string,
    where: ProjectSelection,
    signal: AbortSignal,
  ): Promise<{ symbols: ServedSymbol[]; complete: boolean }> {
    return this.#turn(where.sources, signal, async (turn) => {
      const ask = () => turn.server.request<GivenSymbol[] | null>('workspace/symbol', { query }, signal);
      const { found, complete } = await this.#askAll(turn, where, async () => {
        const symbols = (await ask()) ?? [];
        return symbols.flatMap(({ name, kind, location }) => {
          const position = toPosition(location, where.sources);
          return position ? [{ name, kind, ...position }] : [];
        });
      });
      return { symbols: found, complete: complete && found.length < SYMBOLS_GIVEN };
    });
  }

  /** All references to the symbols at `positions`, these included. */
  references(
    positions: readonly FilePosition[],
    where: ProjectSelection,
    signal: AbortSignal,
  ): Promise<{ positions: FilePosition[]; complete: boolean }> {
    const { sources } = where;
    return this.#turn(sources, signal, async (turn) => {
      const context = { includeDeclaration: true };
      const askAt = ({ path, line, character }: FilePosition) => {
        const params = { textDocument: { uri: uriOf(path, sources) }, position: { line, character }, context };
        return turn.server.request<Location[] | null>('textDocument/references', params, signal).catch(orNothing);
      };
      const firstFiles = [...new Set(positions.map((it) => it.path))];
      const { found, complete } = await this.#askAll(turn, { ...where, firstFiles }, async () => {
        const all = new Map<string, FilePosition>();
        for (const asked of positions)
          for (const it of (await askAt(asked)) ?? []) {
            const position = toPosition(it, sources);
            if (position) all.set(`${position.path}\0${position.line}\0${position.character}`, position);
          }
        return [...all.values()];
      });
      return { positions: found, complete };
    });
  }

  /** Runs several requests over one state of the workspace. */
  use<T>(sources: WorkspaceSources, signal: AbortSignal, work: (turn: ServerTurn) => Promise<T>): Promise<T> {
    return this.#turn(sources, signal, async (call) => {
      const laid = new Map<string, number>();
      try {
        return await work({
          ask: <A>(method: string, params: object) => call.server.request<A>(method, params, signal).catch(orNothing),
          open: async (path) => {
            if (!laid.has(path)) await this.#openAll(call, [path]);
          },
          everywhere: (where, ask) => this.#askAll(call, where, ask),
          lay: (path, text) => this.#lay(call, { path, text, laid }),
        });
      } finally {
        if (call.server.alive) for (const path of laid.keys()) await this.#close(call, path);
      }
    });
  }

  [Symbol.dispose](): void {
    this.#idle?.cancel();
    this.#process?.kill();
    this.#process = undefined;
  }

  #turn<T>(sources: WorkspaceSources, signal: AbortSignal, work: (turn: ServerCall) => Promise<T>): Promise<T> {
    return this.#turns.take(signal, async () => {
      this.#idle?.cancel();
      const isFresh = !this.#process?.alive;
      this.#assertWorthwhile(sources);
      try {
        const server = await this.#synced(sources, signal);
        return await work({ server, sources, signal });
      } catch (error) {
        // Another attempt would take seconds and fail in the same way.
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

  /** Throws the error of the last server for a while, unless something has changed. */
  #assertWorthwhile(sources: WorkspaceSources): void {
    const last = this.#tooMuch;
    this.#tooMuch = undefined;
    if (!last || last.untilMs < this.#powers.monotonicMs()) return;
    if (changesBetween(last.stamps, sources).length > 0) return;
    this.#tooMuch = last;
    throw last.error;
  }

  /** The server, after it was told of all changes since the last request. */
  async #synced(sources: WorkspaceSources, signal: AbortSignal): Promise<LanguageProcess> {
    if (!this.#process?.alive) {
      this.#open = new Map();
      this.#reportedStamps = sources.stamps;
      this.#process = await this.#start(sources.workspace, signal);
      return this.#process;
    }
    const server = this.#process;
    const changes = changesBetween(this.#reportedStamps, sources);
    this.#reportedStamps = sources.stamps;
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
      name: "TypeScript's language server",
      program: typescriptProgram(),
      args: ['--lsp', '--stdio'],
      env,
      memoryBytes,
      answerBytesMax,
      powers: this.#powers,
    });
    const rootUri = pathToFileURL(workspace).href;
    // With registered watches the server leaves watching to us; it pushes nothing.
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
   * Runs `ask` after loading the projects of all files concerned. A project may leave out some files near it: files
   * without results are opened themselves, and `ask` runs again.
   */
  async #askAll<T extends FilePosition>(
    turn: ServerCall,
    { firstFiles, candidates, sources }: ProjectSelection,
    ask: () => Promise<T[]>,
  ): Promise<{ found: T[]; complete: boolean }> {
    const { symbolFilesOpenMax, symbolFilesDoubtedMax } = this.#limits;
    const first = [...new Set([...firstFiles, ...onePerProject(candidates, sources.stamps)])];
    await this.#openAll(turn, first.slice(0, symbolFilesOpenMax));
    const found = await ask();
    const known = new Set(found.map((it) => it.path));
    const { files, directories } = oneEach(candidates.filter((it) => !known.has(it) && !this.#open.has(it)));
    const complete = first.length <= symbolFilesOpenMax && directories <= symbolFilesDoubtedMax;
    if (files.length === 0) return { found, complete };
    await this.#openAll(turn, files.slice(0, symbolFilesDoubtedMax));
    return { found: await ask(), complete };
  }

  async #openAll(turn: ServerCall, paths: readonly string[]): Promise<void> {
    for (const path of paths) await this.#openOne(turn, path);
    for (const path of this.#open.keys()) {
      if (this.#open.size <= this.#limits.symbolFilesOpenMax) break;
      await this.#close(turn, path);
    }
  }

  async #openOne({ server, sources, signal }: ServerCall, path: string): Promise<void> {
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

  /** Gives the server a text of ours; `laid` has the version of each such text. */
  async #lay(
    { server, sources, signal }: ServerCall,
    { path, text, laid }: { path: string; text: string; laid: Map<string, number> },
  ): Promise<void> {
    const uri = uriOf(path, sources);
    const version = (laid.get(path) ?? 1) + 1;
    const isOpen = laid.has(path) || this.#open.delete(path);
    laid.set(path, version);
    if (isOpen) {
      const change = { textDocument: { uri, version }, contentChanges: [{ text }] };
      return server.notify('textDocument/didChange', change, signal);
    }
    const textDocument = { uri, languageId: servedLanguage(path) ?? 'json', version, text };
    return server.notify('textDocument/didOpen', { textDocument }, signal);
  }

  async #close({ server, sources, signal }: ServerCall, path: string): Promise<void> {
    this.#open.delete(path);
    await server.notify('textDocument/didClose', { textDocument: { uri: uriOf(path, sources) } }, signal);
  }
}

function orNothing(error: unknown): null {
  if (error instanceof ErrorResponse) return null;
  throw error;
}

/** The native program of our own `typescript` package for this platform. */
export function typescriptProgram(): string {
  const { resolve } = createRequire(import.meta.resolve('typescript'));
  try {
    const manifest = resolve(`@typescript/typescript-${process.platform}-${process.arch}/package.json`);
    return join(dirname(manifest), 'lib', 'tsc');
  } catch {
    // MODULE_NOT_FOUND
    throw new ToolError('UNSUPPORTED', 'TypeScript is not installed for this platform', {
      suggestion: 'Install Ringfence again without --omit=optional.',
    });
  }
}
