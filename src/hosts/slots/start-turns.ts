/**
 * Lets few hosts start at a time, since a start takes the processors from the calls of hosts that stand: those that calls
 * wait for first, then those that sessions may need; principals take turns.
 */

/** Hosts that start at the same time. */
const AT_ONCE = 2;

export interface WantedStart {
  readonly principal: string;
  /** Whether a call waits for it; may become so. */
  isUrgent: boolean;
}

interface Waiter {
  readonly start: WantedStart;
  readonly go: () => void;
}

export class StartTurns {
  /** Starts that wait; at most one for each slot. */
  readonly #waiting: Waiter[] = [];
  /** Number of the last start of each principal while any wait. */
  readonly #lastOf = new Map<string, number>();
  #count = 0;
  #running = 0;
  #isClosed = false;

  /** Waits for a turn; the returned function gives it back. */
  async take(start: WantedStart): Promise<() => void> {
    if (this.#running >= AT_ONCE && !this.#isClosed)
      await new Promise<void>((go) => void this.#waiting.push({ start, go }));
    else this.#begin(start);
    return () => {
      this.#running -= 1;
      this.#next();
    };
  }

  /** Lets all go at once, since the hosts are not started any more. */
  close(): void {
    this.#isClosed = true;
    for (const { start, go } of this.#waiting.splice(0)) {
      this.#begin(start);
      go();
    }
  }

  #begin({ principal }: WantedStart): void {
    this.#running += 1;
    this.#count += 1;
    this.#lastOf.set(principal, this.#count);
  }

  #next(): void {
    const urgent = this.#waiting.filter(({ start }) => start.isUrgent);
    const among = urgent.length > 0 ? urgent : this.#waiting;
    const lastOf = ({ start }: Waiter) => this.#lastOf.get(start.principal) ?? 0;
    const [first, ...others] = among;
    if (!first) return this.#lastOf.clear();
    const next = others.reduce((a, b) => (lastOf(b) < lastOf(a) ? b : a), first);
    this.#waiting.splice(this.#waiting.indexOf(next), 1);
    this.#begin(next.start);
    next.go();
  }
}
