/**
 * Servers that answer to hurt whoever asks: every request ends within its bounds, and the egress process serves the
 * next one. A tool that makes requests joins by a row of TOOLS.
 */
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import type { Client } from '../../src/client/client.ts';
import { isBelow, processesWith, startDaemon, type TestDaemon } from '../support/daemon.ts';

/** A tool that makes requests to a URL of its input. */
interface Asking {
  inputOf(url: string, timeoutMs: number): object;
  /** What it makes of a body of that many bytes. */
  readonly given: (bytes: number) => object;
}

const { pageBytesMax } = defaultLimits;
const DEFAULT_CHARS = 40_000;
const pageNotes = (bytes: number) => ({
  notes: bytes > 100 ? [`only the first ${pageBytesMax} bytes of the page were read`] : [],
});
const TOOLS: [name: string, tool: Asking][] = [
  [
    'http_request',
    {
      inputOf: (url, timeoutMs) => ({ url, timeoutMs }),
      given: (bytes) => ({ body: expect.toSatisfy((it: string) => it.length === bytes) }),
    },
  ],
  [
    'web_fetch',
    {
      inputOf: (url) => ({ url }),
      given: (bytes) => ({
        content: expect.toSatisfy((it: string) => it.length >= Math.min(bytes, DEFAULT_CHARS)),
        ...pageNotes(bytes),
      }),
    },
  ],
  ['web_scrape', { inputOf: (url) => ({ url, selectors: { title: 'title' } }), given: () => ({ missing: ['title'] }) }],
];

const TIMEOUT_MS = 1500;
/** Time for a call to end beyond its time limit; more than it takes, since tests share a machine. */
const SLACK_MS = 5000;
const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n';
const OK = `${HEAD}content-length: 4\r\n\r\nfine`;
const compressed = (coding: string, body: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${HEAD}content-encoding: ${coding}\r\ncontent-length: ${body.length}\r\n\r\n`), body]);

const ZEROS = Buffer.alloc(64 * 1024 * 1024);
const BOMBS = {
  gzip: compressed('gzip', gzipSync(ZEROS)),
  zstd: compressed('zstd', zstdCompressSync(ZEROS)),
  br: compressed('br', brotliCompressSync(ZEROS, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } })),
};

/** Writes `start`, then `piece` as often and as fast as the other side reads, until it goes. */
function forever(socket: Socket, piece: string | Buffer, start = ''): void {
  socket.write(start);
  const more = () => {
    while (!socket.destroyed && socket.write(piece));
  };
  socket.on('drain', more);
  more();
}

/** Writes a character a second, until the other side goes. */
function slowly(socket: Socket, start: string, piece = 'a'): void {
  socket.write(start);
  const timer = setInterval(() => socket.write(piece), 1000);
  socket.once('close', () => clearInterval(timer));
}

const LARGE = 'x'.repeat(64 * 1024);

/** What a server does with a connection, and what the caller gets: an error code, or the body's length. */
const SERVERS: Record<string, [serve: (socket: Socket) => void, code: string | number]> = {
  'never answers': [() => {}, 'TIMEOUT'],
  'hangs up at once': [(it) => it.destroy(), 'UPSTREAM_FAILED'],
  'sends a header a character a second': [(it) => slowly(it, `${HEAD}x-slow: `), 'TIMEOUT'],
  'sends a body a character a second': [(it) => slowly(it, `${HEAD}content-length: 1000\r\n\r\n`), 'TIMEOUT'],
  'sends a chunk a second': [(it) => slowly(it, `${HEAD}transfer-encoding: chunked\r\n\r\n`, '1\r\na\r\n'), 'TIMEOUT'],
  'sends a compressed body a character a second': [
    (it) => slowly(it, `${HEAD}content-encoding: gzip\r\n\r\n\x1f\x8b`, '\x08'),
    'UPSTREAM_FAILED',
  ],
  'sends a body without end': [(it) => forever(it, LARGE, `${HEAD}\r\n`), defaultLimits.httpBodyBytesMax],
  'sends chunks without end': [
    (it) => forever(it, `10000\r\n${LARGE}\r\n`, `${HEAD}transfer-encoding: chunked\r\n\r\n`),
    defaultLimits.httpBodyBytesMax,
  ],
  'sends a status without end': [(it) => forever(it, LARGE, 'HTTP/1.1 200 '), 'UPSTREAM_FAILED'],
  'sends a header without end': [(it) => forever(it, LARGE, `${HEAD}x-long: `), 'UPSTREAM_FAILED'],
  'sends headers without end': [(it) => forever(it, 'x-many: 1\r\n'.repeat(1000), HEAD), 'UPSTREAM_FAILED'],
  'sends a chunk extension without end': [
    (it) => forever(it, LARGE, `${HEAD}transfer-encoding: chunked\r\n\r\n1;`),
    'UPSTREAM_FAILED',
  ],
  'sends trailers without end': [
    (it) => forever(it, 'x-many: 1\r\n'.repeat(1000), `${HEAD}transfer-encoding: chunked\r\n\r\n0\r\n`),
    'UPSTREAM_FAILED',
  ],
  'says 103 without end': [(it) => forever(it, 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(100)), 'UPSTREAM_FAILED'],
  'promises more than it sends': [(it) => it.end(`${HEAD}content-length: 1000\r\n\r\nfine`), 'UPSTREAM_FAILED'],
  'sends more than it promised': [(it) => it.end(`${OK}${OK}`), 4],
  'promises two lengths': [
    (it) => it.end(`${HEAD}content-length: 4\r\ncontent-length: 40\r\n\r\nfine`),
    'UPSTREAM_FAILED',
  ],
  'promises a length below zero': [(it) => it.end(`${HEAD}content-length: -4\r\n\r\nfine`), 'UPSTREAM_FAILED'],
  'promises a length and chunks': [
    (it) => it.end(`${HEAD}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n`),
    'UPSTREAM_FAILED',
  ],
  'sends a chunk of a size that no number holds': [
    (it) => it.end(`${HEAD}transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\nfine`),
    'UPSTREAM_FAILED',
  ],
  'splits its headers by a bare line feed': [
    (it) => it.end(`${HEAD}x: a\n\ncontent-length: 4\r\n\r\nfine`),
    'UPSTREAM_FAILED',
  ],
  'sends a NUL in a header': [(it) => it.end(`${HEAD}x: \0\r\n\r\n`), 'UPSTREAM_FAILED'],
  'switches to another protocol': [
    (it) => it.end('HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
    'UPSTREAM_FAILED',
  ],
  'speaks something else': [(it) => forever(it, Buffer.alloc(4096, 0xff)), 'UPSTREAM_FAILED'],
  'sends a bomb of gzip': [(it) => it.end(BOMBS.gzip), 'UPSTREAM_FAILED'],
  'sends a bomb of zstd': [(it) => it.end(BOMBS.zstd), 'UPSTREAM_FAILED'],
  'sends a bomb of brotli': [(it) => it.end(BOMBS.br), 'UPSTREAM_FAILED'],
  'sends compressed nothing without end': [
    (it) => forever(it, Buffer.concat(Array<Buffer>(1000).fill(gzipSync(''))), `${HEAD}content-encoding: gzip\r\n\r\n`),
    'UPSTREAM_FAILED',
  ],
  'redirects in a circle': [
    (it) => it.end('HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\n\r\n'),
    'UPSTREAM_FAILED',
  ],
  'redirects to ever longer URLs': [
    (it) =>
      it.once('data', (asked) =>
        it.end(`HTTP/1.1 302 Found\r\nlocation: ${/ (\S*) /.exec(String(asked))?.[1]}xxxxxxxx\r\n\r\n`),
      ),
    'UPSTREAM_FAILED',
  ],
  'redirects with a body without end': [
    (it) => forever(it, LARGE, 'HTTP/1.1 302 Found\r\nlocation: /\r\n\r\n'),
    'UPSTREAM_FAILED',
  ],
};

const servers = new Map<string, Server>();
const sockets = new Set<Socket>();
let daemon: TestDaemon;
let client: Client;
const urlOf = (name: string) => `http://127.0.0.1:${((servers.get(name) as Server).address() as AddressInfo).port}/`;

beforeAll(async () => {
  const all = { ...SERVERS, honest: [(it: Socket) => it.end(OK), 4] as const };
  for (const [name, [serve]] of Object.entries(all)) {
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {}); // ECONNRESET: the other side has enough.
      socket.once('close', () => sockets.delete(socket));
      serve(socket.resume());
    });
    await new Promise<void>((ready) => void server.listen(0, '127.0.0.1', ready));
    servers.set(name, server);
  }
  const allow = JSON.stringify([...servers.keys()].map((it) => new URL(urlOf(it)).host));
  daemon = await startDaemon({ policy: `tiers:\n  external_api: { decision: allow, network: { allow: ${allow} } }\n` });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  for (const it of sockets) it.destroy();
  for (const it of servers.values()) it.close();
});

/** The egress process of the daemon: the one whose ancestors end there. */
function egressPid(): number | undefined {
  return processesWith('workers/egress').findLast((it) => isBelow(it, daemon.pid));
}

describe.each(TOOLS)('%s', (tool, { inputOf, given }) => {
  const ask = (name: string, timeoutMs: number) =>
    client.call(tool as string, inputOf(urlOf(name), timeoutMs) as never, { timeoutMs: timeoutMs + SLACK_MS / 5 });

  test.each(Object.entries(SERVERS))(
    'a server that %s costs its caller no more than the time limit',
    async (name, [, expected]) => {
      await ask('honest', 30_000);
      const before = egressPid();
      const startedMs = performance.now();
      const result = await ask(name, TIMEOUT_MS);
      expect(performance.now() - startedMs).toBeLessThan(TIMEOUT_MS + SLACK_MS);
      if (typeof expected === 'string') expect(result).toMatchObject({ success: false, error: { code: expected } });
      else expect(result).toMatchObject({ success: true, data: given(expected) });
      expect(egressPid()).toBe(before);
      expect(await ask('honest', 30_000)).toMatchObject({ success: true });
    },
  );

  test('an answer without end holds up nobody else, and its process stays small', async () => {
    const endless = ['sends a body without end', 'sends a bomb of zstd', 'sends headers without end', 'never answers'];
    const attacks = Array.from({ length: 16 }, (_, at) => ask(endless[at % endless.length] as string, TIMEOUT_MS));
    expect(await ask('honest', 30_000)).toMatchObject({ success: true });
    await Promise.all(attacks);
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${egressPid()}/status`, 'utf8'))?.[1];
    expect(Number(peak)).toBeLessThan(400 * 1024);
  });
});
