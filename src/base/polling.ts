/**
 * Spins briefly instead of sleeping, if an answer is likely to come soon: an idle processor takes 20 – 60 µs to wake
 * up, and one call wakes four, which takes as long as reading a file. As with a hypervisor's halt polling, a short
 * wait predicts that the next one is short, too; single calls and slow calls cost at most one useless poll.
 */
import { availableParallelism } from 'node:os';
import type { Powers } from './powers.ts';

/** With a single processor, polling would keep the awaited work from running. */
const PROCESSORS_MIN = 2;

export class Polling {
  readonly #powers: Pick<Powers, 'monotonicMs'>;
  readonly #maxMs: number;
  #since: number | undefined;
  #isLikelyShort = false;
  #isTurning = false;

  /** `maxMs` bounds the polling of each wait. */
  constructor(maxMs: number, powers: Pick<Powers, 'monotonicMs'>) {
    this.#powers = powers;
    this.#maxMs = availableParallelism() < PROCESSORS_MIN ? 0 : maxMs;
  }

  /** Begins a wait; a no-op during one. */
  begin(): void {
    if (this.#since !== undefined) return;
    this.#since = this.#powers.monotonicMs();
    if (!this.#isLikelyShort || this.#isTurning) return;
    this.#isTurning = true;
    setImmediate(this.#turn);
  }

  /** Ends the wait; a no-op without one. */
  end(): void {
    if (this.#since === undefined) return;
    this.#isLikelyShort = this.#isWithin(this.#since);
    this.#since = undefined;
  }

  #isWithin(since: number): boolean {
    return this.#powers.monotonicMs() - since < this.#maxMs;
  }

  /** Keeps an immediate pending: the event loop then checks for input without sleeping. */
  readonly #turn = (): void => {
    if (this.#isLikelyShort && this.#since !== undefined && this.#isWithin(this.#since)) setImmediate(this.#turn);
    else this.#isTurning = false;
  };
}
