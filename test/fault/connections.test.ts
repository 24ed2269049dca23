/** One client opens connections in masses: others can still connect, operators always. */
import { createConnection, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { mcpSocketOf, RawMcp } from '../support/mcp.ts';
import { RawPeer } from '../support/raw-peer.ts';

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

const addressOf = (daemon: TestDaemon, scheme: string) =>
  daemon.listeners.find((it) => it.startsWith(scheme)) as string;

test('of connections that say nothing at most 32 stay, the oldest go first, and others are served', async () => {
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
  expect(answers.filter((it) => it.result)).toHaveLength(6);
  const refused = answers.find((it) => it.error);
  expect(refused?.error).toMatchObject({ code: -32006, message: expect.stringMatching(/^6 connections of uid:\d+ /) });
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
