/**
 * A JSON.parse that works around a bug of V8: if the keys of an object so far equal those of an object parsed before,
 * whose next key had a backslash in its name, the next key may get that name instead of its own. After `{"a": [],
 * "\\": 0}`, the text `{"a": 1, "\n": 2}` gets a key `\` (Node 24 to 26.10;
 * https://github.com/nodejs/node/issues/63785). Only keys written with escapes are affected, so texts with such keys
 * are assembled here.
 *
 * protocol/json.ts has the other reader of JSON. The two stay apart, since they differ in all but where a string ends:
 * that one parses each character of a peer's message by itself, refuses what exceeds its bounds, and gives objects
 * without a prototype; this one leaves syntax and speed to JSON.parse, takes any depth without recursion, and gives
 * plain objects, of which the last of equal keys counts. A common reader would have an option for each difference.
 */

const BACKSLASH = 0x5c;
const COLON = 0x3a;

/** The value of a JSON text of any depth, like JSON.parse. Throws SyntaxError. */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return text.includes('\\') && hasEscapedKey(text) ? assembled(text) : value;
}

/** The value of a JSON text; `otherwise` for a text that is not JSON. */
export function jsonOr(text: string, otherwise: unknown): unknown {
  try {
    return parseJson(text);
  } catch {
    return otherwise; // SyntaxError
  }
}

/** Position of the quote that ends the string whose first character is at `start`; -1 if there is none. */
export function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start);
  while (end >= 0 && isEscaped(text, start, end)) end = text.indexOf('"', end + 1);
  return end;
}

/** Whether an odd number of backslashes stands before `at`, in a string that begins at `start`. */
function isEscaped(text: string, start: number, at: number): boolean {
  let first = at;
  while (first > start && text.charCodeAt(first - 1) === BACKSLASH) first -= 1;
  return (at - first) % 2 === 1;
}

function hasEscapedKey(json: string): boolean {
  let escaped = json.indexOf('\\');
  for (let start = json.indexOf('"'); start >= 0; start = json.indexOf('"', start)) {
    const end = endOfString(json, start + 1);
    if (escaped < end) {
      if (json.charCodeAt(afterSpace(json, end + 1)) === COLON) return true;
      escaped = json.indexOf('\\', end);
      if (escaped < 0) return false;
    }
    start = end + 1;
  }
  return false;
}

function afterSpace(json: string, start: number): number {
  let at = start;
  while (json.charCodeAt(at) <= 0x20) at += 1;
  return at;
}

interface OpenContainer {
  readonly value: unknown[] | Record<string, unknown>;
  key: string | undefined;
}

/** Assembles the value of a text that JSON.parse accepted; leaves single strings, numbers and words to JSON.parse. */
function assembled(json: string): unknown {
  const root: unknown[] = [];
  let open: OpenContainer = { value: root, key: undefined };
  const around: OpenContainer[] = [];
  const put = (value: unknown) => {
    if (Array.isArray(open.value)) open.value.push(value);
    else Object.defineProperty(open.value, open.key as string, { ...OWN, value });
    open.key = undefined;
  };
  for (let at = afterSpace(json, 0), end = at; at < json.length; at = afterSpace(json, end)) {
    const char = json[at] as string;
    end = at + 1;
    if (char === '{' || char === '[') {
      const value = char === '{' ? {} : [];
      put(value);
      around.push(open);
      open = { value, key: undefined };
    } else if (char === '}' || char === ']') open = around.pop() as OpenContainer;
    else if (char !== ',' && char !== ':') {
      end = char === '"' ? endOfString(json, end) + 1 : endOfWord(json, end);
      const value: unknown = JSON.parse(json.slice(at, end));
      if (!Array.isArray(open.value) && open.key === undefined) open.key = value as string;
      else put(value);
    }
  }
  return root[0];
}

/** Defines a property like an assignment; a real one could set a prototype, or fail if that is frozen. */
const OWN = { configurable: true, enumerable: true, writable: true } as const;

const WORD = /[\w.+-]*/y;

/** The end of a number, true, false or null. */
function endOfWord(json: string, start: number): number {
  WORD.lastIndex = start;
  WORD.test(json);
  return WORD.lastIndex;
}
