/**
 * Takes secrets out of what is shown, stored or sent: each becomes `[redacted:<kind>]`, and what is none stays as it was, byte
 * for byte. It guards against accidents; who runs commands can always write a secret in another way, so secrets that must not
 * be read are the policy's to deny. src/redact/ says what secrets look like.
 */
import { CREDENTIALS, KEY_BLOCK_END_CHARS, keyBlockEnd } from './redact/credentials.ts';
import { CONTEXT_CHARS, type Look, type Rest, restEnd } from './redact/rule.ts';
import { type Found, LiteralSearch, latin1 } from './redact/search.ts';
import { TOKENS } from './redact/tokens.ts';

/** Told of each secret that was hidden, by its kind. */
export type OnSecret = (kind: string) => void;

const search = new LiteralSearch([...TOKENS, ...CREDENTIALS]);

/** One text that comes in parts. */
class Redaction {
  secrets = 0;
  readonly #onSecret: OnSecret | undefined;
  /** What is not decided yet, and the characters before it that rules may look at. */
  #text = '';
  /** Up to where `#text` is decided. */
  #decided = 0;
  /** Up to where `#text` was given out or hidden; beyond `#decided` only after a flush. */
  #given = 0;
  /** The end of a secret whose beginning was hidden. */
  #rest: Rest | undefined;
  /** Whether what is held is part of a value, and not only of what stands before one. */
  #withinValue = false;

  constructor(onSecret?: OnSecret) {
    this.#onSecret = onSecret;
  }

  get held(): number {
    return this.#rest ? 0 : this.#text.length - this.#given;
  }

  /** `clear`: characters from the start that hold no secret, and are not looked at; of a text that nothing came before. */
  push(text: string, final: boolean, clear = 0): string {
    this.#text = this.#text === '' ? text : this.#text + text;
    if (clear > 0) this.#decided = clear;
    let out = '';
    this.#withinValue = false;
    while (this.#rest === undefined || this.#endRest(final)) {
      const { decided, look } = this.#look(final);
      if (typeof look !== 'object') {
        out += this.#give(decided);
        this.#decided = decided;
        this.#withinValue = look === 'partial';
        break;
      }
      out += `${this.#give(look.from)}[redacted:${look.kind}]`;
      this.secrets += 1;
      this.#onSecret?.(look.kind);
      this.#decided = look.to;
      this.#given = Math.max(this.#given, look.to);
      this.#rest = look.rest;
    }
    const cut = Math.max(0, this.#decided - CONTEXT_CHARS);
    this.#text = this.#text.slice(cut);
    this.#decided -= cut;
    this.#given -= cut;
    return out;
  }

  /** Gives out what is held, unless it is part of a value; what is still to come is judged as if it had been kept. */
  flush(): string {
    return this.#rest || this.#withinValue ? '' : this.#give(this.#text.length);
  }

  #give(to: number): string {
    if (to <= this.#given) return '';
    const part = this.#text.slice(this.#given, to);
    this.#given = to;
    return part;
  }

  /** The next secret; or up to where there is none, and whether one may have begun there. */
  #look(final: boolean): { decided: number; look: Look } {
    const text = this.#text;
    let from = this.#decided;
    for (;;) {
      const found = search.next(text, from);
      if (!found) return { decided: final ? text.length : search.begun(text, from), look: 'early' };
      for (const rule of found.rules) {
        const look = rule.look({ text, at: found.at, end: found.end, final });
        if (look !== 'none') return { decided: found.at, look };
      }
      from = found.at + 1;
    }
  }

  /** Swallows the rest of a secret as far as it has come; true when that is all of it. */
  #endRest(final: boolean): boolean {
    const rest = this.#rest as Rest;
    const { length } = this.#text;
    const isBlock = rest === 'key-block';
    const end = isBlock ? keyBlockEnd(this.#text, this.#decided) : restEnd(rest, this.#text, this.#decided);
    const ended = final || end !== undefined;
    this.#given = end ?? length;
    // The end marker of a block may be coming in parts.
    this.#decided = ended || !isBlock ? this.#given : Math.max(this.#decided, length - KEY_BLOCK_END_CHARS);
    if (ended) this.#rest = undefined;
    return ended;
  }
}

/** `text` with its secrets replaced; the same string where it has none. */
export function redactText(text: string, onSecret?: OnSecret): string {
  let found = search.next(text, 0);
  while (found && !isSecret(text, found)) found = search.next(text, found.at + 1);
  if (!found) return text;
  const redaction = new Redaction(onSecret);
  const redacted = redaction.push(text, true, found.at);
  return redaction.secrets === 0 ? text : redacted;
}

const isSecret = (text: string, { at, end, rules }: Found): boolean =>
  rules.some((it) => it.look({ text, at, end, final: true }) !== 'none');

/**
 * Bytes that come in chunks, cut anywhere: what it gives is, put together, what `redactText` makes of the whole. Whole lines
 * are given at once; the beginning of what may become a secret is held back until it is decided, at most about 2 KiB. The
 * rest of a longer secret is dropped as it comes: that of a private key up to its end marker, or a character that no key has.
 */
export class RedactingStream {
  readonly #redaction: Redaction;

  constructor(onSecret?: OnSecret) {
    this.#redaction = new Redaction(onSecret);
  }

  /** Bytes that came and are held back. */
  get pending(): number {
    return this.#redaction.held;
  }

  /** What can be given of all that came; the chunk itself where nothing is to be changed. */
  push(chunk: Uint8Array): Uint8Array {
    const { held, secrets } = this.#redaction;
    const text = this.#redaction.push(latin1(chunk), false);
    const isUnchanged = held === 0 && secrets === this.#redaction.secrets && text.length === chunk.length;
    return isUnchanged ? chunk : Buffer.from(text, 'latin1');
  }

  /**
   * For when nothing came for a while: what is held back, unless characters of a value are in it. A prompt is shown so, half a
   * token never.
   */
  flush(): Uint8Array {
    return Buffer.from(this.#redaction.flush(), 'latin1');
  }

  /** What is left; what comes afterwards is a new text. */
  end(): Uint8Array {
    return Buffer.from(this.#redaction.push('', true), 'latin1');
  }
}

export interface RedactOptions {
  /**
   * Whether a text under the name of a secret (`password`, `apiKey`, `Cookie`) is hidden whatever it is, `[redacted]`, and names
   * that are secrets themselves are, too.
   */
  readonly byKey?: boolean;
  readonly onSecret?: OnSecret;
}

const SECRET_KEY =
  /(?:password|passwd|passphrase|secret|token|apikey|accesskey|privatekey|secretkey|authorization|cookie|credentials?)$/;
const isSecretKey = (key: string) => SECRET_KEY.test(key.slice(-64).replaceAll(/[-_ ]/g, '').toLowerCase());

/**
 * Plain data with the secrets in its texts replaced, at any depth (that of decoded messages is bounded); bytes are read as text.
 * Only what holds one is copied. Names of members are left as they are, unless `byKey`.
 */
export function redactValue(value: unknown, options: RedactOptions = {}): unknown {
  if (typeof value === 'string') return redactText(value, options.onSecret);
  if (typeof value !== 'object' || value === null) return value;
  if (value instanceof Uint8Array) return redactBytes(value, options);
  if (Array.isArray(value)) {
    const items = value.map((it) => redactValue(it, options));
    return items.every((it, at) => it === value[at]) ? value : items;
  }
  if (!isPlain(value)) return value;
  const entries = Object.entries(value);
  const names = options.byKey ? new Map<string, number>() : undefined;
  let changed = false;
  for (const entry of entries) {
    const [key, member] = entry;
    entry[1] = names && isSecretKey(key) ? hidden(member, options) : redactValue(member, options);
    if (names) entry[0] = shownName(key, names, options);
    changed ||= entry[1] !== member || entry[0] !== key;
  }
  return changed ? Object.fromEntries(entries) : value;
}

/** Different names stay different, by a number, so that no member hides another. */
function shownName(key: string, seen: Map<string, number>, { onSecret }: RedactOptions): string {
  const shown = redactText(key, onSecret);
  if (shown === key) return key;
  const n = (seen.get(shown) ?? 0) + 1;
  seen.set(shown, n);
  return n === 1 ? shown : `${shown} ${n}`;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function hidden(value: unknown, options: RedactOptions): unknown {
  if (Array.isArray(value)) return value.map((it) => hidden(it, options));
  const isText = (typeof value === 'string' && value !== '') || value instanceof Uint8Array;
  if (!isText) return redactValue(value, options);
  options.onSecret?.('key');
  return '[redacted]';
}

function redactBytes(bytes: Uint8Array, { onSecret }: RedactOptions): Uint8Array {
  const text = latin1(bytes);
  const redacted = redactText(text, onSecret);
  return redacted === text ? bytes : Buffer.from(redacted, 'latin1');
}
