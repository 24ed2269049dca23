/** The web cache between real requests to a real server, with files in a folder of the test. */
import { readdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { parseNetworkEntry } from '../../../src/policy/network.ts';
import { ConnectionGuard } from '../../../src/sandbox/egress/connection-guard.ts';
import { fetchOnce } from '../../../src/sandbox/egress/fetch.ts';
import { CachingSender } from '../../../src/services/web/http-caching.ts';
import { assertResponse, exchange, type Hop } from '../../../src/services/web/http-exchange.ts';
import { DiskRoom } from '../../../src/store/disk-room.ts';
import { WebCache } from '../../../src/store/web-cache.ts';
import { temporaryDir } from '../../support/daemon.ts';

const MiB = 1024 * 1024;
const limits = { ...defaultLimits, webCacheBytesMax: 8 * 10_000, webCacheEntriesMax: 20, webCachePrincipalsMax: 2 };
const seen: { url: string; headers: IncomingHttpHeaders }[] = [];
/** What the server answers to a path. */
const answers: Record<
  string,
  { headers: Record<string, string>; status?: number; body?: string; bareWhenSame?: boolean }
> = {
  '/fresh': { headers: { 'cache-control': 'max-age=60' } },
  '/etag': { headers: { etag: '"1"', 'cache-control': 'no-cache' } },
  '/modified': { headers: { 'last-modified': 'Mon, 01 Jan 2024 00:00:00 GMT' } },
  '/bare': { headers: { etag: '"1"', 'last-modified': 'Mon, 01 Jan 2024 00:00:00 GMT' }, bareWhenSame: true },
  '/no-store': { headers: { 'cache-control': 'no-store, max-age=60', etag: '"1"' } },
  '/cookie': { headers: { 'cache-control': 'max-age=60', 'set-cookie': 'a=1' } },
  '/vary': { headers: { 'cache-control': 'max-age=60', vary: 'accept, accept-encoding' } },
  '/vary-all': { headers: { 'cache-control': 'max-age=60', vary: '*' } },
  '/nothing': { headers: {} },
  '/long': { headers: { 'cache-control': 'max-age=60' }, body: 'x'.repeat(9_000) },
  '/too-long': { headers: { 'cache-control': 'max-age=60' }, body: 'x'.repeat(11_000) },
  '/moved': { headers: { 'cache-control': 'max-age=60', location: '/fresh' }, status: 301 },
  '/missing': { headers: { 'cache-control': 'max-age=60' }, status: 404 },
};
const server = createServer((incoming, response) => {
  const url = incoming.url as string;
  seen.push({ url, headers: incoming.headers });
  const {
    headers,
    status = 200,
    body = `body ${seen.length}`,
    bareWhenSame,
  } = answers[url.replace(/\?.*/, '')] as (typeof answers)[string];
  const isSame =
    (headers.etag !== undefined && incoming.headers['if-none-match'] === headers.etag) ||
    (headers['last-modified'] !== undefined && incoming.headers['if-modified-since'] === headers['last-modified']);
  if (isSame) response.writeHead(304, bareWhenSame ? {} : headers).end();
  else response.writeHead(status, headers).end(body);
});

let at = '';
let stateDir = '';
let room: DiskRoom;
let webCache: WebCache;
const powers = systemPowers();
const open = () => new WebCache({ folder: join(stateDir, 'web-cache'), limits, powers, room });
beforeAll(async () => {
  await new Promise<void>((ready) => void server.listen(0, '127.0.0.1', ready));
  at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => void server.close());
beforeEach(() => {
  seen.splice(0);
  stateDir = temporaryDir('web-cache');
  room = new DiskRoom({ stateDir, limits, powers });
  webCache = open();
});
afterEach(() => {
  room[Symbol.dispose]();
  rmSync(stateDir, { recursive: true });
});

interface Asked {
  readonly principal?: string;
  readonly mode?: 'use' | 'renew';
  readonly headers?: Record<string, string>;
  readonly method?: string;
  readonly bytesMax?: number;
  readonly nowMs?: number;
  beforeReuse?(hop: Hop): void;
}

/** One exchange through the cache: the text, and whether it was kept. */
async function get(path: string, { principal = 'p', mode = 'use', headers = {}, method = 'GET', ...rest }: Asked = {}) {
  const { bytesMax = MiB, nowMs, beforeReuse = () => {} } = rest;
  const layers = [[parseNetworkEntry(at.slice('http://'.length))]];
  const guard = new ConnectionGuard({ layers, limits, powers, names: { lookup: async () => [] } });
  const send = async (hop: Hop) =>
    assertResponse(await fetchOnce({ ...hop, bytesMax, withinMs: 10_000 }, guard, { limits, powers }), hop.url);
  const now = () => nowMs ?? powers.now();
  const sender = new CachingSender({ webCache, powers: { now }, principal }, { beforeReuse, send }, mode);
  const request = { url: at + path, method, headers, followRedirects: true, bytesMax };
  const {
    body,
    cached,
    status,
    headers: given,
  } = await exchange(request, {
    redirectsMax: 5,
    send: (hop) => sender.send(hop),
  });
  guard.close();
  return { text: Buffer.from(body).toString(), cached, status, headers: given };
}

describe('an answer', () => {
  test('a fresh answer is returned again without a request, also by another daemon', async () => {
    expect(await get('/fresh')).toMatchObject({ text: 'body 1', cached: 'no' });
    expect(await get('/fresh')).toMatchObject({ text: 'body 1', cached: 'fresh', status: 200 });
    webCache = open();
    expect(await get('/fresh')).toMatchObject({ text: 'body 1', cached: 'fresh' });
    expect(seen).toHaveLength(1);
  });

  test('a stale answer is requested again', async () => {
    await get('/fresh');
    expect(await get('/fresh', { nowMs: Date.now() + 61_000 })).toMatchObject({ text: 'body 2', cached: 'no' });
  });

  test.each(['/etag', '/modified', '/bare'])(
    'an answer with a validator is returned again if the server says that nothing changed: %s',
    async (path) => {
      await get(path);
      expect(await get(path)).toMatchObject({
        text: 'body 1',
        cached: 'revalidated',
        status: 200,
      });
      expect(await get(path)).toMatchObject({ text: 'body 1', cached: 'revalidated' });
      expect(seen).toHaveLength(3);
    },
  );

  test('a changed answer replaces the one before', async () => {
    await get('/etag');
    const before = answers['/etag'];
    answers['/etag'] = { headers: { etag: '"2"', 'cache-control': 'no-cache' } };
    expect(await get('/etag')).toMatchObject({ text: 'body 2', cached: 'no' });
    expect(await get('/etag')).toMatchObject({ text: 'body 2', cached: 'revalidated' });
    answers['/etag'] = before as (typeof answers)[string];
  });

  test('a caller that wants a new answer gets one, and it is kept', async () => {
    await get('/fresh');
    expect(await get('/fresh', { mode: 'renew' })).toMatchObject({ text: 'body 2', cached: 'no' });
    expect(seen[1]?.headers).not.toHaveProperty('if-none-match');
    expect(await get('/fresh')).toMatchObject({ text: 'body 2', cached: 'fresh' });
  });

  test.each(['/no-store', '/cookie', '/vary-all', '/nothing', '/too-long'])(
    'an answer that may not be kept, or would push out others, is never kept: %s',
    async (path) => {
      await get(path);
      expect(await get(path)).toMatchObject({ cached: 'no' });
      expect(seen).toHaveLength(2);
    },
  );

  test('an answer that was cut is not kept', async () => {
    await get('/long', { bytesMax: 100 });
    expect(await get('/long')).toMatchObject({ cached: 'no', text: 'x'.repeat(9_000) });
  });

  test('an answer is kept once for each value of a header that it varies by', async () => {
    await get('/vary', { headers: { Accept: 'a/a' } });
    expect(await get('/vary', { headers: { accept: 'b/b' } })).toMatchObject({ cached: 'no' });
    expect(await get('/vary', { headers: { accept: 'a/a' } })).toMatchObject({ text: 'body 1', cached: 'fresh' });
  });

  test('a redirect and a 404 are kept as well', async () => {
    await get('/moved');
    await get('/missing');
    expect(await get('/moved')).toMatchObject({ text: 'body 2', cached: 'fresh' });
    expect(await get('/missing')).toMatchObject({ status: 404, cached: 'fresh' });
    expect(seen).toHaveLength(3);
  });
});

describe('a request', () => {
  test.each([
    [{ authorization: 'Bearer t' }, 'GET'],
    [{ cookie: 'a=1' }, 'GET'],
    [{ 'x-api-key': 'k' }, 'GET'],
    [{}, 'HEAD'],
    [{}, 'POST'],
  ])('a request with %j and %s neither uses nor leaves an answer', async (headers, method) => {
    await get('/fresh', { headers, method });
    await get('/fresh', { headers, method });
    expect(await get('/fresh')).toMatchObject({ cached: 'no' });
    expect(seen).toHaveLength(3);
  });

  test('a request of another principal gets no kept answer of this one', async () => {
    await get('/fresh');
    expect(await get('/fresh', { principal: 'q' })).toMatchObject({ text: 'body 2', cached: 'no' });
  });

  test('a request is judged before a kept answer is returned', async () => {
    await get('/fresh');
    const refused = new Error('not any more');
    const beforeReuse = () => {
      throw refused;
    };
    await expect(get('/fresh', { beforeReuse })).rejects.toBe(refused);
  });
});

describe('the cache', () => {
  test('drops what was used least recently, by bytes', async () => {
    for (let at = 0; at < 8; at += 1) await get(`/long?${at}`);
    expect(await get('/long?0')).toMatchObject({ cached: 'fresh' });
    await get('/long?8');
    expect(await get('/long?0')).toMatchObject({ cached: 'fresh' });
    expect(await get('/long?1')).toMatchObject({ cached: 'no' });
  });

  test('drops what was used least recently, by number, and the files with it', async () => {
    for (let at = 0; at < 25; at += 1) await get(`/fresh?${at}`);
    expect(await get('/fresh?4')).toMatchObject({ cached: 'no' });
    expect(await get('/fresh?24')).toMatchObject({ cached: 'fresh' });
    webCache = open();
    expect(await get('/fresh?24')).toMatchObject({ cached: 'fresh' });
    const files = readdirSync(join(stateDir, 'web-cache'), { recursive: true, withFileTypes: true });
    expect(files.filter((it) => it.isFile())).toHaveLength(20);
  });

  test('drops the answers of the principal who had none for longest', async () => {
    for (const principal of ['p', 'q', 'r']) await get('/fresh', { principal });
    expect(readdirSync(join(stateDir, 'web-cache'))).toHaveLength(2);
    expect(await get('/fresh', { principal: 'p' })).toMatchObject({ cached: 'no' });
  });

  test('forgets everything when it is cleared, and keeps what comes then', async () => {
    await get('/fresh');
    expect(webCache.clear()).toEqual({ entries: 1, bytes: expect.any(Number) as number });
    expect(webCache.clear()).toEqual({ entries: 0, bytes: 0 });
    expect(await get('/fresh')).toMatchObject({ cached: 'no' });
    expect(await get('/fresh')).toMatchObject({ cached: 'fresh' });
  });

  test.each([
    ['is cut', (path: string) => truncateSync(path, 10)],
    ['is empty', (path: string) => truncateSync(path, 0)],
    ['holds something else', (path: string) => writeFileSync(path, Buffer.from('\x02\0\0\0{}body'))],
    ['is gone', (path: string) => rmSync(path)],
  ])('asks anew where a file %s', async (_, damage) => {
    await get('/fresh');
    const [file] = readdirSync(join(stateDir, 'web-cache'), { recursive: true, withFileTypes: true }).filter((it) =>
      it.isFile(),
    );
    damage(join(file?.parentPath as string, file?.name as string));
    expect(await get('/fresh')).toMatchObject({ text: 'body 2', cached: 'no' });
    expect(await get('/fresh')).toMatchObject({ text: 'body 2', cached: 'fresh' });
  });

  test('keeps nothing on a disk without room, and makes room for the records first', async () => {
    await get('/fresh');
    const full = new DiskRoom({
      stateDir,
      limits,
      powers,
      readDisk: () => ({ freeBytes: 0, totalBytes: 100 * MiB }) as never,
    });
    webCache = new WebCache({ folder: join(stateDir, 'web-cache'), limits, powers, room: full });
    expect(await get('/etag')).toMatchObject({ cached: 'no' });
    expect(await get('/etag')).toMatchObject({ cached: 'no' });
    expect(full.makeRoom()).toBe(true);
    expect(await get('/fresh')).toMatchObject({ cached: 'no' });
    full[Symbol.dispose]();
  });
});
