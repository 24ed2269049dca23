/** Unix sockets of commands: their own work, those of others are out of reach. */
import { mkdirSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { eachIdentity } from '../support/arena.ts';
import { dataOf, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

const listening = (path: string): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer((it) => it.end('from outside')).once('error', reject);
    server.listen(path, () => resolve(server));
  });

eachIdentity({}, (arena) => {
  test('own-sockets.pl makes and uses sockets by a path and by a name', async () => {
    expect(await arena.told({ program: 'own-sockets.pl' })).toBe('own: through\n'.repeat(4));
  });

  test('a socket of somebody else is out of reach under each of its names, also at the end of a link, and nobody hears of the attempt', async () => {
    const { workspace } = arena.daemon;
    mkdirSync(join(workspace, 'deep/er'), { recursive: true });
    const path = join(workspace, 'deep/er/others.sock');
    let connections = 0;
    const server = await listening(path);
    server.on('connection', () => (connections += 1));
    await arena.command('ln -s deep/er/others.sock link; ln deep/er/others.sock hard 2>/dev/null; true');
    const tried = ['deep/er/others.sock', 'link', 'hard', path];
    // The index notices the new names.
    await until(
      async () => (await arena.told({ program: 'unix-sockets.pl', args: tried })) === 'path: refused\n'.repeat(4),
    );
    connections = 0;
    expect(await arena.told({ program: 'unix-sockets.pl', args: tried })).toBe('path: refused\n'.repeat(4));
    expect(connections).toBe(0);
    server.close();
  });
});

describe('a daemon', () => {
  let daemon: TestDaemon;
  let client: Client;
  const run = (command: string) => client.call('terminal_execute', { command, timeout: 20_000 });
  const stdoutOf = async (command: string) => (await dataOf(run(command))).stdout;
  beforeAll(async () => {
    daemon = await startDaemon({ limits: { socketMasksMax: 4 } });
    client = await daemon.connect();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });

  test('says in its status that commands have sockets of their own', async () => {
    await using operator = await daemon.connect({ role: 'operator' });
    expect(await operator.request('status', {})).toMatchObject({ confinement: { unixSockets: 'own' } });
  });

  test('programs that need unix sockets run: a server and its client, with the state of both in HOME', async () => {
    const script = `const net = require('node:net'); const at = process.env.HOME + '/app.sock';
      net.createServer((it) => it.end('hello')).listen(at, () => net.connect(at).on('data', (it) => { console.log(String(it)); process.exit() }))`;
    expect(await stdoutOf(`rm -f ~/app.sock; node -e "${script.replaceAll('\n', ' ')}"`)).toBe('hello\n');
  });

  test('a daemon with more sockets in a workspace than it can mask gives commands none, and says so', async () => {
    const paths = Array.from({ length: 6 }, (_, i) => join(daemon.workspace, `${i}.sock`));
    const servers = await Promise.all(paths.map(listening));
    const script = 'socket($s, 1, 1, 0) or exit 7';
    await until(async () => (await dataOf(run(`perl -e '${script}'`))).exitCode === 7);
    const { metadata } = await run(`perl -e '${script}'`);
    expect(metadata.withheld).toEqual({ hidden: [], count: 0, readOnly: [], network: 'none', unixSockets: 'none' });
    for (const it of servers) it.close();
    for (const it of paths) rmSync(it, { force: true });
  });
});

test('sockets in a folder that is hidden, and at the end of a long path, keep no command from running', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  const hidden = join(daemon.workspace, '.ssh');
  mkdirSync(hidden);
  const server = await listening(join(hidden, 'agent.sock'));
  const run = (command: string) => client.call('terminal_execute', { command, timeout: 20_000 });
  expect(await dataOf(run('echo works'))).toMatchObject({ stdout: 'works\n' });
  await dataOf(
    run(
      `for i in {1..19}; do mkdir ${'d'.repeat(200)} && cd ${'d'.repeat(200)}; done; perl -e 'use Socket; socket($s, 1, 1, 0); bind($s, pack_sockaddr_un("s")); listen($s, 1)'`,
    ),
  );
  expect(await dataOf(run('echo works'))).toMatchObject({ stdout: 'works\n' });
  server.close();
});

test('a policy takes the sockets away, and a command that fails for it is told', async () => {
  await using daemon = await startDaemon({ policy: 'tiers:\n  execute: { unixSockets: none }\n' });
  await using client = await daemon.connect();
  const result = await client.call('terminal_execute', { command: `perl -e 'socket($s, 1, 1, 0) or exit 7'` });
  expect(result).toMatchObject({ data: { exitCode: 7 }, metadata: { withheld: { unixSockets: 'none' } } });
});
