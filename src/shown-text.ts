/**
 * Other people's text before a person: nothing of it is invisible, drives a terminal, or looks like ours. Every face that asks
 * or tells a person uses these functions: questions and their events, the command line, MCP forms, the log, the audit log.
 */

/** What joins the parts of one emoji is left alone: there it is seen. */
const IN_EMOJI = String.raw`(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}])\ufe0f|(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d(?=\p{Extended_Pictographic})`;
/** Controls, direction marks, zero width, tags, variation selectors, fillers, separators of lines and paragraphs, half characters. */
const UNSEEN_CLASS = String.raw`[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]`;
const UNSEEN = new RegExp(`(?!${IN_EMOJI})${UNSEEN_CLASS}`, 'gu');
const UNSEEN_IN_LINES = new RegExp(`(?![\\n\\t]|${IN_EMOJI})${UNSEEN_CLASS}`, 'gu');

const toEscape = (it: string): string => `\\u{${(it.codePointAt(0) as number).toString(16)}}`;

/** Text of several lines, with an escape such as `\u{202e}` for each character that nobody sees, but ends of lines and tabs. */
export const visible = (text: string): string => text.replace(UNSEEN_IN_LINES, toEscape);

/** The same for a text that has to stay on one line. */
export const visibleInLine = (text: string): string => text.replace(UNSEEN, toEscape);

/** The same text without any of them: for what a model reads, where nobody needs to see what was hidden. */
export const withoutUnseen = (text: string): string => text.replace(UNSEEN_IN_LINES, '');

const toUnits = (it: string): string =>
  Array.from({ length: it.length }, (_, at) => `\\u${it.charCodeAt(at).toString(16).padStart(4, '0')}`).join('');

/** Text with such characters as `\uXXXX`; JSON stays the same value, which JSON.stringify would show as nothing. */
export const escapeUnseen = (json: string): string => json.replace(UNSEEN_IN_LINES, toUnits);

/** The same for what has to stay on one line. */
export const escapeUnseenInLine = (text: string): string => text.replace(UNSEEN, toUnits);

const LINE_CHARS_MAX = 1000;

/** One line of bounded length. */
export function showLine(text: string): string {
  const cut =
    text.length > LINE_CHARS_MAX ? `${text.slice(0, LINE_CHARS_MAX)} … ${text.length - LINE_CHARS_MAX} more` : text;
  return visibleInLine(cut).replace(PRIVATE, toEscape);
}

/** A font of somebody's own may show these as anything. */
const PRIVATE = /\p{Co}/gu;

/** Several lines, at most `linesMax`, set off so that none of them looks like one of ours. */
export function showBlock(text: string, linesMax: number): string[] {
  const lines = text.split('\n');
  const told = lines.slice(0, linesMax).map((it) => `   | ${showLine(it.replaceAll('\t', '  '))}`);
  return lines.length > linesMax
    ? [...told, `   … ${lines.length - linesMax} lines more; see \`ringfence approvals list --json\``]
    : told;
}
