/** A client's way to the daemon: one connection at a time, made anew when it ends, and its session taken up again where that waits. */
import type { CallOptions } from '../call.ts';
import { RPC_CODES } from '../errors.ts';
import { defaultLimits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { Peer, RemoteError } from '../protocol/peer.ts';
import type { Channel } from '../transport/transport.ts';
import { connectUnix } from '../transport/unix-socket.ts';

export interface ClientOptions {
  /** Path of the daemon's socket. */
  readonly socket: string;
  /** Absolute path; the daemon's first workspace when absent. */
  readonly workspace?: string;
  readonly name?: string;
  readonly version?: string;
  readonly role?: 'agent' | 'operator';
  /** The operator's token, where the role is that. */
  readonly token?: string;
  /** Name of a built-in policy that narrows the daemon's. */
  readonly policy?: string;
  /** Sessions of one name, principal and workspace share what was remembered for the session. */
  readonly sessionName?: string;
  /**
   * How long session and calls wait for us when the connection ends. The client then connects again by itself and goes on: calls
   * keep their results, progress and notifications come, each once. Absent: calls end with their connection.
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
    policy: string;
    toolset: string[];
    /** How long it waits for us, as granted. */
    resumeMs: number;
    /** Of a session that was resumed: notices that were kept for us, and how many found no place (output: `results.read` has it). */
    resumed?: { notices: number; dropped: number };
  };
  confinement: { level: string; backend: string; cgroup: string; missing: string[] };
  limits: Record<string, unknown>;
}

interface Connected {
  readonly peer: Peer;
  readonly hello: Hello;
}

/** Between two attempts to reach a daemon that is not there. */
const RETRY_MS = 20;
const RETRY_MS_MAX = 1000;
/** How long a daemon may be too busy to take a connection. */
const REACH_MS_MAX = 5000;
/** Requests that are not repeated where nobody knows whether they were served. */
const ONCE: ReadonlySet<string> = new Set([
  ...['tools.batch', 'approvals.resolve', 'events.subscribe', 'policy.reload', 'shutdown'],
]);

const isDetached = (params: unknown): boolean => (params as { options?: CallOptions }).options?.detached === true;

export class Line implements AsyncDisposable {
  readonly #options: ClientOptions;
  readonly #powers: Powers;
  readonly #hear: (method: string, params: Record<string, unknown>) => void;
  #connection: Promise<Connected>;
  #connected: Connected | undefined;
  #reconnecting: Promise<Connected> | undefined;
  #closed = false;
  #over = Promise.withResolvers<void>();

  /** `hear` is told of each notification. */
  constructor(options: ClientOptions, powers: Powers, hear: (method: string, params: Record<string, unknown>) => void) {
    this.#options = options;
    this.#powers = powers;
    this.#hear = hear;
    this.#connection = this.#connect();
    this.#connection.catch(() => {});
  }

  /** What the daemon said to the hello of the present connection. */
  get hello(): Promise<Hello> {
    return this.#connection.then((it) => it.hello);
  }

  /**
   * Any request of docs/protocol.md. A connection that has ended is made anew; what was under way in it is not repeated, unless
   * its session was resumed (`resumeMs`) and repeating it does nothing twice.
   */
  async request(method: string, params: unknown): Promise<unknown> {
    if (this.#closed) throw new Error('this client is closed');
    // At once where it can be, so that requests keep their order.
    const connection = this.#live ?? (await this.#connection.catch(() => this.#reconnect()));
    const { peer, hello } = connection.peer.closed ? await this.#reconnect() : connection;
    try {
      return await peer.request(method, params);
    } catch (error) {
      if (error instanceof RemoteError || !peer.closed || this.#closed || !this.#resumeMs || ONCE.has(method))
        throw error;
      const again = await this.#reconnect();
      // In another session its id is free, so that it would run a second time; that of a detached call is not.
      if (again.hello.session.id !== hello.session.id && !isDetached(params)) throw error;
      return await this.request(method, params);
    }
  }

  /** Settles when the present connection is over, and its session is not resumed. */
  get ended(): Promise<void> {
    return this.#over.promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const connection = await this.#connection.catch(() => undefined);
    connection?.peer.close();
    this.#over.resolve();
  }

  get #live(): Connected | undefined {
    return this.#connected?.peer.closed === false ? this.#connected : undefined;
  }

  get #resumeMs(): number {
    return this.#options.resumeMs ?? 0;
  }

  #reconnect(): Promise<Connected> {
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

  /** Tries until the daemon is there, as long as it waits for us; a session that is gone is followed by another. */
  async #resume({ session }: Hello): Promise<Connected> {
    const { id: sessionId, secret, resumeMs } = session;
    const until = this.#powers.monotonicMs() + Math.max(resumeMs, this.#resumeMs);
    for (let pauseMs = RETRY_MS; ; pauseMs = Math.min(2 * pauseMs, RETRY_MS_MAX)) {
      try {
        return await this.#connect({ sessionId, secret });
      } catch (error) {
        if (error instanceof RemoteError && error.code === RPC_CODES.FORBIDDEN) return this.#connect();
        // The daemon may be on its way out, or not there yet.
        const mayCome = !(error instanceof RemoteError) || error.code === RPC_CODES.OVERLOADED;
        if (!mayCome || this.#closed || this.#powers.monotonicMs() > until) throw error;
        await new Promise<void>((resolve) => this.#powers.after(pauseMs, resolve));
      }
    }
  }

  /** A connection ended: the client goes on by itself where its session waits, else whoever listened is told. */
  #lost(over: PromiseWithResolvers<void>): void {
    if (this.#closed || this.#resumeMs === 0 || !this.#connected) return over.resolve();
    const { id } = this.#connected.hello.session;
    this.#reconnect().then(
      ({ hello }) => {
        // Subscriptions belong to the session.
        if (hello.session.id !== id) over.resolve();
      },
      () => over.resolve(),
    );
  }

  /** The daemon is there, and the kernel's queue of those that want to reach it may be full: others come in masses. */
  async #reach(socket: string): Promise<Channel> {
    const until = this.#powers.monotonicMs() + REACH_MS_MAX;
    for (;;) {
      try {
        return await connectUnix(socket);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || this.#powers.monotonicMs() > until) throw error;
        await new Promise<void>((resolve) => this.#powers.after(RETRY_MS, resolve));
      }
    }
  }

  async #connect(resume?: { sessionId: string; secret: string }): Promise<Connected> {
    const {
      socket,
      workspace,
      role,
      token,
      policy,
      sessionName,
      name = 'ringfence/client',
      version = '1',
    } = this.#options;
    const channel: Channel = await this.#reach(socket);
    const over = resume ? this.#over : Promise.withResolvers<void>();
    this.#over = over;
    let isRefused = false;
    const peer = new Peer(channel, {
      onClose: () => {
        if (!isRefused) this.#lost(over);
      },
      limits: { ...defaultLimits, messageElementsMax: 2 * defaultLimits.messageElementsMax },
      powers: this.#powers,
      onNotification: (method, params) => this.#hear(method, params as Record<string, unknown>),
    });
    const asked = peer.request('hello', {
      protocol: 1,
      client: { name, version },
      ...{ workspace, role, token, policy },
      ...(sessionName !== undefined && { sessionName }),
      ...(this.#resumeMs > 0 && { resumeMs: this.#resumeMs }),
      ...(resume && { resume }),
    });
    const hello = (await asked.catch((error: unknown) => {
      // The daemon would wait for another hello, and our process for it.
      isRefused = true;
      peer.close();
      throw error;
    })) as Hello;
    this.#connected = { peer, hello };
    return this.#connected;
  }
}
