/** Runs statements in a child process, which is kept while it is used and killed when a call is aborted. */
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ToolError } from '../src/errors.ts';
import type { Limits } from '../src/limits.ts';
import type { Powers, Timer } from '../src/powers.ts';
import type { Answered, SqliteRequests } from './sqlite/messages.ts';
import { ErrorResponse, LanguageProcess } from './symbols/language-process.ts';
import { TaskQueue } from './task-queue.ts';

/** Sends one request. Throws what SqliteChild.use says. */
export type AskSqlite = <M extends keyof SqliteRequests>(
  method: M,
  asked: SqliteRequests[M]['asked'],
) => Promise<SqliteRequests[M]['answer']>;

export class SqliteChild implements Disposable {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #turns = new TaskQueue();
  #process: LanguageProcess | undefined;
  #idle: Timer | undefined;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /**
   * Gives `work` the process for itself. Requests throw the refusals of statements, MEMORY_LIMIT, OUTPUT_LIMIT,
   * HOST_CRASHED, and the signal's reason, after which the process is gone.
   */
  use<T>(signal: AbortSignal, work: (ask: AskSqlite) => Promise<T>): Promise<T> {
    return this.#turns.take(signal, async () => {
      this.#idle?.cancel();
      try {
        return await work((method, asked) => this.#ask(method, asked, signal));
      } finally {
        this.#idle = this.#powers.after(this.#limits.databaseIdleMs, () => this[Symbol.dispose]());
      }
    });
  }

  [Symbol.dispose](): void {
    this.#idle?.cancel();
    this.#process?.kill();
    this.#process = undefined;
  }

  async #ask<M extends keyof SqliteRequests>(
    method: M,
    asked: SqliteRequests[M]['asked'],
    signal: AbortSignal,
  ): Promise<SqliteRequests[M]['answer']> {
    let answered: Answered<SqliteRequests[M]['answer']>;
    try {
      answered = await this.#started().request(method, asked, signal);
    } catch (error) {
      if (!(error instanceof ErrorResponse)) throw error;
      // An error that SQLite does not explain; its state is unknown.
      this[Symbol.dispose]();
      console.error(error);
      throw new ToolError('HOST_CRASHED', 'the database process failed', { suggestion: SUGGESTION });
    }
    if ('answer' in answered) return answered.answer;
    const { code, message, suggestion } = answered.refused;
    throw new ToolError(code, message, { ...(suggestion !== undefined && { suggestion }) });
  }

  #started(): LanguageProcess {
    if (this.#process?.alive) return this.#process;
    const { databaseMemoryBytes: memoryBytes, databaseAnswerBytes: answerBytesMax } = this.#limits;
    const entry = fileURLToPath(new URL(`./sqlite-process${extname(import.meta.url)}`, import.meta.url));
    this.#process = new LanguageProcess({
      name: 'the database process',
      program: process.execPath,
      env: {},
      args: ['--disable-warning=ExperimentalWarning', '--max-old-space-size=128', entry],
      memoryBytes,
      answerBytesMax,
      suggestion: SUGGESTION,
      powers: this.#powers,
    });
    return this.#process;
  }
}

const SUGGESTION = 'Ask for fewer rows, or for smaller values.';
