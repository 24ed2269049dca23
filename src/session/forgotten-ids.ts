import { hash } from 'node:crypto';

/** Long ids by a digest, since callers choose their length. Those of calls that could change nothing make room first. */
export class ForgottenIds {
  readonly #harmless = new Set<string>();
  readonly #others = new Set<string>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  has(id: string): boolean {
    const digest = digestOf(id);
    return this.#harmless.has(digest) || this.#others.has(digest);
  }

  add(id: string, isHarmless: boolean): void {
    (isHarmless ? this.#harmless : this.#others).add(digestOf(id));
    if (this.#harmless.size + this.#others.size <= this.#max) return;
    const from = this.#harmless.size > 0 ? this.#harmless : this.#others;
    for (const oldest of from) return void from.delete(oldest);
  }
}

/** As many characters as a UUID has. */
const PLAIN_CHARS_MAX = 36;
/** Longer than any that stands for itself. */
const digestOf = (id: string): string => (id.length <= PLAIN_CHARS_MAX ? id : hash('sha256', id, 'base64'));
