/** Numbered events, kept for a while so that late subscribers can catch up. */
import type { Topic } from '../wire/protocol/messages.ts';

export interface Event {
  readonly seq: number;
  readonly topic: Topic;
  /** Session of the event; an agent sees only its own session's events. */
  readonly sessionId: string;
  readonly method: string;
  readonly params: Record<string, unknown>;
}

type Listener = (event: Event) => void;

export class Events {
  readonly #kept: Event[] = [];
  readonly #keptMax: number;
  readonly #listeners = new Set<Listener>();
  #seq = 0;

  constructor(keptMax: number) {
    this.#keptMax = keptMax;
  }

  get seq(): number {
    return this.#seq;
  }

  /** Numbers the event and passes it to all listeners. */
  publish(event: Omit<Event, 'seq'>): Event {
    const numbered = { ...event, seq: ++this.#seq };
    // Audit entries are not kept here, since clients can query the log and a busy log would push out everything else.
    if (event.topic !== 'audit') this.#kept.push(numbered);
    if (this.#kept.length > this.#keptMax) this.#kept.shift();
    for (const listener of this.#listeners) listener(numbered);
    return numbered;
  }

  /** Kept events after `seq`. */
  eventsAfter(seq: number): Event[] {
    return this.#kept.filter((it) => it.seq > seq);
  }

  listen(listener: Listener): { [Symbol.dispose](): void } {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => this.#listeners.delete(listener) };
  }
}
