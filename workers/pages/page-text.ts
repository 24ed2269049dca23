/** Writes a page, or parts of it, as Markdown or as plain text. */
import { type AnyNode, type Element, hasChildren, isTag, isText } from 'domhandler';
import { withoutUnseen } from '../../src/base/text/shown-text.ts';
import { codeLines, fencedCode, inlineCode } from './code-blocks.ts';
import { type Holders, isAroundText, isBlock, isMainText, lineOf } from './elements.ts';
import { escapeText, linkTarget, raised } from './inline.ts';
import { readTable, type Table } from './tables.ts';
import { TextWriter } from './text-writer.ts';

export interface TextOptions {
  readonly style: 'markdown' | 'text';
  /** Address that links of the page are relative to. */
  readonly base: string;
  /** Whether navigation, sidebars, forms and the like are left out unless they belong to the main text. */
  readonly isMainOnly: boolean;
  /** Most characters; `TextIsFull` is thrown beyond them. */
  readonly charsMax: number;
}

/** The text of nodes of a page one after another. */
export function textOf(nodes: readonly AnyNode[], holders: Holders, options: TextOptions): string {
  const writer = new TextWriter(options.charsMax);
  const page = new PageText({ options, holders, writer });
  for (const it of nodes) {
    page.write(it);
    writer.endBlock();
  }
  return writer.text;
}

const EMPHASIS: Readonly<Record<string, string>> = { b: '**', strong: '**', i: '*', em: '*', del: '~~', s: '~~' };
const UNWRITTEN: ReadonlySet<string> = new Set(['head', 'title', 'select', 'textarea', 'option', 'meter', 'progress']);

interface Place {
  readonly options: TextOptions;
  readonly holders: Holders;
  readonly writer: TextWriter;
  /** Whether the text is for one line, a heading or a cell, which has no blocks. */
  readonly isLine?: boolean;
  readonly isLink?: boolean;
}

class PageText {
  readonly #place: Place;
  readonly #writer: TextWriter;
  readonly #isMarkdown: boolean;
  #mainTexts = 0;
  #links: number;
  #lists = 0;
  readonly #emphases = new Set<string>();
  /** The target of a link around several blocks, until the first of them was written as its text. */
  #blockLink: string | undefined;

  constructor(place: Place) {
    this.#place = place;
    this.#writer = place.writer;
    this.#isMarkdown = place.options.style === 'markdown';
    this.#links = place.isLink ? 1 : 0;
  }

  write(node: AnyNode): void {
    if (isText(node)) {
      const { isLineStart } = this.#writer;
      this.#writer.words(
        this.#isMarkdown ? escapeText(node.data, { isLineStart, isLink: this.#links > 0 }) : node.data,
      );
    } else if (!isTag(node)) this.#children(node);
    else if (!UNWRITTEN.has(node.name) && !this.#isLeftOut(node)) {
      const isMain = isMainText(node);
      if (isMain) this.#mainTexts += 1;
      if (isBlock(node)) this.#block(node);
      else this.#inline(node);
      if (isMain) this.#mainTexts -= 1;
    }
  }

  #children(node: AnyNode): void {
    if (hasChildren(node)) for (const it of node.children) this.write(it);
  }

  #isLeftOut(element: Element): boolean {
    const { options, holders, isLine } = this.#place;
    if (!options.isMainOnly) return false;
    // Questions of a page may be buttons in its headings.
    if (element.name === 'button') return !isLine;
    return this.#mainTexts === 0 && isAroundText(element) && !holders.mainText.has(element);
  }

  #block(element: Element): void {
    const writer = this.#writer;
    if (this.#place.isLine) {
      writer.endLine();
      this.#children(element);
      return writer.endLine();
    }
    if (element.name === 'li') return this.#item(element, '- ');
    writer.endBlock(element.name === 'dd' || (this.#lists > 0 && isList(element)));
    this.#blockContent(element);
    writer.endBlock(element.name === 'dt');
  }

  #blockContent(element: Element): void {
    const { name } = element;
    switch (name) {
      case 'h1':
      case 'h2':
      case 'h3':
      case 'h4':
      case 'h5':
      case 'h6':
        return this.#heading(element, this.#isMarkdown ? `${'#'.repeat(Number(name[1]))} ` : '');
      case 'ul':
      case 'ol':
      case 'menu':
      case 'dir':
        return this.#list(element);
      case 'dt':
      case 'summary':
        return this.#emphasized(element, '**');
      case 'dd':
        return this.#inside(element, '- ', '  ');
      case 'blockquote':
        return this.#inside(element, '> ', '> ');
      case 'pre':
        return this.#writer.lines(this.#isMarkdown ? fencedCode(element) : codeLines(element));
      case 'hr':
        return this.#isMarkdown ? this.#writer.lines(['---']) : undefined;
      case 'table':
        return this.#table(element);
      default:
        return this.#plainBlock(element);
    }
  }

  #inline(element: Element): void {
    const { name } = element;
    switch (name) {
      case 'a':
        return this.#link(element);
      case 'br':
      case 'wbr':
        return name === 'br' ? this.#writer.endLine() : undefined;
      case 'img':
        return this.#image(element);
      case 'input':
        return element.attribs.type === 'checkbox' ? this.#checkbox(element) : undefined;
      case 'code':
      case 'kbd':
      case 'samp':
      case 'tt':
        return this.#writer.raw(this.#isMarkdown ? inlineCode(lineOf(element)) : lineOf(element));
      case 'sup':
        return this.#writer.raw(raised(lineOf(element)));
      case 'q':
        return this.#between('“', element, '”');
      case 'rt':
        return this.#between('(', element, ')');
      case 'math':
        return this.#writer.raw(element.attribs.alttext?.replace(/\s+/g, ' ').trim() ?? lineOf(element));
      default:
        return EMPHASIS[name] === undefined ? this.#children(element) : this.#emphasized(element, EMPHASIS[name]);
    }
  }

  #between(before: string, element: Element, after: string): void {
    this.#writer.openMarker(before);
    this.#children(element);
    this.#writer.closeMarker(after);
  }

  /** A block without a form of its own; the text of a link around it, if that has none yet. */
  #plainBlock(element: Element): void {
    const target = this.#blockLink;
    if (target === undefined || this.#place.holders.blocks.has(element)) return this.#children(element);
    const before = this.#writer.chars;
    this.#linked(element, target);
    if (this.#writer.chars > before) this.#blockLink = undefined;
  }

  #heading(element: Element, marker: string): void {
    const target = this.#blockLink;
    const text = this.#lineOf(element, ' ', target !== undefined);
    if (text === '') return;
    this.#writer.raw(marker + (target === undefined ? text : `[${text}](${target})`));
    this.#blockLink = undefined;
  }

  #list(list: Element): void {
    const writer = this.#writer;
    this.#lists += 1;
    let number = list.name === 'ol' ? startOf(list) : undefined;
    for (const it of list.children) {
      if (!isTag(it) || it.name !== 'li') this.write(it);
      else {
        this.#item(it, number === undefined ? '- ' : `${number}. `);
        if (number !== undefined) number += 1;
      }
    }
    this.#lists -= 1;
    writer.endBlock();
  }

  #item(item: Element, marker: string): void {
    this.#writer.endBlock(true);
    this.#inside(item, marker, ' '.repeat(marker.length));
    this.#writer.tighten();
  }

  /** Writes the blocks of an element with a prefix before their lines. */
  #inside(element: Element, first: string, rest: string): void {
    this.#writer.open(first, rest);
    this.#children(element);
    this.#writer.endBlock();
    this.#writer.close();
  }

  #table(element: Element): void {
    const table = readTable(element, this.#place.holders);
    if (!table) return this.#children(element);
    const caption = element.children.find((it): it is Element => isTag(it) && it.name === 'caption');
    if (caption) this.#block(caption);
    this.#writer.endBlock();
    this.#writer.lines(
      this.#isMarkdown ? this.#tableLines(table) : table.rows.map((row) => this.#cells(row).join('\t')),
    );
  }

  #tableLines({ rows, hasHeader }: Table): string[] {
    const toLine = (cells: readonly string[]) => `| ${cells.join(' | ')} |`;
    const lines = rows.map((row) => this.#cells(row)).map((row) => toLine(row.map((it) => it.replaceAll('|', '\\|'))));
    const columns = rows[0] ?? [];
    const empty = hasHeader ? [] : [toLine(columns.map(() => ' ').map((it) => it.trim()))];
    const all = [...empty, ...lines];
    return [...all.slice(0, 1), toLine(columns.map(() => '---')), ...all.slice(1)];
  }

  #cells(row: Table['rows'][number]): string[] {
    return row.map((cell) => (cell ? this.#lineOf(cell, this.#isMarkdown ? '<br>' : ' ') : ''));
  }

  /** The text of a heading or a cell. */
  #lineOf(element: Element, separator: string, isLink = false): string {
    const writer = new TextWriter(this.#place.options.charsMax);
    const line = new PageText({ ...this.#place, writer, isLine: true, isLink });
    line.#mainTexts = this.#mainTexts;
    line.#children(element);
    return writer.text.split('\n').join(separator);
  }

  #emphasized(element: Element, marker: string): void {
    const isApart = this.#isMarkdown && !this.#emphases.has(marker) && !this.#place.holders.blocks.has(element);
    if (!isApart) return this.#children(element);
    this.#emphases.add(marker);
    this.#between(marker, element, marker);
    this.#emphases.delete(marker);
  }

  #link(element: Element): void {
    const target = this.#links > 0 ? undefined : this.#targetOf(element);
    if (target === undefined) this.#children(element);
    else if (!this.#place.holders.blocks.has(element)) this.#linked(element, target);
    else if (this.#place.isLine) this.#children(element);
    else {
      this.#blockLink = target;
      this.#children(element);
      this.#blockLink = undefined;
    }
  }

  #targetOf(element: Element): string | undefined {
    const { href } = element.attribs;
    if (!this.#isMarkdown || href === undefined) return undefined;
    return linkTarget(href, this.#place.options.base);
  }

  #linked(element: Element, target: string): void {
    this.#links += 1;
    this.#between('[', element, `](${target})`);
    this.#links -= 1;
  }

  #image({ attribs: { alt = '' } }: Element): void {
    const text = withoutUnseen(alt.replace(/\s+/g, ' ')).trim();
    if (text === '') return;
    const shown = this.#isMarkdown ? escapeText(text, { isLineStart: false, isLink: true }) : text;
    this.#writer.raw(this.#links > 0 ? shown : `[image: ${shown}]`);
  }

  #checkbox({ attribs: { checked } }: Element): void {
    this.#writer.raw(checked === undefined ? '[ ]' : '[x]');
    this.#writer.words(' ');
  }
}

const isList = ({ name }: Element): boolean => name === 'ul' || name === 'ol';

function startOf({ attribs: { start = '1' } }: Element): number {
  const number = Number.parseInt(start, 10);
  return number >= 0 && number <= 999_999_999 ? number : 1;
}
