/** Compressed answers of real servers, honest and hostile, to requests of the egress code in this process. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { parseNetworkEntry } from '../../../src/policy/network.ts';
import { ConnectionGuard } from '../../../src/sandbox/egress/connection-guard.ts';
import { fetchOnce } from '../../../src/sandbox/egress/fetch.ts';

const MiB = 1024 * 1024;
const TEXT = Buffer.from('A page of text, '.repeat(200));
const ZEROS = Buffer.alloc(32 * MiB);
const EMPTY_MEMBER = gzipSync('');

const BODIES: Record<string, { coding: string; body: Buffer | Buffer[] }> = {
  '/gzip': { coding: 'gzip', body: gzipSync(TEXT) },
  '/x-gzip': { coding: 'X-GZIP', body: gzipSync(TEXT) },
  '/br': { coding: 'br', body: brotliCompressSync(TEXT) },
  '/zstd': { coding: 'zstd', body: zstdCompressSync(TEXT) },
  '/deflate': { coding: 'deflate', body: deflateSync(TEXT) },
  '/deflate-bare': { coding: 'deflate', body: deflateRawSync(TEXT) },
  '/pieces': { coding: 'gzip', body: [...gzipSync(TEXT)].map((it) => Buffer.of(it)) },
  '/empty': { coding: 'gzip', body: Buffer.alloc(0) },
  '/cut': { coding: 'gzip', body: gzipSync(TEXT).subarray(0, 30) },
  '/broken/gzip': { coding: 'gzip', body: Buffer.from('no gzip at all') },
  '/broken/br': { coding: 'br', body: Buffer.from('no brotli at all') },
  '/broken/zstd': { coding: 'zstd', body: Buffer.from('no zstd at all') },
  '/broken/deflate': { coding: 'deflate', body: Buffer.from('xo deflate at all') },
  '/twice': { coding: 'gzip, gzip', body: gzipSync(gzipSync(TEXT)) },
  '/bomb/gzip': { coding: 'gzip', body: gzipSync(ZEROS) },
  '/bomb/br': { coding: 'br', body: brotliCompressSync(ZEROS, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }) },
  '/bomb/zstd': { coding: 'zstd', body: zstdCompressSync(ZEROS) },
  '/bomb/deflate': { coding: 'deflate', body: deflateSync(ZEROS) },
  '/window/zstd': {
    coding: 'zstd',
    body: zstdCompressSync(Buffer.concat([TEXT, ZEROS]), { params: { [constants.ZSTD_c_windowLog]: 27 } }),
  },
  '/nothing': { coding: 'gzip', body: Buffer.concat(Array.from({ length: 200_000 }, () => EMPTY_MEMBER)) },
};

let port = 0;
const server = createServer((incoming, response) => {
  const { coding, body } = BODIES[incoming.url as string] as { coding: string; body: Buffer | Buffer[] };
  response.writeHead(200, { 'content-encoding': coding, 'x-kept': 'yes' });
  for (const piece of [body].flat()) response.write(piece);
  response.end();
});
beforeAll(async () => {
  await new Promise<void>((ready) => void server.listen(0, '127.0.0.1', ready));
  ({ port } = server.address() as AddressInfo);
});
afterAll(() => void server.close());

async function fetched(path: string, { method = 'GET', bytesMax = MiB } = {}) {
  const powers = systemPowers();
  const layers = [[parseNetworkEntry(`127.0.0.1:${port}`)]];
  const guard = new ConnectionGuard({ layers, limits: defaultLimits, powers, names: { lookup: async () => [] } });
  const asked = { url: `http://127.0.0.1:${port}${path}`, method, headers: {}, bytesMax, withinMs: 20_000 };
  try {
    return await fetchOnce(asked, guard, { limits: defaultLimits, powers });
  } finally {
    guard.close();
  }
}

describe('a body', () => {
  test.each(['/gzip', '/x-gzip', '/br', '/zstd', '/deflate', '/deflate-bare', '/pieces'])(
    'comes decompressed, without the headers of its compression: %s',
    async (path) => {
      const answer = await fetched(path);
      expect(answer).toMatchObject({ status: 200, truncated: false, headers: { 'x-kept': 'yes' } });
      if (!('status' in answer)) throw new Error('no answer');
      expect(Buffer.from(answer.body).equals(TEXT)).toBe(true);
      expect(Object.keys(answer.headers)).not.toContain('content-encoding');
      expect(Object.keys(answer.headers)).not.toContain('content-length');
    },
  );

  test('a body is cut by its decompressed size', async () => {
    const answer = await fetched('/gzip', { bytesMax: 1000 });
    expect(answer).toMatchObject({ truncated: true });
    expect('body' in answer && answer.body.length).toBe(1000);
  });

  test('a body may be empty', async () => {
    expect(await fetched('/empty')).toMatchObject({ status: 200, body: Buffer.alloc(0) });
    expect(await fetched('/gzip', { method: 'HEAD' })).toMatchObject({ status: 200, body: Buffer.alloc(0) });
  });

  test('a body in several compressions is returned unchanged, with its header', async () => {
    const answer = await fetched('/twice');
    expect(answer).toMatchObject({ headers: { 'content-encoding': 'gzip, gzip' } });
    expect('body' in answer && Buffer.from(answer.body).equals(gzipSync(gzipSync(TEXT)))).toBe(true);
  });

  test.each(['/cut', '/broken/gzip', '/broken/br', '/broken/zstd', '/broken/deflate'])(
    'a body of another format than its header says fails: %s',
    async (path) => {
      expect(await fetched(path)).toEqual({
        failed: expect.stringMatching(/^the (gzip|br|zstd|deflate) body is broken/),
      });
    },
  );

  test.each(['gzip', 'br', 'zstd', 'deflate'])(
    'a body of %s that grows as only an attack does fails',
    async (coding) => {
      const answer = await fetched(`/bomb/${coding}`, { bytesMax: 8 * MiB });
      expect(answer).toEqual({ failed: expect.stringContaining('more than 200-fold') });
    },
  );

  test('a body of zstd that asks for a window of 128 MiB fails', async () => {
    expect(await fetched('/window/zstd', { bytesMax: 64 * MiB })).toHaveProperty('failed');
  });

  test('a body that never gives a byte of output fails by its compressed size', async () => {
    expect(await fetched('/nothing')).toEqual({ failed: expect.stringContaining('compressed bytes') });
  });
});
