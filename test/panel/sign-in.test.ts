/** Signing in to the panel: one code for one page, and nothing for pages of others, whatever host, origin or frame they use. */
import { type IncomingHttpHeaders, type RequestOptions, request } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { Client } from '../../src/client/client.ts';
import { proofOf } from '../../src/faces/panel/challenges.ts';
import { CONTENT_SECURITY_POLICY } from '../../src/faces/panel/requests.ts';
import { panelUrl } from '../support/browser.ts';
import { type OpenDaemon, openDaemon } from '../support/daemon.ts';

let daemon: OpenDaemon;
let operator: Client;
let base: URL;
beforeAll(async () => {
  daemon = await openDaemon();
  operator = await daemon.connect({ role: 'operator' });
  base = new URL(await panelUrl(operator));
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const newCode = async () => new URL(await panelUrl(operator)).hash.replace('#code=', '');

interface Answered {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Sends a request with any headers, which fetch would not allow. */
function send(
  path: string,
  options: Omit<RequestOptions, 'headers'> & { headers?: Record<string, string> } = {},
  body = '',
): Promise<Answered> {
  const { promise, resolve, reject } = Promise.withResolvers<Answered>();
  const headers = { host: base.host, ...options.headers };
  const sent = request({ host: '127.0.0.1', port: base.port, path, ...options, headers }, async (response) => {
    resolve({ status: response.statusCode ?? 0, headers: response.headers, body: await text(response) });
  });
  sent.on('error', reject);
  sent.end(body);
  return promise;
}

const own = () => ({
  origin: base.origin,
  'sec-fetch-site': 'same-origin',
  'content-type': 'application/json',
});
const post = (body: object, headers: Record<string, string> = {}) =>
  send('/session', { method: 'POST', headers: { ...own(), ...headers } }, JSON.stringify(body));

/** Has the listener prove what it knows of an id, checks it as a page does, and gives our own proof. */
async function prove(id: string, key: string, headers: Record<string, string> = {}) {
  const nonce = 'ab'.repeat(32);
  const answered = await post({ id, nonce }, headers);
  if (answered.status !== 200) return answered;
  const told = JSON.parse(answered.body) as { nonce: string; proof: string };
  const words = [headers.origin ?? base.origin, nonce, told.nonce];
  expect(told.proof).toBe(proofOf(key, 'daemon', words));
  return { nonce: told.nonce, proof: proofOf(key, 'page', words), key: proofOf(key, 'key', words) };
}

/** Signs in with a code; gives the page and its key, or the answer that refused it. */
async function exchange(code: string, headers: Record<string, string> = {}) {
  const proved = await prove(code.slice(0, 16), code.slice(16), headers);
  if ('status' in proved) return { refusal: proved };
  const { nonce, proof, key } = proved;
  const answered = await post({ nonce, proof }, headers);
  const { page = '', expires = '' } =
    answered.status === 200 ? (JSON.parse(answered.body) as Record<string, string>) : {};
  return { answered, page, expires, key };
}

/** What a signed-in page says hello with, once. */
async function ticketOf({ page = '', key = '' }: { page?: string; key?: string }): Promise<string> {
  const proved = await prove(page, key);
  return 'status' in proved ? '' : `${page}.${proved.nonce}.${proved.proof}`;
}

const signedIn = async () => exchange(await newCode());

/** The answer to hello with this ticket; the HTTP status if the WebSocket is refused. */
function hello(token: string, headers: Record<string, string> = {}): Promise<object | number> {
  const given = { host: base.host, ...headers };
  const socket = new WebSocket(`ws://127.0.0.1:${base.port}/v1`, 'ringfence.v1.json', { headers: given });
  const params = { protocol: 1, client: { name: 'test', version: '1' }, role: 'operator', token };
  return new Promise((resolve, reject) => {
    socket.once('open', () => socket.send(JSON.stringify({ id: 1, method: 'hello', params })));
    socket.once('unexpected-response', (_, response) => resolve(response.statusCode as number));
    socket.once('message', (data: Buffer) => {
      resolve(JSON.parse(data.toString()) as object);
      socket.terminate();
    });
    socket.once('error', reject);
  });
}

test('a code signs one page in, whose proofs open operator sessions with a principal of its own', async () => {
  expect(base.hostname).toMatch(/^[a-z]{26}\.localhost$/);
  const code = await newCode();
  expect(code).toMatch(/^[0-9a-f]{48}$/);
  const page = await exchange(code);
  expect(page.answered).toMatchObject({ status: 200, headers: { 'cache-control': 'no-store' } });
  expect(page.answered?.headers['set-cookie']).toBeUndefined();
  expect(Date.parse(page.expires ?? '')).toBeGreaterThan(Date.now() + 11 * 3_600_000);
  const ticket = await ticketOf(page);
  expect(await hello(ticket)).toMatchObject({ result: { session: { role: 'operator' } } });
  expect(await exchange(code)).toMatchObject({ refusal: { status: 401 } });
  const { entries } = (await operator.request('audit.query', { kind: 'session', limit: 50 })) as { entries: object[] };
  const principal = expect.stringMatching(/^panel:p_[0-9a-f]{12}$/);
  expect(entries).toContainEqual(expect.objectContaining({ principal, detail: { event: 'panel-signed-in' } }));
  // What somebody has heard opens nothing a second time, and no other page.
  expect(await hello(ticket)).toMatchObject({ error: { code: -32003 } });
  const other = await signedIn();
  expect(await hello((await ticketOf(other)).replace(/^p_\w+/, page.page ?? ''))).toMatchObject({
    error: { code: -32003 },
  });
});

test('nothing that goes over the wire is the code, the key, or a proof for another origin', async () => {
  const code = await newCode();
  const { body } = await post({ id: code.slice(0, 16), nonce: 'cd'.repeat(32) });
  const { nonce } = JSON.parse(body) as { nonce: string };
  const relayed = proofOf(code.slice(16), 'page', ['http://other.localhost:1', 'cd'.repeat(32), nonce]);
  expect(await post({ nonce, proof: relayed })).toMatchObject({ status: 401 });
  expect(body).not.toContain(code.slice(16));
});

test('a code that is guessed, missing or in a body that is too long gives nothing', async () => {
  expect(await exchange('0'.repeat(48))).toMatchObject({ refusal: { status: 401 } });
  for (const body of ['', '{}', '{"id":1}', '{"code":"00"}', 'nonsense', '[]', 'x'.repeat(5_000)])
    expect(await send('/session', { method: 'POST', headers: own() }, body)).toMatchObject({ status: 400 });
});

test('another origin, host, site or content type signs in nowhere, and uses up no code', async () => {
  const code = await newCode();
  for (const headers of [
    { origin: 'http://127.0.0.1:1' },
    { origin: `http://127.0.0.1:${base.port}` },
    { origin: `http://localhost:${base.port}` },
    { host: `127.0.0.1:${base.port}`, origin: `http://127.0.0.1:${base.port}` },
    { host: `other.localhost:${base.port}`, origin: `http://other.localhost:${base.port}` },
    { origin: 'null' },
    { origin: 'https://evil.example' },
    { host: `evil.example:${base.port}` },
    { host: 'evil.example', origin: 'http://evil.example' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'cross-site' },
  ])
    expect(await exchange(code, headers), JSON.stringify(headers)).toMatchObject({ refusal: { status: 403 } });
  expect(await exchange(code, { 'content-type': 'text/plain' })).toMatchObject({ refusal: { status: 415 } });
  expect(await send('/session', { headers: own() })).toMatchObject({ status: 405 });
  expect(await exchange(code)).toMatchObject({ answered: { status: 200 } });
});

test('the page is served with its policy to its own host alone, and no other path is', async () => {
  const page = await send('/');
  expect(page).toMatchObject({ status: 200, headers: { 'content-security-policy': CONTENT_SECURITY_POLICY } });
  expect(page.headers).toMatchObject({
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
  });
  expect(CONTENT_SECURITY_POLICY).toContain("default-src 'none'");
  expect(CONTENT_SECURITY_POLICY).toContain("require-trusted-types-for 'script'");
  const script = /src="(\/assets\/[^"]+\.js)"/.exec(page.body)?.[1] as string;
  expect((await send(script)).headers['cache-control']).toContain('immutable');
  expect(await send('/', { headers: { host: `rebound.example:${base.port}` } })).toMatchObject({ status: 403 });
  for (const path of ['/nothing', '/../package.json', '/assets/', '//', '/index.html', '/%2e%2e/etc/passwd'])
    expect(await send(path), path).toMatchObject({ status: 404 });
  expect(await send('/', { method: 'DELETE' })).toMatchObject({ status: 405 });
});

test('a WebSocket from another origin or host is refused, and one without a token gets no session', async () => {
  const page = await signedIn();
  expect(await hello('', { origin: 'http://127.0.0.1:1' })).toBe(403);
  expect(await hello('', { host: 'rebound.example' })).toBe(403);
  expect(await hello('', { host: `127.0.0.1:${base.port}` })).toBe(403);
  expect(await hello(await ticketOf(page), { origin: base.origin })).toMatchObject({ result: {} });
  expect(await hello('0'.repeat(64))).toMatchObject({ error: { code: -32003 } });
});

test('signed-in pages are listed and signed out, which ends their connections and their tokens', async () => {
  const page = await signedIn();
  const { sessions } = (await operator.request('panel.sessions', {})) as { sessions: { id: string }[] };
  const { id } = sessions.at(-1) as { id: string };
  expect(await operator.request('panel.revoke', { id })).toEqual({ revoked: true });
  expect(await ticketOf(page)).toBe('');
  expect(await operator.request('panel.revoke', { id })).toEqual({ revoked: false });
});

test('a new token of the operator signs all pages out', async () => {
  const page = await signedIn();
  await operator.request('tokens.rotate', { names: ['operator'] });
  expect(await ticketOf(page)).toBe('');
  expect(await operator.request('panel.sessions', {})).toEqual({ sessions: [] });
});

test('an agent may neither open the panel nor sign pages out', async () => {
  await using agent = await daemon.connect();
  for (const [method, params] of [
    ['panel.open', {}],
    ['panel.sessions', {}],
    ['panel.revoke', { id: 'p_1' }],
  ] as const)
    await expect(agent.request(method, params)).rejects.toMatchObject({ code: -32004 });
});

test('the panel stays at its port: another one is refused, and a taken one is told', async () => {
  await expect(operator.request('panel.open', { port: 1 + (Number(base.port) % 65_535) })).rejects.toThrow(
    `the panel is already served at port ${base.port}`,
  );
});

test('no worker is served, and the address by number is served once an operator asks for it', async () => {
  expect(await send('/', { headers: { 'service-worker': 'script' } })).toMatchObject({ status: 403 });
  const { url } = (await operator.request('panel.open', { host: '127.0.0.1' })) as { url: string };
  expect(new URL(url).host).toBe(`127.0.0.1:${base.port}`);
  expect(await send('/', { headers: { host: `127.0.0.1:${base.port}` } })).toMatchObject({ status: 200 });
});
