/** Requests of the egress code, in this process, to real servers on loopback. */
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { createServer as createSecure } from 'node:https';
import { type AddressInfo, createServer as createTcp } from 'node:net';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { parseNetworkEntry } from '../../../src/policy/network.ts';
import { ConnectionGuard } from '../../../src/sandbox/egress/connection-guard.ts';
import { fetchOnce } from '../../../src/sandbox/egress/fetch.ts';
import type { HttpRequest } from '../../../src/sandbox/egress/messages.ts';
import { temporaryDir } from '../../support/daemon.ts';

const limits = { ...defaultLimits, egressHeaderBytesMax: 2000 };
const servers: { close(): unknown }[] = [];
let port: number;

async function listening(server: Pick<Server, 'listen' | 'address' | 'close'>): Promise<number> {
  servers.push(server);
  await new Promise<void>((ready) => void server.listen(0, '127.0.0.1', ready));
  return (server.address() as AddressInfo).port;
}

beforeAll(async () => {
  port = await listening(
    createServer((incoming, response) => {
      const { url } = incoming;
      if (url === '/moved') return response.writeHead(302, { location: 'http://169.254.169.254/' }).end();
      if (url === '/large') return response.end('x'.repeat(1_000_000));
      if (url === '/headers') return response.writeHead(200, { 'x-large': 'x'.repeat(4000) }).end();
      if (url === '/cut') return response.socket?.destroy();
      response.setHeader('set-cookie', ['a=1', 'b=2']);
      return incoming.pipe(response.writeHead(201, { 'x-method': incoming.method, 'x-host': incoming.headers.host }));
    }),
  );
});
afterAll(() => {
  for (const it of servers) it.close();
});

async function fetched({ url, ...rest }: Partial<HttpRequest> & { url: string }, allow?: string[]) {
  const layers = [(allow ?? [`127.0.0.1:${port}`]).map(parseNetworkEntry)];
  const names = { lookup: async (name: string) => (name === 'inwards.example' ? ['127.0.0.1'] : []) };
  const powers = systemPowers();
  const guard = new ConnectionGuard({ layers, limits, powers, names });
  const request = { method: 'GET', headers: {}, bytesMax: 1000, withinMs: 20_000, url, ...rest };
  try {
    return await fetchOnce(request, guard, { limits, powers });
  } finally {
    guard.close();
  }
}
const at = (path: string) => `http://127.0.0.1:${port}${path}`;

describe('a request', () => {
  test('a request is made as it was asked for, and its answer given whatever its status', async () => {
    const answer = await fetched({ url: at('/x?y'), method: 'POST', body: 'é', headers: { 'x-a': '1' } });
    expect(answer).toMatchObject({
      status: 201,
      headers: { 'x-method': 'POST', 'x-host': `127.0.0.1:${port}`, 'set-cookie': 'a=1, b=2' },
      truncated: false,
    });
    expect('body' in answer && Buffer.from(answer.body).toString()).toBe('é');
  });

  test('follows nothing', async () => {
    expect(await fetched({ url: at('/moved') })).toMatchObject({
      status: 302,
      headers: { location: 'http://169.254.169.254/' },
    });
  });

  test.each(['GET', 'HEAD', 'DELETE', 'POST'])('%s with a body is one request, not two', async (method) => {
    let text = '';
    const own = await listening(
      createTcp((socket) => {
        socket.on('data', (chunk) => {
          text += chunk;
          if (text.includes('smuggled')) socket.end('HTTP/1.1 204 No Content\r\n\r\n');
        });
      }) as never,
    );
    const body = 'GET /smuggled HTTP/1.1\r\nhost: other.example\r\n\r\n';
    const answer = await fetched({ url: `http://127.0.0.1:${own}/`, method, body }, [`127.0.0.1:${own}`]);
    expect(answer).toMatchObject({ status: 204 });
    expect(text.toLowerCase()).toContain(`content-length: ${body.length}\r\n`);
    expect(text.toLowerCase()).not.toContain('transfer-encoding');
  });

  test('a request fails if its answer has an invalid status', async () => {
    const own = await listening(
      createTcp((socket) => socket.end('HTTP/1.1 000 Odd\r\ncontent-length: 0\r\n\r\n')) as never,
    );
    expect(await fetched({ url: `http://127.0.0.1:${own}/` }, [`127.0.0.1:${own}`])).toEqual({
      failed: 'the server answered with the status 0, which there is not',
    });
  });

  test('an answer that is too large is cut, and a malformed one fails the request', async () => {
    const answer = await fetched({ url: at('/large') });
    expect(answer).toMatchObject({ status: 200, truncated: true });
    expect('body' in answer && answer.body.length).toBe(1000);
    expect(await fetched({ url: at('/headers') })).toHaveProperty('failed');
    expect(await fetched({ url: at('/cut') })).toHaveProperty('failed');
  });

  test.each([
    ['what is not listed', 'http://example.org/', undefined],
    ['another port', 'http://127.0.0.1:1/', undefined],
    ['a listed name that leads inwards', 'http://inwards.example/', ['inwards.example']],
    ['the metadata of a cloud, in another spelling', 'http://2852039166/', undefined],
    ['no host at all', 'http://%00/', undefined],
  ])('a request to %s is refused', async (_, url, allow) => {
    const answer = await fetched({ url }, allow).catch(() => ({ failed: '' }));
    expect(Object.keys(answer)).toEqual([url.includes('%00') ? 'failed' : 'refused']);
  });
});

describe('over TLS', () => {
  const folder = temporaryDir('tls');
  afterAll(() => rmSync(folder, { recursive: true }));

  test('the server must be who the URL says', async () => {
    const [key, cert] = ['key.pem', 'cert.pem'].map((it) => join(folder, it)) as [string, string];
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1'];
    execFileSync(
      'openssl',
      ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, ...subject],
      { stdio: 'ignore' },
    );
    const secure = createSecure({ key: readFileSync(key), cert: readFileSync(cert) }, (_, response) =>
      response.end('ok'),
    );
    const own = await listening(secure);
    const url = `https://127.0.0.1:${own}/`;
    expect(await fetched({ url }, [`127.0.0.1:${own}`])).toMatchObject({
      failed: expect.stringMatching(/SELF_SIGNED/),
    });
    const before = getCACertificates('default');
    setDefaultCACertificates([...before, readFileSync(cert, 'utf8')]);
    expect(await fetched({ url }, [`127.0.0.1:${own}`])).toMatchObject({ status: 200 });
    setDefaultCACertificates(before);
    // A server without TLS.
    const deaf = await listening(createTcp((socket) => socket.end('no')) as never);
    expect(await fetched({ url: `https://127.0.0.1:${deaf}/` }, [`127.0.0.1:${deaf}`])).toHaveProperty('failed');
  });
});
