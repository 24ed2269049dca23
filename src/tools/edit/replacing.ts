/** Finds and replaces in a whole text: plain text or a regular expression, any case, whole words. */
import { ToolError } from '../../base/errors.ts';

export interface Replacement {
  readonly find: string;
  readonly replace: string;
  readonly caseSensitive: boolean;
  readonly wholeWord: boolean;
  readonly regex: boolean;
}

export interface Range {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

/** The most matches in one text; each takes some 100 bytes of memory. */
export const REPLACEMENTS_MAX = 500_000;

/** The error for more matches than that. */
export const tooOften = (): ToolError =>
  new ToolError('FILE_LIMIT', `the text to find occurs more than ${REPLACEMENTS_MAX} times`, {
    details: { limit: REPLACEMENTS_MAX, enforcedBy: 'tool' },
  });

const WORD = '[\\p{L}\\p{N}\\p{M}_]';

/**
 * Compiles a search that gives the matches of a text with `\n` line endings, in order. A caller's regular expression
 * may never end, so it runs where the call's time limit ends it. Throws INPUT_INVALID for an invalid expression.
 */
export function compileReplacing({
  find,
  replace,
  caseSensitive,
  wholeWord,
  regex,
}: Replacement): (text: string) => Range[] {
  const plain = find.replaceAll('\r\n', '\n');
  const source = regex ? find : plain.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
  const pattern = wholeWord ? `(?<!${WORD})(?:${source})(?!${WORD})` : source;
  let expression: RegExp;
  try {
    // Compiled alone first: a surplus `)` is then an error, and does not close our group.
    expression = new RegExp(source, 'u');
    expression = new RegExp(pattern, caseSensitive ? 'gmu' : 'gimu');
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new ToolError('INPUT_INVALID', `find is not a regular expression: ${error.message}`, {
      suggestion: 'Correct it, or omit regex to find the text literally.',
    });
  }
  const toText = regex ? compileTemplate(replace) : () => replace;
  return (text) => {
    const ranges: Range[] = [];
    for (const match of text.matchAll(expression)) {
      if (ranges.length === REPLACEMENTS_MAX) throw tooOften();
      ranges.push({ from: match.index, to: match.index + match[0].length, text: toText(match) });
    }
    return ranges;
  };
}

/** Expands `$1` to `$99` and `$<name>` to groups, `$&` to the match, `$$` to a dollar; a token without its group stays as it is. */
function compileTemplate(template: string): (match: RegExpExecArray) => string {
  const parts = template.split(/(\$\$|\$&|\$\d{1,2}|\$<[^>]*>)/);
  return (match) => parts.map((it, at) => (at % 2 === 0 ? it : expand(it, match))).join('');
}

function expand(token: string, match: RegExpExecArray): string {
  if (token === '$$') return '$';
  if (token === '$&') return match[0];
  if (token.startsWith('$<')) return match.groups ? (match.groups[token.slice(2, -1)] ?? '') : token;
  const two = Number(token.slice(1));
  if (two > 0 && two < match.length) return match[two] ?? '';
  const one = Number(token[1]);
  return token.length === 3 && one > 0 && one < match.length ? `${match[one] ?? ''}${token[2]}` : token;
}
