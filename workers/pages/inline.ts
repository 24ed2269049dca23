/** Texts and links inside a line of Markdown. */

/** Longer addresses are data in disguise; a link to one is written as its text. */
const ADDRESS_CHARS_MAX = 2_000;
const SCHEMES: ReadonlySet<string> = new Set(['http:', 'https:', 'mailto:', 'tel:']);

/** The absolute address of a link; undefined if it leads nowhere else: to a part of the same page, or to a script. */
export function absoluteLink(href: string, base: string): string | undefined {
  const url = URL.parse(href.trim(), base);
  if (!url || !SCHEMES.has(url.protocol) || url.href.length > ADDRESS_CHARS_MAX) return undefined;
  const [page] = url.href.split('#');
  return url.hash !== '' && page === base.split('#')[0] ? undefined : url.href;
}

/** The target of a Markdown link, whose brackets can't end it. */
export const linkTarget = (href: string, base: string): string | undefined =>
  absoluteLink(href, base)?.replaceAll('(', '%28').replaceAll(')', '%29');

/**
 * Escapes what Markdown would take for its own, and no more: each backslash costs a model tokens and makes it misread
 * the text.
 */
export function escapeText(text: string, { isLineStart, isLink }: { isLineStart: boolean; isLink: boolean }): string {
  let escaped = ANY_MARKUP.test(text) ? text.replace(MARKUP, '\\$&').replace(UNDERSCORE, '\\_') : text;
  if (isLink) escaped = escaped.replace(/[[\]]/g, '\\$&');
  return isLineStart ? escaped.replace(LINE_MARKUP, '$1\\$2').replace(LINE_NUMBER, '$1\\$2') : escaped;
}

const ANY_MARKUP = /[`*~<\\_]/;
/** Backticks, stars, doubled tildes, and what would begin a tag or an escape, perhaps together with the next text. */
const MARKUP = /[`*]|~(?=~|$)|<(?=[a-z/!?]|$)|\\(?=[!-/:-@[-`{-~]|$)/gi;
/** Underscores at the edge of a word; those inside names mean nothing to Markdown. */
const UNDERSCORE = /(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu;
/** What makes a line a heading, a quotation or an item. */
const LINE_MARKUP = /^(\s*)(#{1,6}(?=\s|$)|>|[-+](?=\s|$)|={3,}|-{3,})/;
const LINE_NUMBER = /^(\s*\d{1,9})([.)](?=\s|$))/;

/** A raised text: after a caret if it is an exponent, as it is if it is a mark or an ordinal. */
export const raised = (text: string): string => (/^[+−-]?\d+$|^[a-z]$/i.test(text) ? `^${text}` : text);
