/** Tells which calls ran beside others in one workspace, so that a result can say that its file changes may be another call's. */

export interface Stay extends Disposable {
  /** Whether no other call was in the workspace since this one entered. */
  readonly isAlone: boolean;
}

export class Beside {
  readonly #there = new Map<string, Set<{ isAlone: boolean }>>();

  /** Enters a workspace; disposing the stay leaves it. */
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
