/** Connections of which nobody knows yet whose they are. The oldest makes room for the newest, so that silent ones shut nobody out. */
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';

export interface Stranger {
  /** Ends it at once. */
  destroy(): void;
  /** Whether it has said something that was not looked at yet. */
  readonly isUnheard?: boolean;
}

type RoomLimits = Pick<Limits, 'connectionsBeforeHelloMax' | 'connectionsBurstMax' | 'connectionGraceMs'>;
type RoomPowers = Pick<Powers, 'monotonicMs' | 'after'>;

export class WaitingRoom {
  readonly #limits: RoomLimits;
  readonly #powers: RoomPowers;
  /** With the time when each came, the oldest first. */
  readonly #strangers = new Map<Stranger, number>();
  #isLooking = false;

  constructor(limits: RoomLimits, powers: RoomPowers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Takes one in; false where so many came at one moment that it is to be ended. */
  enter(stranger: Stranger): boolean {
    if (this.#strangers.size >= this.#limits.connectionsBurstMax) return false;
    this.#strangers.set(stranger, this.#powers.monotonicMs());
    this.#lookSoon();
    return true;
  }

  /** It is known now, or gone. */
  leave(stranger: Stranger): void {
    this.#strangers.delete(stranger);
  }

  /** Whoever says hello as soon as it is connected has the time for it, however many others come in that moment. */
  #lookSoon(): void {
    const { connectionsBeforeHelloMax, connectionGraceMs } = this.#limits;
    if (this.#isLooking || this.#strangers.size <= connectionsBeforeHelloMax) return;
    this.#isLooking = true;
    this.#powers.after(connectionGraceMs, () => {
      this.#isLooking = false;
      this.#makeRoom();
      this.#lookSoon();
    });
  }

  #makeRoom(): void {
    const { connectionsBeforeHelloMax, connectionGraceMs } = this.#limits;
    let over = this.#strangers.size - connectionsBeforeHelloMax;
    const before = this.#powers.monotonicMs() - connectionGraceMs;
    for (const [it, atMs] of this.#strangers) {
      if (over <= 0 || atMs > before) return;
      if (it.isUnheard) continue;
      this.#strangers.delete(it);
      it.destroy();
      over -= 1;
    }
  }
}
