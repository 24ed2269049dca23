/** SQL statements on databases that the configuration or `ringfence database add` names; a process of its own speaks to each server. */

import { databaseProgram } from '../../base/runtime.ts';
import { defineCapability } from '../capability.ts';
import { DatabaseServers } from './database-servers.ts';
import { Databases, withDatabases } from './databases.ts';
import { databaseRunner } from './run-statement.ts';
import { databasesSchema, toSource } from './settings.ts';

export const databases = defineCapability({
  keys: {
    databases: databasesSchema
      .optional()
      .describe('Connections of `database_query`, by name: [databases](how-to/databases.md). Default: none.'),
  },
  settings: ({ databases: named = {} }) =>
    Object.fromEntries(Object.entries(named).map(([name, it]) => [name, toSource(it)] as const)),
  start(configured, daemon) {
    const { parts, catalogue, powers } = daemon;
    const known = new Databases({ ...daemon, configured });
    catalogue.bind((it) => withDatabases(it, known));
    const databaseServers = parts.use(new DatabaseServers({ ...daemon, program: databaseProgram }, powers));
    return { runners: { databases: databaseRunner({ ...daemon, databaseServers }) } };
  },
});
