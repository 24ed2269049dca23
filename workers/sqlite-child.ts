/** Runs statements in child processes, which are killed when a call is aborted. */
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ToolError } from '../src/base/errors.ts';
import type { Limits } from '../src/base/limits.ts';
import type { Powers, Timer } from '../src/base/powers.ts';
import type { Answered, SqliteRequests, StatementRequests } from './sqlite/messages.ts';
import { ErrorResponse, LanguageProcess } from './symbols/language-process.ts';
import { TaskQueue } from './task-queue.ts';

/** Sends one request; `StatementChild.use` says what it throws. */
export type AskChild<R extends StatementRequests<R>> = <M extends keyof R & string>(
  method: M,
  asked: R[M]['asked'],
) => Promise<R[M]['answer']>;
export type AskSqlite = AskChild<SqliteRequests>;

/** The program of the processes, and its bound. */
export interface StatementProgram {
  readonly entry: URL;
  /** Data memory of one process. */
  readonly memoryBytes: number;
  /** Whether a process is kept for further calls until it was idle for a while. */
  readonly isKept: boolean;
}

/** The processes of a thread: a statement that runs long keeps only the last of them from others. */
export class StatementChildren<R extends StatementRequests<R>> implements Disposable {
  readonly #program: StatementProgram;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #children: StatementChild<R>[] = [];

  constructor(program: StatementProgram, limits: Limits, powers: Powers) {
    this.#program = program;
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Gives `work` a process for itself; `StatementChild.use` says what requests throw. */
  use<T>(signal: AbortSignal, work: (ask: AskChild<R>) => Promise<T>): Promise<T> {
    return this.#leastBusy().use(signal, work);
  }

  [Symbol.dispose](): void {
    for (const it of this.#children) it[Symbol.dispose]();
  }

  #leastBusy(): StatementChild<R> {
    const [least] = this.#children.toSorted((a, b) => a.users - b.users);
    if (least && (least.users === 0 || this.#children.length >= this.#limits.databaseProcessesMax)) return least;
    const made = new StatementChild<R>(this.#program, this.#limits, this.#powers);
    this.#children.push(made);
    return made;
  }
}

class StatementChild<R extends StatementRequests<R>> implements Disposable {
  /** Calls that use the process or wait for it. */
  users = 0;
  readonly #program: StatementProgram;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #turns = new TaskQueue();
  #process: LanguageProcess | undefined;
  #idle: Timer | undefined;

  constructor(program: StatementProgram, limits: Limits, powers: Powers) {
    this.#program = program;
    this.#limits = limits;
    this.#powers = powers;
  }

  /**
   * Gives `work` the process for itself. Requests throw the refusals of statements, MEMORY_LIMIT, OUTPUT_LIMIT,
   * HOST_CRASHED, and the signal's reason, after which the process is gone.
   */
  async use<T>(signal: AbortSignal, work: (ask: AskChild<R>) => Promise<T>): Promise<T> {
    this.users += 1;
    try {
      return await this.#turns.take(signal, async () => {
        this.#idle?.cancel();
        try {
          return await work((method, asked) => this.#ask(method, asked, signal));
        } finally {
          if (!this.#program.isKept) this[Symbol.dispose]();
        }
      });
    } finally {
      this.users -= 1;
      if (this.#program.isKept && this.users === 0) this.#endWhenIdle();
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

  async #ask<M extends keyof R & string>(
    method: M,
    asked: R[M]['asked'],
    signal: AbortSignal,
  ): Promise<R[M]['answer']> {
    let answered: Answered<R[M]['answer']>;
    try {
      answered = await this.#started().request(method, asked, signal);
    } catch (error) {
      if (!(error instanceof ErrorResponse)) throw error;
      // An error that the database does not explain; its state is unknown.
      this[Symbol.dispose]();
      console.error(error);
      throw new ToolError('HOST_CRASHED', 'the database process failed', { suggestion: SUGGESTION });
    }
    if ('answer' in answered) return answered.answer;
    const { code, message, suggestion } = answered.refused;
    throw new ToolError(code, message, { suggestion });
  }

  #started(): LanguageProcess {
    if (this.#process?.alive) return this.#process;
    const { databaseAnswerBytes: answerBytesMax } = this.#limits;
    const { entry, memoryBytes } = this.#program;
    this.#process = new LanguageProcess({
      name: 'the database process',
      program: process.execPath,
      env: {},
      args: ['--disable-warning=ExperimentalWarning', '--max-old-space-size=128', fileURLToPath(entry)],
      memoryBytes,
      answerBytesMax,
      suggestion: SUGGESTION,
      powers: this.#powers,
    });
    return this.#process;
  }
}

const SUGGESTION = 'Ask for fewer rows, or for smaller values.';

/** The file of a process below `workers`, whose code may be built into one file with this one. */
export const entryOf = (name: string): URL => new URL(`./${name}${extname(import.meta.url)}`, import.meta.url);

/** The processes for statements on SQLite files. */
export class SqliteChildren extends StatementChildren<SqliteRequests> {
  constructor(limits: Limits, powers: Powers) {
    super({ entry: entryOf('sqlite-process'), memoryBytes: limits.databaseMemoryBytes, isKept: true }, limits, powers);
  }
}
