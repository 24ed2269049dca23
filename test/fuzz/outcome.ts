/** Short names for what came of an input. */

/** A message without the numbers and quoted parts that come from the input. */
export const shapeOfMessage = (message: string): string =>
  message
    .slice(0, 300)
    .replace(/`[^`]*`|"[^"]*"|'[^']*'/g, 'Q')
    .replace(/0x[0-9a-f]+|\d+/g, 'N')
    .slice(0, 120);

export const shapeOfValue = (value: unknown): string => {
  if (Array.isArray(value)) return `array of ${Math.min(value.length, 3)}`;
  if (value instanceof Uint8Array) return 'bytes';
  if (typeof value !== 'object' || value === null) return typeof value;
  return `object of ${Math.min(Object.keys(value).length, 3)}`;
};

/** Throws if the law does not hold. */
export function holds(law: boolean, what: string): asserts law {
  if (!law) throw new Error(`broken: ${what}`);
}
