/** The MCP server of the daemon: its connections, and notifications about changed tools. */
import type { Socket } from 'node:net';
import type { RpcError } from '../../base/errors.ts';
import type { Identify } from '../../gateway/authenticate.ts';
import { ConnectionShares } from '../../gateway/connections/shares.ts';
import type { McpMetrics } from '../../store/telemetry/conventions.ts';
import type { Tracer } from '../../store/telemetry/tracer.ts';
import type { RequestBudget } from '../../wire/protocol/peer.ts';
import type { ServingTurns } from '../../wire/protocol/serving-turns.ts';
import type { TcpAddress } from '../../wire/transport/tcp.ts';
import type { Listener } from '../../wire/transport/transport.ts';
import { WaitingRoom } from '../../wire/transport/waiting-room.ts';
import { McpConnection } from './connection.ts';
import type { HttpListener } from './http.ts';
import type { Monitor } from './monitor.ts';
import type { McpSessionParts } from './session.ts';
import { type HttpCaller, SharedSessions } from './shared-sessions.ts';
import { ToolLists } from './tools.ts';

export interface FaceParts extends McpSessionParts {
  readonly identify: Identify;
  /** Shared by everything that serves requests. */
  readonly turns: ServingTurns;
  readonly version: string;
  /** Counts the requests that ended. */
  readonly requests: McpMetrics;
  /** Undefined if calls are not traced. */
  readonly tracer: Tracer | undefined;
  /** The real path of a folder in one of the daemon's workspaces. Throws RpcError FORBIDDEN. */
  resolveWorkspace(path: string): { workspace: string };
}

export class McpFace {
  readonly #parts: FaceParts;
  readonly #connections = new Set<McpConnection>();
  readonly #shared: SharedSessions;
  readonly #lists = new ToolLists();
  readonly #stateKey: string;
  readonly #budget: RequestBudget = { bytes: 0 };
  readonly #shares: ConnectionShares;
  readonly #silent: WaitingRoom;
  #isGoingOver = false;
  #http: HttpListener | undefined;

  constructor(parts: FaceParts) {
    this.#parts = parts;
    this.#shared = new SharedSessions(parts);
    this.#shares = new ConnectionShares(parts.limits.mcpConnectionsMax, parts.limits);
    this.#silent = new WaitingRoom(parts.limits, parts.powers);
    this.#stateKey = parts.powers.secret();
  }

  /** Accepts a connection; if there are too many, answers with an error and closes. */
  accept(socket: Socket, caller: HttpCaller): void {
    let place: Disposable;
    try {
      place = this.#shares.take({ ...caller.identity, pid: caller.pid });
    } catch (thrown) {
      const error = (thrown as RpcError).toWire();
      socket.write(`${JSON.stringify({ jsonrpc: '2.0', id: null, error })}\n`, () => socket.destroy());
      return;
    }
    const connection = new McpConnection(socket, caller, {
      ...this.#parts,
      shared: this.#shared,
      lists: this.#lists,
      stateKey: this.#stateKey,
      budget: this.#budget,
      isGoingOver: () => this.#isGoingOver,
      onHeard: () => this.#silent.leave(socket),
      onEnd: (it) => {
        this.#silent.leave(socket);
        place[Symbol.dispose]();
        this.#connections.delete(it);
      },
    });
    this.#connections.add(connection);
    if (!this.#silent.enter(socket)) socket.destroy();
  }

  /** Also serves HTTP. Throws if the address is not available. */
  async listenHttp(address: TcpAddress, given: { readonly monitor: Monitor }): Promise<Listener> {
    const { listenHttp } = await import('./http.ts');
    const served = {
      shared: this.#shared,
      lists: this.#lists,
      stateKey: this.#stateKey,
      budget: this.#budget,
      ...given,
    };
    this.#http = await listenHttp(address, { ...this.#parts, ...served });
    return this.#http;
  }

  /** Notifies all clients after a change of policy, plugins or providers. */
  toolsChanged(): void {
    for (const it of this.#connections) it.toolsChanged();
    this.#http?.toolsChanged();
  }

  /** Number of clients that go over to a new daemon by themselves. */
  get bridges(): number {
    return [...this.#connections].filter((it) => it.isBridge).length;
  }

  /** Tells bridges to go over to a new daemon. */
  goOver(): void {
    this.#isGoingOver = true;
    for (const it of this.#connections) it.goOver();
  }

  async close(reason: string): Promise<void> {
    await Promise.all([...this.#connections].map((it) => it.close()));
    await this.#shared.end(reason);
  }
}
