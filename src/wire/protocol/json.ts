/**
 * Messages as JSON text, for the WebSocket subprotocol `ringfence.v1.json`. Bytes become base64 strings. Parsed by our own single-pass
 * parser: JSON.parse bounds neither depth nor count, and hides duplicate keys. text/json.ts tells why it is another one than the
 * reader there.
 */
import { RpcError } from '../../base/errors.ts';
import { endOfString } from '../../base/text/json.ts';
import { type DecodeLimits, toPlain } from './codec.ts';

/**
 * One message as JSON in UTF-8. Undefined members are omitted; undefined items, NaN and infinities become null. Throws TypeError and
 * RangeError where `encode` does.
 */
export const encodeJson = (value: unknown): Buffer => Buffer.from(toJson(value));

/** Like `encodeJson`, as a string. */
export const toJson = (value: unknown): string => JSON.stringify(toPlain(value, scalarOfJson)) ?? 'null';

function scalarOfJson(value: string | number | Uint8Array): unknown {
  if (typeof value === 'number') return value;
  if (typeof value === 'string') return value.toWellFormed();
  return Buffer.from(value.buffer, value.byteOffset, value.length).toString('base64');
}

/**
 * Decodes one message with objects as from `decode`: no prototype, no duplicate key, no integer that a double would change. Throws RpcError
 * PARSE, with reason and position, for anything that is not JSON or exceeds `limits`.
 */
export function decodeJson(bytes: Uint8Array, limits: DecodeLimits): unknown {
  let text: string;
  try {
    text = utf8.decode(bytes);
  } catch {
    throw new RpcError('PARSE', 'not an acceptable message: invalid UTF-8'); // The only failure of a fatal decoder.
  }
  return new Reader(text, limits).message();
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const LITERALS = [
  ['null', null],
  ['true', true],
  ['false', false],
] as const;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
const INTEGER = /^-?\d+$/;
/** Longest number; no double needs more, and longer ones cost time and stack in the expressions above. */
const NUMBER_CHARS_MAX = 64;
/** V8 copies slices of up to this many characters; a longer slice would keep the whole message in memory. */
const COPIED_CHARS_MAX = 12;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const COMMA = 0x2c;
const COLON = 0x3a;

class Reader {
  readonly #text: string;
  readonly #limits: DecodeLimits;
  #elementsLeft: number;
  #at = 0;

  constructor(text: string, limits: DecodeLimits) {
    this.#text = text;
    this.#limits = limits;
    this.#elementsLeft = limits.messageElementsMax;
  }

  message(): unknown {
    const value = this.#value(0);
    this.#skipSpace();
    if (this.#at < this.#text.length) this.#refuse('something follows the message');
    return value;
  }

  #refuse(reason: string): never {
    throw new RpcError('PARSE', `not an acceptable message: ${reason}, at character ${this.#at}`);
  }

  #skipSpace(): void {
    const text = this.#text;
    let at = this.#at;
    while (at < text.length && isSpace(text.charCodeAt(at))) at += 1;
    this.#at = at;
  }

  /** Consumes the next character after white space if it is `char`; returns whether it was. */
  #skipIf(char: number): boolean {
    this.#skipSpace();
    if (this.#text.charCodeAt(this.#at) !== char) return false;
    this.#at += 1;
    return true;
  }

  #count(): void {
    this.#elementsLeft -= 1;
    if (this.#elementsLeft < 0) this.#refuse(`more than ${this.#limits.messageElementsMax} elements`);
  }

  #value(depth: number): unknown {
    this.#count();
    this.#skipSpace();
    switch (this.#text.charCodeAt(this.#at)) {
      case QUOTE:
        return this.#string();
      case OPEN_BRACE:
        return this.#object(depth);
      case OPEN_BRACKET:
        return this.#array(depth);
    }
    for (const [word, value] of LITERALS) {
      if (!this.#text.startsWith(word, this.#at)) continue;
      this.#at += word.length;
      return value;
    }
    return this.#number();
  }

  #number(): number {
    const text = this.#text;
    let end = this.#at;
    while (isOfNumber(text.charCodeAt(end)) && end - this.#at <= NUMBER_CHARS_MAX) end += 1;
    const token = text.slice(this.#at, end);
    if (token.length > NUMBER_CHARS_MAX) this.#refuse(`a number of more than ${NUMBER_CHARS_MAX} characters`);
    if (!NUMBER.test(token)) this.#refuse(this.#at < text.length ? 'not JSON' : 'it ends too early');
    const value = Number(token);
    if (!Number.isFinite(value)) this.#refuse('a number beyond a double');
    // JavaScript also writes large doubles as integers; these survive the round trip.
    const exact = Number.isSafeInteger(value) || !INTEGER.test(token) || String(value) === token;
    if (!exact) this.#refuse('an integer that a double would change');
    this.#at = end;
    return value;
  }

  #string(): string {
    const text = this.#text;
    const end = endOfString(text, this.#at + 1);
    if (end < 0) this.#refuse('a string without an end');
    const plain = end - this.#at - 1 <= COPIED_CHARS_MAX && isPlain(text, this.#at + 1, end);
    const string = plain ? text.slice(this.#at + 1, end) : this.#unescaped(text.slice(this.#at, end + 1));
    this.#at = end + 1;
    return string;
  }

  #unescaped(token: string): string {
    let string: string;
    try {
      string = JSON.parse(token) as string;
    } catch {
      return this.#refuse('a string with what JSON has not in it'); // A SyntaxError, whose message would quote what the peer sent.
    }
    return string.isWellFormed() ? string : this.#refuse('half a surrogate pair');
  }

  #enter(depth: number): void {
    const { messageDepthMax } = this.#limits;
    if (depth >= messageDepthMax) this.#refuse(`nested more than ${messageDepthMax} deep`);
    this.#at += 1;
  }

  #array(depth: number): unknown[] {
    this.#enter(depth);
    const array: unknown[] = [];
    if (this.#skipIf(CLOSE_BRACKET)) return array;
    do array.push(this.#value(depth + 1));
    while (this.#skipIf(COMMA));
    if (!this.#skipIf(CLOSE_BRACKET)) this.#refuse('an array that does not go on');
    return array;
  }

  #object(depth: number): Record<string, unknown> {
    this.#enter(depth);
    const object: Record<string, unknown> = Object.create(null);
    if (this.#skipIf(CLOSE_BRACE)) return object;
    do {
      this.#count();
      this.#skipSpace();
      if (this.#text.charCodeAt(this.#at) !== QUOTE) this.#refuse('a key that is not a string');
      const key = this.#string();
      if (key in object) this.#refuse('a duplicate key');
      if (!this.#skipIf(COLON)) this.#refuse('a key without a value');
      object[key] = this.#value(depth + 1);
    } while (this.#skipIf(COMMA));
    if (!this.#skipIf(CLOSE_BRACE)) this.#refuse('an object that does not go on');
    return object;
  }
}

const isSpace = (char: number): boolean => char === 0x20 || char === 0x0a || char === 0x0d || char === 0x09;

/** Whether a character can be part of a number: a digit, or one of `+-.eE`. */
const isOfNumber = (char: number): boolean =>
  (char >= 0x30 && char <= 0x39) || char === 0x2b || char === 0x2d || char === 0x2e || (char | 0x20) === 0x65;

/** Whether the characters from `start` to `end` need no decoding and are valid in a JSON string. */
function isPlain(text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const char = text.charCodeAt(at);
    if (char < 0x20 || char === BACKSLASH) return false;
  }
  return true;
}
