/**
 * What comes soon is polled for, and not slept for: a processor that went idle takes 20 – 60 µs until it runs again, and four are
 * woken for a call: as long as a read of a file takes. As with a hypervisor's halt polling, that the last wait was a short
 * one says that the next one will be: single calls, and those that take their time, cost at most one vain poll for all of them.
 */
import { availableParallelism } from 'node:os';
import type { Powers } from './powers.ts';

/** On a machine's only processor, whoever polls keeps what it waits for from running. */
const PROCESSORS_MIN = 2;

export class Polling {
  readonly #powers: Pick<Powers, 'monotonicMs'>;
  readonly #maxMs: number;
  #since: number | undefined;
  #isLikelyShort = false;
  #isTurning = false;

  /** At most `maxMs` of each wait are polled. */
  constructor(maxMs: number, powers: Pick<Powers, 'monotonicMs'>) {
    this.#powers = powers;
    this.#maxMs = availableParallelism() < PROCESSORS_MIN ? 0 : maxMs;
  }

  /** Something is waited for from now on, or still is. */
  begin(): void {
    if (this.#since !== undefined) return;
    this.#since = this.#powers.monotonicMs();
    if (!this.#isLikelyShort || this.#isTurning) return;
    this.#isTurning = true;
    setImmediate(this.#turn);
  }

  /** It came; without a wait nothing. */
  end(): void {
    if (this.#since === undefined) return;
    this.#isLikelyShort = this.#isWithin(this.#since);
    this.#since = undefined;
  }

  #isWithin(since: number): boolean {
    return this.#powers.monotonicMs() - since < this.#maxMs;
  }

  /** An event loop with something to do at once looks for what came, and does not sleep. */
  readonly #turn = (): void => {
    if (this.#isLikelyShort && this.#since !== undefined && this.#isWithin(this.#since)) setImmediate(this.#turn);
    else this.#isTurning = false;
  };
}
