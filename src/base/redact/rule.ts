/**
 * How rules find secrets. Each rule starts at a literal and looks at a bounded run of characters after it, so a text is read once, a stream
 * never waits for more than one run, and no input makes the search slow. Only ASCII characters decide, so UTF-16 and UTF-8 read as latin1
 * give the same result.
 */

/**
 * How to recognise the rest of a secret whose beginning was enough to detect it: a sticky expression, or everything up to the end of a key
 * block.
 */
export type SecretRest = RegExp | 'key-block';

/** A secret to hide: `text[from..to)`, and `rest` for the part after it. */
export interface Secret {
  /** Name used in its replacement, such as `github-token`. */
  readonly kind: string;
  readonly from: number;
  readonly to: number;
  readonly rest?: SecretRest;
}

/** `early`: the text ends before the value begins; `partial`: the text ends within the value. */
export type MatchResult = Secret | 'none' | 'early' | 'partial';

/** A literal found at `text[at..end)`. */
export interface LiteralMatch {
  readonly text: string;
  readonly at: number;
  readonly end: number;
  /** Whether no text follows `text`. */
  readonly final: boolean;
}

export interface Rule {
  /** Literals that secrets of this kind begin with or follow; at least three characters each. */
  readonly literals: readonly string[];
  /** Whether the literals match in any case. */
  readonly anyCase?: boolean;
  match(candidate: LiteralMatch): MatchResult;
}

/** Number of characters before a literal that a rule may look at. */
export const CONTEXT_CHARS = 16;

/** A maximal run of characters of one class; at most `max` of them decide. */
export interface CharacterRun {
  readonly max: number;
  readonly head: RegExp;
  readonly rest: RegExp;
}

/** Creates a run; `chars` is written as between the brackets of a regular expression. */
export const characterRun = (chars: string, max: number): CharacterRun => ({
  max,
  head: new RegExp(`[${chars}]{0,${max}}`, 'y'),
  rest: new RegExp(`[${chars}]*`, 'y'),
});

/** End of the run that begins at `from`; `early` or `partial` if the text ends before that is known. */
export function endOf(
  { head, max }: CharacterRun,
  from: number,
  { text, final }: LiteralMatch,
): number | 'early' | 'partial' {
  head.lastIndex = from;
  head.test(text);
  const end = head.lastIndex;
  if (final || end < text.length || end - from >= max) return end;
  return end > from ? 'partial' : 'early';
}

/** End of the match of a sticky expression at `from`; undefined if it reaches the end of the text. */
export function restEnd(rest: RegExp, text: string, from: number): number | undefined {
  rest.lastIndex = from;
  rest.test(text);
  return rest.lastIndex < text.length ? rest.lastIndex : undefined;
}

const PLACEHOLDER =
  /example|placeholder|redacted|(?:^|[^A-Za-z0-9])your[-_]|insert[-_]|change[-_]?me|replace[-_]?(?:me|with)|<[^>]{0,64}>|%\w{1,64}%|\{[^}]{0,64}\}|\$\(|^\$[A-Za-z_]/i;
/** Six of the same case, since `xxxx` and `xxXXxX` occur in long tokens. */
const FILLER = /x{6}|X{6}|\.\.\.|\*\*\*/;

/** Whether a value is a placeholder of documentation or templates: `<your-token>`, `${TOKEN}`, `xxxx`, `abababab`. */
export const isPlaceholder = (value: string): boolean =>
  isRepetitive(value) || FILLER.test(value) || PLACEHOLDER.test(value);

const DIFFERENT_MIN = 4;

/** Whether a value has fewer different characters than any secret. */
function isRepetitive(value: string): boolean {
  let different = 0;
  for (let at = 0; at < value.length && different < DIFFERENT_MIN; at++)
    if (value.indexOf(value.charAt(at)) === at) different += 1;
  return different < DIFFERENT_MIN;
}

const SINGLE_CASE = /^(?:[a-z_.-]*|[A-Z_.-]*)$/;

/**
 * Whether a value looks random. One in a million random strings of 20 letters and digits has a single case and no digits, but nearly all
 * names do.
 */
export const isRandom = (value: string): boolean => !SINGLE_CASE.test(value) && !isPlaceholder(value);
