/** `http_request` with a real daemon, whose egress process asks servers on loopback; two ports are two origins. */
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon } from '../support/daemon.ts';

interface Seen {
  readonly at: string;
  readonly method: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

let daemon: OpenDaemon;
let client: Client;
const seen: Seen[] = [];
const servers: Server[] = [];
/** The first server, another that the policy lists, one about which a rule asks, one that a rule denies, and one that is not listed. */
let [own, other, asked, denied, unlisted] = ['', '', '', '', ''] as [string, string, string, string, string];

/** `/to/STATUS/URL` redirects there; `/shift` speaks Japanese; `/slow` sends a byte a second; anything else echoes. */
async function startServer(): Promise<string> {
  const server = createServer(async (incoming, response) => {
    const { url = '', method = '', headers } = incoming;
    const pieces: Buffer[] = [];
    for await (const piece of incoming) pieces.push(piece as Buffer);
    seen.push({ at: `${headers.host}`, method, headers, body: Buffer.concat(pieces).toString() });
    const [, status, to] = /^\/to\/(\d+)\/(.*)/.exec(url) ?? [];
    if (status && to !== undefined) return void response.writeHead(Number(status), { location: to }).end('moved');
    if (url === '/busy' && seen.length < 3) return void response.writeHead(503, { 'retry-after': '0' }).end('busy');
    if (url === '/very-busy') return void response.writeHead(503, { 'retry-after': '20' }).end('busy');
    if (url === '/loop') return void response.writeHead(302, { location: '/loop' }).end();
    if (url === '/slow') {
      response.write('a');
      const timer = setInterval(() => response.write('a'), 1000);
      return void response.once('close', () => clearInterval(timer));
    }
    if (url === '/shift') {
      response.setHeader('content-type', 'text/plain; charset=shift_jis');
      return void response.end(Buffer.from('93fa967b', 'hex'));
    }
    if (url === '/image')
      return void response.setHeader('content-type', 'image/png').end(Buffer.from('89504e47ff', 'hex'));
    if (url === '/wrong') return void response.setHeader('content-type', 'application/json').end('{"a":');
    if (url === '/deep')
      return void response.setHeader('content-type', 'application/json').end('['.repeat(5000) + ']'.repeat(5000));
    response.setHeader('content-type', 'application/json; charset=utf-8').setHeader('content-encoding', 'gzip');
    response.end(gzipSync(JSON.stringify({ method, url, ok: true })));
  });
  servers.push(server);
  await new Promise<void>((ready) => void server.listen(0, '127.0.0.1', ready));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  [own, other, asked, denied, unlisted] = (await Promise.all(Array.from({ length: 5 }, startServer))) as [
    string,
    string,
    string,
    string,
    string,
  ];
  daemon = await openDaemon({
    policy: `
tiers:
  external_api: { decision: allow, network: { allow: ${JSON.stringify([own, other, asked, denied])} } }
rules:
  - { id: ask-there, match: { host: "${asked}" }, decision: ask, reason: A person knows. }
  - { id: never-there, match: { host: "${denied}" }, decision: deny, reason: It is not ours. }
`,
  });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  for (const it of servers) it.closeAllConnections();
  for (const it of servers) it.close();
});
beforeEach(() => void seen.splice(0));

const ask = (path: string, input: object = {}) =>
  client.call('http_request', { url: `http://${own}${path}`, ...input });
const SECRETS = {
  Authorization: 'Bearer t',
  Cookie: 'a=1',
  'X-Api-Key': 'k',
  Accept: 'text/x',
  'Content-Type': 'text/y',
};

test('a busy server is asked again as often as its caller says, and not for what may happen twice', async () => {
  const busy = (method: string, options: object) =>
    client.call('http_request', { url: `http://${own}/busy`, method } as never, options);
  seen.length = 0;
  expect(await busy('GET', { retries: 3 })).toMatchObject({ data: { status: 200 }, metadata: { retriesAttempted: 2 } });
  for (const [method, options] of [
    ['GET', { retries: 0 }],
    ['POST', { retries: 3 }],
    ['POST', {}],
  ] as const) {
    seen.length = 0;
    expect(await busy(method, options)).toMatchObject({ data: { status: 503 }, metadata: { retriesAttempted: 0 } });
    expect(seen.length).toBe(1);
  }
});

test('a busy server is asked twice more where its caller says nothing, unless it asks for a long wait', async () => {
  seen.length = 0;
  expect(await client.call('http_request', { url: `http://${own}/busy` } as never)).toMatchObject({
    data: { status: 200 },
    metadata: { retriesAttempted: 2 },
  });
  seen.length = 0;
  expect(await client.call('http_request', { url: `http://${own}/very-busy` } as never)).toMatchObject({
    data: { status: 503 },
    metadata: { retriesAttempted: 0 },
  });
});

test('a page of a busy server is fetched again as often as its caller says', async () => {
  seen.length = 0;
  const page = { url: `http://${own}/busy`, noCache: true };
  expect(await client.call('web_fetch', page, { retries: 3 })).toMatchObject({
    data: { status: 200 },
    metadata: { retriesAttempted: 2 },
  });
});

describe('an answer', () => {
  test('says which URL gave it, how long it took, and what its JSON holds', async () => {
    const data = await dataOf(ask('/x?y#z'));
    const json = { method: 'GET', url: '/x?y', ok: true };
    expect(data).toMatchObject({
      status: 200,
      encoding: 'utf-8',
      finalUrl: `http://${own}/x?y`,
      truncated: false,
      json,
    });
    expect(JSON.parse((data as { body: string }).body)).toEqual(json);
    expect((data as { durationMs: number }).durationMs).toBeGreaterThanOrEqual(0);
    expect((data as { headers: object }).headers).not.toHaveProperty('content-encoding');
  });
  test('an answer is text by its character set, and base64 if it is no text', async () => {
    expect(await dataOf(ask('/shift'))).toMatchObject({ body: '日本', encoding: 'utf-8' });
    expect(await dataOf(ask('/image'))).toMatchObject({ body: 'iVBOR/8=', encoding: 'base64' });
  });
  test.each(['/wrong', '/deep'])('without a value that a message can hold has no json: %s', async (path) => {
    const data = await dataOf(ask(path));
    expect(data).toMatchObject({ status: 200, encoding: 'utf-8' });
    expect(data).not.toHaveProperty('json');
  });
});

describe('a request', () => {
  test('sends a value as JSON, with its content type unless another is given', async () => {
    expect(await ask('/', { method: 'POST', json: { a: [1, null] } })).toMatchObject({ success: true });
    await ask('/', { method: 'PUT', json: null, headers: { 'content-type': 'application/vnd.x+json' } });
    expect(seen).toMatchObject([
      { body: '{"a":[1,null]}', headers: { 'content-type': 'application/json' } },
      { method: 'PUT', body: 'null', headers: { 'content-type': 'application/vnd.x+json' } },
    ]);
  });
  test('a request with body and json at once is refused', async () => {
    const result = await ask('/', { method: 'POST', body: 'a', json: 1 });
    expect(result).toMatchObject({ error: { code: 'INPUT_INVALID', details: { issues: [{ path: 'body' }] } } });
  });
  test.each(['rest_api_call', 'api_call'])('a request may be made as %s, whose body is any value', async (name) => {
    const input = { url: `http://${own}/`, method: 'POST', timeout: 5000 };
    await dataOf(client.call(name, { ...input, body: { a: 1 } }));
    await dataOf(client.call(name, { ...input, body: 'a=1' }));
    expect(seen.map((it) => it.body)).toEqual(['{"a":1}', 'a=1']);
  });
  test('ends at its time limit, however slowly its body comes', async () => {
    const startedMs = performance.now();
    expect(await ask('/slow', { timeoutMs: 1500 })).toMatchObject({ error: { code: 'TIMEOUT' } });
    expect(performance.now() - startedMs).toBeLessThan(4000);
    expect(await ask('/')).toMatchObject({ success: true });
  });
});

describe('a redirect', () => {
  test.each([
    [301, 'POST', 'GET'],
    [302, 'POST', 'GET'],
    [302, 'PUT', 'PUT'],
    [303, 'PUT', 'GET'],
    [303, 'HEAD', 'HEAD'],
    [307, 'POST', 'POST'],
    [308, 'PATCH', 'PATCH'],
  ])(
    'a redirect with status %i makes a %s a %s, which keeps headers and body as far as its method does',
    async (status, method, then) => {
      const body = method === 'HEAD' ? undefined : 'b';
      const result = await ask(`/to/${status}//end`, { method, headers: SECRETS, ...(body && { body }) });
      expect(result).toMatchObject({ success: true, data: { status: 200, finalUrl: `http://${own}/end` } });
      const [, second] = seen as [Seen, Seen];
      expect(second.headers).toMatchObject({ authorization: 'Bearer t', cookie: 'a=1', 'x-api-key': 'k' });
      expect(second).toMatchObject({ method: then, body: then === method ? (body ?? '') : '' });
      expect('content-type' in second.headers).toBe(then === method);
    },
  );

  test('a redirect to another origin gets no body, and no header that may be a secret, even on the way back', async () => {
    const back = `http://${other}/to/307/http://${own}/end`;
    const result = await ask(`/to/307/${back}`, { method: 'POST', headers: SECRETS, body: 'b' });
    expect(result).toMatchObject({ success: true, data: { finalUrl: `http://${own}/end` } });
    expect(seen.map((it) => it.at)).toEqual([own, other, own]);
    for (const it of seen.slice(1)) {
      expect(it).toMatchObject({ method: 'POST', body: '', headers: { accept: 'text/x' } });
      for (const name of ['authorization', 'cookie', 'x-api-key', 'content-type'])
        expect(it.headers).not.toHaveProperty(name);
    }
    await using operator = await daemon.connect({ role: 'operator' });
    const query = { kind: 'outcome', order: 'newest', limit: 1 };
    const { entries } = (await operator.request('audit.query', query)) as { entries: object[] };
    const connected = expect.arrayContaining([
      { target: own, count: 2 },
      { target: other, count: 1 },
    ]) as unknown;
    expect(entries).toMatchObject([{ detail: { connected } }]);
  });

  test('a redirect is returned as it is if the caller does not want it followed', async () => {
    const data = await dataOf(ask('/to/302/x', { followRedirects: false }));
    expect(data).toMatchObject({
      status: 302,
      headers: { location: 'x' },
      body: 'moved',
      finalUrl: `http://${own}/to/302/x`,
    });
  });

  test.each([
    ['that the policy does not list', () => unlisted, 'tiers.external_api.network'],
    ['that a rule denies', () => denied, 'never-there'],
    ['about which a person must be asked', () => asked, 'ask-there'],
  ])('a redirect to a host %s is refused before anything is sent there', async (_, host, rule) => {
    const result = await ask(`/to/302/http://${host()}/`);
    expect(result).toMatchObject({ error: { code: 'POLICY_DENIED', rule } });
    expect(JSON.stringify(result)).toContain(host());
    expect(seen.map((it) => it.at)).toEqual([own]);
  });

  test.each(['file:///etc/passwd', 'ftp://example.org/', 'http://[', 'javascript:1'])(
    'a redirect to %s is not followed',
    async (to) => {
      expect(await ask(`/to/302/${to}`)).toMatchObject({ error: { code: 'UPSTREAM_FAILED' } });
    },
  );

  test('a request follows five redirects, and no sixth', async () => {
    const result = await ask('/loop');
    expect(result).toMatchObject({
      error: { code: 'UPSTREAM_FAILED', message: expect.stringContaining('more than 5') },
    });
    expect(seen).toHaveLength(6);
  });
});
