/**
 * Shares the one thread that serves all connections. In each round of the event loop requests begin for a limited time, one from each
 * connection in turn; the rest wait for the next round. So neither a thousand requests in one chunk nor a hundred connections with a few
 * each block the loop's other work.
 */
import type { Limits } from '../../base/limits.ts';
import { afterMicrotasks, type Powers } from '../../base/powers.ts';

/** Begins one request; returns whether there is another to begin. */
export type ServeOne = () => boolean;

export class ServingTurns {
  readonly #limits: Pick<Limits, 'servingTurnMs'>;
  readonly #powers: Pick<Powers, 'monotonicMs'>;
  readonly #onArrival: () => void;
  /** Connections with pending requests in the order of their turns. */
  readonly #ready = new Set<ServeOne>();
  /** When this round's time is used up; undefined before its first request. */
  #untilMs: number | undefined;
  #isServing = false;

  /** `onArrival` is called when requests were read. */
  constructor(
    limits: Pick<Limits, 'servingTurnMs'>,
    powers: Pick<Powers, 'monotonicMs'>,
    onArrival: () => void = () => {},
  ) {
    this.#limits = limits;
    this.#powers = powers;
    this.#onArrival = onArrival;
  }

  /** Calls `serve` until it returns false, at once if this round has time left. The same function waits only once. */
  enter(serve: ServeOne): void {
    this.#onArrival();
    this.#ready.add(serve);
    this.#serveNext();
  }

  #serveNext(): void {
    if (this.#isServing) return;
    const [serve] = this.#ready;
    if (!serve) return;
    this.#untilMs ??= this.#beginRound();
    if (this.#powers.monotonicMs() > this.#untilMs) return;
    this.#ready.delete(serve);
    this.#isServing = true;
    if (serve()) this.#ready.add(serve);
    // The work that the request started runs until it awaits something; that time counts as well.
    afterMicrotasks(() => {
      this.#isServing = false;
      this.#serveNext();
    });
  }

  #beginRound(): number {
    setImmediate(() => {
      this.#untilMs = undefined;
      this.#serveNext();
    });
    return this.#powers.monotonicMs() + this.#limits.servingTurnMs;
  }
}
