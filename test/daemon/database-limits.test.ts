/** The bounds of connections to database servers, each reached by a real daemon. */
import { createServer, type Server, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { missingPostgres, startPostgres, type TestPostgres } from '../support/postgres.ts';
import { NO_ROLES, WELCOME } from '../support/postgres-messages.ts';

const MiB = 1024 * 1024;
const END_MS = 300;
const LIMITS = {
  databaseSessionsMax: 2,
  databaseSortBytes: 64 * 1024,
  databaseHeapMb: 32,
  databaseEndMs: END_MS,
  // So that a result can be larger than that heap.
  databaseResultBytes: 256 * MiB,
  databaseWireBytes: 512 * MiB,
};

let daemon: OpenDaemon;
let agent: Client;
let silent: Server;
const silentSockets: Socket[] = [];
let server: TestPostgres | undefined;

const query = (connection: string, sql: string, options: object = {}, more: object = {}) =>
  agent.call('database_query', { connection, sql, ...more }, options);

beforeAll(async () => {
  // Lets anybody in, and says nothing from then on.
  silent = createServer((socket) => {
    silentSockets.push(socket);
    const answers = [WELCOME, NO_ROLES];
    socket.on('error', () => {});
    socket.on('data', () => {
      const next = answers.shift();
      if (next) socket.write(next);
    });
  });
  await new Promise<void>((ready) => void silent.listen(0, '127.0.0.1', ready));
  const at = { kind: 'postgres', host: '127.0.0.1', database: 'postgres', user: 'reader', private: true, tls: 'off' };
  if (!missingPostgres) {
    server = await startPostgres();
    await server.sql("CREATE ROLE reader LOGIN PASSWORD 'pw'");
  }
  const { port } = silent.address() as { port: number };
  daemon = await openDaemon({
    config: {
      databases: { silent: { ...at, port }, ...(server && { app: { ...at, port: server.port, secret: 'db' } }) },
    },
    limits: LIMITS,
  });
  await runCli(daemon, ['secret', 'set', 'db'], { stdin: 'pw' });
  agent = await daemon.connect();
});
afterAll(async () => {
  await agent?.[Symbol.asyncDispose]();
  await daemon?.[Symbol.asyncDispose]();
  await server?.[Symbol.asyncDispose]();
  for (const it of silentSockets) it.destroy();
  silent.close();
});

test('databaseEndMs: a server that does not take a cancel keeps its session no longer than that', async () => {
  const control = new AbortController();
  const asked = query('silent', 'SELECT 1', { signal: control.signal });
  await until(() => silentSockets.length > 0 && (silentSockets[0] as Socket).bytesRead > 200);
  const [session] = silentSockets as [Socket];
  const closed = new Promise<number>((resolve) => session.once('close', () => resolve(performance.now())));
  const from = performance.now();
  control.abort();
  expect(await asked).toMatchObject({ success: false, error: { code: 'CANCELLED' } });
  // The cancel goes to the server on a connection of its own.
  await until(() => silentSockets.length === 2);
  expect((await closed) - from).toBeGreaterThanOrEqual(END_MS - 1);
});

describe.skipIf(missingPostgres !== undefined)(`PostgreSQL${missingPostgres ? ` (${missingPostgres})` : ''}`, () => {
  const sessions = async () => {
    const rows = await server?.sql("SELECT query FROM pg_stat_activity WHERE usename = 'reader'");
    return (rows ?? []).map(([it]) => String(it));
  };
  const sleeping = async () => (await sessions()).filter((it) => it.includes('pg_sleep')).length;

  test('databaseSessionsMax: more calls wait for a session, and one that is cancelled while it waits ends at once', async () => {
    await using other = await daemon.connect();
    const sleep = { connection: 'app', sql: 'SELECT pg_sleep(60)' };
    // One place is kept for other sessions of the daemon than who has all the rest.
    const long = [agent, other].map((it) => it.call('database_query', sleep));
    await until(async () => (await sleeping()) === 2);
    const next = query('app', "SELECT 'had its turn'");
    const control = new AbortController();
    const given = query('app', 'SELECT 1', { signal: control.signal });
    control.abort();
    expect(await given).toMatchObject({ success: false, error: { code: 'CANCELLED' } });
    expect((await sessions()).length).toBe(2);
    await server?.sql("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'");
    for (const it of long) expect(await it).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
    expect((await dataOf(next)).rows).toEqual([['had its turn']]);
    expect((await sessions()).length).toBeLessThanOrEqual(2);
  });

  test('databaseSortBytes: a sort that needs more goes to files of the server', async () => {
    const written = async () =>
      Number(
        (await server?.sql('SELECT temp_bytes FROM pg_stat_database WHERE datname = current_database()'))?.[0]?.[0],
      );
    expect((await dataOf(query('app', "SELECT current_setting('work_mem')"))).rows).toEqual([['64kB']]);
    const before = await written();
    const few = 'SELECT i FROM generate_series(1, 100) i ORDER BY i % 7 LIMIT 1';
    await dataOf(query('app', few));
    expect(await written()).toBe(before);
    await dataOf(query('app', 'SELECT i FROM generate_series(1, 50000) i ORDER BY i % 7, i OFFSET 40000 LIMIT 1'));
    await until(async () => (await written()) > before);
  });

  test('databaseHeapMb: a result that fills the heap ends its process, and the next call has another', async () => {
    const huge = "SELECT repeat('x', 20000) FROM generate_series(1, 10000)";
    const result = await query('app', huge, {}, { maxRows: 10_000 });
    expect(result).toMatchObject({ success: false, error: { code: 'HOST_CRASHED' } });
    expect((await dataOf(query('app', 'SELECT 1'))).rows).toEqual([[1]]);
    // The server notices that nobody reads.
    await until(async () => (await sessions()).every((it) => !it.includes('repeat')));
  });
});
