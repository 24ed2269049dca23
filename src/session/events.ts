/** What happened, numbered and kept for a while, so that one who subscribes late can catch up. */
import type { Topic } from '../protocol/messages.ts';

export interface Event {
  readonly seq: number;
  readonly topic: Topic;
  /** Whose it is; an agent sees its own only. */
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

  /** Gives the event its number and tells it to all who listen. */
  publish(event: Omit<Event, 'seq'>): Event {
    const numbered = { ...event, seq: ++this.#seq };
    // The log can be asked for its own entries; a busy one would push everything else out.
    if (event.topic !== 'audit') this.#kept.push(numbered);
    if (this.#kept.length > this.#keptMax) this.#kept.shift();
    for (const listener of this.#listeners) listener(numbered);
    return numbered;
  }

  /** What came after `seq` and is still kept. */
  after(seq: number): Event[] {
    return this.#kept.filter((it) => it.seq > seq);
  }

  listen(listener: Listener): { [Symbol.dispose](): void } {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => this.#listeners.delete(listener) };
  }
}
