/** The door of the proxy, with real sockets on loopback: hosts that a list doesn't name, and what passes to those that were opened. */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { parseNetworkEntry } from '../../../src/policy/network.ts';
import { HELLO_BYTES_MAX, readClientHello } from '../../../src/sandbox/egress/client-hello.ts';
import { UPLOAD_BYTES_UNASKED } from '../../../src/sandbox/egress/door.ts';
import type { DoorAnswer, DoorQuestion } from '../../../src/sandbox/egress/messages.ts';
import { EgressProxy } from '../../../src/sandbox/egress/proxy.ts';
import type { EgressReport } from '../../../src/sandbox/egress/proxy-messages.ts';

const HOST = 'new.example';
const TOKEN = 'the-command';
let server: Server;
let port: number;
let received: Buffer[];
let questions: DoorQuestion[];
let looked: string[];
let cleanUp: (() => void)[];

const bytes = () => Buffer.concat(received);
const listening = async (it: Server): Promise<number> => {
  await new Promise<void>((done) => void it.listen(0, '127.0.0.1', done));
  return (it.address() as AddressInfo).port;
};

beforeEach(async () => {
  [received, questions, looked] = [[], [], []];
  server = createServer((socket) => {
    socket.on('error', () => {}).on('data', (it: Buffer) => void received.push(it));
    cleanUp.push(() => socket.destroy());
  });
  cleanUp = [() => server.close()];
  port = await listening(server);
});
afterEach(() => {
  for (const it of cleanUp) it();
});

/** A yes that may lead to this machine, as the test's server is here. */
const yes = (): DoorAnswer => ({ open: [{ ...parseNetworkEntry(HOST), ports: [port], private: true }] });
const no: DoorAnswer = { refused: 'a person said no' };

interface Setting {
  readonly answer?: (question: DoorQuestion) => DoorAnswer | Promise<DoorAnswer>;
  readonly asks?: readonly boolean[];
  readonly layers?: readonly string[][];
  readonly uploadBytesMax?: number;
}

async function proxyFor({ answer = yes, asks = [true], layers = [[]], uploadBytesMax = 1e9 }: Setting = {}) {
  const proxy = new EgressProxy({
    limits: defaultLimits,
    powers: systemPowers(),
    resolve: async (name) => {
      looked.push(name);
      return ['127.0.0.1'];
    },
    ttlOf: async () => undefined,
    ask: async (_, question) => {
      questions.push(question);
      return answer(question);
    },
  });
  proxy.open(TOKEN, { layers: layers.map((it) => it.map(parseNetworkEntry)), door: { asks, uploadBytesMax } });
  const carrier = createServer();
  const at = await listening(carrier);
  proxy.listen(TOKEN, carrier);
  let report: EgressReport | undefined;
  const close = () => (report ??= proxy.close(TOKEN));
  cleanUp.push(close);
  return { at, close };
}

/** A tunnel to a host, once the proxy has answered; `status` is its answer. */
async function tunnel(at: number, to = `${HOST}:${port}`): Promise<{ socket: Socket; status: string }> {
  const socket = connect(at, '127.0.0.1');
  cleanUp.push(() => socket.destroy());
  socket.on('error', () => {}).write(`CONNECT ${to} HTTP/1.1\r\nHost: ${to}\r\n\r\n`);
  const [head] = await new Promise<[Buffer]>((resolve) => socket.once('data', (it: Buffer) => resolve([it])));
  return { socket, status: head.toString().slice(9, 12) };
}

const closed = (socket: Socket): Promise<unknown> => new Promise((resolve) => socket.once('close', resolve));
const until = async (is: () => boolean): Promise<void> => {
  while (!is()) await new Promise((resolve) => setTimeout(resolve, 5));
};

/** Begins TLS in a tunnel, and asks for a server by name. */
function beginTls(socket: Socket, servername?: string): void {
  const tls = connectTls({ socket, ...(servername !== undefined && { servername }), rejectUnauthorized: false });
  tls.on('error', () => {});
}

describe('a host that no list names', () => {
  test('opens with a yes, and is asked about once for all that wait', async () => {
    const answered = Promise.withResolvers<DoorAnswer>();
    const { at, close } = await proxyFor({ answer: () => answered.promise });
    const waiting = [tunnel(at), tunnel(at), tunnel(at)];
    await until(() => questions.length > 0);
    expect(looked).toEqual([]);
    answered.resolve(yes());
    for (const it of await Promise.all(waiting)) expect(it.status).toBe('200');
    expect((await tunnel(at)).status).toBe('200');
    expect(questions).toEqual([{ kind: 'host', host: HOST, port, clientPort: expect.any(Number), sent: 0 }]);
    expect(close()).toMatchObject({ connected: [{ target: `${HOST}:${port}`, count: 4 }], denied: [] });
  });

  test('stays closed with a no, and is looked up by nobody', async () => {
    const { at, close } = await proxyFor({ answer: () => no });
    expect((await tunnel(at)).status).toBe('403');
    expect(looked).toEqual([]);
    expect(close().denied).toMatchObject([{ target: `${HOST}:${port}`, layer: 'policy', reason: 'a person said no' }]);
  });

  test.each([
    ['127.0.0.1'],
    ['10.1.2.3'],
    ['169.254.169.254'],
    ['224.0.0.1'],
    ['[::1]'],
    ['[fe80::1]'],
    ['localhost'],
    ['db'],
    ['printer.local'],
    ['metadata.google.internal'],
  ])('%s is no question', async (host) => {
    const { at } = await proxyFor();
    expect((await tunnel(at, `${host}:80`)).status).toBe('403');
    expect(questions).toEqual([]);
  });

  test('a yes opens no address of this machine or its networks', async () => {
    const { at, close } = await proxyFor({ answer: () => ({ open: [parseNetworkEntry(`${HOST}:${port}`)] }) });
    expect((await tunnel(at)).status).toBe('403');
    expect(close().denied).toMatchObject([{ layer: 'sandbox' }]);
  });

  test('a layer that does not ask closes the door of the others', async () => {
    const { at } = await proxyFor({ layers: [[], ['other.example']], asks: [true, false] });
    expect((await tunnel(at)).status).toBe('403');
    expect(questions).toEqual([]);
  });
});

describe('what passes to an opened host', () => {
  test('TLS that asks for the server that was opened', async () => {
    const { at } = await proxyFor();
    beginTls((await tunnel(at)).socket, HOST);
    await until(() => received.length > 0);
    expect(readClientHello(bytes())).toEqual({ serverName: HOST, isEncrypted: false });
  });

  test.each([['other.example'], [undefined]])('TLS that asks for the server %s does not pass', async (name) => {
    const { at, close } = await proxyFor();
    const { socket } = await tunnel(at);
    beginTls(socket, name);
    await closed(socket);
    expect(bytes().length).toBe(0);
    expect(close().denied).toMatchObject([{ target: `${HOST}:${port}`, reason: expect.stringContaining('asks for') }]);
  });

  test.each([
    ['its name encrypted', () => helloOf([NAME, ECH])],
    ['two names', () => helloOf([NAME, extension(0, nameList('other.example'))])],
    ['a length beyond its end', () => helloOf([Buffer.from([0, 0, 0xff, 0xff, 0])])],
    ['no end', () => Buffer.concat([helloOf([NAME]).subarray(0, 40), Buffer.alloc(HELLO_BYTES_MAX, 22)])],
  ])('a first TLS message with %s does not pass', async (_, message) => {
    const { at } = await proxyFor();
    const { socket } = await tunnel(at);
    socket.write(message());
    await closed(socket);
    expect(bytes().length).toBe(0);
  });

  test('a first TLS message that comes byte by byte is judged whole', async () => {
    const { at } = await proxyFor();
    const { socket } = await tunnel(at);
    for (const byte of helloOf([extension(0, nameList('other.example'))])) socket.write(Buffer.from([byte]));
    await closed(socket);
    expect(bytes().length).toBe(0);
  });

  test('more than was received is asked about once more, and does not pass with a no', async () => {
    const { at } = await proxyFor({ answer: ({ kind }) => (kind === 'host' ? yes() : no) });
    const { socket } = await tunnel(at);
    socket.write(Buffer.alloc(4 * UPLOAD_BYTES_UNASKED, 1));
    await closed(socket);
    expect(bytes().length).toBeLessThanOrEqual(UPLOAD_BYTES_UNASKED);
    expect(questions.map((it) => it.kind)).toEqual(['host', 'upload']);
  });

  test('much passes with a yes to it, and is counted', async () => {
    const { at, close } = await proxyFor();
    const { socket } = await tunnel(at);
    socket.write(Buffer.alloc(2 * UPLOAD_BYTES_UNASKED, 1));
    await until(() => bytes().length === 2 * UPLOAD_BYTES_UNASKED);
    expect(questions.map((it) => it.kind)).toEqual(['host', 'upload']);
    expect(close().sent).toEqual([{ target: `${HOST}:${port}`, bytes: 2 * UPLOAD_BYTES_UNASKED }]);
  });

  test('many small connections are asked about together', async () => {
    const { at } = await proxyFor({ uploadBytesMax: 30_000, answer: ({ kind }) => (kind === 'host' ? yes() : no) });
    for (let n = 0; n < 3; n++) (await tunnel(at)).socket.write(Buffer.alloc(10_000, 1));
    await until(() => bytes().length === 30_000);
    const { socket } = await tunnel(at);
    socket.write('x');
    await closed(socket);
    expect(bytes().length).toBe(30_000);
  });
});

const sized = (content: Buffer, sizeBytes: number): Buffer => {
  const size = Buffer.alloc(sizeBytes);
  size.writeUIntBE(content.length, 0, sizeBytes);
  return Buffer.concat([size, content]);
};
const extension = (type: number, content: Buffer): Buffer =>
  Buffer.concat([Buffer.from([type >> 8, type & 255]), sized(content, 2)]);
const nameList = (name: string): Buffer => sized(Buffer.concat([Buffer.from([0]), sized(Buffer.from(name), 2)]), 2);
const NAME = extension(0, nameList(HOST));
const ECH = extension(0xfe0d, Buffer.from([0, 1, 2]));

/** A ClientHello with those extensions, in one record. */
function helloOf(extensions: Buffer[]): Buffer {
  const ciphers = sized(Buffer.from([0x13, 0x01]), 2);
  const start = [Buffer.from([3, 3]), Buffer.alloc(32, 7), Buffer.from([0]), ciphers, Buffer.from([1, 0])];
  const message = Buffer.concat([...start, sized(Buffer.concat(extensions), 2)]);
  const handshake = Buffer.concat([Buffer.from([1]), sized(message, 3)]);
  return Buffer.concat([Buffer.from([22, 3, 1]), sized(handshake, 2)]);
}
