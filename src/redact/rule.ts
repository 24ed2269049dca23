/**
 * How secrets are looked for. Each rule starts at a literal, looks at a bounded run of characters behind it, and decides: so a
 * text is read once, a stream never waits for more than such a run, and no input makes it slow. Only ASCII decides, so that
 * UTF-16 and UTF-8 read as latin1 come to the same.
 */

/** What swallows the rest of a secret whose beginning was enough to know it: a sticky expression, or all up to the end of a key block. */
export type Rest = RegExp | 'key-block';

/** Something to hide: `text[from..to)`, and what `rest` says of what follows it. */
export interface Secret {
  /** Its replacement names it: `github-token`. */
  readonly kind: string;
  readonly from: number;
  readonly to: number;
  readonly rest?: Rest;
}

/** `early`: the text ends before anything of a value was seen; `partial`: it ends within one. */
export type Look = Secret | 'none' | 'early' | 'partial';

/** A literal that was found at `text[at..end)`. */
export interface Candidate {
  readonly text: string;
  readonly at: number;
  readonly end: number;
  /** Whether nothing comes after `text`. */
  readonly final: boolean;
}

export interface Rule {
  /** What secrets of this kind begin with, or stand behind; at least three characters each. */
  readonly literals: readonly string[];
  /** Whether the literals are found in any case. */
  readonly anyCase?: boolean;
  look(candidate: Candidate): Look;
}

/** Characters before a literal that a rule may look at. */
export const CONTEXT_CHARS = 16;

/** A maximal run of a class of characters, of which at most `max` decide. */
export interface Run {
  readonly max: number;
  readonly head: RegExp;
  readonly rest: RegExp;
}

/** `chars` as between the brackets of a regular expression. */
export const run = (chars: string, max: number): Run => ({
  max,
  head: new RegExp(`[${chars}]{0,${max}}`, 'y'),
  rest: new RegExp(`[${chars}]*`, 'y'),
});

/** Where the run that begins at `from` ends, or how far the text leaves that open. */
export function endOf({ head, max }: Run, from: number, { text, final }: Candidate): number | 'early' | 'partial' {
  head.lastIndex = from;
  head.test(text);
  const end = head.lastIndex;
  if (final || end < text.length || end - from >= max) return end;
  return end > from ? 'partial' : 'early';
}

/** Where the run that a sticky expression matches at `from` ends; undefined if that is beyond the text. */
export function restEnd(rest: RegExp, text: string, from: number): number | undefined {
  rest.lastIndex = from;
  rest.test(text);
  return rest.lastIndex < text.length ? rest.lastIndex : undefined;
}

const PLACEHOLDER =
  /example|placeholder|redacted|(?:^|[^A-Za-z0-9])your[-_]|insert[-_]|change[-_]?me|replace[-_]?(?:me|with)|<[^>]{0,64}>|%\w{1,64}%|\{[^}]{0,64}\}|\$\(|^\$[A-Za-z_]/i;
/** Six in one case: `xxxx` and `xxXXxX` do occur in long tokens. */
const FILLER = /x{6}|X{6}|\.\.\.|\*\*\*/;

/** `<your-token>`, `${TOKEN}`, `xxxx`, `abababab`: what documentation and templates write where a secret belongs. */
export const isPlaceholder = (value: string): boolean =>
  isRepetitive(value) || FILLER.test(value) || PLACEHOLDER.test(value);

const DIFFERENT_MIN = 4;

/** Fewer different characters than any secret has. */
function isRepetitive(value: string): boolean {
  let different = 0;
  for (let at = 0; at < value.length && different < DIFFERENT_MIN; at++)
    if (value.indexOf(value.charAt(at)) === at) different += 1;
  return different < DIFFERENT_MIN;
}

const SINGLE_CASE = /^(?:[a-z_.-]*|[A-Z_.-]*)$/;

/** Of 20 random letters and digits, one in a million are all of one case without digits; of names nearly all are. */
export const isRandom = (value: string): boolean => !SINGLE_CASE.test(value) && !isPlaceholder(value);
