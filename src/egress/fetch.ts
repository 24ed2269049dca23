/** Makes one HTTP request of a call through a guard, for tools without a command. Also runs in the egress process. */
import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Limits } from '../limits.ts';
import { toHostName } from '../policy/network.ts';
import { type ConnectionGuard, ConnectionRefused } from './connection-guard.ts';
import type { HttpAnswer, HttpRequest } from './messages.ts';

/** The answer, or why there is none; never rejects. The connections end when the guard is closed. */
export async function fetchOnce(asked: HttpRequest, guard: ConnectionGuard, limits: Limits): Promise<HttpAnswer> {
  try {
    const url = new URL(asked.url);
    const incoming = await send(asked, await connectionTo(url, guard), { url, limits });
    return await answerOf(incoming, limits.httpBodyBytesMax);
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    return error instanceof ConnectionRefused
      ? { refused: message }
      : { failed: code ? `${code}: ${message}` : message };
  }
}

async function connectionTo({ hostname, port, protocol }: URL, guard: ConnectionGuard): Promise<Socket> {
  const isTls = protocol === 'https:';
  const host = toHostName(hostname);
  if (host === undefined) throw new ConnectionRefused(`${hostname} is not a host name or address`);
  const socket = await guard.connect({ host, port: Number(port) || (isTls ? 443 : 80) });
  if (!isTls) return socket;
  const isName = !/^[\d.]+$|:/.test(host);
  const secured = connectTls({ socket, ALPNProtocols: ['http/1.1'], ...(isName && { servername: host }) });
  await new Promise<void>((resolve, reject) => {
    secured.once('secureConnect', resolve);
    secured.once('error', reject);
    socket.once('close', () => reject(new Error('the connection was closed while it was secured')));
  });
  return secured;
}

/** Sends the request without reusing connections, following redirects or decoding the body. Rejects if no answer arrives. */
function send(
  { method, headers, body }: HttpRequest,
  socket: Socket,
  { url, limits }: { url: URL; limits: Limits },
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = request({
      createConnection: () => socket,
      method,
      path: `${url.pathname}${url.search}`,
      setHost: false,
      headers: {
        'user-agent': 'ringfence',
        ...headers,
        host: url.host,
        connection: 'close',
        'accept-encoding': 'identity',
        // Node sends it only for methods that usually have a body; without it a server would read the body as the next request.
        ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
      },
      maxHeaderSize: limits.egressHeaderBytesMax,
    });
    outgoing.once('response', resolve);
    outgoing.on('error', reject);
    socket.once('close', () => reject(new Error('the connection was closed before an answer came')));
    outgoing.end(body);
  });
}

/** Lowest valid status. Node accepts any three digits, but the gateway ends an egress process that reports less. */
const STATUS_MIN = 100;

async function answerOf(incoming: IncomingMessage, bytesMax: number): Promise<HttpAnswer> {
  const pieces: Buffer[] = [];
  let [bytes, truncated] = [0, false];
  for await (const piece of incoming as AsyncIterable<Buffer>) {
    pieces.push(piece);
    bytes += piece.length;
    truncated = bytes > bytesMax;
    if (truncated) break;
  }
  incoming.destroy();
  const { statusCode: status = 0 } = incoming;
  if (status < STATUS_MIN) throw new Error(`the server answered with the status ${status}, which there is not`);
  const headers = Object.entries(incoming.headersDistinct).map(([name, values]) => [name, values?.join(', ') ?? '']);
  return {
    status,
    headers: Object.fromEntries(headers) as Record<string, string>,
    body: Buffer.concat(pieces).subarray(0, bytesMax),
    truncated,
  };
}
