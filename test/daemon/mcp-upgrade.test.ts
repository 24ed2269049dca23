/** `ringfence mcp` goes on with the daemon that replaces its own, without a word to its client. */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterEach, describe, expect, test } from 'vitest';
import { beginCli, endOf, runCli } from '../support/cli.ts';
import {
  BUILT_IN_DEFAULT,
  processesWith,
  removeTree,
  repository,
  ringfence,
  type TestDaemon,
  temporaryDir,
  until,
} from '../support/daemon.ts';
import { type Answer, connectMcp, ERAS, type Era, mcpSocketOf, RawMcp, textOf } from '../support/mcp.ts';
import { addPlugin, writePlugin } from '../support/plugin.ts';
import { begun, go, isHandingOver, UNTIL_GO, upgradable } from '../support/upgrade.ts';
import { type Caller, loadDuringUpgrades } from '../support/upgrade-load.ts';

/** A line of the daemon's log. */
const GO_OVER = 'clients go over to the new daemon';
const ASK = 'tiers:\n  execute: { decision: ask }\n';
type Place = Pick<TestDaemon, 'stateDir' | 'socket' | 'workspace'>;

async function upgrade(daemon: Place): Promise<void> {
  const { code, stderr } = await runCli(daemon, ['upgrade']);
  if (code !== 0) throw new Error(stderr);
}

/** The ids of the questions that are open. */
async function questions(daemon: Place): Promise<string[]> {
  const { stdout } = await runCli(daemon, ['approvals', '--json']);
  return (JSON.parse(stdout || '[]') as { approvalId: string }[]).map((it) => it.approvalId);
}

const approve = (daemon: Place, id: string) => runCli(daemon, ['approvals', 'approve', id]);

describe.each(ERAS)('a client of the %s era', (era: Era) => {
  const connect = (daemon: Place) => connectMcp(daemon, { era });
  const run = (command: string) => ({ name: 'terminal_execute', arguments: { command } });

  test('uses the new daemon after each upgrade, also when nothing was asked in between', {
    timeout: 90_000,
  }, async () => {
    await using daemon = await upgradable();
    await using client = await connect(daemon);
    let closed = false;
    client.onclose = () => (closed = true);
    const before = await client.listTools();
    await upgrade(daemon);
    await upgrade(daemon);
    expect(textOf(await client.callTool(run('echo again')))).toMatch(/^again\n/);
    expect(await client.listTools()).toEqual(before);
    expect(closed).toBe(false);
  });

  test('gets the result of a call that the old daemon runs, and those of calls begun meanwhile', {
    timeout: 90_000,
  }, async () => {
    await using daemon = await upgradable();
    await using client = await connect(daemon);
    const running = client.callTool(run(UNTIL_GO));
    await begun(daemon);
    const upgrading = beginCli(daemon, ['upgrade', '--drain', '4s']);
    await until(() => isHandingOver(daemon));
    // Refused by the old daemon once half of the drain time is over, and made again at the new one.
    const later = (async () => {
      for (let calls = 0; !existsSync(join(daemon.workspace, 'go')); calls++)
        await client.callTool(run(`echo ${calls} >> later`)).catch((error) => expect.fail(String(error)));
    })();
    await until(() => existsSync(join(daemon.workspace, 'later')));
    await until(() => daemon.log().includes(GO_OVER), 20_000);
    go(daemon);
    expect(textOf(await running)).toMatch(/^done\n/);
    expect(await endOf(upgrading)).toBe(0);
    await later;
    const lines = readFileSync(join(daemon.workspace, 'later'), 'utf8').trim().split('\n');
    expect(lines).toEqual(lines.map((_, at) => String(at)));
  });

  test('loses and doubles no call', { timeout: 120_000 }, async () => {
    await using daemon = await upgradable();
    const caller = async (): Promise<Caller> => {
      const client = await connect(daemon);
      return {
        async call(name, input) {
          const result = await client.callTool({ name, arguments: { ...input } });
          return result.isError ? textOf(result) : undefined;
        },
        [Symbol.asyncDispose]: () => client.close(),
      };
    };
    const load = { callsPerSecond: 20, clients: 3, upgrades: 2, betweenMs: 300, resumeMs: 0, callsPerEdit: 2 };
    const { calls, failed, lost, doubled } = await loadDuringUpgrades(daemon, load, caller);
    expect({ failed, lost, doubled }).toEqual({ failed: [], lost: 0, doubled: 0 });
    expect(calls).toBeGreaterThan(10);
  });

  test('runs all calls of a batch that has begun', { timeout: 90_000 }, async () => {
    await using daemon = await upgradable();
    await using client = await connect(daemon);
    const calls = [
      { id: 'first', tool: 'terminal_execute', input: { command: UNTIL_GO } },
      { id: 'second', tool: 'terminal_execute', input: { command: 'echo second' }, dependsOn: ['first'] },
    ];
    const batch = client.callTool({ name: 'ringfence_batch', arguments: { calls } });
    await begun(daemon);
    const upgrading = beginCli(daemon, ['upgrade', '--drain', '4s']);
    await until(() => daemon.log().includes(GO_OVER), 20_000);
    go(daemon);
    const result = await batch;
    expect(textOf(result)).toMatch(/"successCount":2/);
    expect(result.isError).toBeUndefined();
    expect(await endOf(upgrading)).toBe(0);
  });

  test('takes the answer to a question that was asked before', { timeout: 90_000 }, async () => {
    await using daemon = await upgradable({ policy: ASK });
    await using client = await connect(daemon);
    const call = client.callTool(run('echo once >> effects'));
    await until(async () => (await questions(daemon)).length === 1);
    const [id = ''] = await questions(daemon);
    await upgrade(daemon);
    expect((await approve(daemon, id)).code).toBe(0);
    expect((await call).isError).toBeUndefined();
    expect(readFileSync(join(daemon.workspace, 'effects'), 'utf8')).toBe('once\n');
  });

  test('hears of changed tools from the new daemon', { timeout: 90_000 }, async () => {
    await using daemon = await upgradable();
    const changes: unknown[] = [];
    const onChanged = (_: unknown, tools: { name: string }[] | null) => void changes.push(tools?.map((it) => it.name));
    await using client = await connectMcp(daemon, { era, client: { listChanged: { tools: { onChanged } } } });
    await client.listTools();
    await upgrade(daemon);
    const source = writePlugin({ files: { 'main.js': 'export const run = () => ({ value: 1 });' } });
    await addPlugin(daemon, source);
    await until(() => changes.some((it) => JSON.stringify(it).includes('probe__run')));
    removeTree(source);
  });
});

/**
 * Stands for a service manager: holds the two sockets, and starts the daemon again whenever it ends. Prints the pid of
 * each daemon.
 */
const SERVICE_MANAGER = `
import os, socket, sys
paths, daemon = sys.argv[1:3], sys.argv[3:]
held = []
for path in paths:
    it = socket.socket(socket.AF_UNIX); it.bind(path); os.chmod(path, 0o600); it.listen(64); held.append(it)
while True:
    pid = os.fork()
    if pid == 0:
        for at, it in enumerate(held): os.dup2(it.fileno(), 50 + at)
        for at in range(len(held)): os.dup2(50 + at, 3 + at)
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='2', LISTEN_FDNAMES='control:mcp')
        os.execv(daemon[0], daemon)
    print(pid, flush=True)
    os.waitpid(pid, 0)
`;

const ends: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** A daemon that is started again when it ends. */
async function service(policy: string): Promise<Place & { pid(): number }> {
  const [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
  const socket = join(stateDir, 'd.sock');
  writeFileSync(join(stateDir, 'policy.yaml'), policy, { mode: 0o600 });
  const daemon = [process.execPath, join(repository, 'bin/ringfenced.js'), '--state', stateDir, '--socket', socket];
  const files = ['--workspace', workspace, '--policy', join(stateDir, 'policy.yaml')];
  const manager = spawn(
    '/usr/bin/python3',
    ['-c', SERVICE_MANAGER, socket, mcpSocketOf({ socket }), ...daemon, ...files],
    { stdio: ['ignore', 'pipe', 'ignore'], env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent' } },
  );
  let told = '';
  manager.stdout.on('data', (it) => (told += it));
  const pid = () => Number(told.trim().split('\n').at(-1));
  ends.push(async () => {
    manager.kill('SIGKILL');
    process.kill(pid(), 'SIGTERM');
    await until(() => processesWith(stateDir).length === 0);
    for (const it of [stateDir, workspace]) removeTree(it);
  });
  await until(() => pid() > 0);
  return { stateDir, workspace, socket, pid };
}

describe.each(ERAS)('a client of the %s era whose daemon is killed and started again', (era: Era) => {
  test('hears of a call that it may have run, and goes on', { timeout: 60_000 }, async () => {
    const daemon = await service(BUILT_IN_DEFAULT);
    await using client = await connectMcp(daemon, { era });
    const call = client.callTool({ name: 'terminal_execute', arguments: { command: 'touch begun; sleep 60' } });
    await until(() => existsSync(join(daemon.workspace, 'begun')));
    process.kill(daemon.pid(), 'SIGKILL');
    const result = await call;
    expect(result.isError).toBe(true);
    expect(textOf(result)).toMatch(/^HOST_CRASHED: .*what the call has done is unknown.*Check/s);
    expect(result._meta?.['ringfence/call']).toMatchObject({
      error: { code: 'HOST_CRASHED', details: { outcome: 'unknown' } },
    });
    expect((await client.listTools()).tools.length).toBeGreaterThan(5);
  });
});

test('an answer to a question of a killed daemon answers no question of the next one', {
  timeout: 60_000,
}, async () => {
  const daemon = await service(ASK);
  const bridge = spawn(process.execPath, [
    ringfence,
    'mcp',
    '--socket',
    daemon.socket,
    '--workspace',
    daemon.workspace,
  ]);
  const told: Answer[] = [];
  createInterface({ input: bridge.stdout }).on('line', (it) => told.push(JSON.parse(it) as Answer));
  const send = (message: object) => bridge.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  const asked = () => told.filter(({ method }) => method === 'elicitation/create');
  const run = (id: string) =>
    send({ id, method: 'tools/call', params: { name: 'terminal_execute', arguments: { command: `touch ${id}` } } });
  const clientInfo = { name: 'raw', version: '1' };
  const params = { protocolVersion: '2025-11-25', capabilities: { elicitation: {} }, clientInfo };
  send({ id: 'open', method: 'initialize', params });
  await until(() => told.length > 0, 30_000);
  send({ method: 'notifications/initialized' });
  run('first');
  await until(() => asked().length === 1);
  process.kill(daemon.pid(), 'SIGKILL');
  await until(() => told.some(({ id }) => id === 'first'));
  run('second');
  await until(() => asked().length === 2);
  const result = { action: 'accept', content: { decision: 'allow_once' } };
  // A client that has not heard yet that the first question is over.
  send({ id: asked()[0]?.id, result });
  send({ id: 'list', method: 'tools/list' });
  await until(() => told.some(({ id }) => id === 'list'));
  expect(await questions(daemon)).toHaveLength(2);
  send({ id: asked()[1]?.id, result });
  await until(() => told.some(({ id }) => id === 'second'));
  expect(readdirSync(daemon.workspace)).toEqual(['second']);
  bridge.stdin.end();
  expect(await endOf(bridge)).toBe(0);
});

test('the bridge ends if the next daemon takes no more clients, and says so', { timeout: 60_000 }, async () => {
  await using daemon = await upgradable();
  await using client = await connectMcp(daemon);
  const bridge = client.transport as StdioClientTransport;
  let told = '';
  bridge.stderr?.on('data', (it) => (told += it));
  const closed = new Promise((resolve) => (client.onclose = () => resolve(undefined)));
  const running = client.callTool({ name: 'terminal_execute', arguments: { command: UNTIL_GO } });
  await begun(daemon);
  writeFileSync(join(daemon.stateDir, 'config.yaml'), '{"internalLimits": {"mcpConnectionsMax": 1}}');
  const upgrading = beginCli(daemon, ['upgrade', '--drain', '1s']);
  await until(() => daemon.log().includes(GO_OVER), 20_000);
  using first = await RawMcp.open(daemon); // It waits in the kernel's queue, before the bridge.
  go(daemon);
  await running;
  expect(await endOf(upgrading)).toBe(0);
  await closed;
  expect(told).toMatch(/1 connections of uid:\d+ are open, its share of 1/);
  expect((await first.initialize()).result).toBeDefined();
});
