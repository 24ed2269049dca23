/**
 * The process that runs statements of agents by DuckDB: a statement that takes too long, too much memory or crashes
 * DuckDB ends this process and nothing else. The optional package is loaded here only.
 */
import { establishPerimeter } from '../perimeter.ts';
import { serveStatements } from '../sqlite/serving.ts';
import type { DuckDbRequests } from './messages.ts';
import { openSource } from './opening.ts';
import { schemaOf } from './schema.ts';
import { explainStatement, runStatement } from './statement.ts';

establishPerimeter(2);

serveStatements<DuckDbRequests>({
  async query({ source, query, bounds }) {
    using open = await openSource(source, bounds);
    return await runStatement(open.connection, query, bounds);
  },
  async explain({ source, query, bounds }) {
    using open = await openSource(source, bounds);
    return await explainStatement(open.connection, query, bounds);
  },
  async schema({ source, bounds, ...asked }) {
    using open = await openSource(source, bounds);
    return await schemaOf(open.connection, source.kind, { ...asked, bounds });
  },
});
