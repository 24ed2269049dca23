/** Edits of a language server as offsets in a text. */
import type { TextEdit } from '../../src/tools/source/typescript.ts';
import type { TextRange } from './workspace-sources.ts';

/** An edit as the protocol has it: lines from 0, characters in UTF-16 units. */
export interface RangeEdit {
  readonly range: TextRange;
  readonly newText: string;
}

/** A text whose lines end as the protocol says: with \n, \r\n or \r. */
export class EditedText {
  readonly text: string;
  readonly #starts: number[] = [0];

  constructor(text: string) {
    this.text = text;
    for (const it of text.matchAll(/\r\n|\n|\r/g)) this.#starts.push(it.index + it[0].length);
  }

  offsetOf({ line, character }: TextRange['start']): number {
    const start = this.#starts[line] ?? this.text.length;
    return Math.min(start + character, this.text.length);
  }

  positionOf(offset: number): TextRange['start'] {
    let line = this.#starts.findIndex((it) => it > offset);
    if (line < 0) line = this.#starts.length;
    return { line: line - 1, character: offset - (this.#starts[line - 1] ?? 0) };
  }

  slice({ start, end }: TextRange): string {
    return this.text.slice(this.offsetOf(start), this.offsetOf(end));
  }

  /** The edits in their order in the text, with the line ends that the text has. */
  toEdits(edits: readonly RangeEdit[]): TextEdit[] {
    const isCrlf = /\r\n/.test(this.text) && !/[^\r]\n/.test(this.text);
    return edits
      .map(({ range, newText }) => ({
        start: this.offsetOf(range.start),
        end: this.offsetOf(range.end),
        text: isCrlf ? newText.replaceAll(/\r?\n/g, '\r\n') : newText,
      }))
      .sort((a, b) => a.start - b.start || a.end - b.end);
  }
}

/** The text after edits that are in order and do not overlap. */
export function withEdits(text: string, edits: readonly TextEdit[]): string {
  const parts: string[] = [];
  let at = 0;
  for (const it of edits) {
    parts.push(text.slice(at, it.start), it.text);
    at = it.end;
  }
  return parts.join('') + text.slice(at);
}

/** The offset in the new text of a place in the old one; a place inside of an edit becomes the start of that edit. */
export function movedOffset(offset: number, edits: readonly TextEdit[]): number {
  let shift = 0;
  for (const { start, end, text } of edits) {
    if (offset < start) break;
    if (offset < end) return start + shift;
    shift += text.length - (end - start);
  }
  return offset + shift;
}

/** The start of the edit whose new text holds a place of the new text; the place itself outside of edits. */
export function startOfEdit(offset: number, edits: readonly TextEdit[]): number {
  let shift = 0;
  for (const { start, end, text } of edits) {
    const from = start + shift;
    if (offset < from) break;
    if (offset < from + text.length) return from;
    shift += text.length - (end - start);
  }
  return offset;
}
