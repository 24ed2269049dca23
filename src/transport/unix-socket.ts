/** The default transport: a Unix socket (0600) in a folder of its owner's alone (0700). */
import { chmodSync, lstatSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { createConnection, createServer, type Server, type Socket } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { peerCredentials } from './peer-credentials.ts';
import type { Channel, ChannelEvents, Listener } from './transport.ts';

/** sun_path of Linux holds 108 bytes with its NUL; a longer one fails as EINVAL, which says nothing. */
const PATH_BYTES_MAX = 107;

/** A socket that can't be used, in words for the person who started us. */
export class SocketError extends Error {}

/** Throws SocketError for a path that the kernel would not take or a folder that others can write. */
function assertUsable(path: string): void {
  const length = Buffer.byteLength(path);
  if (length > PATH_BYTES_MAX) {
    throw new SocketError(
      `socket path is ${length} bytes, the kernel takes ${PATH_BYTES_MAX}: ${path}; give a shorter one with --socket`,
    );
  }
  const folder = dirname(path);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const { mode, uid } = lstatSync(folder);
  if (uid !== process.getuid?.())
    throw new SocketError(`${folder} belongs to another user; give another path with --socket`);
  if ((mode & 0o077) === 0) return;
  // Others may need this folder as it is, /tmp above all: a folder inside of it is advised, never a change of its mode.
  const own = join(folder, `ringfence-${uid}`, basename(path));
  throw new SocketError(
    `${folder} is open to others (mode ${(mode & 0o7777).toString(8)}); put the socket into a folder of its own, which is made: --socket ${own}`,
  );
}

/** Listens at `path` for peers of our own protocol. Throws SocketError. */
export function listenUnix(path: string, accept: (channel: Channel) => void): Promise<Listener> {
  return listenSocket(path, (socket) => accept(withCredentials(socketChannel(socket), socket)));
}

/**
 * Listens at `path`. A socket that a dead daemon left is replaced, a live one is an error. `allowHalfOpen`: who has sent all
 * may still be answered. Throws SocketError.
 */
export async function listenSocket(
  path: string,
  accept: (socket: Socket) => void,
  { allowHalfOpen = false }: { allowHalfOpen?: boolean } = {},
): Promise<Listener> {
  assertUsable(path);
  if (lstatSync(path, { throwIfNoEntry: false })) {
    if (await answers(path))
      throw new SocketError(`a daemon already listens at ${path}; stop it with \`ringfence stop\``);
  }
  const server = createServer({ allowHalfOpen }, accept);
  // Bound under another name and renamed, so that the path never stands for a socket that refuses.
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
  const { ino } = lstatSync(path);
  return {
    address: path,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      // Only what is still ours: another daemon may have taken the name.
      if (lstatSync(path, { throwIfNoEntry: false })?.ino === ino) rmSync(path, { force: true });
      await closed;
    },
  };
}

/** Who connected, as the kernel says, where it does. */
function withCredentials(channel: Channel, socket: Socket): Channel {
  const credentials = peerCredentials(socket);
  return credentials ? Object.assign(channel, { credentials }) : channel;
}

function listening(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection(path);
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

/** Connects to a daemon's socket. Rejects with the system's error, or SocketError when the socket is another user's. */
export function connectUnix(path: string): Promise<Channel & { readonly socket: Socket }> {
  return new Promise((resolve, reject) => {
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

/** A stream socket as a channel. What is sent in one turn of the loop is written in one call. */
function socketChannel(socket: Socket): Channel {
  let corked = false;
  const uncork = () => {
    corked = false;
    socket.uncork();
  };
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
    send(bytes) {
      if (!corked) {
        corked = true;
        socket.cork();
        process.nextTick(uncork);
      }
      socket.write(bytes);
    },
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    close() {
      uncork();
      socket.end(() => socket.destroy());
    },
    destroy: () => void socket.destroy(),
  };
}
