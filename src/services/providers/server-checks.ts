/**
 * Pings the server of a provider while calls use it: one that hangs is found before a call waits for it in vain. A server
 * that works on a call is not pinged, since many can do one thing at a time only.
 */
import type { Limits } from '../../base/limits.ts';
import { fraction, type Powers, type Timer } from '../../base/powers.ts';
import { backoffMs } from './backoff.ts';

export interface ServerChecksParts {
  readonly limits: Limits;
  readonly powers: Powers;
  /** Whether the server works on calls now. */
  isBusy(): boolean;
  /** Pings the server. Rejects with the reason if it does not answer in time. */
  ping(): Promise<void>;
  /** Called when the server did not answer too often, with the reason. */
  onDead(reason: string): void;
}

export class ServerChecks {
  readonly #parts: ServerChecksParts;
  #timer: Timer | undefined;
  #usedMs = -Infinity;
  #failures = 0;
  /** Changes with each start and stop, so that the answer to an earlier server's ping is not taken for this one's. */
  #round = 0;

  constructor(parts: ServerChecksParts) {
    this.#parts = parts;
  }

  /** Learns that a call has ended: the server is pinged from now on. */
  used(): void {
    this.#usedMs = this.#parts.powers.monotonicMs();
    if (!this.#timer) this.#plan();
  }

  /** Ends the pings, until the next call. */
  stop(): void {
    this.#round += 1;
    this.#failures = 0;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #plan(): void {
    const { powers, limits } = this.#parts;
    const random = fraction(powers);
    const afterMs =
      this.#failures > 0 ? backoffMs(this.#failures, limits, random) : limits.serviceCheckEveryMs * (1 - random / 2);
    this.#timer = powers.after(afterMs, () => void this.#turn(this.#round));
  }

  async #turn(round: number): Promise<void> {
    const { powers, limits, isBusy, onDead } = this.#parts;
    this.#timer = undefined;
    const isUsed = powers.monotonicMs() - this.#usedMs < limits.serviceCheckUsedMs;
    if (!isUsed && this.#failures === 0) return;
    const problem = isBusy() ? undefined : await this.#ask();
    if (round !== this.#round) return;
    // A call that began meanwhile may keep the server from answering.
    this.#failures = problem === undefined || isBusy() ? 0 : this.#failures + 1;
    if (this.#failures < limits.providerChecksMax) return this.#plan();
    onDead(`it did not answer ${this.#failures} health checks: ${problem}`);
  }

  async #ask(): Promise<string | undefined> {
    try {
      await this.#parts.ping();
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  }
}
