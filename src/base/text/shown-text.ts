/**
 * Makes text from others safe to show to a person: no invisible characters, no terminal control, nothing that looks
 * like our own output. All output to people uses these functions: questions and their events, the command line, MCP
 * forms, the log, the audit log.
 */

/** Joiners inside an emoji are kept: their effect is visible there. */
const IN_EMOJI = String.raw`(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}])\ufe0f|(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d(?=\p{Extended_Pictographic})`;
/**
 * Control characters, direction marks, zero width characters, tags, variation selectors, fillers, line and paragraph
 * separators, lone surrogates.
 */
const UNSEEN_CLASS = String.raw`[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]`;
const UNSEEN = new RegExp(`(?!${IN_EMOJI})${UNSEEN_CLASS}`, 'gu');
const UNSEEN_IN_LINES = new RegExp(`(?![\\n\\t]|${IN_EMOJI})${UNSEEN_CLASS}`, 'gu');

const toEscape = (it: string): string => `\\u{${(it.codePointAt(0) as number).toString(16)}}`;

/** Escapes each invisible character of a multi-line text as `\u{202e}`; keeps line ends and tabs. */
export const visible = (text: string): string => text.replace(UNSEEN_IN_LINES, toEscape);

/** Escapes each invisible character of a one-line text, line ends and tabs included. */
export const visibleInLine = (text: string): string => text.replace(UNSEEN, toEscape);

/** What looks like the begin or the end of an envelope around text of strangers. */
const MARKER = /<(?=\s*\/?\s*untrusted-content)/gi;

/** Takes from a text what could begin or end an envelope. */
export const withoutMarkers = (text: string): string => text.replace(MARKER, '&lt;');

/**
 * Makes what a stranger may have written safe in a sentence or a list of ours, for models and for people: nothing that can't be seen, and
 * nothing that ends an envelope. Errors, tools' titles and descriptions, names of clients and titles of pages are made of it.
 */
export const safeText = (text: string): string => withoutMarkers(visible(text));

/** Removes invisible characters: for models, which do not need to see them. */
export const withoutUnseen = (text: string): string => text.replace(UNSEEN_IN_LINES, '');

/** Characters of a text; those beyond the first 65 536 are two units each. */
export const charactersIn = (text: string): number =>
  text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);

const toUnits = (it: string): string =>
  Array.from({ length: it.length }, (_, at) => `\\u${it.charCodeAt(at).toString(16).padStart(4, '0')}`).join('');

/** Escapes invisible characters as `\uXXXX`, which JSON.stringify leaves raw; the value of JSON stays the same. */
export const escapeUnseen = (json: string): string => json.replace(UNSEEN_IN_LINES, toUnits);

/** Escapes invisible characters of a one-line text as `\uXXXX`. */
export const escapeUnseenInLine = (text: string): string => text.replace(UNSEEN, toUnits);

const LINE_CHARS_MAX = 1000;

/** Makes one safe line of bounded length. */
export function showLine(text: string): string {
  const cut =
    text.length > LINE_CHARS_MAX ? `${text.slice(0, LINE_CHARS_MAX)} … ${text.length - LINE_CHARS_MAX} more` : text;
  return visibleInLine(cut).replace(PRIVATE, toEscape);
}

/** Private-use characters: a custom font may show them as anything. */
const PRIVATE = /\p{Co}/gu;

/** Makes at most `linesMax` safe lines, with a prefix so that none looks like our own output. */
export function showBlock(text: string, linesMax: number): string[] {
  const lines = text.split('\n');
  const shownLines = lines.slice(0, linesMax).map((it) => `   | ${showLine(it.replaceAll('\t', '  '))}`);
  return lines.length > linesMax
    ? [...shownLines, `   … ${lines.length - linesMax} lines more; see \`ringfence approvals list --json\``]
    : shownLines;
}

/** A folder as a person calls it: the last part of its path. Not made safe. */
export const folderName = (path: string): string => path.split('/').findLast((it) => it !== '') ?? path;

/** A number with its noun: `1 call`, `2 calls`. */
export const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`;
