/** Which calls may change files of one place at the same time, so that what is seen of changes can be told as whose it is. */

export interface Stay extends Disposable {
  /** Whether no other was there since this one came. */
  readonly isAlone: boolean;
}

export class Beside {
  readonly #there = new Map<string, Set<{ isAlone: boolean }>>();

  /** Until it is disposed. */
  enter(place: string): Stay {
    const there = this.#there.get(place) ?? new Set();
    this.#there.set(place, there);
    const own = { isAlone: there.size === 0, [Symbol.dispose]: () => this.#leave(place, own) };
    for (const other of there) other.isAlone = false;
    there.add(own);
    return own;
  }

  #leave(place: string, own: { isAlone: boolean }): void {
    const there = this.#there.get(place);
    there?.delete(own);
    if (there?.size === 0) this.#there.delete(place);
  }
}
