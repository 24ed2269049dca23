/** Runs statements in child processes, which are kept while they are used and killed when a call is aborted. */
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ToolError } from '../src/errors.ts';
import type { Limits } from '../src/limits.ts';
import type { Powers, Timer } from '../src/powers.ts';
import type { Answered, SqliteRequests } from './sqlite/messages.ts';
import { ErrorResponse, LanguageProcess } from './symbols/language-process.ts';
import { TaskQueue } from './task-queue.ts';

/** Sends one request; `SqliteChild.use` says what it throws. */
export type AskSqlite = <M extends keyof SqliteRequests>(
  method: M,
  asked: SqliteRequests[M]['asked'],
) => Promise<SqliteRequests[M]['answer']>;

/** The processes of a thread: a statement that runs long keeps only the last of them from others. */
export class SqliteChildren implements Disposable {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #children: SqliteChild[] = [];

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Gives `work` a process for itself; `SqliteChild.use` says what requests throw. */
  use<T>(signal: AbortSignal, work: (ask: AskSqlite) => Promise<T>): Promise<T> {
    return this.#leastBusy().use(signal, work);
  }

  [Symbol.dispose](): void {
    for (const it of this.#children) it[Symbol.dispose]();
  }

  #leastBusy(): SqliteChild {
    const [least] = this.#children.toSorted((a, b) => a.users - b.users);
    if (least && (least.users === 0 || this.#children.length >= this.#limits.databaseProcessesMax)) return least;
    const made = new SqliteChild(this.#limits, this.#powers);
    this.#children.push(made);
    return made;
  }
}

class SqliteChild implements Disposable {
  /** Calls that use the process or wait for it. */
  users = 0;
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
  async use<T>(signal: AbortSignal, work: (ask: AskSqlite) => Promise<T>): Promise<T> {
    this.users += 1;
    try {
      return await this.#turns.take(signal, async () => {
        this.#idle?.cancel();
        return await work((method, asked) => this.#ask(method, asked, signal));
      });
    } finally {
      this.users -= 1;
      if (this.users === 0) this.#endWhenIdle();
    }
  }

  #endWhenIdle(): void {
    this.#idle?.cancel();
    this.#idle = this.#powers.after(this.#limits.databaseIdleMs, () => this[Symbol.dispose]());
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
