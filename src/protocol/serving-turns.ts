/**
 * Requests of all connections are begun in the one thread that serves everybody. In each round of the event loop they are begun
 * for so long, one of each connection in turn; the rest waits for the next round, so that neither a thousand requests in one piece
 * nor a hundred connections with a few each hold up what the loop does beside.
 */
import type { Limits } from '../limits.ts';
import { afterMicrotasks, type Powers } from '../powers.ts';

/** Begins one request; gives whether there is another one to begin. */
export type ServeOne = () => boolean;

export class ServingTurns {
  readonly #limits: Pick<Limits, 'servingTurnMs'>;
  readonly #powers: Pick<Powers, 'monotonicMs'>;
  /** In the order of their turns. */
  readonly #ready = new Set<ServeOne>();
  /** When this round has had its time; undefined before its first request. */
  #untilMs: number | undefined;
  #isServing = false;

  constructor(limits: Pick<Limits, 'servingTurnMs'>, powers: Pick<Powers, 'monotonicMs'>) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Has `serve` be called until it gives false: at once, where this round has time left. The same one waits only once. */
  enter(serve: ServeOne): void {
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
    // What it began goes on until it waits for something; that is its time, too.
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
