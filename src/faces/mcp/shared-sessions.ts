/** Sessions of clients without a connection: found again by caller and options, ended after a period of disuse. */
import type { ServerContext } from '@modelcontextprotocol/server';
import { RpcError } from '../../base/errors.ts';
import type { Timer } from '../../base/powers.ts';
import type { Identity } from '../../gateway/authenticate.ts';
import { choiceOf, folderOf, type OpeningOptions } from './opening-options.ts';
import { clientOf, saysItAsks } from './server.ts';
import { McpSession, type McpSessionOptions, type McpSessionParts } from './session.ts';
import { partOf } from './tools.ts';

/** The caller that connected or presented a token. */
export interface HttpCaller {
  readonly identity: Identity;
  /** User id of the process, if the kernel tells. */
  readonly uid: number | undefined;
  /** Id of the connecting process, if the kernel tells. */
  readonly pid?: number | undefined;
  /** Whether the person at the client may answer questions about its calls. */
  readonly mayAnswer: boolean;
}

/** A request that needs a session. */
export interface SessionOptions {
  readonly opening: OpeningOptions;
  readonly caller: HttpCaller;
  readonly context: ServerContext;
}

export interface SharedParts extends McpSessionParts {
  /** The real path of a folder in one of the daemon's workspaces. Throws RpcError FORBIDDEN. */
  resolveWorkspace(path: string): { workspace: string };
}

/** The properties that identify a session. */
type SessionIdentity = Pick<
  McpSessionOptions,
  'identity' | 'uid' | 'asks' | 'client' | 'policy' | 'mode' | 'workspace'
>;

interface PooledSession {
  readonly principal: string;
  readonly session: McpSession;
  users: number;
  /** Timer that ends the unused session. */
  idle?: Timer | undefined;
}

export class SharedSessions {
  readonly #parts: SharedParts;
  /** Sessions by key; the least recently used first. */
  readonly #sessions = new Map<string, PooledSession>();

  constructor(parts: SharedParts) {
    this.#parts = parts;
  }

  /** Runs `work` in the session for this caller and these options. Throws RpcError if there can be none; OVERLOADED if all are in use. */
  async use<T>(wanting: SessionOptions, work: (session: McpSession) => Promise<T>): Promise<T> {
    const { opening, caller, context } = wanting;
    const { identity, uid, mayAnswer } = caller;
    const wanted: SessionIdentity = {
      identity,
      uid,
      asks: mayAnswer && saysItAsks(context),
      client: named(clientOf(context)),
      policy: opening.policy,
      mode: opening.mode,
      workspace: folderOf(opening, [], this.#parts.resolveWorkspace),
    };
    const key = JSON.stringify([wanted, choiceOf(opening)]);
    const pooled = this.#sessions.get(key) ?? this.#open(key, wanted, wanting);
    pooled.users += 1;
    pooled.idle?.cancel();
    pooled.idle = undefined;
    try {
      return await work(pooled.session);
    } finally {
      pooled.users -= 1;
      if (pooled.users === 0 && this.#sessions.get(key) === pooled) this.#startIdleTimer(key, pooled);
    }
  }

  async end(reason: string): Promise<void> {
    const all = [...this.#sessions.values()];
    this.#sessions.clear();
    for (const { idle } of all) idle?.cancel();
    await Promise.all(all.map(({ session }) => session.end(reason)));
  }

  #open(key: string, wanted: SessionIdentity, { opening }: SessionOptions): PooledSession {
    const { principal } = wanted.identity;
    this.#makeRoom(principal);
    const onClosed = () => {
      this.#sessions.get(key)?.idle?.cancel();
      this.#sessions.delete(key);
    };
    // A client that does not read must not delay the others of the session; its pending requests are bounded.
    const options = { ...wanted, has: partOf(choiceOf(opening)), congested: () => false, onClosed };
    const session = new McpSession(options, this.#parts);
    const pooled: PooledSession = { principal, session, users: 0 };
    this.#sessions.set(key, pooled);
    return pooled;
  }

  #startIdleTimer(key: string, pooled: PooledSession): void {
    this.#sessions.delete(key);
    this.#sessions.set(key, pooled);
    pooled.idle = this.#parts.powers.after(this.#parts.limits.mcpSessionIdleMs, () => this.#drop(key, pooled));
  }

  #makeRoom(principal: string): void {
    const { mcpSessionsPerPrincipalMax, mcpSessionsMax } = this.#parts.limits;
    const own = [...this.#sessions].filter(([, it]) => it.principal === principal);
    const isFull = own.length >= mcpSessionsPerPrincipalMax;
    if (!isFull && this.#sessions.size < mcpSessionsMax) return;
    // A principal with many sessions replaces only its own.
    const among = isFull ? own : [...this.#sessions];
    const unused = among.find(([, { users }]) => users === 0);
    if (!unused)
      throw new RpcError(
        'OVERLOADED',
        `${own.length} sessions of ${principal} are in use; at most ${mcpSessionsPerPrincipalMax} are allowed; close one`,
      );
    this.#drop(...unused);
  }

  #drop(key: string, { idle, session }: PooledSession): void {
    idle?.cancel();
    this.#sessions.delete(key);
    void session.end('nobody used it');
  }
}

const NAME_CHARS = 128;
const VERSION_CHARS = 64;

/** The bounded part of a client's own name and version that is recorded. */
export const named = (client: { name?: string; version?: string } | undefined): { name: string; version: string } => ({
  name: `mcp ${client?.name ?? 'client'}`.slice(0, NAME_CHARS),
  version: String(client?.version ?? '?').slice(0, VERSION_CHARS),
});
