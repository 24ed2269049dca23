/** One client opens connections in masses: others can still connect, operators always. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createConnection, type Socket } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { repository, startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { mcpSocketOf, RawMcp } from '../support/mcp.ts';
import { type Answer, RawPeer } from '../support/raw-peer.ts';

const opened: { destroy(): void }[] = [];
afterEach(() => {
  for (const it of opened.splice(0)) it.destroy();
});

function peersOf(daemon: TestDaemon, count: number): RawPeer[] {
  const peers = Array.from({ length: count }, () => new RawPeer(daemon.socket));
  opened.push(...peers.map((it) => it.socket));
  return peers;
}

/** Sends bytes on a TCP connection that never become a request. */
function half(url: string, text: string): Socket {
  const { hostname, port } = new URL(url);
  const socket = createConnection(Number(port), hostname);
  socket.on('error', () => {}); // The daemon closes it.
  socket.write(text);
  opened.push(socket);
  return socket;
}

/** A process of its own with connections that have said hello. */
async function floodFrom(socket: string, count: number, kind = 'frames') {
  const program = join(repository, 'test/fixtures/many-client.ts');
  const child = spawn(process.execPath, [program, socket, String(count), kind], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  const [line] = await once(createInterface(child.stdout), 'line');
  return {
    answered: JSON.parse(line as string) as Answer[],
    async [Symbol.asyncDispose]() {
      child.stdin.end();
      await ended;
    },
  };
}

const addressOf = (daemon: TestDaemon, scheme: string) =>
  daemon.listeners.find((it) => it.startsWith(scheme)) as string;

test('at most 32 silent connections stay, the oldest are closed first, and other clients are served', async () => {
  await using daemon = await startDaemon({ limits: { helloTimeoutMs: 60_000 } });
  const silent = peersOf(daemon, 300);
  const [next] = peersOf(daemon, 1) as [RawPeer];
  expect((await next.hello()).result).toBeDefined();
  const open = () => silent.filter((it) => !it.socket.destroyed);
  await until(() => open().length <= 32);
  expect(silent.indexOf(open()[0] as RawPeer)).toBeGreaterThanOrEqual(300 - 32);
  await using operator = await daemon.connect({ role: 'operator' });
  expect(await operator.request('status', {})).toMatchObject({ pid: daemon.pid });
}, 60_000);

test('silent connections do not shut out a client that says hello at once', async () => {
  await using daemon = await startDaemon({ limits: { helloTimeoutMs: 60_000 } });
  let isOver = false;
  const flood = (async () => {
    while (!isOver) {
      const peers = peersOf(daemon, 40);
      await until(() => !peers.some((it) => it.socket.connecting));
      for (const it of opened.splice(0, opened.length - 100)) it.destroy();
    }
  })();
  try {
    for (let i = 0; i < 20; i++) {
      await using other = await daemon.connect();
      await other.request('calls.list', {});
    }
  } finally {
    isOver = true;
    await flood;
  }
}, 60_000);

test('a principal gets its share of connections and a clear refusal beyond it, and operators still connect', async () => {
  await using daemon = await startDaemon({ limits: { connectionsMax: 8, operatorConnectionsMax: 2 } });
  const peers = peersOf(daemon, 12);
  const answers = await Promise.all(peers.map((it) => it.hello()));
  // Of its share of six, one process gets what leaves half as much to its other processes.
  expect(answers.filter((it) => it.result)).toHaveLength(4);
  const message = expect.stringMatching(/^4 connections of process \d+ are open; the 2 that are left to uid:\d+ /);
  expect(answers.find((it) => it.error)?.error).toMatchObject({ code: -32006, message });
  {
    await using other = await floodFrom(daemon.socket, 6);
    expect(other.answered.filter((it) => it.result)).toHaveLength(2);
    const full = expect.stringMatching(/^6 connections of uid:\d+ are open/);
    expect(other.answered.at(-1)?.error).toMatchObject({ code: -32006, message: full });
  }
  const token = daemon.token('operator');
  const operators = peersOf(daemon, 3);
  const role = { role: 'operator', token };
  const told = await Promise.all(operators.map((it) => it.hello(role)));
  // An operator is a principal of its own: two slots are open to all, and two are reserved.
  expect(told.filter((it) => it.result)).toHaveLength(3);
  (peers[0] as RawPeer).socket.destroy();
  await until(async () => {
    const [next] = peersOf(daemon, 1) as [RawPeer];
    const came = (await next.hello()).result !== undefined;
    next.socket.destroy();
    return came;
  });
}, 60_000);

test('200 sessions and 200 silent connections of one process leave room to the other processes of its user', async () => {
  await using daemon = await startDaemon({ limits: { helloTimeoutMs: 60_000 } });
  await using flood = await floodFrom(daemon.socket, 200);
  peersOf(daemon, 200);
  expect(flood.answered.filter((it) => it.result)).toHaveLength(128);
  await using honest = await daemon.connect();
  await honest.request('calls.list', {});
  await using mcpFlood = await floodFrom(mcpSocketOf(daemon), 200, 'mcp');
  expect(mcpFlood.answered.filter((it) => it.result)).toHaveLength(64);
  using raw = await RawMcp.open(daemon);
  expect((await raw.initialize()).result).toBeDefined();
}, 60_000);

test('half requests and upgrades without a token take no place of the Unix socket, nor of who has a token', async () => {
  await using daemon = await startDaemon({ args: ['--listen', '0'], limits: { helloTimeoutMs: 60_000 } });
  const url = addressOf(daemon, 'ws:');
  const sockets = Array.from({ length: 200 }, () => half(url, 'GET /v1 HTTP/1.1\r\nHost: '));
  await until(() => sockets.filter((it) => !it.destroyed).length <= 32);
  for (let i = 0; i < 100; i++) {
    const socket = new WebSocket(url, 'ringfence.v1.json');
    socket.on('error', () => {}); // Closed to make room.
    opened.push({ destroy: () => socket.terminate() });
    await new Promise((resolve) => socket.once('open', resolve));
  }
  const known = new WebSocket(url, 'ringfence.v1.json', {
    headers: { Authorization: `Bearer ${daemon.token('agent')}` },
  });
  opened.push({ destroy: () => known.terminate() });
  await new Promise((resolve) => known.once('open', resolve));
  const answer = new Promise<Buffer>((resolve) => known.once('message', (data) => resolve(data as Buffer)));
  known.send(JSON.stringify({ id: 1, method: 'hello', params: { protocol: 1, client: { name: 'ws', version: '1' } } }));
  expect(JSON.parse((await answer).toString('utf8'))).toHaveProperty('result');
  await using other = await daemon.connect();
  await other.request('calls.list', {});
}, 60_000);

test('half requests leave room to MCP over HTTP, and silent connections to that over its socket', async () => {
  await using daemon = await startDaemon({
    args: ['--listen-http', '0'],
    limits: { helloTimeoutMs: 60_000, mcpOpenMs: 60_000, frameIdleMs: 60_000 },
  });
  const url = addressOf(daemon, 'http:');
  const sockets = Array.from({ length: 200 }, () => half(url, 'POST /mcp HTTP/1.1\r\nHost: '));
  await until(() => sockets.filter((it) => !it.destroyed).length <= 32);
  const answer = await fetch(url, { method: 'POST', body: '{}' });
  expect(answer.status).toBe(401);
  const silent = Array.from({ length: 120 }, () => new RawMcp(mcpSocketOf(daemon)));
  await until(() => silent.filter((it) => !it.closed).length <= 32);
  using raw = await RawMcp.open(daemon);
  expect((await raw.initialize()).result).toBeDefined();
  for (const it of silent) it[Symbol.dispose]();
}, 60_000);
