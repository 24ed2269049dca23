/** A client's connection to the daemon: one at a time, reopened when it ends, with its session resumed if the session waits. */
import type { CallOptions, ToolResult } from '../base/call.ts';
import { RPC_CODES } from '../base/errors.ts';
import { defaultLimits } from '../base/limits.ts';
import { type Powers, pause } from '../base/powers.ts';
import { BEGINNING_METHODS } from '../wire/protocol/methods.ts';
import { Peer, RemoteError } from '../wire/protocol/peer.ts';
import type { Channel } from '../wire/transport/transport.ts';
import { connectUnix } from '../wire/transport/unix-socket.ts';
import { messageCodec } from './message-codec.ts';

export interface ClientOptions {
  /** Path of the daemon's socket. */
  readonly socket: string;
  /** Absolute path; the daemon's first workspace when absent. */
  readonly workspace?: string | undefined;
  readonly name?: string;
  readonly version?: string;
  readonly role?: 'agent' | 'operator';
  /** Operator token; needed for the role `operator`. */
  readonly token?: string;
  /** Name of a built-in policy that narrows the daemon's policy. */
  readonly policy?: string;
  /** Name of a mode that narrows tools and policy: `read`, `plan`, `code`, or one of the config. */
  readonly mode?: string | undefined;
  /** Sessions with the same name, principal and workspace share what was remembered for the session. */
  readonly sessionName?: string | undefined;
  /**
   * How long session and calls wait for this client after the connection ends, in milliseconds. The client then reconnects by itself and
   * continues: calls keep their results, and progress and notifications arrive exactly once. Without it, calls end with their connection.
   */
  readonly resumeMs?: number;
}

export interface Hello {
  protocol: number;
  server: { name: string; version: string };
  session: {
    id: string;
    secret: string;
    role: string;
    workspace: string;
    /** The node of a fleet on which a gateway has placed the session. */
    node?: string;
    /** Set where a fleet has made the workspace for the session. */
    placed?: { readonly name: string; readonly branch: string; readonly keptMs: number };
    policy: string;
    mode?: string;
    toolset: string[];
    /** How long the session waits for its client, as granted, in milliseconds. */
    resumeMs: number;
    /**
     * For a resumed session: the numbers of notices that were buffered and dropped (`results.read` still has dropped output), and of
     * subscriptions that go on; none if another daemon has taken over.
     */
    resumed?: { notices: number; dropped: number; subscriptions?: number };
  };
  confinement: { level: string; backend: string; cgroup: string; missing: string[] };
  limits: Record<string, unknown>;
}

/** A subscription of the client, which is made again at a daemon that does not know it. */
export interface Subscription {
  readonly topics: readonly string[];
  /** Called when it was made again: what happened meanwhile was missed. */
  missed(): void;
  /** Called when it could not be made again. */
  end(): void;
}

/** A session to resume. */
interface Resumption {
  readonly claim: { readonly sessionId: string; readonly secret: string };
  readonly workspace: string | undefined;
}

interface ConnectedPeer {
  readonly peer: Peer;
  readonly hello: Hello;
}

/** First and longest pause between attempts to reach a daemon, in milliseconds. */
const RETRY_MS = 20;
const RETRY_MS_MAX = 1000;
/** Longest time to keep trying while the daemon is too busy to accept a connection, in milliseconds. */
const REACH_MS_MAX = 5000;
/** Methods that are not repeated if it is unknown whether the daemon served them. */
const ONCE: ReadonlySet<string> = new Set([
  ...['tools.batch', 'approvals.resolve', 'events.subscribe', 'policy.reload', 'shutdown'],
]);

/** The reason of a daemon that hands over to a new one at the same socket. */
const UPGRADE = 'upgrade';

/** Whether a daemon that hands over refused the request before doing anything. */
const isMovedOn = (error: unknown): boolean =>
  error instanceof RemoteError && (error.data as { reason?: unknown } | undefined)?.reason === UPGRADE;

/** Whether a call was ended before it began, since its daemon hands over. A detached call keeps this result. */
function isNotBegun(method: string, params: unknown, result: unknown): boolean {
  if (method !== 'tools.call' || isDetached(params)) return false;
  const { error } = result as Partial<ToolResult & { success: false }>;
  return error?.code === 'SHUTTING_DOWN' && error.details?.reason === UPGRADE && error.details.begun === false;
}

const isDetached = (params: unknown): boolean => (params as { options?: CallOptions }).options?.detached === true;

export class ClientConnection implements AsyncDisposable {
  readonly #options: ClientOptions;
  readonly #powers: Powers;
  readonly #onNotification: (method: string, params: Record<string, unknown>) => void;
  #connection: Promise<ConnectedPeer>;
  #connected: ConnectedPeer | undefined;
  #reconnecting: Promise<ConnectedPeer> | undefined;
  /** The connection to a daemon that hands over, while it still answers. */
  #leaving: ConnectedPeer | undefined;
  readonly #subscriptions = new Set<Subscription>();
  #closed = false;
  #connectionEnd = Promise.withResolvers<void>();

  /** `hear` receives each notification. */
  constructor(options: ClientOptions, powers: Powers, hear: (method: string, params: Record<string, unknown>) => void) {
    this.#options = options;
    this.#powers = powers;
    this.#onNotification = hear;
    this.#connection = this.#connect();
    this.#connection.catch(() => {});
  }

  /** The daemon's answer to the hello of the current connection. */
  get hello(): Promise<Hello> {
    return this.#connection.then((it) => it.hello);
  }

  /**
   * Sends any request of docs/protocol.md. Reconnects if the connection has ended. A request that was running is repeated only if its
   * session was resumed (`resumeMs`) and repeating it has no second effect.
   */
  async request(method: string, params: unknown): Promise<unknown> {
    if (this.#closed) throw new Error('this client is closed');
    // Uses a live connection without waiting, so that requests keep their order.
    const connection = this.#openFor(method) ?? (await this.#connection.catch(() => this.#reconnect()));
    const isOver = connection.peer.closed || (connection === this.#leaving && BEGINNING_METHODS.has(method));
    const used = isOver ? await this.#reconnect() : connection;
    const { peer, hello } = used;
    try {
      const result = await peer.request(method, params);
      if (!isNotBegun(method, params, result)) return result;
      this.#moveOn(peer);
      return await this.request(method, params);
    } catch (error) {
      if (isMovedOn(error)) {
        this.#moveOn(peer);
        return await this.request(method, params);
      }
      if (error instanceof RemoteError || !peer.closed || this.#closed || !this.#resumeMs || ONCE.has(method))
        throw error;
      const again = await this.#reconnect();
      // In another session the call id is unused, so the call would run twice; a detached call keeps its id.
      if (again.hello.session.id !== hello.session.id && !isDetached(params)) throw error;
      return await this.request(method, params);
    } finally {
      this.#closeIfLeft();
    }
  }

  /** Subscribes until disposed. Rejects as `request` does. */
  async subscribe(subscription: Subscription): Promise<Disposable> {
    await this.request('events.subscribe', { topics: subscription.topics });
    this.#subscriptions.add(subscription);
    return { [Symbol.dispose]: () => void this.#subscriptions.delete(subscription) };
  }

  /** Settles when the current connection is over and its session is not resumed. */
  get ended(): Promise<void> {
    return this.#connectionEnd.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const connection = await this.#connection.catch(() => undefined);
    connection?.peer.close();
    this.#connectionEnd.resolve();
  }

  get #live(): ConnectedPeer | undefined {
    const it = this.#connected;
    return it && !it.peer.closed && it !== this.#leaving ? it : undefined;
  }

  /** An open connection for a request; what still runs at a daemon that hands over is known there only. */
  #openFor(method: string): ConnectedPeer | undefined {
    const isThere = this.#leaving?.peer.closed === false && !BEGINNING_METHODS.has(method);
    return isThere ? this.#leaving : this.#live;
  }

  /** Leaves a daemon that hands over: what begins from now on goes to the new one, which answers when this one has ended. */
  #moveOn(peer: Peer): void {
    if (this.#connected?.peer === peer) this.#leaving = this.#connected;
    this.#closeIfLeft();
  }

  #closeIfLeft(): void {
    if (this.#leaving && !this.#leaving.peer.awaits) this.#leaving.peer.close();
  }

  get #resumeMs(): number {
    return this.#options.resumeMs ?? 0;
  }

  #reconnect(): Promise<ConnectedPeer> {
    if (this.#live) return this.#connection;
    if (this.#reconnecting) return this.#reconnecting;
    const before = this.#connected;
    this.#connected = undefined;
    this.#connection = before && this.#resumeMs > 0 ? this.#resume(before.hello) : this.#connect();
    const made = this.#connection;
    this.#reconnecting = made;
    const settled = () => {
      this.#reconnecting = undefined;
    };
    made.then(settled, settled);
    return made;
  }

  /** Reconnects until the daemon is back, for as long as the session waits; opens a new session if the old one is gone. */
  async #resume({ session }: Hello): Promise<ConnectedPeer> {
    const { id: sessionId, secret, resumeMs, node } = session;
    // A gateway finds the session by its node.
    const workspace = node === undefined ? this.#options.workspace : `${node}:${session.workspace}`;
    const until = this.#powers.monotonicMs() + Math.max(resumeMs, this.#resumeMs);
    for (let pauseMs = RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, RETRY_MS_MAX)) {
      try {
        return await this.#connect({ claim: { sessionId, secret }, workspace });
      } catch (error) {
        if (error instanceof RemoteError && error.code === RPC_CODES.FORBIDDEN) return this.#connect();
        // The daemon may be shutting down or not started yet.
        const mayCome = !(error instanceof RemoteError) || error.code === RPC_CODES.OVERLOADED;
        if (!mayCome || this.#closed || this.#powers.monotonicMs() > until) throw error;
        await pause(pauseMs, this.#powers);
      }
    }
  }

  /** Handles the end of a connection: reconnects if its session waits, otherwise settles `ended`. */
  #onConnectionEnd(over: PromiseWithResolvers<void>): void {
    const before = this.#connected ?? this.#leaving;
    if (this.#closed || this.#resumeMs === 0 || !before) return over.resolve();
    const { id } = before.hello.session;
    this.#reconnect().then(
      ({ hello }) => {
        // Subscriptions belong to the session, so with another session they are over.
        if (hello.session.id !== id) over.resolve();
      },
      () => over.resolve(),
    );
  }

  /** Connects; retries while the kernel's queue of pending connections is full. */
  async #reach(socket: string): Promise<Channel> {
    const until = this.#powers.monotonicMs() + REACH_MS_MAX;
    for (;;) {
      try {
        return await connectUnix(socket);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || this.#powers.monotonicMs() > until) throw error;
        await pause(RETRY_MS, this.#powers);
      }
    }
  }

  /** Connects; again where a daemon says that it hands over, since the next connection is to the new one. */
  async #connect(resume?: Resumption): Promise<ConnectedPeer> {
    for (;;) {
      try {
        return await this.#connectOnce(resume);
      } catch (error) {
        if (!isMovedOn(error) || this.#closed) throw error;
      }
    }
  }

  /** Makes the subscriptions at a daemon that has taken over. Rejects if the connection ends. */
  async #subscribeAgain(peer: Peer): Promise<void> {
    for (const it of [...this.#subscriptions]) {
      try {
        await peer.request('events.subscribe', { topics: it.topics });
        it.missed();
      } catch (error) {
        if (!(error instanceof RemoteError)) throw error;
        // Its session may not hear of this any more.
        it.end();
      }
    }
  }

  async #connectOnce(resume?: Resumption): Promise<ConnectedPeer> {
    const {
      socket,
      workspace,
      role,
      token,
      policy,
      mode,
      sessionName,
      name = 'ringfence/client',
      version = '1',
    } = this.#options;
    const channel: Channel = await this.#reach(socket);
    const over = resume ? this.#connectionEnd : Promise.withResolvers<void>();
    this.#connectionEnd = over;
    let isRefused = false;
    let isLeft = false;
    const peer = new Peer(channel, {
      onClose: () => {
        if (!isRefused) this.#onConnectionEnd(over);
      },
      codec: messageCodec,
      limits: defaultLimits,
      powers: this.#powers,
      onNotification: (method, params) => {
        const told = (params ?? {}) as Record<string, unknown>;
        isLeft ||= method === 'session.closing' && told.reason === UPGRADE;
        if (isLeft) this.#moveOn(peer);
        this.#onNotification(method, told);
      },
    });
    const asked = peer.request('hello', {
      protocol: 1,
      client: { name, version },
      workspace: resume ? resume.workspace : workspace,
      role,
      token,
      policy,
      mode,
      sessionName,
      ...(this.#resumeMs > 0 && { resumeMs: this.#resumeMs }),
      resume: resume?.claim,
    });
    const hello = (await asked.catch((error: unknown) => {
      // Otherwise the daemon would wait for another hello, and this process would be kept alive by the connection.
      isRefused = true;
      peer.close();
      throw error;
    })) as Hello;
    const { frameBytesMax } = hello.limits;
    if (typeof frameBytesMax === 'number') peer.boundSending(frameBytesMax);
    if (hello.session.resumed?.subscriptions === 0) await this.#subscribeAgain(peer);
    this.#connected = { peer, hello };
    if (isLeft) this.#moveOn(peer);
    return this.#connected;
  }
}
