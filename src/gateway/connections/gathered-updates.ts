/**
 * The newest state of each call, told every so often: a page that draws ten times a second needs no more, and each notice
 * costs time that calls need.
 */
import type { Powers, Timer } from '../../base/powers.ts';
import type { Event } from '../events.ts';

export interface GatherOptions {
  readonly everyMs: number;
  /** Most calls that are held; with one more, all are told at once. */
  readonly callsMax: number;
  readonly powers: Pick<Powers, 'after'>;
  tell(event: Event): void;
}

export class GatheredUpdates implements Disposable {
  readonly #options: GatherOptions;
  /** The last event of each call, in the order of their numbers. */
  readonly #held = new Map<string, Event>();
  #timer: Timer | undefined;

  constructor(options: GatherOptions) {
    this.#options = options;
  }

  /** Holds the update of a call; tells any other event, after those that are held. */
  hear(event: Event): void {
    const { everyMs, callsMax, powers, tell } = this.#options;
    if (event.method !== 'call.update') {
      this.#flush();
      return tell(event);
    }
    const key = `${event.sessionId}\0${event.params.callId as string}`;
    this.#held.delete(key);
    this.#held.set(key, event);
    if (this.#held.size > callsMax) return this.#flush();
    this.#timer ??= powers.after(everyMs, () => this.#flush());
  }

  [Symbol.dispose](): void {
    this.#timer?.cancel();
    this.#held.clear();
  }

  #flush(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const all = [...this.#held.values()];
    this.#held.clear();
    for (const it of all) this.#options.tell(it);
  }
}
