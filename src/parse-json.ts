/**
 * JSON.parse, where V8's own is wrong. An object whose keys so far are those of one that was parsed before it, in which a
 * key with a backslash in its name came next, may get that name in place of its own: after `{"a": [], "\\": 0}` the text
 * `{"a": 1, "\n": 2}` has a key `\` (Node 24 to 26.10; https://github.com/nodejs/node/issues/63785). Only keys that are
 * written with escapes are concerned, so that they are looked for, and a text that has one is put together here.
 */

const BACKSLASH = 0x5c;
const COLON = 0x3a;

/** The value of a JSON text of any depth, as of JSON.parse. Throws SyntaxError as JSON.parse does. */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  return text.includes('\\') && hasEscapedKey(text) ? assembled(text) : value;
}

/** Where the quote is that ends the string whose first character is at `start`; -1 when there is none. */
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

interface Open {
  readonly value: unknown[] | Record<string, unknown>;
  key: string | undefined;
}

/** What a text that JSON.parse took says; single strings, numbers and words are left to it. */
function assembled(json: string): unknown {
  const root: unknown[] = [];
  let open: Open = { value: root, key: undefined };
  const around: Open[] = [];
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
    } else if (char === '}' || char === ']') open = around.pop() as Open;
    else if (char !== ',' && char !== ':') {
      end = char === '"' ? endOfString(json, end) + 1 : endOfWord(json, end);
      const value: unknown = JSON.parse(json.slice(at, end));
      if (!Array.isArray(open.value) && open.key === undefined) open.key = value as string;
      else put(value);
    }
  }
  return root[0];
}

/** As an assignment makes it, which would set a prototype, or be refused where the one there is frozen. */
const OWN = { configurable: true, enumerable: true, writable: true } as const;

const WORD = /[\w.+-]*/y;

/** Of a number, true, false or null. */
function endOfWord(json: string, start: number): number {
  WORD.lastIndex = start;
  WORD.test(json);
  return WORD.lastIndex;
}
