/**
 * Parses an HTML page to a tree of what its reader would see: without scripts, styles, comments, and elements that are
 * hidden. The tree is bounded in depth and size, since hostile pages make converters run for minutes.
 */
import { type Document, DomHandler, type Element, isText, type Text } from 'domhandler';
import { Parser } from 'htmlparser2';
import type { Limits } from '../../src/base/limits.ts';
import { charactersIn, withoutUnseen } from '../../src/base/text/shown-text.ts';
import { Holders } from './elements.ts';

export interface PageTree {
  readonly root: Document;
  readonly holders: Holders;
  /** How many hidden elements with text were left out. */
  readonly hiddenElements: number;
  readonly comments: number;
  /** How many invisible characters were left out of the texts. */
  readonly unseen: number;
  readonly scripts: number;
  /** Whether the page was larger than the bounds, so that its end is missing. */
  readonly isCut: boolean;
}

/** Elements that hold no text for a reader. */
const UNREADABLE: ReadonlySet<string> = new Set([
  ...['script', 'style', 'template', 'svg', 'iframe', 'frameset', 'object', 'embed', 'applet', 'canvas'],
  ...['audio', 'video', 'map', 'datalist', 'noframes', 'rp'],
]);

/** Texts that hold nothing invisible; most are. */
const PLAIN = /^[\t\n\x20-\x7e]*$/;
const OTHER_LINE_END = /\r\n|[\r\f\v\u2028\u2029]/g;

/** Characters that the parser gets at once; between two pieces it can be stopped. */
const PIECE_CHARS = 16 * 1024;

export function parsePage(html: string, limits: Limits): PageTree {
  const handler = new VisibleTree(limits);
  const parser = new Parser(handler, { decodeEntities: true });
  for (let at = 0; at < html.length && !handler.isFull; at += PIECE_CHARS)
    parser.write(html.slice(at, at + PIECE_CHARS));
  parser.end();
  const { root, holders, hiddenElements, comments, unseen, scripts, isFull: isCut } = handler;
  return { root, holders, hiddenElements, comments, unseen, scripts, isCut };
}

/** An element that the parser has opened. */
interface OpenElement {
  readonly name: string;
  /** `ended`: by an element that can't be in it, before the parser ended it. */
  state: 'in tree' | 'left out' | 'too deep' | 'ended';
}

/**
 * Elements that end an open one of these names, up to a list or table around both, as HTML has it. The parser ends it
 * only if nothing else is open in it, such as a paragraph without an end tag.
 */
const ENDED_BY: Readonly<Record<string, { readonly ended: readonly string[]; readonly within: readonly string[] }>> = {
  li: { ended: ['li'], within: ['ul', 'ol', 'menu', 'dir'] },
  dt: { ended: ['dt', 'dd'], within: ['dl'] },
  dd: { ended: ['dt', 'dd'], within: ['dl'] },
  td: { ended: ['td', 'th'], within: ['tr', 'table'] },
  th: { ended: ['td', 'th'], within: ['tr', 'table'] },
  tr: { ended: ['tr'], within: ['table'] },
};

/** Builds the tree, and leaves out elements together with all that is in them. */
class VisibleTree extends DomHandler {
  readonly holders = new Holders();
  hiddenElements = 0;
  comments = 0;
  unseen = 0;
  scripts = 0;
  /** Whether no more is taken. */
  isFull = false;
  readonly #limits: Limits;
  readonly #texts: Text[] = [];
  #nodes = 0;
  readonly #open: OpenElement[] = [];
  #depth = 0;
  /** Whether the innermost element that is left out is a hidden one whose text was not counted yet. */
  #isHidden = false;

  constructor(limits: Limits) {
    super();
    this.#limits = limits;
  }

  override onopentag(name: string, attributes: Record<string, string>): void {
    if (!this.#hasRoom()) return;
    if (name === 'script') this.scripts += 1;
    if (this.#isLeftOut) this.#open.push({ name, state: 'left out' });
    else if (UNREADABLE.has(name) || isHidden(name, attributes)) {
      this.#isHidden = !UNREADABLE.has(name);
      this.#open.push({ name, state: 'left out' });
    } else {
      this.#endOthers(name);
      // As in browsers, an element nested too deeply gets no node, and what is in it belongs to its parent.
      const isTooDeep = this.#depth >= this.#limits.pageDepthMax;
      this.#open.push({ name, state: isTooDeep ? 'too deep' : 'in tree' });
      if (isTooDeep) return;
      this.#depth += 1;
      super.onopentag(name, attributes);
      this.holders.add(this.tagStack.at(-1) as Element);
    }
  }

  override onclosetag(): void {
    // Elements are closed in the opposite order of their opening.
    const closed = this.isFull ? undefined : this.#open.pop();
    if (closed?.state === 'in tree') this.#endNode();
    if (!this.#isLeftOut) this.#isHidden = false;
  }

  override ontext(text: string): void {
    if (this.#isLeftOut) this.#noteHidden(text);
    else if (this.#hasRoom()) this.#text(text);
  }

  /**
   * Leaves invisible characters out of the whole texts, before anything escapes them: a character that goes later could
   * join a `<` and a name to a tag.
   */
  override onend(): void {
    for (const node of this.#texts) {
      if (PLAIN.test(node.data)) continue;
      const lines = node.data.replace(OTHER_LINE_END, '\n');
      node.data = withoutUnseen(lines);
      if (node.data.length !== lines.length) this.unseen += charactersIn(lines) - charactersIn(node.data);
    }
    super.onend();
  }

  override oncomment(): void {
    this.comments += 1;
  }

  override oncommentend(): void {}
  override oncdatastart(): void {}
  override oncdataend(): void {}
  override onprocessinginstruction(): void {}

  get #isLeftOut(): boolean {
    return this.#open.at(-1)?.state === 'left out';
  }

  #endNode(): void {
    this.#depth -= 1;
    super.onclosetag();
  }

  /** Ends the open elements that an element of this name ends. */
  #endOthers(name: string): void {
    const ends = ENDED_BY[name];
    if (!ends) return;
    const at = this.#open.findLastIndex(
      (it) => it.state === 'in tree' && (ends.ended.includes(it.name) || ends.within.includes(it.name)),
    );
    if (at < 0 || !ends.ended.includes(this.#open[at]?.name as string)) return;
    for (const it of this.#open.slice(at)) {
      if (it.state === 'in tree') this.#endNode();
      it.state = 'ended';
    }
  }

  /** Adds to the text node that the last piece of the same text made, if any. */
  #text(text: string): void {
    super.ontext(text);
    const node = this.tagStack.at(-1)?.children.at(-1);
    if (node && isText(node) && node !== this.#texts.at(-1)) this.#texts.push(node);
  }

  #noteHidden(text: string): void {
    if (!this.#isHidden || text.trim() === '') return;
    this.hiddenElements += 1;
    // Counted once, however many texts are in it.
    this.#isHidden = false;
  }

  /** Counts a node. The parser keeps the names of open elements, and searches them for each end tag. */
  #hasRoom(): boolean {
    this.#nodes += 1;
    const { pageNodesMax, pageOpenElementsMax } = this.#limits;
    if (this.#nodes > pageNodesMax || this.#open.length >= pageOpenElementsMax) this.isFull = true;
    return !this.isFull;
  }
}

/**
 * Whether an element's own attributes hide it. What a style sheet hides, or shows in the colour of its background, is
 * not known here. Pages hide their whole body until their scripts have run, so that is no hidden text.
 */
function isHidden(name: string, { hidden, style, 'aria-hidden': ariaHidden, open }: Record<string, string>): boolean {
  if (name === 'html' || name === 'body') return false;
  if (hidden !== undefined || ariaHidden?.trim().toLowerCase() === 'true') return true;
  if (name === 'dialog' && open === undefined) return true;
  const declarations = style?.slice(0, STYLE_CHARS_MAX).split(';') ?? [];
  return declarations.some((it) => HIDING.test(it.trim()));
}

const STYLE_CHARS_MAX = 2_000;
const HIDING =
  /^(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:font-size|opacity)\s*:\s*(?:0+(?:\.0+)?|\.0+)(?:[a-z]+|%)?)\s*(?:!\s*important)?$/i;
