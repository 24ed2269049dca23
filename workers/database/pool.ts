/** The sessions of one server: a call gets one for itself, and leaves it for the next. */
import type { AskedOfServer } from '../../src/tools/context/databases.ts';
import { Refused } from '../sqlite/refusals.ts';
import type { Answer, ServerSession } from './session.ts';

export interface PoolOptions {
  open(): Promise<ServerSession>;
  /** Sessions at once; further calls wait. */
  readonly sessionsMax: number;
}

interface PooledCall {
  /** The session of the daemon that made the call. */
  readonly client: string;
  session?: ServerSession;
  /** Absent once the call has a place among the sessions. */
  turn?: PromiseWithResolvers<void>;
  isCancelled: boolean;
}

export class SessionPool {
  readonly #options: PoolOptions;
  readonly #idle: ServerSession[] = [];
  readonly #calls = new Map<number, PooledCall>();
  /** Calls without a place, oldest first. */
  readonly #waiting: PooledCall[] = [];
  /** Places that the calls of a session of the daemon have. */
  readonly #used = new Map<string, number>();
  /** The number of the turn in which each got its last place. */
  readonly #lastTurn = new Map<string, number>();
  #turns = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Runs a call. Throws Refused. */
  async run(
    id: number,
    asked: AskedOfServer,
    { withinMs, session: client }: { readonly withinMs: number; readonly session: string },
  ): Promise<Answer> {
    const call: PooledCall = { client, isCancelled: false };
    this.#calls.set(id, call);
    await this.#turnOf(call).catch((error: Refused) => {
      this.#calls.delete(id);
      throw error;
    });
    let session: ServerSession | undefined;
    try {
      assertWanted(call);
      session = this.#takeIdle() ?? (await this.#options.open());
      call.session = session;
      assertWanted(call);
      return await session.run(asked, withinMs);
    } finally {
      this.#calls.delete(id);
      void this.#giveBack(call, session);
    }
  }

  /** Ends a call that runs or waits. */
  async cancel(id: number): Promise<void> {
    const call = this.#calls.get(id);
    if (!call) return;
    call.isCancelled = true;
    const at = this.#waiting.indexOf(call);
    if (at >= 0) this.#waiting.splice(at, 1);
    call.turn?.reject(new Refused('CANCELLED', 'the call was cancelled'));
    await call.session?.cancel();
  }

  /** Ends all calls and sessions. */
  async end(): Promise<void> {
    await Promise.all([...this.#calls.keys()].map((id) => this.cancel(id)));
    for (const it of this.#idle) it.end();
  }

  #takeIdle(): ServerSession | undefined {
    for (;;) {
      const session = this.#idle.pop();
      if (!session || session.isUsable) return session;
      session.end();
    }
  }

  /** Resolves when the call has a place among the sessions. Throws Refused when it is cancelled before. */
  async #turnOf(call: PooledCall): Promise<void> {
    call.turn = Promise.withResolvers<void>();
    this.#waiting.push(call);
    this.#giveTurns();
    await call.turn.promise;
    delete call.turn;
  }

  /** Gives free places to whoever has the fewest, and waited longest for its last. One place is kept for others than who has all the rest. */
  #giveTurns(): void {
    const most = this.#options.sessionsMax;
    const placesOf = ({ client }: PooledCall) => this.#used.get(client) ?? 0;
    for (;;) {
      const taken = [...this.#used.values()].reduce((sum, it) => sum + it, 0);
      const turnOf = ({ client }: PooledCall) => this.#lastTurn.get(client) ?? 0;
      const byTurn = this.#waiting.toSorted((a, b) => placesOf(a) - placesOf(b) || turnOf(a) - turnOf(b));
      const [next] = byTurn;
      if (!next || taken >= most || placesOf(next) >= Math.max(1, most - 1)) return;
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      this.#used.set(next.client, placesOf(next) + 1);
      this.#lastTurn.set(next.client, ++this.#turns);
      next.turn?.resolve();
    }
  }

  async #giveBack({ client }: PooledCall, session: ServerSession | undefined): Promise<void> {
    await session?.reset();
    if (session?.isUsable) this.#idle.push(session);
    else session?.end();
    const left = (this.#used.get(client) ?? 1) - 1;
    if (left > 0) this.#used.set(client, left);
    else this.#used.delete(client);
    if (this.#waiting.length === 0) this.#lastTurn.clear();
    this.#giveTurns();
  }
}

function assertWanted({ isCancelled }: PooledCall): void {
  if (isCancelled) throw new Refused('CANCELLED', 'the call was cancelled');
}
