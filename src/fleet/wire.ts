/** Messages on the bus as JSON. */
import { parseJson } from '../base/text/json.ts';

export const toWire = (value: unknown): Uint8Array => Buffer.from(JSON.stringify(value));

/** The value of a message; undefined if it is not JSON. */
export function fromWire(data: Uint8Array): unknown {
  try {
    return parseJson(Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString());
  } catch {
    return undefined; // A SyntaxError: somebody sent something else.
  }
}
