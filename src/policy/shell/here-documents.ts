/** Removes the bodies of quoted here-documents (files that commands write) from a text that is too long to be parsed with them. Pure. */

/** A text without the bodies, and the offsets in it at which the parser must find an empty quoted here-document. */
export interface WithoutHereDocuments {
  readonly text: string;
  readonly offsets: ReadonlySet<number>;
}

/** Most here-documents searched for; the search for each end may read to the end of the text. */
const BODIES_MAX = 64;

const OPENING = /<<(-?)[ \t]*(?:'([^'\n]+)'|"([^"\n$`\\]+)"|\\(\w+))/g;

/**
 * Finds here-documents line by line, which may be wrong (`echo "<<'E'"`). The parser then notices: a shell text is read from left to right,
 * so the text before a body tells whether it is one.
 */
export function withoutBodies(text: string): WithoutHereDocuments {
  const offsets = new Set<number>();
  const keptTexts: string[] = [];
  let keptLength = 0;
  let from = 0;
  for (const match of [...text.matchAll(OPENING)].slice(0, BODIES_MAX)) {
    const lineEnd = text.indexOf('\n', match.index + match[0].length);
    if (match.index < from || lineEnd < 0) continue;
    const line = text.slice(text.lastIndexOf('\n', match.index) + 1, lineEnd);
    // With several here-documents on a line it is unclear whose body comes first.
    if (line.indexOf('<<') !== line.lastIndexOf('<<')) continue;
    const [, dash, single, double, escaped] = match;
    const end = endOf(text, lineEnd + 1, {
      delimiter: (single ?? double ?? escaped) as string,
      isIndented: dash === '-',
    });
    if (end === undefined) continue;
    const part = text.slice(from, lineEnd + 1);
    keptTexts.push(part);
    keptLength += part.length;
    offsets.add(keptLength);
    from = end;
  }
  keptTexts.push(text.slice(from));
  return { text: keptTexts.join(''), offsets };
}

interface HereDocumentEnd {
  readonly delimiter: string;
  /** Whether tabs may precede the delimiter. */
  readonly isIndented: boolean;
}

/** Offset of the line that holds the delimiter. */
function endOf(text: string, start: number, { delimiter, isIndented }: HereDocumentEnd): number | undefined {
  for (let at = start; at >= 0 && at < text.length; ) {
    const next = text.indexOf('\n', at);
    const line = text.slice(at, next < 0 ? text.length : next);
    if ((isIndented ? line.replace(/^\t+/, '') : line) === delimiter) return at;
    if (next < 0) return undefined;
    at = next + 1;
  }
  return undefined;
}
