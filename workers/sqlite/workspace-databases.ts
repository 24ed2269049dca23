/** Queries the databases of a workspace: files under the same rules as all others, statements in a process of their own. */
import * as fs from 'node:fs';
import { relative } from 'node:path';
import { closing } from '../../src/base/disk.ts';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { abortAfter, type Powers } from '../../src/base/powers.ts';
import type { ToolJob } from '../../src/hosts/job.ts';
import type { DatabaseQuery, DatabaseSchema, Databases, FileSource, Table } from '../../src/tools/context/databases.ts';
import type { FileChanges } from '../../src/tools/file-changes.ts';
import { type Anchor, below, toAccessError } from '../context/anchor.ts';
import type { HeldPath, HeldPaths } from '../context/held-paths.ts';
import type { PathRules } from '../context/path-rules.ts';
import { assertApproved, replaceable } from '../context/targets.ts';
import type { AskSqlite, SqliteChildren } from '../sqlite-child.ts';
import type { Changes } from '../undo/changes.ts';
import type { AnsweredTable, DatabaseFile, StatementBounds } from './messages.ts';

export interface WorkspaceDatabasesOptions {
  readonly children: SqliteChildren;
  readonly paths: HeldPaths;
  readonly changes: Changes;
  readonly limits: Limits;
  readonly powers: Powers;
  readonly signal: AbortSignal;
  /** The contents that a person approved. */
  readonly preImages?: ToolJob['preImages'];
  readonly workspace: string;
  readonly anchor: Anchor;
  readonly rules: PathRules;
  readonly files: Pick<FileChanges, 'state'>;
}

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;

/** Files that SQLite keeps beside a database. */
const BESIDE = ['-wal', '-journal'];

export class WorkspaceDatabases implements Databases {
  readonly #options: WorkspaceDatabasesOptions;

  constructor(options: WorkspaceDatabasesOptions) {
    this.#options = options;
  }

  query(source: FileSource, query: DatabaseQuery): Promise<Table> {
    return timed(this.#options.powers, () =>
      source.access === 'write'
        ? this.#change(source, query)
        : this.#reading(source, (ask, file) => ask('query', { file, query, bounds: this.#bounds })),
    );
  }

  explain(source: FileSource, query: DatabaseQuery): Promise<Table> {
    return timed(this.#options.powers, () =>
      this.#reading(source, (ask, file) => ask('explain', { file, query, bounds: this.#bounds })),
    );
  }

  async schema(source: FileSource, table: string | undefined, maxRows: number): Promise<DatabaseSchema> {
    const asked = { table, maxRows, bounds: this.#bounds };
    let indexes: DatabaseSchema['indexes'] = [];
    const withTime = await timed(this.#options.powers, () =>
      this.#reading(source, async (ask, file) => {
        const answer = await ask('schema', { file, ...asked });
        indexes = answer.indexes;
        return answer.table;
      }),
    );
    return { table: withTime, indexes };
  }

  async preImages({ path }: FileSource): Promise<{ path: string; hash: string | null }[]> {
    const all: { path: string; hash: string | null }[] = [];
    for (const it of [path, ...BESIDE.map((end) => path + end)])
      all.push({ path: it, hash: await this.#options.files.state(it) });
    return all;
  }

  async #reading<T>({ path }: FileSource, work: (ask: AskSqlite, file: DatabaseFile) => Promise<T>): Promise<T> {
    const { children, signal, anchor, rules, workspace } = this.#options;
    anchor.assertInside(path);
    const { fd, realPath } = rules.open(path, () => anchor.open(path));
    using _ = closing(fd);
    for (const it of BESIDE) rules.check('read', path + it, relative(workspace, realPath) + it);
    const file = fileOf(fd, realPath, path);
    return await children.use(signal, (ask) => work(ask, file));
  }

  /**
   * Changes a file in place, as SQLite does, so that programs that have it open see the change; a copy that replaces it
   * would leave them with the old file. The lock is held from before the file is kept for undo until after the change.
   */
  async #change({ path }: FileSource, query: DatabaseQuery): Promise<AnsweredTable> {
    const { children, paths, changes, signal } = this.#options;
    using spot = paths.hold(path, { kinds: ['read', 'write'] });
    for (const it of BESIDE) paths.hold(path + it, { kinds: ['read', 'write'] })[Symbol.dispose]();
    const file = this.#fileToChange(spot);
    const bounds = this.#bounds;
    for (const it of ['', ...BESIDE]) await this.#assertApproved(path + it);
    let isKilled = false;
    try {
      return await children.use(signal, async (ask) => {
        await ask('lock', { file, bounds });
        try {
          await this.#assertApproved(path);
          await ask('checkpoint', {});
          return await changes.editInPlace(spot, async (changed) => {
            const table = await ask('change', { query, bounds });
            if (table.changes !== 0) changed();
            return table;
          });
        } catch (error) {
          isKilled = signal.aborted || isEnd(error);
          throw error;
        } finally {
          if (!isKilled) await ask('unlock', {});
        }
      });
    } finally {
      // What the process had begun is rolled back now, not when somebody opens the file.
      if (isKilled) void this.#recover(file);
    }
  }

  #fileToChange(spot: HeldPath): DatabaseFile {
    const { limits } = this.#options;
    const { path } = spot;
    const stat = replaceable(spot, true);
    if (!stat) throw new ToolError('NOT_FOUND', `\`${path}\` does not exist`);
    const { journalCallBytesMax: limit } = limits;
    if (stat.size > limit)
      throw new ToolError('FILE_LIMIT', `\`${path}\` has ${stat.size} bytes; undo keeps files up to ${limit}`, {
        suggestion: 'Ask the operator to raise journalCallBytesMax, or to change it with another program.',
        details: { limit, used: stat.size, enforcedBy: 'tool' },
      });
    using opened = closing(openAt(spot));
    return fileOf(opened.fd, fs.readlinkSync(`/proc/self/fd/${opened.fd}`), path);
  }

  async #assertApproved(path: string): Promise<void> {
    const { preImages, files } = this.#options;
    if (preImages) assertApproved(preImages, path, await files.state(path));
  }

  async #recover(file: DatabaseFile): Promise<void> {
    const { children, powers, limits } = this.#options;
    using outOfTime = abortAfter(limits.databaseRecoverMs, powers);
    try {
      await children.use(outOfTime.signal, async (ask) => {
        await ask('lock', { file, bounds: this.#bounds });
        await ask('unlock', {});
      });
    } catch (error) {
      console.error(error); // The next program that opens the file rolls the change back.
    }
  }

  get #bounds(): StatementBounds {
    const { limits } = this.#options;
    return {
      resultBytes: limits.databaseResultBytes,
      cellsMax: limits.databaseCellsMax,
      indexesMax: limits.databaseIndexesMax,
      indexColumnsMax: limits.databaseIndexColumnsMax,
      valueBytesMax: limits.databaseValueBytesMax,
      heapBytes: limits.databaseHeapBytes,
      lockMs: limits.databaseLockMs,
    };
  }
}

/** Adds the time that a query took. */
export async function timed(powers: Powers, work: () => Promise<AnsweredTable>): Promise<Table> {
  const startedMs = powers.monotonicMs();
  const table = await work();
  return { ...table, durationMs: Math.round((powers.monotonicMs() - startedMs) * 1000) / 1000 };
}

function openAt({ fd, name, path }: HeldPath): number {
  try {
    return fs.openSync(below(fd, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    throw toAccessError(error, path); // It was replaced since it was held.
  }
}

const isEnd = (error: unknown): boolean =>
  error instanceof ToolError && ['HOST_CRASHED', 'MEMORY_LIMIT', 'OUTPUT_LIMIT'].includes(error.code);

/** Throws UNSUPPORTED for anything but a regular file. */
function fileOf(fd: number, realPath: string, path: string): DatabaseFile {
  const stat = fs.fstatSync(fd, { bigint: true });
  if (!stat.isFile()) throw new ToolError('UNSUPPORTED', `\`${path}\` is not a regular file`);
  return { path: realPath, device: String(stat.dev), inode: String(stat.ino) };
}
