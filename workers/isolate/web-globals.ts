/**
 * Globals that programs of browsers and Node expect and that the bare engine lacks. Their source runs in the guest's realm, so
 * no object of the host is behind them.
 */
import { type UrlParts, urlGlobalSources, urlsOf } from './url-globals.ts';

/** The sources of all functions here; they run as text in the guest's realm. */
export const webGlobalSources = (): string =>
  [defineWebGlobals, textCodings, decodeUtf8, cloneStructure, abortsOf, urlGlobalSources()].join('\n');

type Timeout = (work: unknown, delayMs?: unknown) => number;

/** Defines the globals in the guest's realm; calls only functions that stand beside it in the script. */
export function defineWebGlobals(later: Timeout, partsOf: UrlParts): void {
  const urls = urlsOf(partsOf, decodeUtf8, JSON.parse);
  const globals = { ...textCodings(), structuredClone: cloneStructure, ...abortsOf(later), ...urls };
  for (const [name, value] of Object.entries(globals))
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false });
}

/** UTF-8 only, as WHATWG's Encoding Standard decodes it. */
function textCodings() {
  class TextEncoder {
    readonly encoding = 'utf-8';
    encode(text: unknown = ''): Uint8Array {
      const escaped = encodeURIComponent(String(text).toWellFormed());
      const bytes = new Uint8Array(escaped.length);
      let size = 0;
      for (let at = 0; at < escaped.length; at++) {
        if (escaped[at] === '%') {
          bytes[size++] = Number.parseInt(escaped.slice(at + 1, at + 3), 16);
          at += 2;
        } else bytes[size++] = escaped.charCodeAt(at);
      }
      return bytes.slice(0, size);
    }
  }
  class TextDecoder {
    readonly encoding = 'utf-8';
    readonly fatal: boolean;
    readonly ignoreBOM: boolean;
    #rest = new Uint8Array();
    #isBegun = false;
    constructor(label: unknown = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      if (!/^\s*utf-?8\s*$/i.test(String(label)))
        throw new RangeError(`TextDecoder decodes utf-8 here, not ${String(label).slice(0, 64)}`);
      this.fatal = fatal;
      this.ignoreBOM = ignoreBOM;
    }
    decode(given: ArrayBuffer | ArrayBufferView = new Uint8Array(), { stream = false } = {}): string {
      const added = ArrayBuffer.isView(given)
        ? new Uint8Array(given.buffer, given.byteOffset, given.byteLength)
        : new Uint8Array(given);
      const bytes = new Uint8Array(this.#rest.length + added.length);
      bytes.set(this.#rest);
      bytes.set(added, this.#rest.length);
      const [text, end] = decodeUtf8(bytes, this.fatal, stream);
      this.#rest = bytes.slice(end);
      const marked = !this.#isBegun && !this.ignoreBOM && text[0] === '\uFEFF';
      this.#isBegun = stream && (this.#isBegun || text !== '');
      return marked ? text.slice(1) : text;
    }
  }
  return { TextEncoder, TextDecoder };
}

/** The text, and where an incomplete character at the end begins that a stream may still complete. */
function decodeUtf8(bytes: Uint8Array, fatal: boolean, stream: boolean): [text: string, end: number] {
  let text = '';
  let at = 0;
  while (at < bytes.length) {
    const begin = at;
    const first = bytes[at++] as number;
    const more = first < 0x80 ? 0 : first < 0xc2 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : -1;
    let point = more <= 0 ? first : first & (0x3f >> more);
    // The second byte's bounds exclude what is overlong, a surrogate, or beyond Unicode.
    let [least, most] = [0x80, 0xbf];
    if (first === 0xe0) least = 0xa0;
    else if (first === 0xed) most = 0x9f;
    else if (first === 0xf0) least = 0x90;
    else if (first === 0xf4) most = 0x8f;
    let seen = 0;
    for (; seen < more && at < bytes.length; seen++, at++) {
      const next = bytes[at] as number;
      if (next < least || next > most) break;
      [least, most] = [0x80, 0xbf];
      point = (point << 6) | (next & 0x3f);
    }
    if (seen < more && at === bytes.length && stream) return [text, begin];
    if (seen !== more && fatal) throw new TypeError(`the byte at ${begin} begins no UTF-8 character`);
    text += seen === more ? String.fromCodePoint(point) : '\uFFFD';
  }
  return [text, at];
}

function cloneStructure(value: unknown): unknown {
  const copies = new Map<object, unknown>();
  const uncloneable = (it: unknown) =>
    Object.assign(new Error(`a ${typeof it} could not be cloned`), { name: 'DataCloneError' });
  const kept = <T>(it: object, copy: T): T => {
    copies.set(it, copy);
    return copy;
  };
  const copyOf = (it: unknown): unknown => {
    if (typeof it === 'function' || typeof it === 'symbol') throw uncloneable(it);
    if (typeof it !== 'object' || it === null) return it;
    if (copies.has(it)) return copies.get(it);
    if (it instanceof Promise || it instanceof WeakMap || it instanceof WeakSet) throw uncloneable(it);
    if (it instanceof Date) return kept(it, new Date(it.getTime()));
    if (it instanceof RegExp) return kept(it, new RegExp(it.source, it.flags));
    if (it instanceof ArrayBuffer) return kept(it, it.slice(0));
    if (ArrayBuffer.isView(it)) {
      const { buffer, byteOffset, byteLength, length } = it as Uint8Array;
      return kept(it, Reflect.construct(it.constructor, [copyOf(buffer), byteOffset, length ?? byteLength]));
    }
    if (it instanceof Map) {
      const map = kept(it, new Map());
      for (const [key, held] of it) map.set(copyOf(key), copyOf(held));
      return map;
    }
    if (it instanceof Set) {
      const set = kept(it, new Set());
      for (const held of it) set.add(copyOf(held));
      return set;
    }
    if (it instanceof Error) {
      const { name, message, stack } = it;
      const known = [EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError];
      const copy = kept(it, new (known.find((of) => of.name === name) ?? Error)(message));
      return Object.assign(copy, { stack }, 'cause' in it && { cause: copyOf(it.cause) });
    }
    const copy = kept<Record<string, unknown>>(it, (Array.isArray(it) ? new Array(it.length) : {}) as never);
    for (const [key, held] of Object.entries(it))
      Object.defineProperty(copy, key, {
        value: copyOf(held),
        writable: true,
        configurable: true,
        enumerable: true,
      });
    return copy;
  };
  return copyOf(value);
}

function abortsOf(later: Timeout) {
  type Listener = (event: { readonly type: 'abort'; readonly target: AbortSignal }) => void;
  const named = (name: string, message: string) => Object.assign(new Error(message), { name });
  let end: (signal: AbortSignal, reason?: unknown) => void;
  class AbortSignal {
    #aborted = false;
    #reason: unknown = undefined;
    readonly #listeners = new Set<Listener>();
    onabort: Listener | null = null;
    static {
      end = (signal, reason) => signal.#end(reason);
    }
    static abort(reason?: unknown): AbortSignal {
      const signal = new AbortSignal();
      signal.#end(reason);
      return signal;
    }
    static timeout(delayMs: number): AbortSignal {
      const signal = new AbortSignal();
      later(() => signal.#end(named('TimeoutError', 'the operation took too long')), delayMs);
      return signal;
    }
    static any(signals: Iterable<AbortSignal>): AbortSignal {
      const all = [...signals];
      const ended = all.find((it) => it.aborted);
      if (ended) return AbortSignal.abort(ended.reason);
      const signal = new AbortSignal();
      for (const it of all) it.addEventListener('abort', () => signal.#end(it.reason));
      return signal;
    }
    get aborted(): boolean {
      return this.#aborted;
    }
    get reason(): unknown {
      return this.#reason;
    }
    throwIfAborted(): void {
      if (this.#aborted) throw this.#reason;
    }
    addEventListener(type: string, listener: Listener): void {
      if (type === 'abort') this.#listeners.add(listener);
    }
    removeEventListener(type: string, listener: Listener): void {
      if (type === 'abort') this.#listeners.delete(listener);
    }
    #end(reason: unknown = named('AbortError', 'the operation was aborted')): void {
      if (this.#aborted) return;
      this.#aborted = true;
      this.#reason = reason;
      const event = { type: 'abort', target: this } as const;
      for (const listener of [this.onabort, ...this.#listeners]) listener?.call(this, event);
      this.#listeners.clear();
    }
  }
  class AbortController {
    readonly signal = new AbortSignal();
    abort(reason?: unknown): void {
      end(this.signal, reason);
    }
  }
  return { AbortController, AbortSignal };
}
