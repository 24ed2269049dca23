/** The HTTP side of the egress proxy: requests of a command, and answers of the one host that is let through. */
import type { Socket } from 'node:net';
import { type Duplex, duplexPair } from 'node:stream';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { type Destination, parseNetworkEntry } from '../../src/policy/network.ts';
import { ConnectionGuard } from '../../src/sandbox/egress/connection-guard.ts';
import { createHttp } from '../../src/sandbox/egress/http.ts';
import { exchange } from './exchange.ts';
import { type Grammar, some, word } from './grammar.ts';
import { holds } from './outcome.ts';
import type { FuzzTarget } from './targets.ts';

const OPEN = 'open.test';
/** Stands in an input between the request of a command and the answer of the host. */
const ANSWER = '\0ANSWER\0';

/** Connects to OPEN alone, which answers each connection with `answer`; what the host received is in `received`. */
class OneOpenHost extends ConnectionGuard {
  readonly received: Buffer[][] = [];
  readonly #answer: Buffer;

  constructor(answer: Buffer) {
    const names = { lookup: () => Promise.reject(new Error('no name is looked up here')) };
    const layers = [[parseNetworkEntry('listed.test:80'), parseNetworkEntry('*.listed.test:*')]];
    super({ layers, limits: defaultLimits, powers: systemPowers(), names });
    this.#answer = answer;
  }

  override connect(to: Destination): Promise<Socket> {
    if (to.host !== OPEN) return super.connect(to);
    const [near, host] = duplexPair();
    const pieces: Buffer[] = [];
    this.received.push(pieces);
    host.on('error', () => {}); // The proxy ended first.
    host.on('data', (piece: Buffer) => pieces.push(piece));
    host.end(this.#answer);
    return Promise.resolve(near as Duplex as Socket);
  }
}

/** The guard of each connection that is open. */
const guards = new WeakMap<object, OneOpenHost>();
const proxy = createHttp((socket) => {
  holds(!socket.destroyed, 'a request that is served has an open connection');
  return { guard: guards.get(socket) as OneOpenHost, keys: [], pipeTo: () => undefined, onParsed: () => {} };
}, defaultLimits);

/** Throws unless `request`, which reached a host, is one request for that host. */
function assertOneRequest(request: string): void {
  const [head = '', body = ''] = request.split(/\r\n\r\n(.*)/s);
  const [first = '', ...headers] = head.split('\r\n');
  holds(/^[A-Z-]+ \/\S* HTTP\/1\.1$/.test(first), `a host is asked for a path: ${JSON.stringify(first)}`);
  const named = headers.filter((it) => /^host:/i.test(it));
  holds(
    named.length === 1 && /^host: open\.test\.?(:\d+)?$/i.test(named[0] as string),
    'a host is asked for itself, once',
  );
  const framing = headers.filter((it) => /^(content-length|transfer-encoding):/i.test(it));
  holds(framing.length <= 1, `a request has one framing: ${framing.join(', ')}`);
  holds(framing.length === 1 || body === '', 'a request without framing has no body');
}

const REASONS = [
  ...[
    "is not in the policy's list",
    'port ',
    'an address of this machine',
    'no address of the public',
    'is no address',
  ],
  ...['is no host:port', 'it takes CONNECT', 'could not be looked up', 'broke off', 'could not connect'],
];

/** Why a request was refused. */
const reasonOf = (answer: string): string => {
  const body = answer.split(/\r\n\r\n/, 2)[1] ?? '';
  return REASONS.find((it) => body.includes(it)) ?? (body === '' ? '' : 'with a body');
};

const method: Grammar = word('GET ', 'POST ', 'CONNECT ', 'HEAD ', 'DELETE ', 'OPTIONS ', 'get ', 'PRI ');
const host = word(
  ...[OPEN, OPEN, OPEN, 'OPEN.test.', 'listed.test', 'a.listed.test', 'other.test', '127.0.0.1', '0x7f.1', '[::1]'],
  ...['[::ffff:10.0.0.1]', '169.254.169.254', 'a%2eb', 'ö.test', 'a..b', `${'l'.repeat(64)}.test`, ''],
);
const port = word('', '', '', ':80', ':443', ':0', ':65536', ':00080', ':x');
const path = word('/', '/a?b=c', '', '/%00', '/../x', '?q', '#f', '/a b', `/${'p'.repeat(300)}`);
const url: Grammar = (random) =>
  [word('http://', 'http://', 'https://', 'ftp://', '//', 'http:/')(random), word('', '', 'u:p@')(random)].join('') +
  [host, port, path].map((it) => it(random)).join('');
const authority: Grammar = (random) => host(random) + word(':443', ':80', ':22', ':0', '')(random);
const header = word(
  ...[
    'Host: open.test',
    'Host: other.test',
    'Connection: close, x-a',
    'Connection: keep-alive',
    'X-A: 1',
    'Expect: 100-continue',
  ],
  ...[
    'Content-Length: 3',
    'Content-Length: 0',
    'Content-Length: 3, 3',
    'Content-Length: -1',
    'Transfer-Encoding: chunked',
  ],
  ...[
    'Transfer-Encoding: identity',
    'Upgrade: websocket',
    'Proxy-Authorization: Basic eA==',
    'TE: trailers',
    'A : b',
    ' folded',
  ],
  ...['Cookie: a=b', `X-Long: ${'v'.repeat(2000)}`, 'X-Bad: a\x01b', 'X-Eight: \u00e9'],
);
const body = word('', '', 'abc', '3\r\nabc\r\n0\r\n\r\n', '0\r\n\r\n', 'GET / HTTP/1.1\r\n\r\n');
const version = word('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', 'HTTP/0.9');
const status = word(
  '200 OK',
  '204 No Content',
  '304 Not Modified',
  '100 Continue',
  '101 Switching',
  '599 x',
  '600 x',
  '20 x',
  '999 x',
);
const lines = (random: Parameters<Grammar>[0], first: string): string =>
  [first, ...some(header, 4)(random), '', body(random)].join('\r\n');

const request: Grammar = (random) => {
  const asked = method(random);
  const target =
    asked === 'CONNECT ' ? authority(random) : word(url(random), url(random), url(random), '*', path(random))(random);
  return lines(random, `${asked}${target} ${version(random)}`);
};
const answer: Grammar = (random) => lines(random, `${version(random)} ${status(random)}`);

export const httpTarget: FuzzTarget = {
  seeds: [
    'GET http://example.org/a?b HTTP/1.1\r\nHost: example.org\r\nConnection: close, x\r\n\r\n',
    'CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\nrest',
    'POST http://[::1]:80/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
    `GET http://${OPEN}/ HTTP/1.1\r\nHost: a\r\n\r\n${ANSWER}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
  ],
  words: [
    '\r\n',
    '\r\n\r\n',
    'CONNECT ',
    'HTTP/1.1',
    'http://',
    OPEN,
    ANSWER,
    ':',
    '@',
    '[::]',
    '0x7f.1',
    '\0',
    'Upgrade: h2c',
  ],
  generate: (random) => `${request(random)}${ANSWER}${answer(random)}`,
  async run(input) {
    const at = input.indexOf(ANSWER);
    const sent = at < 0 ? input : input.subarray(0, at);
    const guard = new OneOpenHost(at < 0 ? Buffer.alloc(0) : input.subarray(at + ANSWER.length));
    const got = await exchange(sent, 65_536, (side) => {
      guards.set(side, guard);
      proxy.emit('connection', side);
    });
    const text = got.toString('latin1');
    const isTunnel = text.startsWith('HTTP/1.1 200 Connection established');
    const asked = guard.received.map((it) => Buffer.concat(it).toString('latin1')).filter((it) => it !== '');
    holds(got.length === 0 || text.startsWith('HTTP/1.1 '), 'an answer is HTTP');
    holds(guard.received.length <= 1, 'a connection reaches one host');
    if (!isTunnel) asked.forEach(assertOneRequest);
    const first = /^HTTP\/1\.1 (\d+)/.exec(text)?.[1] ?? 'nothing';
    holds(!first.startsWith('2') || guard.received.length === 1, 'only the open host is let through');
    if (isTunnel) return 'tunnel';
    return guard.received.length > 0 ? `${first} of the host, asked ${asked.length > 0}` : `${first} ${reasonOf(text)}`;
  },
};
