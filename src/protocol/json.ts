/** The same messages as JSON text, for the WebSocket subprotocol `ringfence.v1.json`. Bytes are rendered as base64. */
import { RpcError } from '../errors.ts';
import type { DecodeLimits } from './codec.ts';

/** Plain data as JSON text; Buffers and Uint8Arrays become base64 strings. */
export function encodeJson(value: unknown): Buffer {
  const text = JSON.stringify(value, function (this: Record<string, unknown>, key, it: unknown) {
    const raw = this[key]; // `it` has been through Buffer.prototype.toJSON already.
    return raw instanceof Uint8Array ? Buffer.from(raw.buffer, raw.byteOffset, raw.length).toString('base64') : it;
  });
  return Buffer.from(text, 'utf8');
}

/** Decodes one message; depth and number of values are bounded before JSON.parse sees them. Of a key that comes twice the last counts. Throws PARSE. */
export function decodeJson(bytes: Uint8Array, limits: DecodeLimits): unknown {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw refuse('not UTF-8'); // The one failure of a fatal decoder.
  }
  assertBounded(text, limits);
  try {
    return JSON.parse(text, withoutPrototype);
  } catch {
    throw refuse('not JSON'); // A SyntaxError, which quotes what the peer sent.
  }
}

const refuse = (reason: string): RpcError => new RpcError('PARSE', `not an acceptable message: ${reason}`);

function withoutPrototype(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.setPrototypeOf(value, null);
}

/** Counts brackets and commas outside of strings; every value but the first of a container follows a comma. */
function assertBounded(text: string, { messageDepthMax, messageElementsMax }: DecodeLimits): void {
  let depth = 0;
  let values = 1;
  let inString = false;
  for (let at = 0; at < text.length; at++) {
    const char = text.charCodeAt(at);
    if (inString) {
      if (char === 0x5c) at += 1;
      else if (char === 0x22) inString = false;
    } else if (char === 0x22) inString = true;
    else if (char === 0x7b || char === 0x5b) {
      depth += 1;
      values += 1;
      if (depth > messageDepthMax) throw refuse(`nested deeper than ${messageDepthMax}`);
    } else if (char === 0x7d || char === 0x5d) depth -= 1;
    else if (char === 0x2c || char === 0x3a) values += 1;
  }
  if (values > messageElementsMax) throw refuse('too many values');
}
