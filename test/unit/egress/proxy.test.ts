/** The proxy in this process, with real sockets on loopback and a test resolver. */
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, createServer as createTcp, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits, type Limits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { type NetworkEntry, parseNetworkEntry } from '../../../src/policy/network.ts';
import { EgressProxy } from '../../../src/sandbox/egress/proxy.ts';

const TOKEN = 'the-command';
/** SOCKS replies: no authentication; not allowed. */
const SOCKS_REFUSED = '\x05\0\x05\x02';
const asked: string[] = [];
const answers = new Map<string, string[][]>();
const resolve = async (name: string): Promise<string[]> => {
  asked.push(name);
  const all = answers.get(name);
  if (!all) throw new Error('ENOTFOUND');
  return (all.length > 1 ? all.shift() : all[0]) as string[];
};

/** These names are not in DNS, so no answer is cached. */
const ttlOf = async () => undefined;

let server: Server;
let seen: Pick<IncomingMessage, 'method' | 'url' | 'headers'>[];
let port: number;
let cleanUp: (() => void)[];
beforeEach(async () => {
  seen = [];
  asked.length = 0;
  answers.clear();
  server = createServer((incoming, response) => {
    seen.push(incoming);
    void text(incoming).then((body) => response.end(`served ${incoming.url} ${body}`));
  });
  port = await listening(server);
  cleanUp = [() => server.close(), () => server.closeAllConnections()];
});
afterEach(() => {
  for (const it of cleanUp) it();
});

async function listening(it: { listen(port: number, host: string, then: () => void): unknown; address(): unknown }) {
  await new Promise<void>((done) => void it.listen(0, '127.0.0.1', done));
  return (it.address() as AddressInfo).port;
}

const nobody = async () => ({ refused: 'nobody is there to ask' });

/** A proxy for one command, on a port of its own. */
async function proxyFor(allow: NetworkEntry[], limits: Partial<Limits> = {}) {
  const proxy = new EgressProxy({
    limits: { ...defaultLimits, ...limits },
    powers: systemPowers(),
    resolve,
    ttlOf,
    ask: nobody,
  });
  proxy.open(TOKEN, { layers: [allow.map(parseNetworkEntry)] });
  const carrier = createTcp();
  const at = await listening(carrier);
  expect(proxy.listen(TOKEN, carrier)).toBe(true);
  cleanUp.push(() => void proxy.close(TOKEN));
  return { proxy, at, close: () => proxy.close(TOKEN) };
}

/** Sends bytes, and reads to the end. */
async function say(at: number, ...bytes: (string | Buffer)[]): Promise<string> {
  const socket = connect(at, '127.0.0.1');
  for (const it of bytes) socket.write(it);
  return readAll(socket);
}
async function readAll(socket: Socket): Promise<string> {
  let all = '';
  socket.on('error', () => {}).on('data', (chunk) => (all += chunk.toString('latin1')));
  await new Promise((done) => socket.once('close', done));
  return all;
}

const local = () => [`127.0.0.1:${port}`, { host: 'local.test', port, private: true }];
const get = (url: string, headers = '') => `GET ${url} HTTP/1.1\r\nHost: other.test\r\n${headers}\r\n`;
const throughTunnel = (to: string) => [
  `CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n\r\n`,
  'GET /tunnelled HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
];
const socks = (name: string, to: number) => [
  Buffer.from([5, 1, 0]),
  Buffer.concat([Buffer.from([5, 1, 0, 3, name.length]), Buffer.from(name), Buffer.from([to >> 8, to & 255])]),
];

describe('what is allowed', () => {
  test('a whole URL is fetched, under the host that was judged', async () => {
    answers.set('local.test', [['127.0.0.1']]);
    const { at, close } = await proxyFor(local());
    const answer = await say(at, get(`http://local.test:${port}/a?b`, 'Proxy-Authorization: x\r\nX-Mine: y\r\n'));
    expect(answer).toMatch(/^HTTP\/1.1 200 OK\r\n[\s\S]*served \/a\?b /);
    expect(seen[0]?.headers).toMatchObject({ host: `local.test:${port}`, 'x-mine': 'y' });
    expect(seen[0]?.headers).not.toHaveProperty('proxy-authorization');
    expect(close()).toMatchObject({ denied: [], connected: [{ target: `local.test:${port}`, count: 1 }] });
  });
  test('a body goes through', async () => {
    const { at } = await proxyFor(local());
    const request = `POST http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody`;
    expect(await say(at, request)).toContain('served / body');
  });
  test.each([
    ...['GET', 'DELETE', 'OPTIONS', 'PATCH'].flatMap((method) => [
      [method, 'a length', 'Content-Length: 38'],
      [method, 'a length that Connection names', 'Content-Length: 38\r\nConnection: content-length'],
      [method, 'chunks', 'Transfer-Encoding: chunked'],
      [method, 'chunks that Connection names', 'Transfer-Encoding: chunked\r\nConnection: transfer-encoding'],
    ]),
  ] as [string, string, string][])(
    'a body of %s with %s stays a body: one request reaches the server',
    async (method, _, header) => {
      const { at } = await proxyFor(local());
      const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: evil\r\n\r\n';
      const body = header.includes('chunked')
        ? `${smuggled.length.toString(16)}\r\n${smuggled}\r\n0\r\n\r\n`
        : smuggled;
      const answer = await say(
        at,
        `${method} http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: x\r\n${header}\r\n\r\n${body}`,
      );
      expect(answer).toContain('served / GET /smuggled');
      expect(seen.map((it) => `${it.method} ${it.url}`)).toEqual([`${method} /`]);
    },
  );
  test('a HEAD is answered without a body, whatever the server says of its length', async () => {
    const { at } = await proxyFor(local());
    const answer = await say(at, `HEAD http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: x\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1.1 200 OK[\s\S]*\r\n\r\n$/);
  });
  test('CONNECT makes a tunnel', async () => {
    const { at } = await proxyFor(local());
    expect(await say(at, ...throughTunnel(`127.0.0.1:${port}`))).toMatch(
      /^HTTP\/1.1 200 .*\r\n\r\nHTTP[\s\S]*served \/tunnelled/,
    );
  });
  test('SOCKS5 makes one, by name and in pieces', async () => {
    answers.set('local.test', [['127.0.0.1']]);
    const { at } = await proxyFor(local());
    const socket = connect(at, '127.0.0.1');
    const bytes = Buffer.concat([
      ...socks('local.test', port),
      Buffer.from('GET /s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'),
    ]);
    for (const byte of bytes) socket.write(Buffer.from([byte]));
    expect(await readAll(socket)).toContain('served /s');
  });
  test('an address that does not answer leaves the next one', async () => {
    answers.set('local.test', [['127.0.0.2', '127.0.0.1']]);
    const { at } = await proxyFor(local());
    expect(await say(at, get(`http://local.test:${port}/`))).toContain('200 OK');
  });
});

describe('what is refused', () => {
  test('a name that is not listed is told to no resolver', async () => {
    const { at, close } = await proxyFor(['example.com']);
    expect(await say(at, get('http://evil.test/'))).toMatch(
      /^HTTP\/1.1 403 Forbidden[\s\S]*evil.test is not in the policy's list/,
    );
    expect(await say(at, ...throughTunnel('evil.test:443'))).toMatch(/^HTTP\/1.1 403 Forbidden/);
    expect((await say(at, ...socks('evil.test', 443))).slice(0, 4)).toBe(SOCKS_REFUSED);
    expect(asked).toEqual([]);
    const reason = "evil.test is not in the policy's list";
    expect(close().denied).toEqual([
      { target: 'evil.test:80', layer: 'policy', reason, count: 1 },
      { target: 'evil.test:443', layer: 'policy', reason, count: 2 },
    ]);
  });

  test.each([
    '127.0.0.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    '127.1',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::1]',
    '0.0.0.0',
    '169.254.169.254',
  ])('%s, by every way in', async (host) => {
    const { at } = await proxyFor(['example.com', '0.0.0.0/0:*']);
    expect(await say(at, get(`http://${host}:${port}/`))).toContain('403 Forbidden');
    expect(await say(at, ...throughTunnel(`${host}:${port}`))).toContain('403 Forbidden');
    expect((await say(at, ...socks(host, port))).slice(0, 4)).toBe(SOCKS_REFUSED);
    expect(seen).toEqual([]);
  });

  test('a listed name that leads inwards', async () => {
    answers.set('rebound.test', [['127.0.0.1', '169.254.169.254', '::ffff:10.0.0.1']]);
    const { at, close } = await proxyFor([`rebound.test:${port}`]);
    expect(await say(at, get(`http://rebound.test:${port}/`))).toContain('403 Forbidden');
    expect(close().denied[0]).toMatchObject({
      layer: 'sandbox',
      reason: expect.stringContaining('leads to 127.0.0.1'),
    });
    expect(seen).toEqual([]);
  });
  test('a name is looked up once: what it leads to later does not count', async () => {
    answers.set('rebound.test', [['127.0.0.9'], ['127.0.0.1']]);
    const { at } = await proxyFor([{ host: 'rebound.test', port }, `127.0.0.9:${port}`]);
    expect(await say(at, get(`http://rebound.test:${port}/`))).toContain('502 Bad Gateway');
    expect(asked).toEqual(['rebound.test']);
    expect(seen).toEqual([]);
  });
  test('the proxy tries only the allowed ones of several addresses', async () => {
    answers.set('both.test', [['10.255.255.1', '127.0.0.1']]);
    const { at } = await proxyFor([`both.test:${port}`, `127.0.0.1:${port}`]);
    expect(await say(at, get(`http://both.test:${port}/`))).toContain('200 OK');
  });
  test('a port that is not listed', async () => {
    const { at } = await proxyFor(['127.0.0.1:1']);
    expect(await say(at, get(`http://127.0.0.1:${port}/`))).toContain(`port ${port} of 127.0.0.1 is not in`);
  });
  test('a request that is for no proxy, or for no host', async () => {
    const { at } = await proxyFor(local());
    for (const url of ['/', 'https://example.com/', 'ftp://x/', `http://user:pw@/`, '*'])
      expect(await say(at, get(url))).toContain('400 Bad Request');
    expect(await say(at, ...throughTunnel('a b:1'))).toContain('400');
    expect(await say(at, ...throughTunnel('example.com:99999'))).toContain('400');
  });
  test('SOCKS that binds, and SOCKS that wants a password', async () => {
    const { at } = await proxyFor(local());
    const bind = Buffer.from([5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80]);
    expect((await say(at, bind)).slice(0, 4)).toBe('\x05\0\x05\x07');
    expect(await say(at, Buffer.from([5, 1, 2]))).toBe('\x05\xff');
  });
});

describe('what is bounded', () => {
  test('the time to a whole request, of both kinds and of silence', async () => {
    const { at } = await proxyFor(local(), { egressHeaderMs: 100 });
    const answers = await Promise.all([say(at, 'GET http://127.0.'), say(at, Buffer.from([5, 1])), say(at)]);
    expect(answers).toEqual(['', '', '']);
  });
  test('headers', async () => {
    const { at } = await proxyFor(local());
    expect(await say(at, get(`http://127.0.0.1:${port}/`, `X: ${'y'.repeat(20_000)}\r\n`))).toContain('431');
    expect(seen).toEqual([]);
  });
  test('connections of one command, and of all', async () => {
    const { at, proxy, close } = await proxyFor(local(), { egressCommandConnectionsMax: 4, egressConnectionsMax: 6 });
    const sockets = Array.from({ length: 500 }, () => connect(at, '127.0.0.1').on('error', () => {}));
    cleanUp.push(() => void sockets.map((it) => it.destroy()));
    await Promise.all(sockets.slice(4).map((it) => new Promise((done) => it.once('close', done).resume())));
    expect(sockets.filter((it) => !it.destroyed)).toHaveLength(4);
    expect(proxy.listen('nobody', createTcp())).toBe(false);
    expect(close().denied).toEqual([
      { target: 'connections', layer: 'limit', reason: 'more than 4 connections at once', count: 496 },
    ]);
  });
  test('a command with many connections leaves room for another command', async () => {
    const { at, proxy, close } = await proxyFor(local(), { egressConnectionsMax: 6 });
    const sockets = Array.from({ length: 6 }, () => connect(at, '127.0.0.1').on('error', () => {}));
    cleanUp.push(() => void sockets.map((it) => it.destroy()));
    for (const it of sockets) it.write(throughTunnel(`127.0.0.1:${port}`)[0] as string);
    await Promise.all(sockets.map((it) => new Promise((done) => it.once('data', done))));
    proxy.open('other', { layers: [local().map(parseNetworkEntry)] });
    const carrier = createTcp();
    const other = await listening(carrier);
    proxy.listen('other', carrier);
    expect(await say(other, get(`http://127.0.0.1:${port}/`))).toContain('200 OK');
    expect(close().denied).toMatchObject([{ layer: 'limit', count: 1 }]);
    expect(proxy.close('other').denied).toEqual([]);
  });
  test.each(['HTTP/1.1 099 X\r\n\r\n', 'HTTP/1.1 999 X\r\n\r\n', 'HTTP/1.1 101 X\r\n\r\n', 'nonsense', ''])(
    'an invalid answer of a server is 502: %j',
    async (answer) => {
      const odd = createTcp((socket) => void socket.on('error', () => {}).end(answer));
      const there = await listening(odd);
      cleanUp.push(() => odd.close());
      const { at } = await proxyFor([`127.0.0.1:${there}`]);
      expect(await say(at, get(`http://127.0.0.1:${there}/`))).toContain('502 Bad Gateway');
    },
  );
  test('the list of refusals is bounded', async () => {
    const { at, close } = await proxyFor(local(), { egressTargetsMax: 3 });
    for (let i = 0; i < 6; i++) await say(at, get(`http://host-${i}.test/`));
    const { denied } = close();
    expect(denied.map(({ target, count }) => `${target} ${count}`)).toEqual([
      ...['host-0.test:80 1', 'host-1.test:80 1', 'host-2.test:80 1', 'others 3'],
    ]);
  });
  test('names that are looked up at once: the others wait for their turn', async () => {
    let [running, most] = [0, 0];
    const [both, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const proxy = new EgressProxy({
      ask: nobody,
      limits: { ...defaultLimits, egressLookupsMax: 2 },
      powers: systemPowers(),
      ttlOf,
      async resolve() {
        most = Math.max(most, ++running);
        if (running === 2) both.resolve();
        await end.promise;
        running -= 1;
        return ['127.0.0.1'];
      },
    });
    proxy.open(TOKEN, { layers: [[parseNetworkEntry({ host: '*.many.test', port, private: true })]] });
    const carrier = createTcp();
    const at = await listening(carrier);
    proxy.listen(TOKEN, carrier);
    const all = Array.from({ length: 12 }, (_, i) => say(at, get(`http://a${i}.many.test:${port}/`)));
    await both.promise;
    // The answer to a later request proves that the twelve were read.
    expect(await say(at, get('http://unlisted.test/'))).toContain('403 Forbidden');
    end.resolve();
    expect((await Promise.all(all)).filter((it) => it.includes('200 OK'))).toHaveLength(12);
    expect(most).toBe(2);
    expect(proxy.close(TOKEN).denied).toMatchObject([{ target: 'unlisted.test:80' }]);
  });
  test('lookups that do not end', async () => {
    answers.clear();
    const endless = new EgressProxy({
      ask: nobody,
      limits: { ...defaultLimits, egressLookupsMax: 2, egressConnectMs: 100 },
      powers: systemPowers(),
      resolve: () => new Promise(() => {}),
      ttlOf,
    });
    endless.open(TOKEN, { layers: [[parseNetworkEntry('*.slow.test')]] });
    const carrier = createTcp();
    const at = await listening(carrier);
    endless.listen(TOKEN, carrier);
    const all = await Promise.all(Array.from({ length: 5 }, (_, i) => say(at, get(`http://a${i}.slow.test/`))));
    expect(all.every((it) => it.includes('502 Bad Gateway'))).toBe(true);
    expect(endless.close(TOKEN).denied).toMatchObject([{ layer: 'limit', count: 3 }]);
  });
});

test('the end of a command ends its connections', async () => {
  const hold = createTcp(() => {});
  const held = await listening(hold);
  const { at, close } = await proxyFor([`127.0.0.1:${held}`]);
  const socket = connect(at, '127.0.0.1').on('error', () => {});
  socket.write(throughTunnel(`127.0.0.1:${held}`)[0] as string);
  await new Promise((done) => socket.once('data', done));
  const closed = new Promise((done) => socket.once('close', done));
  close();
  await closed;
  hold.close();
});
