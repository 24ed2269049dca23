/** Tasks of sub-agents and their transcripts. What is stored holds no secret that the daemon knows: the caller hides them. */

import type { DatabaseSync } from 'node:sqlite';
import type * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { Read } from '../../base/result-shapes.ts';
import { parseJson } from '../../base/text/json.ts';
import { atomically, openDatabase, type Prepared, prepared, storing } from '../../store/database.ts';
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

const OLD = 'summary IS NOT NULL AND id NOT IN (SELECT id FROM tasks ORDER BY rowid DESC LIMIT ?)';
const STATEMENTS = {
  insert: 'INSERT INTO tasks (id, owner, about) VALUES (?, ?, ?)',
  pruneEntries: `DELETE FROM entries WHERE task IN (SELECT id FROM tasks WHERE ${OLD})`,
  prune: `DELETE FROM tasks WHERE ${OLD}`,
  grow: 'UPDATE tasks SET bytes = bytes + ? WHERE id = ? AND truncated = 0 AND bytes + ? <= ? RETURNING id',
  cut: 'UPDATE tasks SET truncated = 1 WHERE id = ?',
  append: 'INSERT INTO entries VALUES (?, (SELECT coalesce(max(position), 0) + 1 FROM entries WHERE task = ?), ?)',
  end: 'UPDATE tasks SET summary = ? WHERE id = ? AND summary IS NULL',
  list: 'SELECT about, summary FROM tasks WHERE ?1 IS NULL OR owner = ?1 ORDER BY rowid DESC LIMIT ?2',
  find: 'SELECT about, summary, truncated FROM tasks WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)',
  entries: 'SELECT entry FROM entries WHERE task = ? ORDER BY position',
};

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
  readonly #statements: Prepared<typeof STATEMENTS>;

  /** Opens the file at `path`, which only this process uses, and ends the tasks of an earlier daemon. */
  constructor(path: string, limits: TaskLimits, powers: Pick<Powers, 'now'>) {
    this.#limits = limits;
    this.#database = openDatabase(path, SCHEMA);
    this.#statements = prepared(this.#database, STATEMENTS);
    const cut: TaskSummary = {
      ended: 'error',
      reason: 'the daemon ended while the task ran',
      endedAt: new Date(powers.now()).toISOString(),
    };
    this.#database.prepare('UPDATE tasks SET summary = ? WHERE summary IS NULL').run(JSON.stringify(cut));
  }

  /** Begins a task, and drops the oldest ended ones. Throws STORE_FAILED. */
  begin(about: TaskAbout): void {
    attempt(() => {
      this.#statements.insert.run(about.taskId, about.principal, JSON.stringify(about));
      this.#statements.pruneEntries.run(this.#limits.tasksKept);
      this.#statements.prune.run(this.#limits.tasksKept);
    });
  }

  /** Adds an entry to a transcript, or marks it as cut if the entry does not fit any more. Throws STORE_FAILED. */
  append(taskId: string, entry: object): void {
    const text = JSON.stringify(entry);
    const bytes = Buffer.byteLength(text);
    // One commit for both statements, which is most of the time that an entry takes.
    attempt(() =>
      atomically(this.#database, () => {
        const hasRoom = this.#statements.grow.get(bytes, taskId, bytes, this.#limits.taskTranscriptBytes) !== undefined;
        if (hasRoom) this.#statements.append.run(taskId, taskId, text);
        else this.#statements.cut.run(taskId);
      }),
    );
  }

  /** Throws STORE_FAILED. */
  end(taskId: string, summary: TaskSummary): void {
    attempt(() => this.#statements.end.run(JSON.stringify(summary), taskId));
  }

  /** The newest tasks of a principal, or of all, the newest first. Throws STORE_FAILED. */
  list(owner: string | undefined, limit: number): ListedTask[] {
    return attempt(() => this.#statements.list.all(owner ?? null, limit)).map(toListed);
  }

  /** A task of a principal, or of anyone; undefined if there is none. Throws STORE_FAILED. */
  find(owner: string | undefined, taskId: string): ShownTask | undefined {
    const row = attempt(() => this.#statements.find.get(taskId, owner ?? null));
    if (!row) return undefined;
    const entries = attempt(() => this.#statements.entries.all(taskId));
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
