/** Tasks of sub-agents and their transcripts. What is stored holds no secret that the daemon knows: the caller hides them. */

import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { Read } from '../../base/result-shapes.ts';
import { parseJson } from '../../base/text/json.ts';
import { openDatabase, storing } from '../../store/database.ts';
import type { listedTask, shownTask } from '../../store/task-shapes.ts';

const attempt = storing('the store of tasks');

/*
 * `summary` is null while a task runs. `owner` is the principal. Positions of entries begin at 1.
 */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, owner TEXT NOT NULL, about TEXT NOT NULL, summary TEXT,
    bytes INTEGER NOT NULL DEFAULT 0, truncated INTEGER NOT NULL DEFAULT 0) STRICT;
  CREATE TABLE IF NOT EXISTS entries (task TEXT NOT NULL, position INTEGER NOT NULL, entry TEXT NOT NULL,
    PRIMARY KEY (task, position)) STRICT, WITHOUT ROWID;`;

export type ListedTask = Read<z.output<typeof listedTask>>;
export type ShownTask = Read<z.output<typeof shownTask>>;
/** What came of a task. */
export type TaskSummary = Pick<ListedTask, 'reason' | 'usage' | 'calls'> &
  Required<Pick<ListedTask, 'ended' | 'endedAt'>>;
/** A task as it is known from its start. */
export type TaskAbout = Omit<ListedTask, keyof TaskSummary | 'running'>;

type TaskLimits = Pick<Limits, 'tasksKept' | 'taskTranscriptBytes'>;

export class TaskStore implements Disposable {
  readonly #database: DatabaseSync;
  readonly #limits: TaskLimits;
  readonly #insert: StatementSync;
  readonly #prune: StatementSync;
  readonly #pruneEntries: StatementSync;
  readonly #grow: StatementSync;
  readonly #cut: StatementSync;
  readonly #append: StatementSync;
  readonly #end: StatementSync;
  readonly #list: StatementSync;
  readonly #find: StatementSync;
  readonly #entries: StatementSync;

  /** Opens the file at `path`, which only this process uses, and ends the tasks of an earlier daemon. */
  constructor(path: string, limits: TaskLimits, powers: Pick<Powers, 'now'>) {
    this.#limits = limits;
    this.#database = openDatabase(path);
    this.#database.exec(SCHEMA);
    const prepare = (sql: string) => this.#database.prepare(sql);
    this.#insert = prepare('INSERT INTO tasks (id, owner, about) VALUES (?, ?, ?)');
    const old = 'summary IS NOT NULL AND id NOT IN (SELECT id FROM tasks ORDER BY rowid DESC LIMIT ?)';
    this.#pruneEntries = prepare(`DELETE FROM entries WHERE task IN (SELECT id FROM tasks WHERE ${old})`);
    this.#prune = prepare(`DELETE FROM tasks WHERE ${old}`);
    this.#grow = prepare(
      'UPDATE tasks SET bytes = bytes + ? WHERE id = ? AND truncated = 0 AND bytes + ? <= ? RETURNING id',
    );
    this.#cut = prepare('UPDATE tasks SET truncated = 1 WHERE id = ?');
    this.#append = prepare(
      'INSERT INTO entries VALUES (?, (SELECT coalesce(max(position), 0) + 1 FROM entries WHERE task = ?), ?)',
    );
    this.#end = prepare('UPDATE tasks SET summary = ? WHERE id = ? AND summary IS NULL');
    this.#list = prepare(
      'SELECT about, summary FROM tasks WHERE ?1 IS NULL OR owner = ?1 ORDER BY rowid DESC LIMIT ?2',
    );
    this.#find = prepare('SELECT about, summary, truncated FROM tasks WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)');
    this.#entries = prepare('SELECT entry FROM entries WHERE task = ? ORDER BY position');
    const cut: TaskSummary = {
      ended: 'error',
      reason: 'the daemon ended while the task ran',
      endedAt: new Date(powers.now()).toISOString(),
    };
    prepare('UPDATE tasks SET summary = ? WHERE summary IS NULL').run(JSON.stringify(cut));
  }

  /** Begins a task, and drops the oldest ended ones. Throws STORE_FAILED. */
  begin(about: TaskAbout): void {
    attempt(() => {
      this.#insert.run(about.taskId, about.principal, JSON.stringify(about));
      this.#pruneEntries.run(this.#limits.tasksKept);
      this.#prune.run(this.#limits.tasksKept);
    });
  }

  /** Adds an entry to a transcript, or marks it as cut if the entry does not fit any more. Throws STORE_FAILED. */
  append(taskId: string, entry: object): void {
    const text = JSON.stringify(entry);
    const bytes = Buffer.byteLength(text);
    attempt(() => {
      // One commit for both statements, which is most of the time that an entry takes.
      this.#database.exec('BEGIN IMMEDIATE');
      try {
        const hasRoom = this.#grow.get(bytes, taskId, bytes, this.#limits.taskTranscriptBytes) !== undefined;
        if (hasRoom) this.#append.run(taskId, taskId, text);
        else this.#cut.run(taskId);
        this.#database.exec('COMMIT');
      } catch (error) {
        if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
        throw error;
      }
    });
  }

  /** Throws STORE_FAILED. */
  end(taskId: string, summary: TaskSummary): void {
    attempt(() => this.#end.run(JSON.stringify(summary), taskId));
  }

  /** The newest tasks of a principal, or of all, the newest first. Throws STORE_FAILED. */
  list(owner: string | undefined, limit: number): ListedTask[] {
    return attempt(() => this.#list.all(owner ?? null, limit)).map(toListed);
  }

  /** A task of a principal, or of anyone; undefined if there is none. Throws STORE_FAILED. */
  find(owner: string | undefined, taskId: string): ShownTask | undefined {
    const row = attempt(() => this.#find.get(taskId, owner ?? null));
    if (!row) return undefined;
    const entries = attempt(() => this.#entries.all(taskId));
    return {
      ...toListed(row),
      transcript: entries.map(({ entry }) => parseJson(entry as string) as ShownTask['transcript'][number]),
      truncated: row.truncated === 1,
    };
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}

function toListed({ about, summary }: Record<string, unknown>): ListedTask {
  const ended = summary === null ? undefined : (parseJson(summary as string) as TaskSummary);
  return { ...(parseJson(about as string) as TaskAbout), ...ended, running: ended === undefined };
}
