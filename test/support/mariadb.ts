/** A MariaDB server for tests: of the machine's package, in a temporary folder, on loopback, ended with the test. */
import { execFileSync } from 'node:child_process';
import { existsSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createConnection } from 'mysql2/promise';
import { freePort, give, makeFolder, makeServerFolder, SERVER_USER, startServer } from './database-server.ts';

const PROGRAM = '/usr/sbin/mariadbd';
/** Why there is no MariaDB, for the names of tests that are skipped; undefined if there is one. */
export const missingMariadb = existsSync(PROGRAM) ? undefined : 'no MariaDB: run script/bootstrap --databases';

export interface TestMariadb extends AsyncDisposable {
  readonly port: number;
  readonly folder: string;
  /** File with the certificate of the server's authority. */
  readonly ca: string;
  /** Runs a statement as root, and gives its rows. */
  sql(text: string): Promise<unknown[][]>;
}

export async function startMariadb(): Promise<TestMariadb> {
  const folder = makeServerFolder();
  const data = makeFolder(join(folder.path, 'data'));
  // What mariadb-install-db does, which needs a program of another package.
  const scripts = ['mysql_system_tables', 'mysql_performance_tables', 'mysql_system_tables_data'].map((it) =>
    readFileSync(`/usr/share/mysql/${it}.sql`, 'utf8'),
  );
  const input = ['CREATE DATABASE mysql;', 'USE mysql;', 'SET @auth_root_socket = NULL;', ...scripts].join('\n');
  execFileSync(PROGRAM, ['--no-defaults', '--bootstrap', `--datadir=${data}`, `--tmpdir=${folder.path}`], {
    input,
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: folder.path,
    ...SERVER_USER,
  });
  const port = await freePort();
  const log = join(folder.path, 'log');
  openSync(log, 'w');
  give(log);
  const args = [
    '--no-defaults',
    `--datadir=${data}`,
    // The run's temporary folder is not this user's.
    `--tmpdir=${folder.path}`,
    '--bind-address=127.0.0.1',
    `--port=${port}`,
    `--socket=${join(folder.path, 'db.sock')}`,
    `--pid-file=${join(folder.path, 'pid')}`,
    `--log-error=${log}`,
    `--ssl-ca=${folder.ca}`,
    `--ssl-cert=${folder.certificate}`,
    `--ssl-key=${folder.key}`,
    '--innodb-flush-log-at-trx-commit=0',
    '--local-infile=1',
    '--secure-file-priv=',
  ];
  const sql = async (text: string) => {
    const client = await createConnection({ host: '127.0.0.1', port, user: 'root', multipleStatements: true });
    try {
      const [rows] = await client.query({ sql: text, rowsAsArray: true });
      return rows as unknown[][];
    } finally {
      await client.end();
    }
  };
  const server = await startServer(PROGRAM, args, { log, isUp: async () => void (await sql('SELECT 1')) });
  return {
    port,
    folder: folder.path,
    ca: folder.ca,
    sql,
    async [Symbol.asyncDispose]() {
      server.process.kill('SIGKILL');
      await server.end();
      folder[Symbol.dispose]();
    },
  };
}
