/** The databases of a workspace: each source goes to what reads its kind. */
import { ToolError } from '../../src/base/errors.ts';
import type { Powers } from '../../src/base/powers.ts';
import {
  type DatabaseQuery,
  type DatabaseSchema,
  type Databases,
  databases,
  type FileSource,
  type Table,
} from '../../src/tools/context/databases.ts';
import type { ContextParts, ThreadTier } from '../context/context-options.ts';
import { WorkspaceDatabases, type WorkspaceDatabasesOptions } from '../sqlite/workspace-databases.ts';
import { SqliteChildren } from '../sqlite-child.ts';
import { DuckDbChildren } from './children.ts';
import { WorkspaceSources } from './workspace-sources.ts';

/** Databases are queried where their files are read, and changed where files are written. */
export function databaseParts({ tier, limits }: ThreadTier, powers: Powers): ContextParts {
  const reads = tier === 'read_only';
  if (!reads && tier !== 'write') return new Map();
  const children = new SqliteChildren(limits, powers);
  return databasesBy({ children, duckdb: reads ? new DuckDbChildren(limits, powers) : undefined });
}

export const databasesBy = (by: Pick<DatabasesByKindOptions, 'children' | 'duckdb'>): ContextParts =>
  new Map([[databases, (own) => new DatabasesByKind({ ...own, ...by })]]);

type DatabasesByKindOptions = WorkspaceDatabasesOptions & {
  /** Absent in hosts that write. */
  readonly duckdb?: DuckDbChildren | undefined;
};

class DatabasesByKind implements Databases {
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
