/** Parses sources in a child process that may be killed: a file that crashes it or takes too long costs only that file. */
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ToolError } from '../src/base/errors.ts';
import type { Limits } from '../src/base/limits.ts';
import { abortAfter, type Powers, type Timer } from '../src/base/powers.ts';
import type { Candidates } from './code/graph/resolve.ts';
import type { Inspections, InspectRequest } from './code/inspections.ts';
import type { RewriteAnswer, RewriteQuestion } from './code/rewriting.ts';
import { ErrorResponse, LanguageProcess } from './symbols/language-process.ts';
import type { ParsedSource, ParseRequest } from './syntax-process.ts';
import { TaskQueue } from './task-queue.ts';

export class SyntaxParser implements Disposable {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #turns = new TaskQueue();
  #process: LanguageProcess | undefined;
  #idle: Timer | undefined;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Parses a text; undefined if the parser crashed or was not done in time. */
  parse(request: ParseRequest, signal: AbortSignal): Promise<ParsedSource | undefined> {
    return this.#ask('parse', request, this.#limits.symbolParseMs, signal);
  }

  /** Answers for each of some files, in their order; undefined if the parser crashed or was not done in time. */
  inspect<W extends keyof Inspections>(
    what: W,
    { timeMs, ...request }: Omit<InspectRequest, 'what'> & { readonly timeMs: number },
    signal: AbortSignal,
  ): Promise<Inspections[W][] | undefined> {
    return this.#ask('inspect', { what, ...request }, timeMs, signal);
  }

  /** Finds a pattern in a text; undefined if the parser crashed or was not done in time. */
  rewrite(request: RewriteQuestion, signal: AbortSignal): Promise<RewriteAnswer | undefined> {
    return this.#ask('rewrite', request, this.#limits.symbolParseMs, signal);
  }

  /** Looks for modules; gives absolute paths, null for one that is not found. Throws HOST_CRASHED if the child fails. */
  async resolve(modules: readonly Candidates[], signal: AbortSignal): Promise<readonly (string | null)[]> {
    const ask = () => this.#ask<(string | null)[]>('resolve', { modules }, this.#limits.sourceBatchMs, signal);
    // One that is full of what it parsed before is asked again when it is fresh.
    const found = (await ask()) ?? (await ask());
    if (found) return found;
    throw new ToolError('HOST_CRASHED', 'the process that looks for modules ended during this call', {
      suggestion: 'Ask about a smaller directory.',
    });
  }

  [Symbol.dispose](): void {
    this.#idle?.cancel();
    this.#process?.kill();
    this.#process = undefined;
  }

  #ask<T>(method: string, request: unknown, timeMs: number, signal: AbortSignal): Promise<T | undefined> {
    return this.#turns.take(signal, async () => {
      this.#idle?.cancel();
      try {
        // Loading its code takes longer than most files, and much longer on a busy machine: no file pays for it.
        const isUp =
          this.#process?.alive || (await this.#request<true>('up', undefined, this.#limits.hostStartMs, signal));
        return isUp ? await this.#request<T>(method, request, timeMs, signal) : undefined;
      } finally {
        this.#idle = this.#powers.after(this.#limits.symbolsIdleMs, () => this[Symbol.dispose]());
      }
    });
  }

  async #request<T>(method: string, request: unknown, timeMs: number, signal: AbortSignal): Promise<T | undefined> {
    using outOfTime = abortAfter(timeMs, this.#powers);
    try {
      return await this.#started().request<T>(method, request, AbortSignal.any([signal, outOfTime.signal]));
    } catch (error) {
      signal.throwIfAborted();
      if (outOfTime.signal.aborted || error instanceof ToolError || error instanceof ErrorResponse) return undefined;
      throw error;
    }
  }

  #started(): LanguageProcess {
    if (this.#process?.alive) return this.#process;
    const { symbolParserMemoryBytes: memoryBytes, symbolAnswerBytes: answerBytesMax } = this.#limits;
    const entry = fileURLToPath(new URL(`./syntax-process${extname(import.meta.url)}`, import.meta.url));
    this.#process = new LanguageProcess({
      name: 'the parser',
      program: process.execPath,
      env: {},
      args: ['--disable-warning=ExperimentalWarning', '--max-old-space-size=128', entry],
      memoryBytes,
      answerBytesMax,
      powers: this.#powers,
    });
    return this.#process;
  }
}
