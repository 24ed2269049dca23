/** The listeners of a daemon: its own protocol, MCP and WebSocket. */
import { closeSync } from 'node:fs';
import type { Server } from 'node:net';
import { RpcError } from '../base/errors.ts';
import type { Powers } from '../base/powers.ts';
import { panelFolder, version } from '../base/runtime.ts';
import { type ListenParts, listenMcp } from '../faces/mcp/listen.ts';
import { readPage } from '../faces/panel/page-files.ts';
import type { SignIn } from '../faces/panel/sign-in.ts';
import type { Credentials } from '../gateway/credentials.ts';
import type { Gateway } from '../gateway/gateway.ts';
import { webSocketOptions } from '../wire/protocol/websocket-options.ts';
import type { InheritedSockets, SocketName } from '../wire/transport/inherited-sockets.ts';
import type { TcpAddress } from '../wire/transport/tcp.ts';
import type { Channel, Listener } from '../wire/transport/transport.ts';
import { listenUnix } from '../wire/transport/unix-socket.ts';
import type { Config } from './config.ts';
import type { Workspaces } from './workspaces.ts';

interface ListenContext extends Pick<ListenParts, 'powers' | 'catalogue' | 'events' | 'turns' | 'tracer'> {
  readonly config: Config;
  readonly sockets: InheritedSockets;
  readonly credentials: Credentials;
  readonly gateway: Gateway;
  readonly workspaces: Workspaces;
  readonly signIn: SignIn;
  /** The name of the panel's origin; a daemon that takes no panel over signs all pages out, and has another name. */
  readonly panelSessions: { readonly host: string; startAfresh(): void };
}

export class Listeners implements AsyncDisposable {
  readonly #all = new Map<SocketName, Listener>();
  #context: ListenContext | undefined;
  #panel: Promise<Listener> | undefined;
  /** The name of the panel's origin, and others that an operator asked for. */
  readonly #panelNames = new Set<string>();

  get addresses(): string[] {
    return [...this.#all.values()].map((it) => it.address);
  }

  get servers(): ReadonlyMap<SocketName, Server> {
    return new Map([...this.#all].map(([name, { server }]) => [name, server]));
  }

  /** Starts the listeners of the config. If one fails, those before it are closed. */
  async start(context: ListenContext): Promise<void> {
    const { config, sockets, gateway, workspaces, credentials, signIn: _, panelSessions, ...parts } = context;
    const { identify, mayReadMetrics } = credentials;
    this.#context = context;
    const { dirs, limits, listen, listenHttp } = config;
    const accept = (channel: Channel) => gateway.accept(channel);
    const isToken = (it: string) => identify(it) !== undefined;
    const add = (name: SocketName, listener: Listener) => void this.#all.set(name, listener);
    add(
      'control',
      await listenUnix(dirs.socket, accept, { fd: sockets.control, isKept: sockets.kept.includes('control') }),
    );
    const face = {
      ...parts,
      identify,
      monitor: { mayRead: mayReadMetrics, metrics: () => gateway.metrics.text(), unready: () => gateway.unready },
      requests: gateway.metrics.mcp,
      version,
      limits,
      http: listenHttp && { ...listenHttp, fd: sockets.http },
      socket: dirs.mcpSocket,
      sockets,
      openSession: gateway.openSession.bind(gateway),
      resolveWorkspace: (path: string) => workspaces.resolve(path),
    };
    await listenMcp(face, add);
    if (listen) {
      // Loaded only on demand: with node:http it takes 17 MiB and 50 ms.
      const { listenWebSocket } = await import('../wire/transport/websocket.ts');
      const address = { ...listen, fd: sockets.websocket };
      const options = webSocketOptions(address, isToken, { limits, powers: parts.powers });
      add('websocket', await listenWebSocket(options, accept));
    }
    // The previous daemon listened there, but config.yaml no longer names it.
    for (const name of ['http', 'websocket'] as const)
      if (sockets[name] !== undefined && !this.#all.has(name)) closeSync(sockets[name]);
    if (sockets.panel !== undefined) await this.#takeOverPanel(sockets.panel, parts.powers);
    else panelSessions.startAfresh();
  }

  /** Serves the panel if it is not served yet; gives its URL, by `host` as well if that is given. Throws RpcError. */
  async openPanel(port = 0, host?: string): Promise<string> {
    this.#panel ??= this.#listenPanel({ host: '127.0.0.1', port });
    const { address } = await this.#panel.catch((error: Error) => {
      this.#panel = undefined;
      if (error instanceof RpcError) throw error;
      throw new RpcError('INVALID_PARAMS', `the panel can't be served at port ${port}: ${error.message}`);
    });
    const { port: served } = new URL(address);
    if (port !== 0 && Number(served) !== port)
      throw new RpcError('INVALID_PARAMS', `the panel is already served at port ${served}, and stays there`);
    if (host === undefined) return address;
    this.#panelNames.add(host);
    return `http://${host}:${served}/`;
  }

  async #listenPanel(address: TcpAddress): Promise<Listener> {
    if (!this.#context) throw new RpcError('NOT_READY', 'the daemon is starting');
    const { config, credentials, gateway, powers, signIn, panelSessions } = this.#context;
    this.#panelNames.add(panelSessions.host);
    const files = readPage(panelFolder);
    const { listenPanel } = await import('../faces/panel/listen.ts');
    const options = webSocketOptions(address, (it) => credentials.identify(it) !== undefined, {
      limits: config.limits,
      powers,
    });
    const listener = await listenPanel({ ...options, files, signIn, names: this.#panelNames }, (channel) =>
      gateway.accept(channel),
    );
    this.#all.set('panel', listener);
    return listener;
  }

  /** Goes on serving pages that the daemon before has signed in; without the panel, the daemon starts all the same. */
  async #takeOverPanel(fd: number, powers: Powers): Promise<void> {
    this.#panel = this.#listenPanel({ host: '127.0.0.1', port: 0, fd });
    await this.#panel.catch((error: Error) => {
      this.#panel = undefined;
      powers.log.warn({ reason: error.message }, 'the panel is not served any more');
      closeSync(fd);
    });
  }

  /** Accepts no further connections, and tells clients to go over to a new daemon. */
  goOver(): void {
    for (const it of this.#all.values()) {
      it.server.close();
      it.goOver?.();
    }
  }

  /** Number of clients that go over by themselves, and have not yet. */
  get stayers(): number {
    return [...this.#all.values()].reduce((sum, { stayers = 0 }) => sum + stayers, 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#all.values()].map((it) => it[Symbol.asyncDispose]()));
  }
}
