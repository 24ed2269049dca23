/**
 * Gives memory back in a process that has nothing to do. V8 keeps what a burst of work took until it collects, and collects only when
 * more work comes.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Powers, Timer } from '../base/powers.ts';

/** Milliseconds without use after which a thread collects; the next call then takes 1 to 5 ms more (measured). */
const IDLE_MS = 30_000;

export class IdleHeap implements Disposable {
  readonly #powers: Pick<Powers, 'after' | 'monotonicMs'>;
  readonly #collect: () => void;
  #usedMs = 0;
  #timer: Timer | undefined;

  constructor(powers: Pick<Powers, 'after' | 'monotonicMs'>, collect = collectAll) {
    this.#powers = powers;
    this.#collect = collect;
  }

  /** Something was done. */
  used(): void {
    this.#usedMs = this.#powers.monotonicMs();
    this.#timer ??= this.#powers.after(IDLE_MS, () => this.#look());
  }

  [Symbol.dispose](): void {
    this.#timer?.cancel();
  }

  #look(): void {
    const leftMs = IDLE_MS - (this.#powers.monotonicMs() - this.#usedMs);
    this.#timer = leftMs > 0 ? this.#powers.after(leftMs, () => this.#look()) : undefined;
    if (!this.#timer) this.#collect();
  }
}

/** Collects all garbage of this thread, and returns the room to the machine. */
function collectAll(): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (how: object) => void;
  collect({ type: 'major', execution: 'sync', flavor: 'last-resort' });
}
