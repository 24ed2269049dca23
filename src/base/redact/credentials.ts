/** Secrets recognised by what precedes them: a marker, the user of a URL, the name of a setting, the scheme of a header. */
import {
  characterRun,
  endOf,
  isPlaceholder,
  isRandom,
  type LiteralMatch,
  type MatchResult,
  type Rule,
} from './rule.ts';
import { tokenKind } from './tokens.ts';

// Private keys

const LABEL = characterRun('A-Z ', 40);
/** Number of characters of a block that decide; headers may precede its first line of base64. */
const KEY_WINDOW = 1024;
/** Characters that no block contains, even in quotes, in a comment or with line numbers. */
const KEY_STOP = '[^\\t\\n\\v\\f\\r\\x20-\\x7e]|[;{}<>[\\]!?&^~%`]';
const KEY_BODY_END = new RegExp(`-----|${KEY_STOP}`);

const KEY_BLOCK_END = new RegExp(`-----END[A-Z ]{0,40}-----|${KEY_STOP}`, 'g');
/** Length of the longest end marker. */
export const KEY_BLOCK_END_CHARS = 53;

/**
 * End of the key block that contains `from`: after its end marker, or before a character that no block contains. Undefined if the text ends
 * within the block.
 */
export function keyBlockEnd(text: string, from: number): number | undefined {
  KEY_BLOCK_END.lastIndex = from;
  const end = KEY_BLOCK_END.exec(text);
  if (!end) return undefined;
  return end[0].length > 1 ? KEY_BLOCK_END.lastIndex : end.index;
}

/** Private key blocks: PKCS 1 and 8, EC, OpenSSH, PGP; with escaped line breaks or without, also truncated ones. */
const keyBlock: Rule = {
  literals: ['-----BEGIN'],
  match(candidate) {
    const { text, at, end, final } = candidate;
    const labelEnd = endOf(LABEL, end, candidate);
    if (typeof labelEnd === 'string') return 'early';
    const from = labelEnd + 5;
    const dashes = text.slice(labelEnd, from);
    if (!/PRIVATE KEY(?: BLOCK)?$/.test(text.slice(end, labelEnd)) || !'-----'.startsWith(dashes)) return 'none';
    const body = text.slice(from, from + KEY_WINDOW);
    const bodyEnd = KEY_BODY_END.exec(body)?.index;
    // A key has a line of base64; a program that mentions only the marker has none.
    if (/[A-Za-z0-9+/=]{40}/.test(body.slice(0, bodyEnd)))
      return { kind: 'private-key', from: at, to: from, rest: 'key-block' };
    if (final || bodyEnd !== undefined || body.length === KEY_WINDOW) return 'none';
    return body === '' ? 'early' : 'partial';
  },
};

// Credentials of URLs

const AUTHORITY = characterRun('^\\x00-\\x20"\'`<>\\\\/\\[\\]{}|\\x7f', 512);
const EXAMPLE_PASSWORD =
  /^(?:(?:my|your|the)?[-_]?(?:passw(?:or)?d|pass|pwd|username|user|secret)|root|admin|localhost|127\.0\.0\.1|(?:example|test)\.(?:com|org)|undefined|null)$/i;

const urlPassword: Rule = {
  literals: ['://'],
  match(candidate) {
    const { text, end } = candidate;
    const to = endOf(AUTHORITY, end, candidate);
    if (typeof to === 'string') return to;
    const authority = text.slice(end, to);
    const colon = authority.indexOf(':');
    const host = authority.lastIndexOf('@');
    if (colon < 0 || host < colon) return 'none';
    const user = authority.slice(0, colon);
    const password = authority.slice(colon + 1, host);
    // GitHub accepts a token in place of the user.
    const isUser = password === 'x-oauth-basic';
    const secret = isUser ? user : password;
    if (secret.length < 4 || user === password || /^(.)\1*$/.test(secret)) return 'none';
    if (EXAMPLE_PASSWORD.test(secret) || isTemplate(secret)) return 'none';
    const from = isUser ? end : end + colon + 1;
    return { kind: tokenKind(secret) ?? 'url-password', from, to: from + secret.length };
  },
};

/** Recognises templates such as `$PASSWORD`, `%PASSWORD%`, `xxxx`, and ports as in `http://localhost:8080?to=a@b`. */
const isTemplate = (secret: string) =>
  /\$[A-Z_(]|%[A-Z_]{1,64}%|xxxx|\.\.\.|\*\*\*|your[-_]|change[-_]?me/i.test(secret) || /^\d{1,5}[,;?#)&]/.test(secret);

// Assignments: `password=…`, `"apiKey": "…"`, `'secret' => '…'`

const GAP = characterRun(' \\t"\'`\\\\:=>?', 24);
/** The closing quote of the name, blanks, the operator, blanks, the opening quote of the value. */
const OPERATOR = /^(?:\\{0,3}["'`])?([ \t]*)(:=|\?=|=>|[:=])([ \t]*)(\\{0,3}["'`])?$/;
const QUOTED = characterRun('^\\x00-\\x20"\'`\\\\\\x7f', 256);
const BARE = characterRun('^\\x00-\\x20"\'`\\\\<>,;&|(){}\\[\\]\\x7f', 256);

interface AssignedValue {
  readonly value: string;
  /** The character after the value; undefined at the end of the text. */
  readonly next: string | undefined;
  readonly quoted: boolean;
  /** Whether it is written `KEY=value` without blanks, as in environments, command lines and queries, and rarely in programs. */
  readonly tight: boolean;
  /** Whether it is written `key: value`, as in YAML and types. */
  readonly colon: boolean;
  /** Whether the name is in capitals, as for environment variables. */
  readonly capitals: boolean;
}

function assignment(kind: string, names: string, accepts: (assigned: AssignedValue) => boolean): Rule {
  return {
    literals: names.split(' '),
    anyCase: true,
    match(candidate) {
      const gapEnd = endOf(GAP, candidate.end, candidate);
      if (typeof gapEnd === 'string') return 'early';
      const gap = OPERATOR.exec(candidate.text.slice(candidate.end, gapEnd));
      return gap ? lookAtValue(candidate, gapEnd, { kind, gap, accepts }) : 'none';
    },
  };
}

interface AssignmentParts {
  readonly kind: string;
  readonly gap: RegExpExecArray;
  readonly accepts: (assigned: AssignedValue) => boolean;
}

function lookAtValue(candidate: LiteralMatch, from: number, { kind, gap, accepts }: AssignmentParts): MatchResult {
  const [, before, operator, after, quote] = gap;
  const quoted = quote !== undefined;
  // Without quotes this is an arrow function.
  if (operator === '=>' && !quoted) return 'none';
  const chars = quoted ? QUOTED : BARE;
  const to = endOf(chars, from, candidate);
  if (typeof to === 'string') return to;
  const { text, at, end } = candidate;
  const value = text.slice(from, to);
  const next = value.length === chars.max ? undefined : text[to];
  if (value.length < 8 || isPlaceholder(value) || COMMON.test(value)) return 'none';
  // Several words in quotes are a sentence.
  if (quoted && next !== undefined && !/["'`\\]/.test(next)) return 'none';
  const name = text.slice(at, end);
  const tight = operator === '=' && !before && !after;
  const capitals = name === name.toUpperCase();
  if (!accepts({ value, next, quoted, tight, colon: operator === ':', capitals })) return 'none';
  return { kind: tokenKind(value) ?? kind, from, to, rest: chars.rest };
}

const COMMON =
  /^(?:(?:my|your|the|new|old|current|confirm)?[-_]?passw(?:or)?d|passphrase|required|optional|undefined|disabled|provided|dummy)\d{0,3}$/i;

/** Whether a bare value ends as values do, unlike an argument or a statement. */
const endsLine = (next: string | undefined) => next === undefined || /[\s&"'`\\]/.test(next);
const isCall = (next: string | undefined) => next !== undefined && /[([{<]/.test(next);
/** Recognises property accesses: `options.password`, `settings.auth.token2`, `it?.token!` */
const isMember = (value: string) => /^[A-Za-z_$][\w$#?!.]*$/.test(value) && /\.[A-Za-z_$#]/.test(value);

/**
 * Whether a value may be a person's password, which may be a word. Quoted words of less than 10 letters and capitalised ones are usually
 * labels and messages. Unquoted, only `KEY=word` at the end of a line is not a variable.
 */
function isPassword({ value, next, quoted, tight, colon }: AssignedValue): boolean {
  const words = /^[A-Za-z][A-Za-z_.:/-]*$/.test(value);
  if (quoted) {
    if (!words) return true;
    if (/[^A-Za-z]/.test(value)) return value.length >= 16 && !/pass|secret|token|key|[.:/]/i.test(value);
    return value.length >= 10 && !/^[A-Z][a-z]+$/.test(value);
  }
  if (isCall(next) || /^(?:~|\.{0,2})\/[\w./-]*$/.test(value)) return false;
  if (words) return tight && endsLine(next) && !/[./:]/.test(value);
  if (tight || !/^[A-Za-z_$][\w$?!.]*$/.test(value)) return true;
  // In YAML the line ends here; in programs something follows.
  if (colon && endsLine(next)) return true;
  // `password = result2` may be either; `password: Uint8Array,` is a type.
  return !isMember(value) && (/\d$/.test(value) || /\d\D+\d/.test(value));
}

/** Recognises names made of words with a number: `base64url`, `sha256-digest`, `step-2`, `refreshTokenV2`. */
const isWords = (value: string) => value.split(/[-_.:/]/).every(isWord);

function isWord(part: string): boolean {
  if (!/^[A-Za-z]*\d{0,3}[A-Za-z]*$/.test(part)) return false;
  if (part.length < 12) return true;
  // In random letters the case changes every 2.7 letters on average, and one letter in five is a vowel.
  const humps = part.match(/[A-Z]?[a-z]+|[A-Z]+/g) ?? [];
  return part.length / humps.length >= 3.5 && !/[b-df-hj-np-tv-xz]{5}/i.test(part);
}

const isMixed = (value: string) =>
  /[A-Za-z]/.test(value) && (/\d/.test(value) || /^[\w-]{16,}$/.test(value)) && !isWords(value);

/** Whether a value was generated by a program; such values are not words. */
function isKey({ value, next, quoted, tight, capitals }: AssignedValue): boolean {
  if (value.includes('://') || (!quoted && (isCall(next) || (!tight && isMember(value))))) return false;
  if (isMixed(value)) return true;
  return !quoted && tight && capitals && endsLine(next) && /[a-z]/.test(value) && !/[./:]/.test(value);
}

const isAccessKey = (it: AssignedValue) => isKey(it) || (/^[A-Za-z0-9/+=]{40}$/.test(it.value) && isRandom(it.value));

/** Whether a value is `user:password` in base64. */
const isBasic = (value: string) =>
  /^[A-Za-z0-9+/]{8,}={0,2}$/.test(value) &&
  /^[^:\s]+:[\x21-\x7e]+$/.test(Buffer.from(value, 'base64').toString('latin1'));

// Headers: `Bearer …`, `Basic …`

const BLANKS = characterRun(' \\t', 8);

function scheme(kind: string, literal: string, accepts: (value: string) => boolean): Rule {
  const chars = characterRun('A-Za-z0-9_.~+/=-', 256);
  return {
    literals: [literal],
    anyCase: true,
    match(candidate) {
      const from = endOf(BLANKS, candidate.end, candidate);
      if (typeof from === 'string') return 'early';
      if (from === candidate.end) return 'none';
      const to = endOf(chars, from, candidate);
      if (typeof to === 'string') return to;
      const value = candidate.text.slice(from, to);
      return accepts(value) ? { kind: tokenKind(value) ?? kind, from, to, rest: chars.rest } : 'none';
    },
  };
}

export const CREDENTIALS: readonly Rule[] = [
  keyBlock,
  urlPassword,
  assignment('password', 'password passwd passphrase', isPassword),
  assignment('token', 'token', isKey),
  assignment('secret', 'secret', isKey),
  assignment('api-key', 'apikey api_key api-key', isKey),
  assignment('access-key', 'accesskey access_key access-key', isAccessKey),
  assignment('private-key', 'privatekey private_key private-key', isKey),
  assignment('authorization', 'authorization', isKey),
  assignment('basic-auth', '_auth', (it) => isBasic(it.value) || isKey(it)),
  // For Docker's config; the literal includes the quotes, since many words begin with `auth`.
  assignment('basic-auth', '"auth"', (it) => isBasic(it.value)),
  scheme('bearer-token', 'bearer', (it) => it.length >= 16 && isMixed(it) && !isPlaceholder(it)),
  scheme('basic-auth', 'basic', isBasic),
];
