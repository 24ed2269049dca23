/**
 * The HTTP side of the proxy: CONNECT, and requests with an absolute URL. Node's parser reads both directions and everything is serialised
 * again, so that no two parsers can read one message differently. Connections close after one answer.
 */
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Limits } from '../../base/limits.ts';
import { type Destination, toHostName } from '../../policy/network.ts';
import { type ConnectionGuard, ConnectionRefused, showDestination } from './connection-guard.ts';
import type { RemoteKey } from './messages.ts';
import { plainIndex } from './plain-index.ts';
import { relay } from './relay.ts';
import { secured } from './secured.ts';

/** The guard of a connection's command. */
export interface ProxyClient {
  readonly guard: ConnectionGuard;
  readonly keys: readonly RemoteKey[];
  /** The pipe to a program of the gateway's, or from a program to the command that it serves; undefined for other destinations. */
  pipeTo(to: Destination): Promise<Duplex> | undefined;
  /** Called when the request has been parsed. */
  readonly onParsed: () => void;
}

/** A server without a port: connections are passed to it, each known to `clientOf`. */
export function createHttp(clientOf: (socket: Socket) => ProxyClient | undefined, limits: Limits): Server {
  const server = createServer({ maxHeaderSize: limits.egressHeaderBytesMax, keepAlive: false });
  /** Connections that have sent a request. What they send behind it is not served: they close after its answer. */
  const served = new WeakSet<Socket>();
  server.on('request', (incoming, response) => {
    if (served.has(incoming.socket)) return;
    served.add(incoming.socket);
    const client = clientOf(incoming.socket);
    client?.onParsed();
    // A server may send what Node refuses to write.
    if (client) forward(incoming, response, { ...client, limits }).catch(() => response.destroy());
  });
  server.on('connect', (incoming, socket: Socket, head: Buffer) => {
    if (served.has(socket)) return void socket.destroy();
    const client = clientOf(socket);
    client?.onParsed();
    if (client) tunnel(incoming, { ...client, socket, head }).catch(() => socket.destroy());
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const status = error.code === 'HPE_HEADER_OVERFLOW' ? '431 Request Header Fields Too Large' : '400 Bad Request';
    if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`);
    else socket.destroy();
  });
  return server;
}

async function tunnel(
  { url = '' }: IncomingMessage,
  { socket, head, guard, pipeTo }: ProxyClient & { socket: Socket; head: Buffer },
): Promise<void> {
  socket.on('error', () => {}); // ECONNRESET, EPIPE: the command is gone, and the relay handles the close.
  const to = destinationOf(url, 443);
  if (!to) return void socket.end(toRaw(400, `${url.slice(0, 80)} is no host:port`));
  try {
    const pipe = await pipeTo(to);
    const upstream = pipe ?? (await guard.connect(to, socket));
    if (socket.destroyed) return void upstream.destroy();
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
    const gate = pipe ? undefined : guard.gate(to, upstream as Socket);
    // Not put back to where it came from, which may have ended by now.
    (gate ?? upstream).write(head);
    relay(socket, upstream, gate);
  } catch (error) {
    socket.end(toRaw(statusOf(error), explain(error, to)));
  }
}

async function forward(
  incoming: IncomingMessage,
  response: ServerResponse,
  { guard, keys, limits }: ProxyClient & { limits: Limits },
): Promise<void> {
  response.shouldKeepAlive = false;
  incoming.on('error', () => {}); // The command is gone; the response closes.
  const refuse = (status: number, text: string) => {
    if (response.headersSent) response.destroy();
    else response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
  };
  const url = URL.parse(incoming.url ?? '');
  const to = url?.protocol === 'http:' ? destinationOf(url.host, 80) : undefined;
  if (!url || !to) return refuse(400, 'this is a proxy: it takes CONNECT, and http:// URLs');
  const key = keyFor(
    url.pathname,
    keys.filter((it) => it.host === to.host && it.port === to.port),
  );
  const isPublished = key?.publishes && incoming.method === 'PUT';
  if (key?.readsOnly && !isPublished && !['GET', 'HEAD'].includes(incoming.method ?? ''))
    return refuse(403, `Ringfence adds the key of ${to.host} to requests that read, and publishes nothing with it`);
  let upstream: Socket;
  try {
    const plain = await guard.connect(to, incoming.socket);
    upstream = key?.isTls ? await secured(plain, to.host) : plain;
  } catch (error) {
    return refuse(statusOf(error), explain(error, to));
  }
  if (response.destroyed) return void upstream.destroy();
  const outgoing = request({
    createConnection: () => upstream,
    method: incoming.method ?? 'GET',
    path: `${url.pathname}${url.search}`,
    // Taken from the URL rather than from the header: the server must not answer for a host that was not checked.
    headers: {
      ...endToEnd(incoming.headersDistinct),
      ...framingOf(incoming),
      ...(key && isBelow(url.pathname, key.path) && key.headers),
      ...(key?.index === url.pathname && { 'accept-encoding': 'identity' }),
      host: url.host,
      connection: 'close',
    },
    setHost: false,
    maxHeaderSize: limits.egressHeaderBytesMax,
  });
  outgoing.on('response', (answer) => {
    const status = answer.statusCode ?? 0;
    if (status < 200 || status > 599) return void outgoing.destroy(new Error('a status outside 200 to 599'));
    const { 'content-length': _, ...open } = endToEnd(answer.headersDistinct);
    answer.on('error', () => response.destroy());
    if (key?.index === url.pathname && status === 200) {
      response.writeHead(status, { ...open, connection: 'close' });
      return answer
        .pipe(plainIndex(url.host, limits))
        .on('error', () => response.destroy())
        .pipe(response);
    }
    response.writeHead(status, { ...endToEnd(answer.headersDistinct), connection: 'close' });
    return answer.pipe(response);
  });
  outgoing.on('error', () => refuse(502, `${showDestination(to)} broke off`));
  response.on('close', () => outgoing.destroy());
  const gate = guard.gate(to, upstream);
  if (gate) incoming.pipe(gate.on('error', () => outgoing.destroy())).pipe(outgoing);
  else incoming.pipe(outgoing);
}

/** The key of a host for a path: of several registries at one host the nearest above it. */
const keyFor = (path: string, keys: readonly RemoteKey[]): RemoteKey | undefined =>
  keys.filter((it) => isBelow(path, it.path)).toSorted((a, b) => b.path.length - a.path.length)[0] ?? keys[0];

/** Whether a path lies below another one, also for a server that decodes it first. */
function isBelow(path: string, folder: string): boolean {
  try {
    return path.startsWith(folder) && !decodeURIComponent(path).split(/[\\/]/).includes('..');
  } catch {
    return false; // URIError.
  }
}

/**
 * Headers that delimit the body of a request, as Node's parser understood it. Node adds them only for methods that usually have a body;
 * without them a server would read the body of a GET or DELETE as the next request, which was not checked.
 */
function framingOf({ headers }: IncomingMessage): Record<string, string> {
  if (headers['transfer-encoding'] !== undefined) return { 'transfer-encoding': 'chunked' };
  const length = headers['content-length'];
  return length === undefined ? {} : { 'content-length': length };
}

const HOP_BY_HOP = [
  ...['connection', 'keep-alive', 'proxy-authenticate', 'proxy-authorization', 'proxy-connection', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade', 'host'],
];

/** End-to-end headers, without those that `Connection` names. */
function endToEnd(headers: NodeJS.Dict<string[]>): Record<string, string[]> {
  const named = (headers.connection ?? []).flatMap((it) => it.toLowerCase().split(',')).map((it) => it.trim());
  const isOurs = (name: string) => HOP_BY_HOP.includes(name) || named.includes(name);
  const keptHeaders = Object.entries(headers).filter(([name, value]) => !isOurs(name) && value !== undefined);
  return Object.fromEntries(keptHeaders) as Record<string, string[]>;
}

function destinationOf(authority: string, defaultPort: number): Destination | undefined {
  const [, name = '', digits] = /^(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?$/.exec(authority) ?? [];
  const host = toHostName(name);
  const port = digits === undefined ? defaultPort : Number(digits);
  return host === undefined || port < 1 || port > 65_535 ? undefined : { host, port };
}

const statusOf = (error: unknown): number => (error instanceof ConnectionRefused ? 403 : 502);

function explain(error: unknown, to: Destination): string {
  const why = (error as Error).message;
  if (!(error instanceof ConnectionRefused)) return `Ringfence could not connect: ${why}`;
  const advice = 'Ask for it to be added to tiers.execute.network.allow of the policy.';
  return `Ringfence does not let this command connect to ${showDestination(to)}: ${why}. ${advice}`;
}

function toRaw(status: number, text: string): string {
  const reason = { 400: 'Bad Request', 403: 'Forbidden' }[status] ?? 'Bad Gateway';
  const body = `${text}\n`;
  const head = `Content-Type: text/plain; charset=utf-8\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close`;
  return `HTTP/1.1 ${status} ${reason}\r\n${head}\r\n\r\n${body}`;
}
