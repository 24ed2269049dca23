/**
 * Who works on which paths, and who waits for whom. A lock is on a path with all below it. Somebody gets all locks at once or
 * waits, in the order of arrival, so that nobody ever holds one and waits for another: there can be no deadlock.
 */

/** Paths without links and dots, `/` between names; '' is everything. */
export interface Wanted {
  readonly reads: readonly string[];
  readonly writes: readonly string[];
  /** Whose reads wait for whose writes: those of other owners do not, since a file is replaced whole. */
  readonly owner: string;
}

interface Waiter extends Wanted {
  readonly go: () => void;
}

export class LockTable {
  readonly #held = new Held();
  readonly #waiting = new Set<Waiter>();
  /** What those want who wait. */
  readonly #wished = new Held();
  readonly #wishes = new Map<string, number>();
  #isGranting = false;

  /** Paths that are waited for, all together. */
  get waiting(): number {
    return [...this.#wishes.values()].reduce((sum, it) => sum + it, 0);
  }

  /** Those of one owner. */
  waitingOf(owner: string): number {
    return this.#wishes.get(owner) ?? 0;
  }

  /** Settles with a function to call when it is over. Rejects with the signal's reason. */
  async acquire(wanted: Wanted, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    const isFree = !this.#held.conflicts(wanted) && !this.#wished.conflicts(wanted);
    if (isFree) this.#held.add(wanted, 1);
    else await this.#wait(wanted, signal);
    return () => {
      this.#held.add(wanted, -1);
      this.#grantSoon();
    };
  }

  #wait(wanted: Wanted, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        ...wanted,
        go: () => {
          signal.removeEventListener('abort', leave);
          resolve();
        },
      };
      const leave = () => {
        this.#wish(waiter, -1);
        reject(signal.reason as Error);
        // Those behind it may have waited for it alone.
        this.#grantSoon();
      };
      signal.addEventListener('abort', leave, { once: true });
      this.#wish(waiter, 1);
    });
  }

  #wish(waiter: Waiter, change: 1 | -1): void {
    if (change > 0) this.#waiting.add(waiter);
    else this.#waiting.delete(waiter);
    this.#wished.add(waiter, change);
    const { owner, reads, writes } = waiter;
    const wishes = this.waitingOf(owner) + change * (reads.length + writes.length);
    if (wishes > 0) this.#wishes.set(owner, wishes);
    else this.#wishes.delete(owner);
  }

  /** Once for all that end at the same moment, as those of a session do. */
  #grantSoon(): void {
    if (this.#isGranting) return;
    this.#isGranting = true;
    queueMicrotask(() => {
      this.#isGranting = false;
      this.#grant();
    });
  }

  /** Lets begin who conflicts neither with who works nor with who came before and waits. */
  #grant(): void {
    const before = new Held();
    for (const waiter of this.#waiting) {
      if (this.#held.conflicts(waiter) || before.conflicts(waiter)) {
        before.add(waiter, 1);
        // Everything behind a lock on everything waits for it.
        if (waiter.writes.includes('')) return;
        continue;
      }
      this.#wish(waiter, -1);
      this.#held.add(waiter, 1);
      waiter.go();
    }
  }
}

/** Numbers of locks by path, so that a question costs as much as its paths are deep, however many locks there are. */
class Held {
  readonly #writes = new PathCounts();
  readonly #byOwner = new Map<string, { readonly reads: PathCounts; readonly writes: PathCounts; count: number }>();

  conflicts({ reads, writes, owner }: Wanted): boolean {
    const own = this.#byOwner.get(owner);
    return (
      writes.some((path) => this.#writes.meets(path) || own?.reads.meets(path)) ||
      reads.some((path) => own?.writes.meets(path))
    );
  }

  add({ reads, writes, owner }: Wanted, change: 1 | -1): void {
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
  /** By path: locks on it, and locks on it or below it. */
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

/** The path itself, then each one above it, to ''. */
function* upwards(path: string): Generator<string> {
  for (let at = path; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/')))) {
    yield at;
    if (at === '') return;
  }
}
