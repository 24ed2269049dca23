/**
 * A map for what comes and goes with each call. V8 leaves the tables of a `Map` behind whenever it has filled up with holes;
 * those in its old space keep what was in them alive until it next looks through the whole heap, and everything that hangs
 * on it is copied twice before. Here what is deleted is let go of at once.
 */
export class ChurningMap<K, V> {
  readonly #places = new Map<K, { value: V | undefined }>();

  get size(): number {
    return this.#places.size;
  }

  has(key: K): boolean {
    return this.#places.has(key);
  }

  get(key: K): V | undefined {
    return this.#places.get(key)?.value;
  }

  set(key: K, value: V): void {
    const place = this.#places.get(key);
    if (place) place.value = value;
    else this.#places.set(key, { value });
  }

  delete(key: K): boolean {
    const place = this.#places.get(key);
    if (!place) return false;
    place.value = undefined;
    return this.#places.delete(key);
  }

  /** In the order in which their keys came. */
  values(): V[] {
    return Array.from(this.#places.values(), (it) => it.value as V);
  }
}
