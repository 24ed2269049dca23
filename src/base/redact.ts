/**
 * Replaces secrets in everything shown, stored or sent with `[redacted:<kind>]`; all other text stays unchanged byte for byte. This guards
 * against accidents: a command can always write a secret in another form, so secrets that must not be read need a policy that denies
 * reading them. src/base/redact/ defines what secrets look like.
 */
import { CREDENTIALS, KEY_BLOCK_END_CHARS, keyBlockEnd } from './redact/credentials.ts';
import { CONTEXT_CHARS, type MatchResult, restEnd, type SecretRest } from './redact/rule.ts';
import { type LiteralHit, LiteralSearch, latin1 } from './redact/search.ts';
import { TOKENS } from './redact/tokens.ts';

/** Called with the kind of each secret that was hidden. */
export type OnSecret = (kind: string) => void;

const search = new LiteralSearch([...TOKENS, ...CREDENTIALS]);

/** Redacts one text that arrives in parts. */
class Redaction {
  secrets = 0;
  readonly #onSecret: OnSecret | undefined;
  /** Undecided text, and the characters before it that rules may look at. */
  #text = '';
  /** Offset in `#text` up to which everything is decided. */
  #decided = 0;
  /** Offset in `#text` up to which text was output or hidden; greater than `#decided` only after a flush. */
  #released = 0;
  /** How to recognise the end of a secret whose beginning was hidden. */
  #skippedRest: SecretRest | undefined;
  /** Whether the held text is part of a value, and not only the text before one. */
  #withinValue = false;

  constructor(onSecret?: OnSecret) {
    this.#onSecret = onSecret;
  }

  get held(): number {
    return this.#skippedRest ? 0 : this.#text.length - this.#released;
  }

  /**
   * Adds text and returns what is decided. `clear` is the number of leading characters known to hold no secret; only for the first text.
   */
  push(text: string, final: boolean, clear = 0): string {
    this.#text = this.#text === '' ? text : this.#text + text;
    if (clear > 0) this.#decided = clear;
    let out = '';
    this.#withinValue = false;
    while (this.#skippedRest === undefined || this.#endRest(final)) {
      const { decided, look } = this.#nextSecret(final);
      if (typeof look !== 'object') {
        out += this.#release(decided);
        this.#decided = decided;
        this.#withinValue = look === 'partial';
        break;
      }
      out += `${this.#release(look.from)}[redacted:${look.kind}]`;
      this.secrets += 1;
      this.#onSecret?.(look.kind);
      this.#decided = look.to;
      this.#released = Math.max(this.#released, look.to);
      this.#skippedRest = look.rest;
    }
    const cut = Math.max(0, this.#decided - CONTEXT_CHARS);
    this.#text = this.#text.slice(cut);
    this.#decided -= cut;
    this.#released -= cut;
    return out;
  }

  /** Returns the held text unless it is part of a value; later text is judged as if it were still held. */
  flush(): string {
    return this.#skippedRest || this.#withinValue ? '' : this.#release(this.#text.length);
  }

  #release(to: number): string {
    if (to <= this.#released) return '';
    const part = this.#text.slice(this.#released, to);
    this.#released = to;
    return part;
  }

  /** Finds the next secret; otherwise, how far the text is decided and whether a secret may have begun there. */
  #nextSecret(final: boolean): { decided: number; look: MatchResult } {
    const text = this.#text;
    let from = this.#decided;
    for (;;) {
      const found = search.next(text, from);
      if (!found) return { decided: final ? text.length : search.literalStart(text, from), look: 'early' };
      for (const rule of found.rules) {
        const look = rule.match({ text, at: found.at, end: found.end, final });
        if (look !== 'none') return { decided: found.at, look };
      }
      from = found.at + 1;
    }
  }

  /** Drops the rest of a secret as far as it has arrived; true when the secret is complete. */
  #endRest(final: boolean): boolean {
    const rest = this.#skippedRest as SecretRest;
    const { length } = this.#text;
    const isBlock = rest === 'key-block';
    const end = isBlock ? keyBlockEnd(this.#text, this.#decided) : restEnd(rest, this.#text, this.#decided);
    const ended = final || end !== undefined;
    this.#released = end ?? length;
    // The end marker of a block may be split between parts.
    this.#decided = ended || !isBlock ? this.#released : Math.max(this.#decided, length - KEY_BLOCK_END_CHARS);
    if (ended) this.#skippedRest = undefined;
    return ended;
  }
}

/** `text` with its secrets replaced; the same string if it has none. */
export function redactText(text: string, onSecret?: OnSecret): string {
  let found = search.next(text, 0);
  while (found && !isSecret(text, found)) found = search.next(text, found.at + 1);
  if (!found) return text;
  const redaction = new Redaction(onSecret);
  const redacted = redaction.push(text, true, found.at);
  return redaction.secrets === 0 ? text : redacted;
}

const isSecret = (text: string, { at, end, rules }: LiteralHit): boolean =>
  rules.some((it) => it.match({ text, at, end, final: true }) !== 'none');

/**
 * Redacts a stream of bytes cut into arbitrary chunks; the concatenated output equals `redactText` of the whole. Complete lines are output
 * at once; the beginning of a possible secret is held back until it is decided, at most about 2 KiB. The rest of a longer secret is dropped
 * as it arrives; a private key ends at its end marker, or at a character that no key contains.
 */
export class RedactingStream {
  readonly #redaction: Redaction;

  constructor(onSecret?: OnSecret) {
    this.#redaction = new Redaction(onSecret);
  }

  /** Number of bytes held back. */
  get pending(): number {
    return this.#redaction.held;
  }

  /** The bytes that can be output so far; the chunk itself if nothing changes. */
  push(chunk: Uint8Array): Uint8Array {
    const { held, secrets } = this.#redaction;
    const text = this.#redaction.push(latin1(chunk), false);
    const isUnchanged = held === 0 && secrets === this.#redaction.secrets && text.length === chunk.length;
    return isUnchanged ? chunk : Buffer.from(text, 'latin1');
  }

  /**
   * Called after a pause in the stream: outputs the held text unless it contains part of a value. This shows a prompt, but never half a
   * token.
   */
  flush(): Uint8Array {
    return Buffer.from(this.#redaction.flush(), 'latin1');
  }

  /** Outputs what is left; later bytes start a new text. */
  end(): Uint8Array {
    return Buffer.from(this.#redaction.push('', true), 'latin1');
  }
}

export interface RedactOptions {
  /**
   * Whether every text under a secret's name (`password`, `apiKey`, `Cookie`) becomes `[redacted]`, and names that are secrets themselves
   * are redacted as well.
   */
  readonly byKey?: boolean;
  readonly onSecret?: OnSecret;
}

const SECRET_KEY =
  /(?:password|passwd|passphrase|secret|token|apikey|accesskey|privatekey|secretkey|authorization|cookie|credentials?)$/;
const isSecretKey = (key: string) => SECRET_KEY.test(key.slice(-64).replaceAll(/[-_ ]/g, '').toLowerCase());

/**
 * Plain data with the secrets in its texts replaced at any depth (the depth of decoded messages is bounded); bytes are read as text. Copies
 * only what contains a secret. Names of members stay unchanged unless `byKey` is set.
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

/** Numbers redacted names, so that different members keep different names. */
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
