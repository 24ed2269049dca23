/** Verbs for database connections; their code is loaded on demand. */
import type { CliCapability } from '../verbs/verbs.ts';

export default {
  checks: async (client, dirs) => (await import('./doctor.ts')).judgeDatabases(client, dirs),
  addVerbs(verbs) {
    const database = verbs
      .addGroup('database', 'add, list, check and remove the databases that agents may query by name')
      .summary('add, check and remove databases that agents may query');
    const load = () => import('./database.ts');
    verbs
      .addBeside('add <name>', 'store a connection; agents can use it at once', database)
      .requiredOption('--kind <kind>', 'sqlite, duckdb, postgres or mysql')
      .option(
        '--path <path>',
        'sqlite, duckdb: the file, or the folder of data files, relative to the workspace of whoever asks',
      )
      .option('--host <host>', 'the server')
      .option('--port <n>', 'its port (default: the usual one of the kind)')
      .option('--database <name>', 'the database at the server')
      .option('--user <name>', 'the user, who should have no rights but those that agents need')
      .option('--secret <name>', 'the secret that is the password (ringfence secret set NAME)')
      .option('--tls <mode>', 'verify, or off for a private host (default: verify)')
      .option('--ca <file>', "certificates of the server's authority in PEM (default: those of the machine)")
      .option('--private', 'the host may be this machine or one of its networks')
      .option('--max-cost <n>', 'most cost of a statement, as the server estimates it')
      .option('--access <access>', 'read, or write to let statements change rows (default: read)')
      .action(verbs.anywhere(async () => (await load()).databaseAdd));
    verbs
      .addBeside('list', 'list the connections; exit code 1 if one can not be used', database)
      .action(verbs.anywhere(async () => (await load()).databaseList));
    verbs
      .add('check <name>', 'show the tables of a connection, by a call', database)
      .option('--workspace <dir>', 'the folder to work in (default: this one)')
      .action(verbs.here(async () => (await load()).databaseCheck));
    verbs
      .addBeside('remove <name>', 'remove a stored connection', database)
      .action(verbs.anywhere(async () => (await load()).databaseRemove));

    verbs
      .add('query <connection> <sql>', 'run one SQL statement on a database connection, and print its rows')
      .summary('run one SQL statement on a database connection')
      .option('--csv', 'print CSV')
      .option('--params <json>', 'values for the parameters of the statement: a JSON array, or an object by name')
      .option('--max-rows <n>', 'most rows (default: 1000)')
      .option('--timeout <duration>', 'end the query after this time, such as 250ms, 5s or 2m')
      .option('--workspace <dir>', 'the folder to work in (default: this one)')
      .option('--session <name>', 'use the session of this name, which keeps your answers to questions')
      .action(verbs.here(async () => (await import('./query.ts')).query));
  },
} satisfies CliCapability;
