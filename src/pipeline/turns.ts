/** Long command lines are read one at a time in the whole daemon, sessions in turn: reading one holds up everybody. */
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { FairQueue } from './fair-queue.ts';

export interface Turn {
  /** The command line that is to be read, if any. */
  readonly line: string | undefined;
  readonly session: string;
  /** Its reason is thrown when it aborts before the turn comes. */
  readonly signal: AbortSignal;
}

export class Turns {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #queue: FairQueue;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
    this.#queue = new FairQueue({ ...limits, sessionQueueMax: limits.commandTurnsMax });
  }

  /** Whether a line has to wait for its turn. */
  isLong(line: string | undefined): boolean {
    return line !== undefined && line.length > this.#limits.commandAtOnceChars;
  }

  /**
   * Waits until a long line may be read; it is to be read at once, without a further wait. Short lines don't wait.
   * Throws QUEUE_FULL, or the signal's reason.
   */
  async take({ line, session, signal }: Turn): Promise<void> {
    if (!this.isLong(line)) return;
    signal.throwIfAborted();
    const leave = await this.#queue.enter({
      ...{ line: '', places: 1, placesOfSession: 1, session, signal },
      congested: () => false,
    });
    const startedAt = this.#powers.monotonicMs();
    this.#powers.after(0, () => {
      // As long again for everybody else: an answer of theirs may take several rounds of the loop.
      const tookMs = this.#powers.monotonicMs() - startedAt;
      this.#powers.after(tookMs, leave);
    });
  }
}
