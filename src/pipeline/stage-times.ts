/** How long a call was in each of its stages, for whoever watches it. */
import type { StageName } from '../base/call.ts';

export class StageTimes {
  readonly #monotonicMs: () => number;
  readonly #spent: Partial<Record<StageName, number>> = {};
  #current: StageName | undefined = 'waiting';
  #since: number;

  constructor({ monotonicMs }: { monotonicMs(): number }) {
    this.#monotonicMs = monotonicMs;
    this.#since = monotonicMs();
  }

  /** The call goes on to a stage; it may come to one again when it is retried. */
  enter(stage: StageName): void {
    this.#leave();
    this.#current = stage;
  }

  end(): void {
    this.#leave();
    this.#current = undefined;
  }

  /** Milliseconds in each stage so far. */
  get spentMs(): Partial<Record<StageName, number>> {
    if (this.#current) this.enter(this.#current);
    return { ...this.#spent };
  }

  #leave(): void {
    const now = this.#monotonicMs();
    if (this.#current) {
      const ms = (this.#spent[this.#current] ?? 0) + now - this.#since;
      this.#spent[this.#current] = Math.round(ms * 1000) / 1000;
    }
    this.#since = now;
  }
}
