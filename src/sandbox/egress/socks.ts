/** SOCKS5 (RFC 1928): CONNECT only, without authentication; the listener identifies the command. */
import type { Socket } from 'node:net';
import { type Destination, toHostName } from '../../policy/network.ts';
import { type ConnectionGuard, ConnectionRefused } from './connection-guard.ts';
import { relay } from './relay.ts';

export const SOCKS_VERSION = 5;

const NO_AUTHENTICATION = 0;
const NO_METHOD = 0xff;
const CONNECT = 1;
const TYPE = { ipv4: 1, name: 3, ipv6: 4 } as const;
const REPLY = { ok: 0, failed: 1, refused: 2, unreachable: 4, command: 7, addressType: 8 } as const;

/** Serves one connection whose first byte is SOCKS_VERSION. Calls `onParsed` when the request has been parsed. */
export async function serveSocks(socket: Socket, guard: ConnectionGuard, onParsed: () => void): Promise<void> {
  const bytes = new SocketReader(socket);
  const [, count = 0] = await bytes.read(2);
  const methods = await bytes.read(count);
  if (!methods.includes(NO_AUTHENTICATION)) return void socket.end(Buffer.from([SOCKS_VERSION, NO_METHOD]));
  socket.write(Buffer.from([SOCKS_VERSION, NO_AUTHENTICATION]));
  const [version, command, , type = 0] = await bytes.read(4);
  if (version !== SOCKS_VERSION || command !== CONNECT) return reply(socket, REPLY.command);
  const host = await hostOf(bytes, type);
  const port = (await bytes.read(2)).readUInt16BE();
  onParsed();
  if (host === undefined || port === 0) return reply(socket, REPLY.addressType);
  await tunnel(socket, guard, { bytes, to: { host, port } });
}

async function tunnel(
  socket: Socket,
  guard: ConnectionGuard,
  { bytes, to }: { bytes: SocketReader; to: Destination },
): Promise<void> {
  try {
    const upstream = await guard.connect(to, socket);
    if (socket.destroyed) return void upstream.destroy();
    socket.write(answer(REPLY.ok));
    bytes.release();
    relay(socket, upstream, guard.gate(to, upstream));
  } catch (error) {
    reply(socket, error instanceof ConnectionRefused ? REPLY.refused : REPLY.unreachable);
  }
}

async function hostOf(bytes: SocketReader, type: number): Promise<string | undefined> {
  switch (type) {
    case TYPE.ipv4:
      return toHostName([...(await bytes.read(4))].join('.'));
    case TYPE.ipv6:
      return toHostName((await bytes.read(16)).toString('hex').replace(/(.{4})(?!$)/g, '$1:'));
    case TYPE.name: {
      const [length = 0] = await bytes.read(1);
      return toHostName((await bytes.read(length)).toString('latin1'));
    }
    default:
      return undefined;
  }
}

/** A reply that reveals no address of ours. */
const answer = (code: number): Buffer => Buffer.from([SOCKS_VERSION, code, 0, TYPE.ipv4, 0, 0, 0, 0, 0, 0]);
const reply = (socket: Socket, code: number): void => void socket.end(answer(code));

/** Reads an exact number of bytes at a time from a socket. Rejects if the socket ends first. */
class SocketReader {
  readonly #socket: Socket;
  #pendingRead: { count: number; resolve: (bytes: Buffer) => void; reject: (error: Error) => void } | undefined;
  readonly #onReadable = () => this.#serve();
  readonly #onEnd = () => this.#pendingRead?.reject(new Error('it ended in the middle of its request'));

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('readable', this.#onReadable).once('end', this.#onEnd).once('close', this.#onEnd);
  }

  read(count: number): Promise<Buffer> {
    if (count === 0) return Promise.resolve(Buffer.alloc(0));
    return new Promise((resolve, reject) => {
      this.#pendingRead = { count, resolve, reject };
      this.#serve();
    });
  }

  /** Stops reading; the remaining data belongs to the socket again. */
  release(): void {
    this.#socket.off('readable', this.#onReadable);
  }

  #serve(): void {
    if (!this.#pendingRead) return;
    const bytes = this.#socket.read(this.#pendingRead.count) as Buffer | null;
    if (bytes === null || bytes.length < this.#pendingRead.count) return;
    const { resolve } = this.#pendingRead;
    this.#pendingRead = undefined;
    resolve(bytes);
  }
}
