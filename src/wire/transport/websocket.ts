/** WebSocket on loopback, for clients that can't open a Unix socket. Off by default. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocket, WebSocketServer } from 'ws';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { bearerOf, isLoopback, isOwnHost, isOwnOrigin, pathOf } from './loopback.ts';
import { listenTcp, type TcpAddress } from './tcp.ts';
import type { Channel, ChannelEvents, Listener } from './transport.ts';
import { WaitingRoom } from './waiting-room.ts';

const PATH = '/v1';
const PROTOCOLS = { 'ringfence.v1.msgpack': 'msgpack', 'ringfence.v1.json': 'json' } as const;
/** Close codes of RFC 6455. */
const TOO_LARGE = 1009;
const WRONG_KIND = 1003;

/** The host must be a loopback name or address. */
export interface WebSocketOptions extends TcpAddress {
  readonly limits: Limits;
  readonly powers: Powers;
  readonly frameBytesMax: number;
  /** The message sent before an oversized payload ends the connection, by encoding. */
  readonly tooLarge: (encoding: 'msgpack' | 'json') => Buffer;
  /** Whether a bearer token is one of ours. */
  readonly isToken: (token: string) => boolean;
  /** Names that it may be called by; those of loopback if absent. */
  readonly names?: ReadonlySet<string>;
  /** Answers requests that are no WebSocket; without it they are refused. */
  readonly serve?: (request: IncomingMessage, response: ServerResponse, port: number) => void;
}

/** Listens on loopback. Throws when the host is not a loopback one or the port is taken. */
export async function listenWebSocket(
  options: WebSocketOptions,
  accept: (channel: Channel) => void,
): Promise<Listener> {
  const { host } = options;
  if (!isLoopback(host))
    throw new Error(`--listen must be a loopback address (127.0.0.1, ::1, localhost), not ${host}`);
  const { helloTimeoutMs } = options.limits;
  const serve = options.serve ?? isWebSocket;
  const server = createServer({ headersTimeout: helloTimeoutMs, requestTimeout: helloTimeoutMs });
  const room = new WaitingRoom(options.limits, options.powers);
  server.on('connection', (socket) => {
    if (!room.enter(socket)) socket.destroy();
    socket.once('close', () => room.leave(socket));
  });
  const bound = await listenTcp(server, options);
  server.on('request', (request, response) => serve(request, response, bound.port));
  const sockets = webSockets(options);
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy());
    const refusal = refuse(request, bound.port, options);
    if (refusal) return decline(socket, refusal);
    // From here on the gateway counts the connection as unidentified until it says hello.
    room.leave(socket);
    sockets.handleUpgrade(request, socket, head, (webSocket) => {
      accept(webSocketChannel(webSocket, bearerOf(request)));
    });
  });
  const shown = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  return {
    address: `ws://${shown}:${bound.port}${PATH}`,
    server,
    [Symbol.asyncDispose]: () => close(server, sockets),
  };
}

function isWebSocket(_: IncomingMessage, response: ServerResponse): void {
  response.writeHead(426, { connection: 'close' }).end('This is a WebSocket.\n');
}

function webSockets({ frameBytesMax, tooLarge }: WebSocketOptions): WebSocketServer {
  /** Sends the protocol's error before ws closes the connection for an oversized payload. */
  class AnsweringWebSocket extends WebSocket {
    override close(code?: number, data?: string | Buffer): void {
      if (code === TOO_LARGE) this.send(tooLarge(encodingOf(this)), { binary: encodingOf(this) === 'msgpack' });
      super.close(code, data);
    }
  }
  return new WebSocketServer({
    noServer: true,
    maxPayload: frameBytesMax,
    perMessageDeflate: false,
    WebSocket: AnsweringWebSocket,
    handleProtocols: (offered) => Object.keys(PROTOCOLS).find((it) => offered.has(it)) ?? false,
  });
}

const encodingOf = (socket: WebSocket) => PROTOCOLS[socket.protocol as keyof typeof PROTOCOLS];

/**
 * The refusal status of an upgrade request; undefined if accepted. Browsers send an Origin, and any page can make them connect, so only our
 * own origin is accepted; a rebound DNS name shows in Host.
 */
function refuse(request: IncomingMessage, port: number, { isToken, names }: WebSocketOptions): string | undefined {
  const { host, origin } = request.headers;
  if (!isOwnHost(host, port, names) || !isOwnOrigin(origin, port, names)) return '403 Forbidden';
  if (pathOf(request) !== PATH) return '404 Not Found';
  const token = bearerOf(request);
  if (token !== undefined && !isToken(token)) return '401 Unauthorized';
  const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((it) => it.trim());
  if (!offered.some((it) => Object.hasOwn(PROTOCOLS, it))) return '400 Bad Request';
  return undefined;
}

function decline(socket: Duplex, status: string): void {
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () => socket.destroy());
}

async function close(server: Server, sockets: WebSocketServer): Promise<void> {
  for (const client of sockets.clients) client.terminate();
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  server.closeAllConnections();
  await closed;
}

function webSocketChannel(socket: WebSocket, token: string | undefined): Channel {
  const encoding = encodingOf(socket);
  // Without a listener a single oversized frame would end the daemon.
  socket.on('error', () => {});
  let events: ChannelEvents | undefined;
  return {
    kind: 'websocket',
    framing: 'message',
    encoding,
    authenticated: token !== undefined,
    bearer: token,
    get bufferedBytes() {
      return socket.bufferedAmount;
    },
    open(it) {
      events = it;
      socket.on('message', (data, isBinary) => {
        if (isBinary !== (encoding === 'msgpack'))
          return socket.close(WRONG_KIND, `${socket.protocol} does not have messages of this kind`);
        it.data(data as Buffer);
      });
      socket.on('close', () => it.close());
    },
    send: (bytes) =>
      socket.send(bytes, { binary: encoding === 'msgpack' }, () => {
        if (socket.bufferedAmount === 0) events?.drain();
      }),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close: () => socket.close(),
    destroy: () => socket.terminate(),
  };
}
