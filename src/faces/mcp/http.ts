/**
 * MCP over HTTP on loopback, for clients that can't open a socket. Requests from browser pages of other origins, for rebound host names or
 * without a token are refused after their headers.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  type AuthInfo,
  createMcpHandler,
  isJsonContentType,
  type McpHttpHandler,
  type McpRequestContext,
} from '@modelcontextprotocol/server';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Identify, Identity } from '../../gateway/authenticate.ts';
import { ConnectionShares } from '../../gateway/connections/shares.ts';
import { decodeJson } from '../../wire/protocol/json.ts';
import type { RequestBudget } from '../../wire/protocol/peer.ts';
import { bearerOf, isLoopback, isOwnHost, isOwnOrigin, pathOf } from '../../wire/transport/loopback.ts';
import { listenTcp, type TcpAddress } from '../../wire/transport/tcp.ts';
import type { Listener } from '../../wire/transport/transport.ts';
import { WaitingRoom } from '../../wire/transport/waiting-room.ts';
import { answerMonitor, isMonitorPath, type Monitor, type MonitorPath } from './monitor.ts';
import { choiceOf, type OpeningOptions, parseOpening } from './opening-options.ts';
import { createServer as createMcpServer, type ServerParts } from './server.ts';
import type { SharedSessions } from './shared-sessions.ts';

export interface HttpParts extends ServerParts {
  readonly shared: SharedSessions;
  readonly identify: Identify;
  readonly monitor: Monitor;
  /** Bytes of pending requests; bounded by requestBytesMax over all connections. */
  readonly budget: RequestBudget;
}

export interface HttpListener extends Listener {
  toolsChanged(): void;
}

const PATH = '/mcp';

/** Listens for MCP over HTTP. Throws if the address is not on loopback or the port is taken. */
export async function listenHttp(address: TcpAddress, parts: HttpParts): Promise<HttpListener> {
  const { limits, powers } = parts;
  const { host } = address;
  if (!isLoopback(host))
    throw new Error(`--listen-http must be a loopback address (127.0.0.1, ::1, localhost), not ${host}`);
  const handler = createMcpHandler((context) => serve(context, parts), {
    maxRequestBodySize: limits.mcpMessageBytesMax,
    maxSubscriptions: limits.subscriptionsMax,
    onerror: ({ message }) => powers.log.debug({ reason: message }, 'error in an MCP request over HTTP'),
  });
  const server = createServer({ requestTimeout: limits.frameIdleMs, headersTimeout: limits.helloTimeoutMs });
  const room = new WaitingRoom(limits, powers);
  const shares = new ConnectionShares(limits.mcpConnectionsMax, limits);
  const held = new Map<Socket, Disposable>();
  server.on('connection', (socket) => {
    if (!room.enter(socket)) socket.destroy();
    socket.once('close', () => {
      room.leave(socket);
      held.get(socket)?.[Symbol.dispose]();
      held.delete(socket);
    });
  });
  /** Assigns the connection to the identity of its first request. Throws RpcError OVERLOADED. */
  const admit = ({ socket }: IncomingMessage, identity: Identity) => {
    if (!held.has(socket) && !socket.destroyed) held.set(socket, shares.take(identity));
    room.leave(socket);
  };
  const bound = await listenTcp(server, address);
  const answer = toNodeHandler(handler);
  const underWay = new Map<Socket, number>();
  server.on('request', (request, response) => {
    // Clients wait for an answer before the next request; a client that does not would pile up requests.
    if (!mayBegin(underWay, response, limits)) return;
    void receive(request, response, { ...parts, admit, port: bound.port }).then(
      (it) =>
        'path' in it
          ? answerMonitor(request, response, { ...it, monitor: parts.monitor })
          : answer(Object.assign(request, { auth: it.auth }) as Parameters<typeof answer>[0], response, it.body),
      (error: unknown) =>
        refuse(response, error instanceof HttpRefusal ? error : new HttpRefusal(400, (error as Error).message)),
    );
  });
  const shown = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  return {
    address: `http://${shown}:${bound.port}${PATH}`,
    server,
    toolsChanged: () => handler.notify.toolsChanged(),
    [Symbol.asyncDispose]: () => close(server, handler),
  };
}

async function close(server: Server, handler: McpHttpHandler): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  await handler.close();
  server.closeAllConnections();
  await closed;
}

/** Counts pending requests of a connection; closes a connection with too many. */
function mayBegin(underWay: Map<Socket, number>, response: ServerResponse, { mcpRequestsMax }: Limits): boolean {
  const { socket } = response.req;
  const count = (underWay.get(socket) ?? 0) + 1;
  underWay.set(socket, count);
  response.once('close', () => {
    const left = (underWay.get(socket) ?? 1) - 1;
    if (left > 0) underWay.set(socket, left);
    else underWay.delete(socket);
  });
  if (count > mcpRequestsMax) socket.destroy();
  return count <= mcpRequestsMax;
}

/** An HTTP status and message for a client that is not served. */
class HttpRefusal extends Error {
  readonly status: number;
  readonly headers: Record<string, string>;

  constructor(status: number, message: string, headers: Record<string, string> = {}) {
    super(message);
    this.status = status;
    this.headers = headers;
  }
}

interface AuthenticatedBody {
  readonly auth: AuthInfo;
  readonly body: unknown;
}

interface ReceiveParts extends Pick<HttpParts, 'limits' | 'identify' | 'budget' | 'monitor'> {
  readonly port: number;
  /** Throws RpcError OVERLOADED. */
  admit(request: IncomingMessage, identity: Identity): void;
}

/**
 * Authenticates a request, and reads its body unless it goes to a path of monitoring. Throws HttpRefusal, and RpcError
 * for a body that is no message.
 */
async function receive(
  request: IncomingMessage,
  response: ServerResponse,
  parts: ReceiveParts,
): Promise<AuthenticatedBody | { readonly path: MonitorPath }> {
  const { port, limits, identify, budget } = parts;
  const { headers, method } = request;
  if (!isOwnHost(headers.host, port) || !isOwnOrigin(headers.origin, port))
    throw new HttpRefusal(
      403,
      'this host or origin is not served: requests must come from this machine, and not from a page of another host',
    );
  const path = pathOf(request);
  if (isMonitorPath(path)) {
    if (path === '/metrics') admitMonitor(request, parts);
    return { path };
  }
  if (path !== PATH) throw new HttpRefusal(404, `there is nothing here; MCP is at ${PATH}`);
  const token = bearerOf(request);
  const identity = token === undefined ? undefined : identify(token);
  if (!token || !identity) throw unauthenticated(token, 'agent.token');
  admitted(request, identity, parts);
  const auth = { token, clientId: identity.principal, scopes: [], extra: { identity } };
  const isMessage = method === 'POST' && isJsonContentType(headers['content-type']);
  return {
    auth,
    body: isMessage ? decodeJson(await bodyOf(request, response, { limits, budget }), limits) : undefined,
  };
}

/** Throws HttpRefusal for a token that may not read metrics. */
function admitMonitor(request: IncomingMessage, parts: ReceiveParts): void {
  const token = bearerOf(request);
  if (token === undefined || !parts.monitor.mayRead(token)) throw unauthenticated(token, 'metrics.token');
  admitted(request, { role: 'agent', principal: 'metrics' }, parts);
}

const unauthenticated = (token: string | undefined, file: string) =>
  new HttpRefusal(401, `a token is needed, as Authorization: Bearer; ${file} in the state directory has one`, {
    'www-authenticate': `Bearer realm="ringfence"${token === undefined ? '' : ', error="invalid_token"'}`,
  });

/** Gives the connection a place. Throws HttpRefusal if there is none. */
function admitted(request: IncomingMessage, identity: Identity, { admit }: ReceiveParts): void {
  try {
    admit(request, identity);
  } catch (error) {
    throw new HttpRefusal(503, (error as Error).message, { connection: 'close' });
  }
}

/**
 * Reads a body; its bytes count until the request is answered. Throws HttpRefusal if the body is too long, or too large together with all
 * pending requests.
 */
async function bodyOf(
  request: IncomingMessage,
  response: ServerResponse,
  { limits, budget }: Pick<HttpParts, 'limits' | 'budget'>,
): Promise<Buffer> {
  const { mcpMessageBytesMax: max, requestBytesMax } = limits;
  const pieces: Buffer[] = [];
  let length = 0;
  response.once('close', () => {
    budget.bytes -= length;
  });
  for await (const piece of request as AsyncIterable<Buffer>) {
    if (response.closed) throw new HttpRefusal(400, 'the client is gone');
    length += piece.length;
    budget.bytes += piece.length;
    if (length > max) throw new HttpRefusal(413, `a body over the bound of ${max} bytes`, { connection: 'close' });
    if (budget.bytes > requestBytesMax)
      throw new HttpRefusal(503, `requests under way of all connections hold over ${requestBytesMax} bytes`, {
        connection: 'close',
      });
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

function refuse(response: ServerResponse, { status, message, headers }: HttpRefusal): void {
  const code = status === 400 ? -32700 : -32_000;
  const body = JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } });
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
}

/** A server for one request: the token determines the identity, the URL the session. */
function serve({ era, authInfo, requestInfo }: McpRequestContext, parts: HttpParts) {
  const identity = authInfo?.extra?.identity as Identity;
  // Other callers could not answer questions: only a holder of the operator's token may.
  const mayAnswer = identity.role === 'operator';
  let read: OpeningOptions | undefined;
  const opening = () => {
    read ??= openingOf(new URL(requestInfo?.url ?? '', 'http://localhost').searchParams);
    return read;
  };
  const caller = { identity, uid: undefined, mayAnswer };
  return createMcpServer(
    {
      era,
      mayAnswer,
      principal: identity.principal,
      choice: () => choiceOf(opening()),
      use: async (context, work) => parts.shared.use({ opening: opening(), caller, context }, work),
    },
    parts,
  );
}

/** Parses `?workspace=/abs&tools=a,b&readOnly=true&policy=name`. Throws RpcError INVALID_PARAMS. */
function openingOf(query: URLSearchParams): OpeningOptions {
  const { tools, readOnly, ...others } = Object.fromEntries(query);
  if (readOnly !== undefined && readOnly !== 'true' && readOnly !== 'false')
    throw new RpcError('INVALID_PARAMS', `readOnly must be true or false, not ${readOnly.slice(0, 32)}`);
  return parseOpening({
    ...others,
    ...(tools !== undefined && { tools: tools.split(',') }),
    ...(readOnly !== undefined && { readOnly: readOnly === 'true' }),
  });
}
