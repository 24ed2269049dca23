/** Approximate size of a value in a message: at most so many bytes, and how many elements. */
export function measure(value: unknown): { bytes: number; elements: number } {
  const sum = { bytes: 0, elements: 0 };
  const add = (it: unknown): void => {
    sum.elements += 1;
    sum.bytes += 9;
    if (typeof it === 'string') sum.bytes += 3 * it.length;
    else if (it instanceof Uint8Array) sum.bytes += it.length;
    else if (Array.isArray(it)) for (const item of it) add(item);
    else if (typeof it === 'object' && it !== null) {
      for (const [key, item] of Object.entries(it)) {
        sum.elements += 1;
        sum.bytes += key.length + 5;
        add(item);
      }
    }
  };
  add(value);
  return sum;
}
