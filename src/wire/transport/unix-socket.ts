/** The default transport: a Unix socket (mode 0600) in a folder that only its owner can enter (0700). */
import { chmodSync, lstatSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { BatchedWrites } from '../protocol/frame.ts';
import { assertInherited } from './inherited-sockets.ts';
import { peerCredentials } from './peer-credentials.ts';
import { SocketError } from './socket-error.ts';
import type { Channel, ChannelEvents, Listener } from './transport.ts';

/** Longest socket path: sun_path of Linux holds 108 bytes including the NUL. A longer one fails with EINVAL, which says nothing. */
const PATH_BYTES_MAX = 107;

export { SocketError };

/** Throws SocketError if the path is too long for the kernel. */
function assertShort(path: string): void {
  const length = Buffer.byteLength(path);
  if (length <= PATH_BYTES_MAX) return;
  throw new SocketError(
    `socket path is ${length} bytes, the kernel takes ${PATH_BYTES_MAX}: ${path}; give a shorter one with --socket`,
  );
}

/** Throws SocketError if the path is too long or its folder is open to other users. */
function assertUsable(path: string): void {
  assertShort(path);
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { mode, uid } = lstatSync(folder);
  if (uid !== process.getuid?.())
    throw new SocketError(`${folder} belongs to another user; give another path with --socket`);
  if ((mode & 0o077) === 0) return;
  // Others may need this folder as it is, especially /tmp, so this advises a folder inside it and never a change of mode.
  const own = join(folder, `ringfence-${uid}`, basename(path));
  throw new SocketError(
    `${folder} is open to others (mode ${(mode & 0o7777).toString(8)}); put the socket into a folder of its own, which is created: --socket ${own}`,
  );
}

export interface ListenOptions {
  /** Allows answering a client that has finished sending. */
  readonly allowHalfOpen?: boolean;
  /** The socket at `path`, if a service manager or the daemon before passed it on. */
  readonly fd?: number | undefined;
  /** Whether a service manager keeps that socket when the daemon ends. */
  readonly isKept?: boolean;
}

/** Listens at `path` for peers of our own protocol. Throws SocketError. */
export function listenUnix(
  path: string,
  accept: (channel: Channel) => void,
  options: ListenOptions = {},
): Promise<Listener> {
  return listenSocket(path, (socket) => accept(withCredentials(socketChannel(socket), socket)), options);
}

/** Listens at `path`. Replaces a socket that a dead daemon left; throws for a live one. Throws SocketError. */
export async function listenSocket(
  path: string,
  accept: (socket: Socket) => void,
  { allowHalfOpen = false, fd, isKept = false }: ListenOptions = {},
): Promise<Listener> {
  if (fd !== undefined && isKept) return await listenInherited(path, createServer({ allowHalfOpen }, accept), fd);
  assertUsable(path);
  if (fd !== undefined) {
    const server = createServer({ allowHalfOpen }, accept);
    await listening(server, { fd });
    return removing(path, server);
  }
  if (lstatSync(path, { throwIfNoEntry: false })) {
    if (await answers(path))
      throw new SocketError(`a daemon already listens at ${path}; stop it with \`ringfence stop\``);
  }
  const server = createServer({ allowHalfOpen }, accept);
  // Binds another name and renames it, so that `path` never leads to a socket that refuses connections.
  const fresh = `${path.slice(0, PATH_BYTES_MAX - 4)}.new`;
  rmSync(fresh, { force: true });
  const umask = process.umask(0o177);
  try {
    await listening(server, fresh);
  } finally {
    process.umask(umask);
  }
  chmodSync(fresh, 0o600);
  renameSync(fresh, path);
  return removing(path, server);
}

/** A listener that removes its socket at its end, unless its server was closed before: then another daemon has the socket. */
function removing(path: string, server: Server): Listener {
  const ino = lstatSync(path, { throwIfNoEntry: false })?.ino;
  return {
    address: path,
    server,
    async [Symbol.asyncDispose]() {
      const isOurs = server.listening;
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      // Removes only our own socket: another daemon may have taken the name.
      if (isOurs && ino !== undefined && lstatSync(path, { throwIfNoEntry: false })?.ino === ino)
        rmSync(path, { force: true });
      await closed;
    },
  };
}

/** Listens at a socket that a service manager keeps: clients that connect while no daemon runs wait for the next one. */
async function listenInherited(path: string, server: Server, fd: number): Promise<Listener> {
  assertInherited(fd, path);
  await listening(server, { fd });
  return {
    address: path,
    server,
    [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())),
  };
}

/** Adds the peer's credentials if the kernel tells them. */
function withCredentials(channel: Channel, socket: Socket): Channel {
  const credentials = peerCredentials(socket);
  return credentials ? Object.assign(channel, { credentials }) : channel;
}

function listening(server: Server, at: string | { fd: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(at, resolve);
  });
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(path);
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

/** Connects to a daemon's socket. Rejects with the system's error, or with SocketError if the socket belongs to another user. */
export function connectUnix(path: string): Promise<Channel & { readonly socket: Socket }> {
  return new Promise((resolve, reject) => {
    assertShort(path);
    const stat = lstatSync(path, { throwIfNoEntry: false });
    const me = process.getuid?.();
    if (stat && me !== 0 && stat.uid !== me && stat.uid !== 0) {
      return reject(new SocketError(`${path} belongs to another user; refusing to talk to it`));
    }
    const socket = createConnection(path);
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(Object.assign(socketChannel(socket), { socket }));
    });
  });
}

function socketChannel(socket: Socket): Channel {
  const writes = new BatchedWrites(socket);
  return {
    kind: 'unix',
    framing: 'length',
    encoding: 'msgpack',
    authenticated: true,
    get bufferedBytes() {
      return socket.writableLength;
    },
    open({ data, drain, close }: ChannelEvents) {
      socket.on('data', data).on('drain', drain).on('close', close);
      socket.on('error', () => socket.destroy());
    },
    send: (bytes, more) => writes.write(bytes, more),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    close() {
      writes.flush();
      socket.end(() => socket.destroy());
    },
    destroy: () => void socket.destroy(),
  };
}
