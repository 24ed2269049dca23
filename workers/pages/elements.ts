/** What the elements of a page are: which ones are blocks, which ones hold the main text, and what stands around it. */
import { type AnyNode, type Element, hasChildren, isTag, isText } from 'domhandler';

const BLOCKS: ReadonlySet<string> = new Set([
  ...[
    'address',
    'article',
    'aside',
    'blockquote',
    'body',
    'caption',
    'center',
    'dd',
    'details',
    'dialog',
    'dir',
    'div',
  ],
  ...['dl', 'dt', 'fieldset', 'figcaption', 'figure', 'footer', 'form', 'header', 'hgroup', 'hr', 'html', 'legend'],
  ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'li', 'main', 'menu', 'nav', 'ol', 'p', 'pre', 'search', 'section'],
  ...['summary', 'table', 'tbody', 'td', 'tfoot', 'th', 'thead', 'tr', 'ul'],
]);

export const isBlock = ({ name }: Element): boolean => BLOCKS.has(name);

const AROUND_TEXT: ReadonlySet<string> = new Set(['nav', 'aside', 'footer', 'form']);
const ROLES_AROUND_TEXT: ReadonlySet<string> = new Set(['navigation', 'complementary', 'contentinfo', 'search']);

/** Navigation, sidebars and the like. */
export const isAroundText = ({ name, attribs: { role } }: Element): boolean =>
  AROUND_TEXT.has(name) || (role !== undefined && ROLES_AROUND_TEXT.has(role));

export const isMainText = ({ name, attribs: { role } }: Element): boolean =>
  name === 'main' || name === 'article' || role === 'main';

/** Elements that hold something of a kind at any depth: asking each element anew would take time for each level above it. */
export class Holders {
  readonly blocks = new Set<AnyNode>();
  readonly mainText = new Set<AnyNode>();
  readonly tables = new Set<AnyNode>();

  /** Notes the elements around a new one. */
  add(element: Element): void {
    if (isBlock(element)) mark(element, this.blocks);
    if (isMainText(element)) mark(element, this.mainText);
    if (element.name === 'table') mark(element, this.tables);
  }
}

function mark(element: Element, holders: Set<AnyNode>): void {
  for (let at = element.parent; at && !holders.has(at); at = at.parent) holders.add(at);
}

/** A node and all below it, in the order of the page. */
export function* nodesWith(root: AnyNode): Generator<AnyNode> {
  const left: AnyNode[] = [root];
  for (let node = left.pop(); node; node = left.pop()) {
    yield node;
    if (hasChildren(node)) for (const it of node.children.toReversed()) left.push(it);
  }
}

/** The text in a node as it is written there; a line begins at each `<br>` and at each block. */
export function rawTextOf(node: AnyNode): string {
  const pieces: string[] = [];
  for (const it of nodesWith(node)) {
    if (isText(it)) pieces.push(it.data);
    else if (isTag(it) && (it.name === 'br' || (isBlock(it) && pieces.at(-1)?.endsWith('\n') === false)))
      pieces.push('\n');
  }
  return pieces.join('');
}

/** The text in a node as one line. */
export const lineOf = (node: AnyNode): string => rawTextOf(node).replace(/\s+/g, ' ').trim();

/** The first element of a name, if there is one. */
export function firstNamed(root: AnyNode, name: string): Element | undefined {
  for (const node of nodesWith(root)) if (isTag(node) && node.name === name) return node;
  return undefined;
}
