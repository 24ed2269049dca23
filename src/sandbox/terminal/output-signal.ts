/** Wakes those who wait for new output of a program, or for its end. */
import type { Powers } from '../../base/powers.ts';

export class OutputSignal {
  readonly #powers: Pick<Powers, 'after'>;
  readonly #waiting = new Set<() => void>();

  constructor(powers: Pick<Powers, 'after'>) {
    this.#powers = powers;
  }

  /** Wakes everyone who waits. */
  tell(): void {
    for (const resolve of this.#waiting) resolve();
  }

  /** Settles with the next `tell`, after `ms`, or when `signal` aborts. */
  async next(ms: number, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    await Promise.race([promise, this.pause(ms, signal)]);
    this.#waiting.delete(resolve);
  }

  /** Settles after `ms`, or when `signal` aborts. */
  pause(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const timer = this.#powers.after(ms, done);
      signal?.addEventListener('abort', done);
      function done(): void {
        timer.cancel();
        signal?.removeEventListener('abort', done);
        resolve();
      }
    });
  }
}
