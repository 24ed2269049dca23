/** One connection to mcp.sock: its caller, its protocol era, and the session of its requests. */
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import {
  PROTOCOL_VERSION_META_KEY,
  type Server,
  type ServerContext,
  UnsupportedProtocolVersionError,
} from '@modelcontextprotocol/server';
import { type StdioServerHandle, serveStdio } from '@modelcontextprotocol/server/stdio';
import { RpcError } from '../../base/errors.ts';
import type { Identify } from '../../gateway/authenticate.ts';
import type { Approval, Resolution } from '../../store/approvals/approval.ts';
import type { RequestBudget } from '../../wire/protocol/peer.ts';
import type { ServingTurns } from '../../wire/protocol/serving-turns.ts';
import { CLOSING_METHOD, OPEN_METHOD, UPGRADE } from './bridge-messages.ts';
import { choiceOf, folderOf, type OpeningOptions, PLAIN_OPENING, parseOpening } from './opening-options.ts';
import { toForm, toResolution } from './question.ts';
import { asksByForm, createServer, type ServedClient, type ServerParts } from './server.ts';
import { McpSession, type McpSessionParts } from './session.ts';
import { type HttpCaller, named, type SharedSessions } from './shared-sessions.ts';
import { SocketTransport } from './socket-transport.ts';
import { partOf } from './tools.ts';

export interface ConnectionParts extends ServerParts, McpSessionParts {
  readonly identify: Identify;
  readonly shared: SharedSessions;
  readonly budget: RequestBudget;
  /** Shared by everything that serves requests. */
  readonly turns: ServingTurns;
  /** The real path of a folder in one of the daemon's workspaces. Throws RpcError FORBIDDEN. */
  resolveWorkspace(path: string): { workspace: string };
  /** Whether bridges are told to go over to a new daemon. */
  isGoingOver(): boolean;
  /** Called when the first message has arrived. */
  onHeard(): void;
  onEnd(connection: McpConnection): void;
}

const MODERN_VERSIONS = ['2026-07-28'];

interface Capabilities {
  readonly roots?: object;
  readonly elicitation?: object;
}

export class McpConnection {
  readonly #parts: ConnectionParts;
  #caller: HttpCaller;
  readonly #wire: SocketTransport;
  readonly #handle: StdioServerHandle;
  #opening: OpeningOptions = PLAIN_OPENING;
  /** Why requests of this connection can't be served. */
  #refusal: RpcError | undefined;
  #server: Server | undefined;
  /** The connection's own session, if it opened with `initialize`. */
  #session: Promise<McpSession> | undefined;
  /** Whether the client may receive notifications now. */
  #isReady = false;
  #isBridge = false;

  constructor(socket: Socket, caller: HttpCaller, parts: ConnectionParts) {
    this.#parts = parts;
    this.#caller = caller;
    const { limits, powers, budget, turns } = parts;
    this.#wire = new SocketTransport(socket, {
      limits,
      powers,
      budget,
      turns,
      intercept: (message, isFirst) => this.#intercept(message, isFirst),
      onDrain: () => void this.#session?.then((it) => it.drained()).catch(() => {}), // The session was never opened.
      onEnd: () => this.#onEnded(),
    });
    this.#handle = serveStdio(({ era }) => this.#serve(era), {
      transport: this.#wire,
      maxSubscriptions: limits.subscriptionsMax,
      onerror: ({ message }) => powers.log.debug({ reason: message }, 'error on an MCP connection'),
    });
  }

  /** Notifies the client that its list of tools may have changed. */
  toolsChanged(): void {
    // The connection may end meanwhile.
    if (this.#isReady) void this.#server?.sendToolListChanged().catch(() => {});
  }

  /** Whether the client is a bridge, which goes over to a new daemon. */
  get isBridge(): boolean {
    return this.#isBridge;
  }

  /** Tells a bridge to go over to a new daemon when its requests are answered. */
  goOver(): void {
    const notice = { jsonrpc: '2.0', method: CLOSING_METHOD, params: { reason: UPGRADE } } as const;
    if (this.#isBridge) void this.#wire.send(notice);
  }

  /** Closes after everything answered is written. */
  async close(): Promise<void> {
    await this.#handle.close();
  }

  #serve(era: ServedClient['era']): Server {
    const { identity, mayAnswer } = this.#caller;
    const server = createServer(
      {
        era,
        mayAnswer,
        principal: identity.principal,
        choice: () => choiceOf(this.#opening),
        use: (context, work) =>
          this.#wire.hold(context.mcpReq.id, async () =>
            era === 'legacy' || identity.fence ? work(await this.#ownSession()) : this.#useShared(context, work),
          ),
      },
      this.#parts,
    );
    this.#isReady = era === 'modern';
    server.oninitialized = () => {
      this.#isReady = true;
    };
    this.#server = server;
    return server;
  }

  #useShared<T>(context: ServerContext, work: (session: McpSession) => Promise<T>): Promise<T> {
    if (this.#refusal) throw this.#refusal;
    return this.#parts.shared.use({ opening: this.#opening, caller: this.#caller, context }, work);
  }

  /** The connection's own session; opened on first use, since the client may still name its workspace. */
  #ownSession(): Promise<McpSession> {
    this.#session ??= this.#open().catch((error: unknown) => {
      this.#session = undefined;
      throw error;
    });
    return this.#session;
  }

  async #open(): Promise<McpSession> {
    if (this.#refusal) throw this.#refusal;
    const { resolveWorkspace } = this.#parts;
    const { identity, uid, mayAnswer } = this.#caller;
    const capabilities = this.#server?.getClientCapabilities() as Capabilities | undefined;
    const roots = capabilities?.roots && this.#asksRoots ? await this.#roots() : [];
    const asks = mayAnswer && asksByForm(capabilities?.elicitation);
    const session = new McpSession(
      {
        identity,
        uid,
        asks,
        client: named(this.#server?.getClientVersion()),
        workspace: folderOf(this.#opening, roots, resolveWorkspace),
        policy: this.#opening.policy,
        mode: this.#opening.mode,
        has: partOf(choiceOf(this.#opening)),
        ...(asks && { ask: (approval: Approval, signal: AbortSignal) => this.#ask(approval, signal) }),
        congested: () => this.#wire.congested,
        onClosed: () => void this.close(),
      },
      this.#parts,
    );
    if (this.#wire.closed) void session.end('its connection ended');
    return session;
  }

  /** Folders that the client has open; none if it does not answer in time. */
  async #roots(): Promise<string[]> {
    try {
      const { roots = [] } = (await this.#server?.listRoots({}, { timeout: this.#parts.limits.mcpRootsMs })) ?? {};
      return roots.slice(0, ROOTS_MAX).flatMap(({ uri }) => (uri.startsWith('file://') ? [fileURLToPath(uri)] : []));
    } catch (error) {
      this.#parts.powers.log.info({ reason: (error as Error).message }, 'an MCP client did not name its roots');
      return [];
    }
  }

  async #ask(approval: Approval, signal: AbortSignal): Promise<Omit<Resolution, 'by'> | undefined> {
    const nowMs = this.#parts.powers.now();
    const timeout = Math.max(1, Date.parse(approval.expiresAt) - nowMs);
    const params = { ...toForm(approval, nowMs) };
    const answer = await this.#server?.request({ method: 'elicitation/create', params }, { signal, timeout });
    return answer && toResolution(answer as Parameters<typeof toResolution>[0], approval);
  }

  #intercept(message: Record<string, unknown>, isFirst: boolean): boolean {
    if (isFirst) this.#parts.onHeard();
    const { method } = message;
    const params = message.params as Record<string, unknown> | undefined;
    if (method === OPEN_METHOD) {
      this.#setOpening(params, isFirst);
      return true;
    }
    const meta = params?._meta as Record<string, unknown> | undefined;
    const requested = meta?.[PROTOCOL_VERSION_META_KEY];
    // The SDK checks only the first message.
    if (typeof requested === 'string' && !MODERN_VERSIONS.includes(requested))
      throw new UnsupportedProtocolVersionError({ supported: MODERN_VERSIONS, requested });
    if (method === 'initialize') this.#assertServable(params?.capabilities as Capabilities | undefined);
    return false;
  }

  /** Throws if the client can't be served, so that the answer to its first request, which it shows to its person, says why. */
  #assertServable(capabilities: Capabilities | undefined): void {
    if (this.#refusal) throw this.#refusal;
    if (!capabilities?.roots || !this.#asksRoots) folderOf(this.#opening, [], this.#parts.resolveWorkspace);
  }

  /** Whether the client's roots may determine the workspace. Those of a client on another machine are not here. */
  get #asksRoots(): boolean {
    return this.#opening.workspace === undefined && !this.#caller.identity.fence;
  }

  #setOpening(params: unknown, isFirst: boolean): void {
    try {
      if (!isFirst) throw new RpcError('INVALID_REQUEST', `${OPEN_METHOD} must be the first request`);
      this.#isBridge = true;
      if (this.#parts.isGoingOver()) this.goOver();
      const { token, ...options } = (params ?? {}) as { readonly token?: unknown };
      if (token !== undefined) this.#caller = this.#placedBy(token);
      this.#opening = parseOpening(options);
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      this.#refusal = error;
    }
  }

  /**
   * The caller of a session that a fleet has placed here. Throws RpcError UNAUTHENTICATED for any other token, so that
   * none gives more than the socket does.
   */
  #placedBy(token: unknown): HttpCaller {
    const identity = typeof token === 'string' ? this.#parts.identify(token) : undefined;
    if (!identity?.fence) throw new RpcError('UNAUTHENTICATED', 'this token is not one of a session of the fleet');
    // The person at another machine is not the one of this daemon.
    return { identity, uid: this.#caller.uid, mayAnswer: false };
  }

  #onEnded(): void {
    void this.#session?.then((it) => it.end('its connection ended')).catch(() => {}); // The session was never opened.
    this.#parts.onEnd(this);
  }
}

const ROOTS_MAX = 16;
