/** Reads lines of sources for answers. */
import { setImmediate } from 'node:timers/promises';

/** Keeps one file at a time: files may be large, and answers come file by file. */
export class SourceLines {
  readonly #read: (path: string) => string;
  readonly #signal: AbortSignal;
  #last: { readonly path: string; readonly lines: readonly string[] } | undefined;

  constructor(read: (path: string) => string, signal: AbortSignal) {
    this.#read = read;
    this.#signal = signal;
  }

  /** The lines of a file. Throws the signal's reason. */
  async linesOf(path: string): Promise<readonly string[]> {
    if (this.#last?.path === path) return this.#last.lines;
    await setImmediate();
    this.#signal.throwIfAborted();
    const lines = this.#read(path).split(/\r\n|\n|\r/);
    this.#last = { path, lines };
    return lines;
  }
}

/** Positions in UTF-16 units at which a name stands as a whole word; not at the start of a quoted text, which is no name. */
export function wordsAt(text: string, name: string): number[] {
  const isPart = (it: string | undefined) => it !== undefined && /[\p{L}\p{N}_$]/u.test(it);
  const isQuote = (it: string | undefined) => it === "'" || it === '"' || it === '`';
  const found: number[] = [];
  for (let at = text.indexOf(name); at >= 0; at = text.indexOf(name, at + name.length))
    if (!isPart(text[at - 1]) && !isQuote(text[at - 1]) && !isPart(text[at + name.length])) found.push(at);
  return found;
}

/** A line without its indentation; a long one is cut around `character`. */
export function showAround(line: string, character: number, charsMax: number): string {
  const text = line.trim();
  if (text.length <= charsMax) return text;
  const at = character - (line.length - line.trimStart().length);
  const from = at > charsMax / 2 ? at - Math.floor(charsMax / 2) : 0;
  const shown = text.slice(from, from + charsMax).toWellFormed();
  return `${from > 0 ? '…' : ''}${shown}${from + charsMax < text.length ? '…' : ''}`;
}
