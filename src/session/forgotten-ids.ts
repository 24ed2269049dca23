import { hash } from 'node:crypto';

/** Long ids by a digest, since callers choose their length. Those of calls that could change nothing make room first. */
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

/** One iterator for good: a new one would step over the room of all that was deleted before it finds the first. */
function createQueue() {
  const ids = new Set<string>();
  return { ids, oldest: ids.values() };
}

/** As many characters as a UUID has. */
const PLAIN_CHARS_MAX = 36;
/** Longer than any that stands for itself. */
const digestOf = (id: string): string => (id.length <= PLAIN_CHARS_MAX ? id : hash('sha256', id, 'base64'));
