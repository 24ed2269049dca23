/** Queries data files of a workspace by DuckDB: files under the same rules as all others, statements in a process of their own. */
import * as fs from 'node:fs';
import { join, relative } from 'node:path';
import { closing } from '../../src/base/disk.ts';
import { ToolError } from '../../src/base/errors.ts';
import type { DatabaseQuery, DatabaseSchema, Databases, FileSource, Table } from '../../src/tools/context/databases.ts';
import { timed, type WorkspaceDatabasesOptions } from '../sqlite/workspace-databases.ts';
import type { AskChild } from '../sqlite-child.ts';
import type { DuckDbChildren } from './children.ts';
import { isDataFile, lookThrough } from './folder.ts';
import type { DuckDbBounds, DuckDbRequests, DuckDbSource } from './messages.ts';

export type WorkspaceSourcesOptions = Pick<
  WorkspaceDatabasesOptions,
  'limits' | 'powers' | 'signal' | 'workspace' | 'anchor' | 'rules'
> & { readonly children: DuckDbChildren };

/** A source, and the files that statements may read. */
interface CheckedSource {
  readonly source: DuckDbSource;
  readonly files: readonly string[];
}

type Work<T> = (ask: AskChild<DuckDbRequests>, checked: CheckedSource) => Promise<T>;

export class WorkspaceSources implements Databases {
  readonly #options: WorkspaceSourcesOptions;

  constructor(options: WorkspaceSourcesOptions) {
    this.#options = options;
  }

  query(from: FileSource, query: DatabaseQuery): Promise<Table> {
    return this.#reading(from, (ask, { source }) => ask('query', { source, query, bounds: this.#bounds }));
  }

  explain(from: FileSource, query: DatabaseQuery): Promise<Table> {
    return this.#reading(from, (ask, { source }) => ask('explain', { source, query, bounds: this.#bounds }));
  }

  async schema(from: FileSource, named: string | undefined, maxRows: number): Promise<DatabaseSchema> {
    const filesMax = this.#options.limits.databaseFolderFilesMax;
    const table = await this.#reading(from, async (ask, { source, files }) => {
      const data = source.kind === 'folder' ? dataFilesOf(files, named) : [];
      const asked = { source, table: named, files: data.slice(0, filesMax), maxRows, bounds: this.#bounds };
      const answer = await ask('schema', asked);
      return data.length > filesMax ? { truncatedBy: 'rows' as const, ...answer } : answer;
    });
    return { table, indexes: [] };
  }

  /** No connection of DuckDB changes a file. */
  preImages(): Promise<[]> {
    return Promise.resolve([]);
  }

  async #reading(from: FileSource, work: Work<Omit<Table, 'durationMs'>>): Promise<Table> {
    const { children, signal, powers } = this.#options;
    children.assertInstalled();
    return await timed(powers, async () => {
      const { fd, ...checked } = this.#open(from);
      using _ = closing(fd);
      return await children.use(signal, (ask) => work(ask, checked));
    });
  }

  /** Opens the file or the folder under the rules for paths. */
  #open({ path }: FileSource): CheckedSource & { readonly fd: number } {
    const { anchor, rules, workspace } = this.#options;
    anchor.assertInside(path);
    const { fd, realPath } = rules.open(path, () => anchor.open(path));
    try {
      const stat = fs.fstatSync(fd, { bigint: true });
      const at = { path: realPath, device: String(stat.dev), inode: String(stat.ino) };
      if (stat.isDirectory()) return { ...this.#folder(at), fd };
      if (!stat.isFile()) throw new ToolError('UNSUPPORTED', `\`${path}\` is neither a regular file nor a folder`);
      // DuckDB reads the log beside its file, too.
      rules.check('read', `${path}.wal`, `${relative(workspace, realPath)}.wal`);
      return { source: { kind: 'file', at }, files: [], fd };
    } catch (error) {
      fs.closeSync(fd);
      throw error;
    }
  }

  #folder(at: DuckDbSource['at']): CheckedSource {
    const { rules, workspace, limits } = this.#options;
    const folder = relative(workspace, at.path);
    const isRefusedInside = rules.refusedBelow(folder);
    const { files, isWhole } = lookThrough(at.path, {
      isRefused: (path) => isRefusedInside(join(folder, path)),
      entriesMax: limits.databaseFolderEntriesMax,
    });
    const only = isWhole ? undefined : files.map((it) => join(at.path, it));
    return { source: { kind: 'folder', at, only }, files };
  }

  get #bounds(): DuckDbBounds {
    const { limits } = this.#options;
    return {
      resultBytes: limits.databaseResultBytes,
      cellsMax: limits.databaseCellsMax,
      memoryBytes: limits.databaseDuckdbBytes,
      threads: limits.databaseDuckdbThreads,
    };
  }
}

/** The data files to describe. Throws NOT_FOUND for one that is named and not there. */
function dataFilesOf(files: readonly string[], named: string | undefined): readonly string[] {
  if (named === undefined) return files.filter(isDataFile);
  if (files.includes(named)) return [named];
  throw new ToolError('NOT_FOUND', `the folder has no file \`${named}\``, {
    suggestion: 'List all with database_schema.',
  });
}
