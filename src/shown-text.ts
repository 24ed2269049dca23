/** Other people's text before a person who has to decide about it: nothing of it is invisible, or looks like ours. */

const LINE_CHARS_MAX = 1000;

/** One line, its control, direction and invisible characters made visible. */
export function showLine(text: string): string {
  const cut =
    text.length > LINE_CHARS_MAX ? `${text.slice(0, LINE_CHARS_MAX)} … ${text.length - LINE_CHARS_MAX} more` : text;
  return cut.replace(UNSAFE, (it) => `\\u{${(it.codePointAt(0) as number).toString(16)}}`);
}

/** Cc, Cf (direction, zero width), line and paragraph separators, lone surrogates, private use. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;

/** Several lines, at most `linesMax`, set off so that none of them looks like one of ours. */
export function showBlock(text: string, linesMax: number): string[] {
  const lines = text.split('\n');
  const told = lines.slice(0, linesMax).map((it) => `   | ${showLine(it.replaceAll('\t', '  '))}`);
  return lines.length > linesMax
    ? [...told, `   … ${lines.length - linesMax} lines more; see \`ringfence approvals list --json\``]
    : told;
}
