/** A PostgreSQL server for tests: of the machine's package, in a temporary folder, on loopback, ended with the test. */
import { execFileSync } from 'node:child_process';
import { openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { freePort, give, makeFolder, makeServerFolder, newestOf, SERVER_USER, startServer } from './database-server.ts';

const initdb = newestOf('/usr/lib/postgresql/*/bin/initdb');
/** Why there is no PostgreSQL, for the names of tests that are skipped; undefined if there is one. */
export const missingPostgres = initdb === undefined ? 'no PostgreSQL: run script/bootstrap --databases' : undefined;

export interface TestPostgres extends AsyncDisposable {
  readonly port: number;
  readonly folder: string;
  /** File with the certificate of the server's authority. */
  readonly ca: string;
  readonly pid: number;
  readonly password: string;
  /** Runs statements as the superuser, and gives the rows of the last one. */
  sql(text: string): Promise<unknown[][]>;
}

export async function startPostgres(settings: readonly string[] = []): Promise<TestPostgres> {
  const folder = makeServerFolder();
  const data = makeFolder(join(folder.path, 'data'));
  const password = 'postgres-secret-canary';
  const passwordFile = join(folder.path, 'password');
  writeFileSync(passwordFile, password, { mode: 0o600 });
  give(passwordFile);
  const made = ['-D', data, '-U', 'postgres', '-A', 'scram-sha-256', `--pwfile=${passwordFile}`];
  execFileSync(initdb as string, [...made, '--no-sync', '-E', 'UTF8', '--locale=C'], {
    stdio: 'ignore',
    cwd: folder.path,
    ...SERVER_USER,
  });
  const port = await freePort();
  const log = join(folder.path, 'log');
  openSync(log, 'w');
  give(log);
  const all = [
    'listen_addresses=127.0.0.1',
    `port=${port}`,
    `unix_socket_directories=${folder.path}`,
    'fsync=off',
    'ssl=on',
    `ssl_cert_file=${folder.certificate}`,
    `ssl_key_file=${folder.key}`,
    'logging_collector=off',
    ...settings,
  ];
  const args = ['-D', data, ...all.flatMap((it) => ['-c', it])];
  const sql = async (text: string) => {
    const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', password, database: 'postgres' });
    client.on('error', () => {}); // The server ends.
    await client.connect();
    try {
      const result = (await client.query({ text, rowMode: 'array' })) as unknown;
      const last = (Array.isArray(result) ? result.at(-1) : result) as { rows: unknown[][] };
      return last.rows;
    } finally {
      await client.end();
    }
  };
  const program = (initdb as string).replace(/initdb$/, 'postgres');
  const server = await startServer(program, args, { log, isUp: async () => void (await sql('SELECT 1')) });
  return {
    port,
    folder: folder.path,
    ca: folder.ca,
    pid: server.process.pid as number,
    password,
    sql,
    async [Symbol.asyncDispose]() {
      await server.end();
      folder[Symbol.dispose]();
    },
  };
}
