/**
 * Locks on paths. A lock on a path covers all below it. A caller gets all its locks at once or waits, in the order of
 * arrival, so that nobody ever holds one lock and waits for another: deadlock is impossible.
 */

/** Paths are normalized: no links, no dots, `/` between names; '' is the whole workspace. */
export interface LockRequest {
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  /** Reads wait only for writes of the same owner: others see a file whole anyway, since a write replaces it. */
  readonly owner: string;
}

interface LockWaiter extends LockRequest {
  readonly go: () => void;
}

export class LockTable {
  readonly #held = new HeldLocks();
  readonly #waiting = new Set<LockWaiter>();
  /** The locks that all waiters want. */
  readonly #wished = new HeldLocks();
  readonly #wishes = new Map<string, number>();
  #isGranting = false;

  /** How many paths are waited for in all. */
  get waiting(): number {
    return [...this.#wishes.values()].reduce((sum, it) => sum + it, 0);
  }

  /** How many paths one owner waits for. */
  waitingOf(owner: string): number {
    return this.#wishes.get(owner) ?? 0;
  }

  /** Resolves with a function that releases the locks. Rejects with the signal's reason. */
  async acquire(wanted: LockRequest, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const isFree = !this.#held.conflicts(wanted) && !this.#wished.conflicts(wanted);
    if (isFree) this.#held.add(wanted, 1);
    else await this.#wait(wanted, signal);
    return () => {
      this.#held.add(wanted, -1);
      this.#grantSoon();
    };
  }

  #wait(wanted: LockRequest, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: LockWaiter = {
        ...wanted,
        go: () => {
          signal.removeEventListener('abort', leave);
          resolve();
        },
      };
      const leave = () => {
        this.#wish(waiter, -1);
        reject(signal.reason as Error);
        // Later waiters may have waited for this one alone.
        this.#grantSoon();
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#wish(waiter, 1);
    });
  }

  #wish(waiter: LockWaiter, change: 1 | -1): void {
    if (change > 0) this.#waiting.add(waiter);
    else this.#waiting.delete(waiter);
    this.#wished.add(waiter, change);
    const { owner, reads, writes } = waiter;
    const wishes = this.waitingOf(owner) + change * (reads.length + writes.length);
    if (wishes > 0) this.#wishes.set(owner, wishes);
    else this.#wishes.delete(owner);
  }

  /** Grants once for all locks that are released in the same microtask turn, as a session's are. */
  #grantSoon(): void {
    if (this.#isGranting) return;
    this.#isGranting = true;
    queueMicrotask(() => {
      this.#isGranting = false;
      this.#grant();
    });
  }

  /** Starts each waiter that conflicts neither with held locks nor with an earlier waiter. */
  #grant(): void {
    const before = new HeldLocks();
    for (const waiter of this.#waiting) {
      if (this.#held.conflicts(waiter) || before.conflicts(waiter)) {
        before.add(waiter, 1);
        // Every later waiter waits for a lock on the whole workspace.
        if (waiter.writes.includes('')) return;
        continue;
      }
      this.#wish(waiter, -1);
      this.#held.add(waiter, 1);
      waiter.go();
    }
  }
}

/** Counts locks by path, so that a check costs as much as its paths are deep, however many locks there are. */
class HeldLocks {
  readonly #writes = new PathCounts();
  readonly #byOwner = new Map<string, { readonly reads: PathCounts; readonly writes: PathCounts; count: number }>();

  conflicts({ reads, writes, owner }: LockRequest): boolean {
    const own = this.#byOwner.get(owner);
    return (
      writes.some((path) => this.#writes.meets(path) || own?.reads.meets(path)) ||
      reads.some((path) => own?.writes.meets(path))
    );
  }

  add({ reads, writes, owner }: LockRequest, change: 1 | -1): void {
    const own = this.#byOwner.get(owner) ?? { reads: new PathCounts(), writes: new PathCounts(), count: 0 };
    this.#byOwner.set(owner, own);
    for (const path of reads) own.reads.add(path, change);
    for (const path of writes) {
      own.writes.add(path, change);
      this.#writes.add(path, change);
    }
    own.count += change;
    if (own.count === 0) this.#byOwner.delete(owner);
  }
}

class PathCounts {
  /** Maps a path to how many locks are on it, and how many on it or below it. */
  readonly #counts = new Map<string, { own: number; all: number }>();

  add(path: string, change: 1 | -1): void {
    for (const at of upwards(path)) {
      const counts = this.#counts.get(at) ?? { own: 0, all: 0 };
      counts.all += change;
      if (at === path) counts.own += change;
      if (counts.all > 0) this.#counts.set(at, counts);
      else this.#counts.delete(at);
    }
  }

  /** Whether a lock is on the path, above it or below it. */
  meets(path: string): boolean {
    if (this.#counts.size === 0) return false;
    if (this.#counts.has(path)) return true;
    for (const at of upwards(path)) if ((this.#counts.get(at)?.own ?? 0) > 0) return true;
    return false;
  }
}

/** Yields the path itself, then each of its parents, up to ''. */
function* upwards(path: string): Generator<string> {
  for (let at = path; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/')))) {
    yield at;
    if (at === '') return;
  }
}
