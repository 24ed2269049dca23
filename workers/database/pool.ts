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
  #used = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Runs a call. Throws Refused. */
  async run(id: number, asked: AskedOfServer, withinMs: number): Promise<Answer> {
    const call: PooledCall = { isCancelled: false };
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
      void this.#giveBack(session);
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
    if (this.#used < this.#options.sessionsMax) {
      this.#used += 1;
      return;
    }
    call.turn = Promise.withResolvers<void>();
    this.#waiting.push(call);
    await call.turn.promise;
    delete call.turn;
  }

  async #giveBack(session: ServerSession | undefined): Promise<void> {
    await session?.reset();
    if (session?.isUsable) this.#idle.push(session);
    else session?.end();
    const next = this.#waiting.shift();
    if (next) next.turn?.resolve();
    else this.#used -= 1;
  }
}

function assertWanted({ isCancelled }: PooledCall): void {
  if (isCancelled) throw new Refused('CANCELLED', 'the call was cancelled');
}
