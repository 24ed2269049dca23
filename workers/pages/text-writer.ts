/**
 * Writes text as blocks of lines: collapses white space as a browser does, separates blocks by an empty line, and
 * prefixes the lines of quotations and list items. Writes each character once, however deeply blocks are nested.
 */

/** What stands before the lines of a block: its first line may have another one. */
interface Container {
  first: string | undefined;
  readonly rest: string;
}

/** More levels are written as the innermost of these: each one adds characters to every line in it. */
const LEVELS_MAX = 16;

export class TextIsFull extends Error {}

export class TextWriter {
  readonly #charsMax: number;
  #out = '';
  readonly #containers: Container[] = [];
  /** How many containers are open that have no prefix of their own. */
  #levelsLeftOut = 0;
  /** Whether the current line has anything on it, and whether a space comes before what is written next. */
  #hasLine = false;
  #space = false;
  /** Line ends before what is written next: 2 for an empty line between blocks. */
  #breaks = 0;
  /** Whether nothing was written since the innermost container was opened: its first block needs no line end. */
  #isOpened = false;
  /** Markers of inline elements in which nothing was written yet. */
  #markers: string[] = [];

  /** @param charsMax Most characters; `TextIsFull` is thrown beyond them. */
  constructor(charsMax: number) {
    this.#charsMax = charsMax;
  }

  get text(): string {
    return this.#out;
  }

  /** Characters written so far. */
  get chars(): number {
    return this.#out.length;
  }

  /** Whether nothing stands on the current line. */
  get isLineStart(): boolean {
    return !this.#hasLine || this.#breaks > 0;
  }

  /** Ends the current block: what follows begins after an empty line, or in the next line if the blocks are `tight`. */
  endBlock(tight = false): void {
    this.#space = false;
    if (this.#hasLine && !this.#isOpened) this.#breaks = Math.max(this.#breaks, tight ? 1 : 2);
  }

  /** Lets the next block begin in the next line. */
  tighten(): void {
    this.#breaks = Math.min(this.#breaks, 1);
  }

  /** Ends the current line, within its block. */
  endLine(): void {
    this.#space = false;
    if (this.#hasLine && !this.#isOpened) this.#breaks = Math.max(this.#breaks, 1);
  }

  /** Begins a quotation or list item. */
  open(first: string, rest: string): void {
    if (this.#containers.length >= LEVELS_MAX) this.#levelsLeftOut += 1;
    else {
      this.#containers.push({ first, rest });
      this.#isOpened = true;
    }
  }

  close(): void {
    this.#isOpened = false;
    if (this.#levelsLeftOut > 0) this.#levelsLeftOut -= 1;
    else this.#containers.pop();
  }

  /** Begins an inline element: its marker is written together with the first text in it. */
  openMarker(marker: string): void {
    this.#markers.push(marker);
  }

  /** Ends an inline element; nothing is written if it was empty. A space at its end comes after the marker. */
  closeMarker(marker: string): void {
    if (this.#markers.pop() === undefined) this.#write(marker);
  }

  /** Writes a text whose white space has no meaning. */
  words(text: string): void {
    const trimmed = text.trim();
    if (!text.startsWith(trimmed) || trimmed === '') this.#space = true;
    if (trimmed === '') return;
    this.raw(WIDE_SPACE.test(trimmed) ? trimmed.replace(/\s+/g, ' ') : trimmed);
    this.#space = !text.endsWith(trimmed);
  }

  /** Writes a text of one line as it is. */
  raw(text: string): void {
    if (text === '') return;
    this.#beginLine();
    if (this.#space && this.#hasLine) this.#write(' ');
    this.#space = false;
    const markers = this.#markers.splice(0);
    for (const it of markers) this.#write(it);
    this.#write(text);
    this.#hasLine = true;
  }

  /** Writes a block of lines as they are. */
  lines(lines: readonly string[]): void {
    for (const line of lines) {
      this.#beginLine();
      this.#write(line);
      this.#hasLine = true;
      this.#breaks = 1;
    }
    this.endBlock();
  }

  #beginLine(): void {
    if (this.#hasLine && this.#breaks === 0) return;
    const begun = this.#containers.filter((it) => it.first === undefined);
    if (this.#breaks === 2)
      this.#write(
        `\n${begun
          .map((it) => it.rest)
          .join('')
          .trimEnd()}`,
      );
    if (this.#breaks > 0) this.#write('\n');
    this.#breaks = 0;
    this.#hasLine = false;
    this.#space = false;
    this.#isOpened = false;
    for (const it of this.#containers) {
      this.#write(it.first ?? it.rest);
      it.first = undefined;
    }
  }

  #write(text: string): void {
    if (this.#out.length + text.length > this.#charsMax) throw new TextIsFull();
    this.#out += text;
  }
}

/** White space other than single spaces. */
const WIDE_SPACE = /\s\s|[^\S ]/;
