/** Leaves the bodies of quoted here-documents out of a text that is too long to be read with them: files that commands write. Pure. */

/** A text without bodies, and where they stood: the places in it at which the syntax must have an empty quoted here-document. */
export interface Shortened {
  readonly text: string;
  readonly places: ReadonlySet<number>;
}

/** Here-documents that are looked for; each may have its end at the end of the text. */
const BODIES_MAX = 64;

const OPENING = /<<(-?)[ \t]*(?:'([^'\n]+)'|"([^"\n$`\\]+)"|\\(\w+))/g;

/**
 * Guesses by lines, so it may be wrong (`echo "<<'E'"`); the syntax of what is left shows it, since a text is read from left to
 * right and what stands before a body says whether it is one.
 */
export function withoutBodies(text: string): Shortened {
  const places = new Set<number>();
  const kept: string[] = [];
  let keptLength = 0;
  let from = 0;
  for (const match of [...text.matchAll(OPENING)].slice(0, BODIES_MAX)) {
    const lineEnd = text.indexOf('\n', match.index + match[0].length);
    if (match.index < from || lineEnd < 0) continue;
    const line = text.slice(text.lastIndexOf('\n', match.index) + 1, lineEnd);
    // Several on a line: whose body comes first is not for a guess.
    if (line.indexOf('<<') !== line.lastIndexOf('<<')) continue;
    const [, dash, single, double, escaped] = match;
    const end = endOf(text, lineEnd + 1, {
      delimiter: (single ?? double ?? escaped) as string,
      isIndented: dash === '-',
    });
    if (end === undefined) continue;
    const part = text.slice(from, lineEnd + 1);
    kept.push(part);
    keptLength += part.length;
    places.add(keptLength);
    from = end;
  }
  kept.push(text.slice(from));
  return { text: kept.join(''), places };
}

interface Ending {
  readonly delimiter: string;
  /** Whether tabs may stand before it. */
  readonly isIndented: boolean;
}

/** Where the line of the delimiter begins. */
function endOf(text: string, start: number, { delimiter, isIndented }: Ending): number | undefined {
  for (let at = start; at >= 0 && at < text.length; ) {
    const next = text.indexOf('\n', at);
    const line = text.slice(at, next < 0 ? text.length : next);
    if ((isIndented ? line.replace(/^\t+/, '') : line) === delimiter) return at;
    if (next < 0) return undefined;
    at = next + 1;
  }
  return undefined;
}
