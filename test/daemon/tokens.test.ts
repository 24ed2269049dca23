/** `tokens.rotate` and `ringfence token rotate`: old tokens are invalid at once, and new ones work without a restart. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Client, createClient } from '../../src/client/client.ts';
import { ringfence, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';

let daemon: TestDaemon;
let operator: Client;
beforeAll(async () => {
  daemon = await startDaemon({ config: { principals: { ci: {} } }, args: ['--listen', '0'] });
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
const fileOf = (name: string) => join(daemon.stateDir, ...(name === 'ci' ? ['tokens'] : []), `${name}.token`);
const tokenOf = (name: string) => readFileSync(fileOf(name), 'utf8').trim();
const open = (token: string, more: object = {}) =>
  createClient({ socket: daemon.socket, workspace: daemon.workspace, token, ...more });

test('a rotated token is refused, its sessions are ended and told why, others go on, and the new one works at once', async () => {
  const old = tokenOf('ci');
  await using theirs = await open(old);
  await using waiting = await open(old, { resumeMs: 60_000 });
  await using plain = await daemon.connect();
  const told: unknown[] = [];
  const closing = (async () => {
    for await (const it of theirs.notifications(['calls'])) told.push(it);
  })();
  await theirs.request('status', {}); // The subscription is active.
  expect(await operator.request('tokens.rotate', { names: ['ci'] })).toEqual({ rotated: ['ci'], sessionsEnded: 2 });
  await closing;
  expect(told).toContainEqual({ method: 'session.closing', params: { reason: 'its token was rotated' } });
  await expect(open(old)).rejects.toMatchObject({ code: -32003 });
  await expect(waiting.request('status', {})).rejects.toMatchObject({ code: -32003 });
  expect(tokenOf('ci')).not.toBe(old);
  expect(statSync(fileOf('ci')).mode & 0o777).toBe(0o600);
  await using again = await open(tokenOf('ci'));
  expect(await again.call('file_list', {})).toMatchObject({ success: true });
  expect(await plain.call('file_list', {})).toMatchObject({ success: true });
  const { entries } = (await operator.request('audit.query', { kind: 'session', limit: 20 })) as { entries: object[] };
  expect(entries).toContainEqual(
    expect.objectContaining({ detail: { event: 'tokens-rotated', names: ['ci'], sessionsEnded: 2 } }),
  );
});

test('a WebSocket that showed the old token before it said hello gets no session with it', async () => {
  const url = daemon.listeners.find((it) => it.startsWith('ws:')) as string;
  const old = tokenOf('agent');
  const { default: WebSocket } = await import('ws');
  const socket = new WebSocket(url, 'ringfence.v1.json', { headers: { Authorization: `Bearer ${old}` } });
  await new Promise((resolve) => socket.once('open', resolve));
  await operator.request('tokens.rotate', { names: ['agent'] });
  const answered = new Promise<string>((resolve) => socket.once('message', (it: Buffer) => resolve(it.toString())));
  socket.send('{"id":1,"method":"hello","params":{"protocol":1,"client":{"name":"w","version":"1"}}}');
  expect(JSON.parse(await answered)).toMatchObject({ error: { code: -32003 } });
  socket.terminate();
});

test('an agent may rotate nothing, and a name without a token is refused with those that there are', async () => {
  await using agent = await open(tokenOf('ci'));
  const before = tokenOf('ci');
  await expect(agent.request('tokens.rotate', {})).rejects.toMatchObject({ code: -32004 });
  await expect(operator.request('tokens.rotate', { names: ['nobody'] })).rejects.toThrow(
    'nobody has no token; tokens exist for: operator, agent, metrics, ci',
  );
  expect(tokenOf('ci')).toBe(before);
});

test('`ringfence token rotate` changes all of them in a running daemon, and its own operator token too', async () => {
  const before = ['operator', 'agent', 'metrics', 'ci'].map(tokenOf);
  const args = ['token', 'rotate', '--json', '--socket', daemon.socket, '--state', daemon.stateDir];
  const { status, stdout, stderr } = spawnSync(process.execPath, [ringfence, ...args], { encoding: 'utf8' });
  expect({ status, stderr }).toMatchObject({ status: 0, stderr: expect.stringContaining('sessions') });
  const names = ['operator', 'agent', 'metrics', 'ci'];
  expect(JSON.parse(stdout)).toEqual({
    rotated: names.map((name) => ({ name, path: fileOf(name) })),
    sessionsEnded: expect.any(Number),
  });
  for (const [at, it] of names.entries()) expect(tokenOf(it)).not.toBe(before[at]);
  // The earlier operator's connection is over, and our client does not reconnect by itself.
  await until(() => operator.ended.then(() => true));
  operator = await daemon.connect({ role: 'operator' });
  await expect(open(before[0] as string, { role: 'operator' })).rejects.toMatchObject({ code: -32003 });
}, 60_000);

test('without a daemon the files are changed, and a daemon that starts later takes them', async () => {
  const state = temporaryDir('state');
  try {
    mkdirSync(join(state, 'tokens'));
    for (const it of ['operator.token', 'agent.token', 'tokens/ci.token']) writeFileSync(join(state, it), 'old\n');
    const run = (...names: string[]) =>
      spawnSync(process.execPath, [ringfence, 'token', 'rotate', ...names, '--state', state], { encoding: 'utf8' });
    expect(run('../operator')).toMatchObject({ status: 1, stderr: expect.stringContaining('operator, agent, ci') });
    expect(run('ci').status).toBe(0);
    const read = (it: string) => readFileSync(join(state, it), 'utf8');
    expect([read('operator.token'), read('agent.token')]).toEqual(['old\n', 'old\n']);
    expect(read('tokens/ci.token')).toMatch(/^.{20,}\n$/);
  } finally {
    rmSync(state, { recursive: true, force: true });
  }
}, 60_000);
