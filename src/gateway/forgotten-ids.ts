import { hash } from 'node:crypto';

/**
 * Ids of forgotten calls. Long ids are stored as digests, since callers choose their length. Ids of calls that could change nothing are
 * dropped first.
 */
export class ForgottenIds {
  readonly #harmless = createQueue();
  readonly #others = createQueue();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  has(id: string): boolean {
    const digest = digestOf(id);
    return this.#harmless.ids.has(digest) || this.#others.ids.has(digest);
  }

  add(id: string, isHarmless: boolean): void {
    (isHarmless ? this.#harmless : this.#others).ids.add(digestOf(id));
    if (this.#harmless.ids.size + this.#others.ids.size <= this.#max) return;
    const { ids, oldest } = this.#harmless.ids.size > 0 ? this.#harmless : this.#others;
    ids.delete(oldest.next().value as string);
  }
}

/** Keeps one iterator for its lifetime: a new one would have to skip the slots of all deleted entries. */
function createQueue() {
  const ids = new Set<string>();
  return { ids, oldest: ids.values() };
}

/** Length of a UUID. */
const PLAIN_CHARS_MAX = 36;
/** A digest has more characters than any id stored as it is, so the two can't collide. */
const digestOf = (id: string): string => (id.length <= PLAIN_CHARS_MAX ? id : hash('sha256', id, 'base64'));
