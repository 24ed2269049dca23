/** Bounds the calls of one principal that are under way, over all of its sessions. */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';

const RETRY_AFTER_MS = 100;

export class CallsUnderWay {
  readonly #count = new Map<string, number>();
  readonly #max: number;

  constructor({ principalCallsMax }: Pick<Limits, 'principalCallsMax'>) {
    this.#max = principalCallsMax;
  }

  /** Throws QUEUE_FULL if no further call of the principal may begin. */
  assertRoom(principal: string): void {
    const used = this.#count.get(principal) ?? 0;
    if (used >= this.#max)
      throw new ToolError(
        'QUEUE_FULL',
        `${used} calls of ${principal} are under way in all of its sessions, which is the maximum; wait for some to end`,
        { details: { retryAfterMs: RETRY_AFTER_MS, limit: this.#max, used, per: 'principal' } },
      );
  }

  /** Counts a call while it runs. */
  async during<T>(principal: string, run: () => Promise<T>): Promise<T> {
    this.#count.set(principal, (this.#count.get(principal) ?? 0) + 1);
    try {
      return await run();
    } finally {
      const left = (this.#count.get(principal) ?? 1) - 1;
      if (left > 0) this.#count.set(principal, left);
      else this.#count.delete(principal);
    }
  }
}
