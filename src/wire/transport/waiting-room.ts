/** Connections that have not identified themselves yet. The oldest are dropped for new ones, so that silent connections lock nobody out. */
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';

export interface WaitingConnection {
  /** Closes immediately. */
  destroy(): void;
  /** Whether it has sent something that was not handled yet. */
  readonly isUnheard?: boolean;
}

type RoomLimits = Pick<Limits, 'connectionsBeforeHelloMax' | 'connectionsBurstMax' | 'connectionGraceMs'>;
type RoomPowers = Pick<Powers, 'monotonicMs' | 'after'>;

export class WaitingRoom {
  readonly #limits: RoomLimits;
  readonly #powers: RoomPowers;
  /** Connections with their arrival times, oldest first. */
  readonly #strangers = new Map<WaitingConnection, number>();
  #isLooking = false;

  constructor(limits: RoomLimits, powers: RoomPowers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Adds a connection; false if too many arrived at once and it must be closed. */
  enter(stranger: WaitingConnection): boolean {
    if (this.#strangers.size >= this.#limits.connectionsBurstMax) return false;
    this.#strangers.set(stranger, this.#powers.monotonicMs());
    this.#lookSoon();
    return true;
  }

  /** Removes a connection that has identified itself or closed. */
  leave(stranger: WaitingConnection): void {
    this.#strangers.delete(stranger);
  }

  /**
   * Drops excess connections after a grace period, so that a client that says hello at once is never dropped, however many others connect.
   */
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
