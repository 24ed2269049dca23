/** MCP clients that do everything wrong: the daemon goes on and serves others. */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { mcpSocketOf, RawMcp } from '../support/mcp.ts';

const MiB = 1024 * 1024;
let daemon: TestDaemon;
let beside: RawMcp;
beforeAll(async () => {
  daemon = await startDaemon({
    limits: {
      mcpOpenMs: 600,
      frameIdleMs: 3000,
      mcpConnectionsMax: 24,
      mcpRequestsMax: 32,
      mcpEndGraceMs: 200,
      peerRequestBytesMax: 20 * MiB,
    },
  });
  writeFileSync(join(daemon.workspace, 'a.txt'), 'x'.repeat(4096));
  beside = await RawMcp.open(daemon);
  await beside.initialize();
});
afterAll(async () => {
  beside[Symbol.dispose]();
  await daemon[Symbol.asyncDispose]();
});

const read = (raw: RawMcp) => raw.request('tools/call', { name: 'file_read', arguments: { path: 'a.txt' } });

/** Checks after each fault that others are served. */
afterEach(async () => {
  expect(daemon.process.exitCode).toBeNull();
  expect((await read(beside)).result).toMatchObject({ content: [{}] });
});

const opened = async (): Promise<RawMcp> => {
  const raw = await RawMcp.open(daemon);
  await raw.initialize();
  return raw;
};
const nextError = async (raw: RawMcp, before = raw.answers.length) => {
  await until(() => raw.answers.length > before, 60_000);
  return raw.answers[before]?.error;
};

test.each<[string, string | Uint8Array, number]>([
  ['no JSON', 'hello\n', -32700],
  ['half of some JSON', '{"jsonrpc":"2.0",\n', -32700],
  ['bytes that are no UTF-8', Uint8Array.from([0xff, 0xfe, 0x0a]), -32700],
  ['an array of messages', '[{"jsonrpc":"2.0","id":1,"method":"ping"}]\n', -32600],
  ['a number', '7\n', -32600],
  ['nothing of a request', '{"jsonrpc":"2.0","id":1}\n', -32600],
  ['another version of JSON-RPC', '{"jsonrpc":"1.0","id":1,"method":"ping"}\n', -32600],
  ['an id that is none', '{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}\n', -32600],
  ['a method that is none', '{"jsonrpc":"2.0","id":1,"method":7}\n', -32600],
  ['params that are none', '{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}\n', -32600],
  [
    'a token of progress that is none',
    '{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":{}}}}\n',
    -32600,
  ],
  ['a member that there is not', '{"jsonrpc":"2.0","id":1,"method":"ping","more":1}\n', -32600],
  ['a key twice', '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}\n', -32700],
  [
    '10 000 levels',
    `{"jsonrpc":"2.0","id":1,"method":"ping","params":${'{"a":'.repeat(10_000)}1${'}'.repeat(10_000)}}\n`,
    -32700,
  ],
  ['200 000 values', `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[${'1,'.repeat(200_000)}1]}}\n`, -32700],
])('%s is refused, and what follows is served', async (_, bytes, code) => {
  using raw = await opened();
  raw.write(bytes);
  expect(await nextError(raw)).toMatchObject({ code });
  expect((await read(raw)).result).toBeDefined();
});

test('a line of 60 MiB is left out, held nowhere, and what follows is served', async () => {
  using raw = await opened();
  const piece = Buffer.alloc(MiB, 'x');
  for (let at = 0; at < 60; at++) raw.write(piece);
  raw.write('\n');
  expect(await nextError(raw)).toMatchObject({ code: -32001 });
  expect((await read(raw)).result).toBeDefined();
});

test('a message of 9 MiB is taken', async () => {
  using raw = await opened();
  const content = 'y'.repeat(9 * MiB);
  const answer = await raw.request('tools/call', { name: 'file_write', arguments: { path: 'big.txt', content } });
  expect(answer.result).not.toMatchObject({ isError: true });
});

test('an id that waits is not used again', async () => {
  using raw = await opened();
  const call = (seconds: number) => ({ name: 'terminal_execute', arguments: { command: `sleep ${seconds}` } });
  raw.send({ id: 7, method: 'tools/call', params: call(0.5) });
  raw.send({ id: 7, method: 'ping' });
  expect(await nextError(raw)).toMatchObject({ code: -32600, message: expect.stringContaining('is already waiting') });
});

test('methods that there are not, in either era, and answers that nobody waits for, end nothing', async () => {
  using raw = await opened();
  for (const method of ['nope', 'sampling/createMessage', 'notifications/nope', '', 'x'.repeat(100_000), '__proto__'])
    expect((await raw.request(method)).error?.code).toBe(-32601);
  raw.send({ id: 999, result: {} });
  raw.send({ id: 'r1', error: { code: 1, message: 'no' } });
  raw.send({ method: 'notifications/cancelled', params: { requestId: {} } });
  raw.send({ method: 'notifications/progress', params: {} });
  raw.send({ method: 'notifications/initialized' });
  raw.send({ method: 'notifications/ringfence/open', params: { workspace: '/' } });
  expect((await read(raw)).error).toBeDefined();
});

test('the first line is checked, and an error says what is wrong in it', async () => {
  for (const params of [{ workspace: 7 }, { root: '/' }, { tools: Array(1000).fill('a') }, { policy: 'no-such' }]) {
    using raw = await RawMcp.open(daemon);
    raw.send({ method: 'notifications/ringfence/open', params });
    const { error } = await raw.initialize();
    const later = error ?? (await read(raw)).error;
    expect(later).toMatchObject({ code: -32602 });
  }
});

test('requests beyond the bound of one connection are refused, and those before them answered', async () => {
  using raw = await opened();
  const call = { name: 'terminal_execute', arguments: { command: 'sleep 0.3' } };
  for (let id = 0; id < 40; id++) raw.send({ id, method: 'tools/call', params: call });
  await until(() => raw.answers.filter((it) => it.error?.code === -32006).length === 8);
  await until(() => raw.answers.filter((it) => it.result && typeof it.id === 'number').length === 32, 20_000);
});

test('requests whose bytes are beyond the bound of one connection are refused, and find room again', async () => {
  using raw = await opened();
  const calls = [
    { id: 'a', tool: 'terminal_execute', input: { command: 'sleep 1' } },
    { id: 'b', tool: 'file_write', dependsOn: ['a'], input: { path: 'b.txt', content: 'y'.repeat(9 * MiB) } },
  ];
  const params = { name: 'ringfence_batch', arguments: { calls } };
  for (const id of [1, 2, 3]) raw.send({ id, method: 'tools/call', params });
  expect((await raw.answer(3, 20_000)).error).toMatchObject({ code: -32006 });
  for (const id of [1, 2]) expect((await raw.answer(id, 20_000)).result).toBeDefined();
  raw.send({ id: 4, method: 'tools/call', params });
  expect((await raw.answer(4, 20_000)).result).toBeDefined();
});

test('a request that is cancelled counts for as long as something works on it', async () => {
  using raw = await RawMcp.open(daemon);
  // The daemon first waits for the client's roots, and begins no call before.
  await raw.initialize({ roots: {} });
  const input = { path: 'x'.repeat(9 * MiB) };
  for (const id of [1, 2, 3]) {
    raw.send({ id, method: 'tools/call', params: { name: 'file_read', arguments: input } });
    await raw.request('ping');
    raw.send({ method: 'notifications/cancelled', params: { requestId: id } });
  }
  expect((await raw.answer(3)).error).toMatchObject({ code: -32006 });
  await until(() => raw.answers.some((it) => it.method === 'roots/list'));
  const { id } = raw.answers.find((it) => it.method === 'roots/list') as { id: number };
  raw.send({ id, result: { roots: [] } });
  expect((await read(raw)).result).toBeDefined();
  // Cancelled calls have released their room.
  expect((await raw.request('tools/call', { name: 'file_read', arguments: input })).result).toBeDefined();
});

test('a client that is gone takes its calls with it', async () => {
  const raw = await opened();
  const command = 'touch begun; sleep 20; touch done';
  raw.send({ id: 1, method: 'tools/call', params: { name: 'terminal_execute', arguments: { command } } });
  await until(() => existsSync(join(daemon.workspace, 'begun')));
  raw.socket.destroy();
  await using operator = await daemon.connect({ role: 'operator' });
  const status = async () => (await operator.request('status', {})) as { calls: { running: number }; sessions: number };
  await until(async () => (await status()).calls.running === 0);
  rmSync(join(daemon.workspace, 'begun'));
});

test('a client that never reads is no longer served, and holds little memory', async () => {
  const raw = await opened();
  raw.socket.pause();
  const before = await rss();
  for (let id = 0; id < 20_000; id++) raw.send({ id: `n${id}`, method: 'tools/list', params: {} });
  await new Promise((resolve) => setImmediate(resolve));
  for (let round = 0; round < 50; round++) await read(beside);
  // 20 000 lists would take 480 MB.
  expect((await rss()) - before).toBeLessThan(200 * MiB);
  raw[Symbol.dispose]();
});

async function rss(): Promise<number> {
  await using operator = await daemon.connect({ role: 'operator' });
  return ((await operator.request('status', {})) as { rssBytes: number }).rssBytes;
}

test('connections that say nothing, or half a line, are ended, and others find a place again', async () => {
  const silent = Array.from({ length: 40 }, () => new RawMcp(mcpSocketOf(daemon)));
  for (const it of silent.slice(0, 10)) it.write('{"jsonrpc":');
  await until(() => silent.every((it) => it.closed));
  using raw = await opened();
  expect((await read(raw)).result).toBeDefined();
  raw.write('{"half":');
  await until(() => raw.closed);
});

test('a daemon ends although a client does not read what it is sent', async () => {
  await using own = await startDaemon({ limits: { mcpEndGraceMs: 200 } });
  writeFileSync(join(own.workspace, 'long.txt'), 'a line of text\n'.repeat(5_000));
  const raw = await RawMcp.open(own);
  await raw.initialize();
  raw.socket.pause();
  const call = { name: 'file_read', arguments: { path: 'long.txt' } };
  for (let id = 0; id < 40; id++) raw.send({ id, method: 'tools/call', params: call });
  await using operator = await own.connect({ role: 'operator' });
  const status = async () => (await operator.request('status', {})) as { calls: { running: number } };
  await until(async () => (await status()).calls.running === 0);
  own.process.kill('SIGTERM');
  await until(() => own.process.exitCode === 0);
});

test('a client that finds no place is told so', async () => {
  const silent = Array.from({ length: 40 }, () => new RawMcp(mcpSocketOf(daemon)));
  await until(() => silent.some((it) => it.closed && it.answers[0]?.error?.code === -32006));
  for (const it of silent) it[Symbol.dispose]();
});

test('initialize a hundred times, in both eras and between calls, is served as it can be', async () => {
  using raw = await opened();
  for (let at = 0; at < 100; at++) {
    const version = at % 2 === 0 ? '2025-06-18' : '1999-01-01';
    expect((await raw.initialize({}, version)).result).toBeDefined();
  }
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2099-01-01' };
  expect((await raw.request('tools/list', { _meta: meta })).error).toMatchObject({ code: -32022 });
  expect((await read(raw)).result).toBeDefined();
});
