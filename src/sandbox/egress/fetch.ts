/** Makes one HTTP request of a call through a guard, for tools without a command. Also runs in the egress process. */
import { type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';

import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { toHostName } from '../../policy/network.ts';
import { type ConnectionGuard, ConnectionRefused } from './connection-guard.ts';
import { decoded } from './content-encoding.ts';
import type { HttpRequest } from './messages.ts';
import type { HttpAnswer, HttpResponse } from './proxy-messages.ts';
import { secured } from './secured.ts';

export interface FetchParts {
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'after'>;
}

/** The answer, or why there is none; never rejects. The connections end when the guard is closed. */
export async function fetchOnce(
  asked: HttpRequest,
  guard: ConnectionGuard,
  { limits, powers }: FetchParts,
): Promise<HttpAnswer> {
  const { withinMs, idleMs } = asked;
  const late = Promise.withResolvers<HttpAnswer>();
  const ending = new AbortController();
  const end = (why: string) => {
    ending.abort();
    late.resolve({ late: why });
  };
  const timer = powers.after(withinMs, () => end(`it took longer than ${withinMs} ms`));
  const listen = () =>
    idleMs === undefined ? undefined : powers.after(idleMs, () => end(`nothing came for ${idleMs} ms`));
  let silence = listen();
  const onPiece = () => {
    silence?.cancel();
    silence = listen();
  };
  try {
    return await Promise.race([exchange(asked, guard, { limits, signal: ending.signal, onPiece }), late.promise]);
  } finally {
    timer.cancel();
    silence?.cancel();
  }
}

interface ExchangeParts {
  readonly limits: Limits;
  readonly signal: AbortSignal;
  /** Called for each piece of the body. */
  onPiece(): void;
}

async function exchange(
  asked: HttpRequest,
  guard: ConnectionGuard,
  { limits, signal, onPiece }: ExchangeParts,
): Promise<HttpAnswer> {
  try {
    const url = new URL(asked.url);
    const incoming = await send(asked, await connectionTo(url, guard, asked.ca), { url, limits, signal });
    return await responseOf(incoming, asked, { limits, onPiece });
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    return error instanceof ConnectionRefused
      ? { refused: message }
      : { failed: code ? `${code}: ${message}` : message };
  }
}

async function connectionTo(
  { hostname, port, protocol }: URL,
  guard: ConnectionGuard,
  ca: string | undefined,
): Promise<Socket> {
  const isTls = protocol === 'https:';
  const host = toHostName(hostname);
  if (host === undefined) throw new ConnectionRefused(`${hostname} is not a host name or address`);
  const socket = await guard.connect({ host, port: Number(port) || (isTls ? 443 : 80) });
  if (!isTls) return socket;
  return await secured(socket, host, ca);
}

/** Sends the request without reusing connections or following redirects. Rejects if no answer arrives. */
function send(
  { method, headers, body }: HttpRequest,
  socket: Socket,
  { url, limits, signal }: { url: URL; limits: Limits; signal: AbortSignal },
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const outgoing = request({
      createConnection: () => socket,
      method,
      path: `${url.pathname}${url.search}`,
      setHost: false,
      headers: {
        'user-agent': 'ringfence',
        'accept-encoding': 'gzip, deflate, br, zstd',
        ...headers,
        host: url.host,
        connection: 'close',
        // Node sends it only for methods that usually have a body; without it a server would read the body as the next request.
        ...(body !== undefined && { 'content-length': Buffer.byteLength(body) }),
      },
      maxHeaderSize: limits.egressHeaderBytesMax,
      signal,
    });
    let interim = 0;
    outgoing.on('information', () => {
      interim += 1;
      if (interim > INTERIM_MAX)
        outgoing.destroy(new Error(`the server sent more than ${INTERIM_MAX} interim answers`));
    });
    outgoing.once('response', resolve);
    outgoing.on('error', reject);
    socket.once('close', () => reject(new Error('the connection was closed before an answer came')));
    outgoing.end(body);
  });
}

/** Most answers with a status below 200 before the real one: a server can send them forever. */
const INTERIM_MAX = 16;

/** Lowest valid status. Node accepts any three digits, but the gateway ends an egress process that reports less. */
const STATUS_MIN = 100;

async function responseOf(
  incoming: IncomingMessage,
  { bytesMax }: HttpRequest,
  { limits, onPiece }: Pick<ExchangeParts, 'limits' | 'onPiece'>,
): Promise<HttpResponse> {
  const { statusCode: status = 0 } = incoming;
  if (status < STATUS_MIN) throw new Error(`the server answered with the status ${status}, which there is not`);
  const { body: stream, removed } = decoded(incoming, bytesMax, limits);
  const pieces: Uint8Array[] = [];
  let [bytes, truncated] = [0, false];
  for await (const piece of stream) {
    pieces.push(piece);
    onPiece();
    bytes += piece.length;
    truncated = bytes > bytesMax;
    if (truncated) break;
  }
  incoming.destroy();
  const headers = Object.entries(incoming.headersDistinct)
    .filter(([name]) => !removed.includes(name))
    .map(([name, values]) => [name, values?.join(', ') ?? '']);
  return {
    status,
    headers: Object.fromEntries(headers) as Record<string, string>,
    body: Buffer.concat(pieces).subarray(0, bytesMax),
    truncated,
  };
}
