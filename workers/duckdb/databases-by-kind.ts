/** The databases of a workspace: each source goes to what reads its kind. */
import { ToolError } from '../../src/base/errors.ts';
import type { DatabaseQuery, DatabaseSchema, Databases, FileSource, Table } from '../../src/tools/context/databases.ts';
import { WorkspaceDatabases, type WorkspaceDatabasesOptions } from '../sqlite/workspace-databases.ts';
import type { DuckDbChildren } from './children.ts';
import { WorkspaceSources } from './workspace-sources.ts';

export type DatabasesByKindOptions = WorkspaceDatabasesOptions & {
  /** Absent in hosts that write. */
  readonly duckdb?: DuckDbChildren | undefined;
};

export class DatabasesByKind implements Databases {
  readonly #options: DatabasesByKindOptions;

  constructor(options: DatabasesByKindOptions) {
    this.#options = options;
  }

  query(source: FileSource, query: DatabaseQuery): Promise<Table> {
    return this.#of(source).query(source, query);
  }

  explain(source: FileSource, query: DatabaseQuery): Promise<Table> {
    return this.#of(source).explain(source, query);
  }

  schema(source: FileSource, table: string | undefined, maxRows: number): Promise<DatabaseSchema> {
    return this.#of(source).schema(source, table, maxRows);
  }

  preImages(source: FileSource): Promise<{ path: string; hash: string | null }[]> {
    return this.#of(source).preImages(source);
  }

  #of({ kind }: FileSource): Databases {
    const { duckdb: children, ...options } = this.#options;
    if (kind === 'sqlite') return new WorkspaceDatabases(options);
    if (!children) throw new ToolError('SANDBOX_DENIED', 'this tier has no DuckDB');
    return new WorkspaceSources({ ...options, children });
  }
}
