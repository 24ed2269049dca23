/** WebSocket on loopback: who may connect, both subprotocols, a payload that is too large. */
import { readFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { defaultLimits } from '../../src/base/limits.ts';
import { decode, encode } from '../../src/wire/protocol/codec.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';

let daemon: TestDaemon;
let url: string;
beforeAll(async () => {
  daemon = await startDaemon({
    args: ['--listen', '0'],
    limits: { frameBytesMax: 64 * 1024 },
    config: { principals: { nightly: { policy: 'read-only' } } },
  });
  url = daemon.listeners.find((it) => it.startsWith('ws:')) as string;
});
afterAll(() => daemon[Symbol.asyncDispose]());

type Protocol = 'ringfence.v1.msgpack' | 'ringfence.v1.json';
const hello = { id: 1, method: 'hello', params: { protocol: 1, client: { name: 'ws', version: '1' } } };

/** Connects; resolves with the socket, or with the refusing status. */
function open(
  protocol: Protocol | 'other',
  headers: Record<string, string> = {},
  to = url,
): Promise<WebSocket | number> {
  const socket = new WebSocket(to, protocol, { headers });
  return new Promise((resolve, reject) => {
    socket.once('open', () => resolve(socket));
    socket.once('unexpected-response', (_, response) => resolve(response.statusCode as number));
    socket.once('error', reject);
  });
}

async function ask(
  socket: WebSocket,
  protocol: Protocol,
  message: object,
): Promise<{ result?: Record<string, unknown>; error?: { code: number } }> {
  const answer = new Promise<Buffer>((resolve) => socket.once('message', (data) => resolve(data as Buffer)));
  socket.send(protocol === 'ringfence.v1.json' ? JSON.stringify(message) : encode(message));
  const bytes = await answer;
  return (
    protocol === 'ringfence.v1.json' ? JSON.parse(bytes.toString('utf8')) : decode(bytes, defaultLimits)
  ) as never;
}

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

describe.each(['ringfence.v1.msgpack', 'ringfence.v1.json'] as const)('%s', (protocol) => {
  test('serves calls to one with the token', async () => {
    const socket = (await open(protocol, bearer(daemon.token('agent')))) as WebSocket;
    expect((await ask(socket, protocol, hello)).result).toMatchObject({ session: { role: 'agent' } });
    const call = { id: 2, method: 'tools.call', params: { tool: 'file_write', input: { path: 'x', content: 'é' } } };
    expect((await ask(socket, protocol, call)).result).toMatchObject({ success: true, data: { bytesWritten: 2 } });
    socket.close();
  });

  test('takes the token in hello as well, and nothing without one', async () => {
    const socket = (await open(protocol)) as WebSocket;
    expect((await ask(socket, protocol, hello)).error?.code).toBe(-32003);
    const params = { ...hello.params, token: daemon.token('agent') };
    expect((await ask(socket, protocol, { ...hello, params })).result).toBeDefined();
    socket.close();
  });

  test('answers a payload over the bound with FRAME_TOO_LARGE and closes', async () => {
    const socket = (await open(protocol, bearer(daemon.token('agent')))) as WebSocket;
    await ask(socket, protocol, hello);
    const closed = new Promise<number>((resolve) => socket.once('close', resolve));
    const content = 'x'.repeat(70_000);
    expect(
      (
        await ask(socket, protocol, {
          id: 3,
          method: 'tools.call',
          params: { tool: 'file_write', input: { path: 'x', content } },
        })
      ).error?.code,
    ).toBe(-32001);
    expect(await closed).toBe(1009);
  });

  test('answers what it can not decode with a parse error and closes', async () => {
    const socket = (await open(protocol, bearer(daemon.token('agent')))) as WebSocket;
    const closed = new Promise((resolve) => socket.once('close', resolve));
    const answer = new Promise((resolve) => socket.once('message', (data) => resolve(data)));
    socket.send(protocol === 'ringfence.v1.json' ? '{"id":' : Buffer.from([0xc1]));
    const bytes = (await answer) as Buffer;
    expect(
      protocol === 'ringfence.v1.json' ? JSON.parse(bytes.toString('utf8')) : decode(bytes, defaultLimits),
    ).toMatchObject({
      id: null,
      error: { code: -32700 },
    });
    await closed;
  });
});

describe('a refused upgrade', () => {
  test.each([
    ['to a wrong token', () => bearer('wrong'), 401],
    ['to a page of another origin', () => ({ ...bearer(daemon.token('agent')), Origin: 'https://evil.example' }), 403],
    ['to an opaque origin', () => ({ ...bearer(daemon.token('agent')), Origin: 'null' }), 403],
    ['under a name that was rebound to us', () => ({ ...bearer(daemon.token('agent')), Host: 'evil.example' }), 403],
  ])('the upgrade is refused %s', async (_, headers, status) => {
    expect(await open('ringfence.v1.json', headers())).toBe(status);
  });

  test('the upgrade is refused on another path, and for another subprotocol', async () => {
    expect(await open('ringfence.v1.json', bearer(daemon.token('agent')), url.replace('/v1', '/v2'))).toBe(404);
    expect(await open('other', bearer(daemon.token('agent')))).toBe(400);
  });

  test.each(['//', 'http://[', '///x'])(
    'the upgrade to a target that is no URL (%s) is refused without looking at a token',
    async (target) => {
      const { host, hostname, port } = new URL(url);
      const socket = createConnection(Number(port), hostname);
      const answered = text(socket);
      socket.write(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
      expect(await answered).toMatch(/^HTTP\/1.1 404 /);
      expect(daemon.process.exitCode).toBeNull();
    },
  );
});

describe('a principal’s token', () => {
  const nightly = () => readFileSync(join(daemon.stateDir, 'tokens/nightly.token'), 'utf8').trim();
  const write = { id: 2, method: 'tools.call', params: { tool: 'file_write', input: { path: 'y', content: '' } } };
  const helloWith = (token?: string) => ({ ...hello, params: { ...hello.params, ...(token && { token }) } });

  test.each([
    ['as Authorization: Bearer', () => bearer(nightly()), () => undefined],
    ['in hello', () => ({}), nightly],
    ['in both', () => bearer(nightly()), nightly],
  ])('%s gives the policy of that principal', async (_, headers, token) => {
    const socket = (await open('ringfence.v1.json', headers())) as WebSocket;
    expect((await ask(socket, 'ringfence.v1.json', helloWith(token()))).result).toBeDefined();
    const { result } = await ask(socket, 'ringfence.v1.json', write);
    expect(result).toMatchObject({ success: false, error: { code: 'POLICY_DENIED' } });
    socket.close();
  });

  test('does not go together with another one', async () => {
    for (const [opened, said] of [
      [nightly(), daemon.token('agent')],
      [daemon.token('agent'), nightly()],
      [nightly(), daemon.token('operator')],
    ] as const) {
      const socket = (await open('ringfence.v1.json', bearer(opened))) as WebSocket;
      expect((await ask(socket, 'ringfence.v1.json', helloWith(said))).error?.code).toBe(-32003);
      socket.close();
    }
  });
});

test('an agent’s token is not an operator’s', async () => {
  const socket = (await open('ringfence.v1.json')) as WebSocket;
  const params = { ...hello.params, role: 'operator', token: daemon.token('agent') };
  expect((await ask(socket, 'ringfence.v1.json', { ...hello, params })).error?.code).toBe(-32003);
  socket.close();
});

test('an address that is not loopback is refused at start', async () => {
  await expect(startDaemon({ args: ['--listen', '0.0.0.0:0'] })).rejects.toThrow(/loopback/);
});
