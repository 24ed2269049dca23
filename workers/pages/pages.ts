/** Reads pages: finds out what they are, and gives their text. The process holds no rights that a hostile page could use. */
import { hash } from 'node:crypto';
import type { AnyNode, Element } from 'domhandler';
import { DomUtils } from 'htmlparser2';
import { LRUCache } from 'lru-cache';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { decodeText } from '../../src/base/text/charset.ts';
import { parseJson } from '../../src/base/text/json.ts';
import { charactersIn, withoutUnseen } from '../../src/base/text/shown-text.ts';
import type {
  ContentQuery,
  FetchedPage,
  PageContent,
  PageReader,
  Scraped,
  Selector,
} from '../../src/tools/context/page.ts';
import { lineOf } from './elements.ts';
import { absoluteLink } from './inline.ts';
import { baseOf, factsOf, kindOf, linksIn } from './page-facts.ts';
import { textOf } from './page-text.ts';
import { type PageTree, parsePage } from './page-tree.ts';
import { readPdf } from './pdf.ts';
import { select } from './selectors.ts';
import { TextIsFull } from './text-writer.ts';

/** A page with less text than this is shown with what stands around its main text. */
const MAIN_CHARS_MIN = 200;

/** Only what would be markup is written as an entity, so that an invisible character is not written as a visible one. */
const HTML_OPTIONS = { encodeEntities: 'utf8' } as const;

/** What of a page is not in its content. */
interface LeftOut {
  readonly hiddenElements: number;
  readonly comments: number;
  /** Invisible characters. */
  readonly unseen: number;
}

const NOTHING: LeftOut = { hiddenElements: 0, comments: 0, unseen: 0 };

export class Pages implements PageReader {
  readonly #limits: Limits;
  readonly #cpuMs: () => number;
  /** Contents in which calls may read on, by what they were made of. */
  readonly #known: LRUCache<string, PageContent>;

  /** @param cpuMs Gives the CPU time of this thread. */
  constructor(limits: Limits, cpuMs: () => number) {
    this.#limits = limits;
    this.#cpuMs = cpuMs;
    const sizeCalculation = ({ content }: PageContent) => 2 * content.length + 1;
    this.#known = new LRUCache({ maxSize: limits.pagesKeptBytes, sizeCalculation });
  }

  async content(page: FetchedPage, query: ContentQuery): Promise<PageContent> {
    const { url, contentType, isCut, body } = page;
    const key = JSON.stringify([query.format, query.selector, url, contentType, isCut, hash('sha256', body)]);
    const known = this.#known.get(key);
    if (known) return known;
    const made = await this.#read(page, query);
    this.#known.set(key, made);
    return made;
  }

  async scrape(page: FetchedPage, selectors: Readonly<Record<string, Selector>>, max: number): Promise<Scraped> {
    if (kindOf(page) !== 'html') throw unsupported(page, 'is no HTML, so that no selector applies');
    const tree = this.#parse(page);
    const base = baseOf(tree, page);
    const data: Record<string, string | string[]> = {};
    for (const [field, { css, attr, all }] of Object.entries(selectors)) {
      const values = select(css, tree.root, all ? max : 1).flatMap((it) => this.#valueOf(it, attr, base));
      if (values[0] !== undefined) data[field] = all ? values : values[0];
    }
    const missing = Object.keys(selectors).filter((it) => !Object.hasOwn(data, it));
    return { data, missing, notes: notesOf(tree) };
  }

  #read(page: FetchedPage, query: ContentQuery): PageContent | Promise<PageContent> {
    const kind = kindOf(page);
    if (kind === 'other') throw unsupported(page, 'is no text');
    if (kind === 'html' && query.format !== 'json') return this.#html(page, query);
    if (query.selector !== undefined) throw unsupported(page, 'is no HTML, so that no selector applies');
    if (kind === 'pdf') return this.#pdf(page, query);
    return toContent(query.format === 'json' ? this.#json(page) : this.#text(page), NOTHING);
  }

  #json(page: FetchedPage): string {
    try {
      return JSON.stringify(parseJson(this.#text(page)), null, 2);
    } catch {
      // SyntaxError, or a RangeError if it is nested too deeply.
      throw unsupported(page, page.isCut ? 'is too long to be read as JSON' : 'is no JSON');
    }
  }

  async #pdf(page: FetchedPage, { format }: ContentQuery): Promise<PageContent> {
    if (page.isCut) throw unsupported(page, `has more than ${this.#limits.pageBytesMax} bytes`);
    if (format === 'json') throw unsupported(page, 'is no JSON');
    const startedMs = this.#cpuMs();
    const { pages, total, title } = await readPdf(page.body, this.#limits, () => this.#cpuMs() - startedMs);
    const heading = format === 'text' ? 'Page ' : '## Page ';
    const content = pages.map((text, i) => `${heading}${i + 1}\n\n${text}`).join('\n\n');
    const notes = pages.length < total ? [`only the first ${pages.length} of ${total} pages of the PDF were read`] : [];
    return toContent(content, NOTHING, { notes, title });
  }

  #html(page: FetchedPage, { format, selector }: ContentQuery): PageContent {
    const tree = this.#parse(page);
    const parts = this.#partsOf(tree, selector);
    const facts = factsOf(tree);
    if (format === 'html')
      return toContent(
        this.#bounded(() => DomUtils.getOuterHTML(parts, HTML_OPTIONS)),
        tree,
        facts,
      );
    const base = baseOf(tree, page);
    const write = (isMainOnly: boolean) => {
      const options = { style: format === 'text' ? 'text' : 'markdown', base, isMainOnly } as const;
      return this.#bounded(() => textOf(parts, tree.holders, { ...options, charsMax: this.#limits.pageTextCharsMax }));
    };
    const notes: string[] = [];
    let text = write(selector === undefined);
    if (selector === undefined && text.length < MAIN_CHARS_MIN) {
      const whole = write(false);
      if (whole.length > text.length) notes.push('the page has little main text; what stands around it is here, too');
      text = whole;
      if (tree.scripts > 0 && text.length < MAIN_CHARS_MIN && !page.isRendered)
        notes.push('the page may write its text by scripts, and none were run; set render to run them');
    }
    const links = format === 'text' && { links: linksIn(parts, base) };
    return toContent(text, tree, { ...facts, ...links, notes });
  }

  /** The parts that match the selector, or all. Throws NOT_FOUND. */
  #partsOf({ root }: PageTree, selector: string | undefined): readonly AnyNode[] {
    if (selector === undefined) return [root];
    const parts = select(selector, root, this.#limits.selectorMatchesMax);
    if (parts.length > 0) return parts;
    throw new ToolError('NOT_FOUND', `nothing in the page matches the selector \`${selector.slice(0, 100)}\``, {
      suggestion: 'Fetch the page without a selector to see what is in it.',
    });
  }

  /** Throws OUTPUT_LIMIT if the text is too long. */
  #bounded(write: () => string): string {
    const { pageTextCharsMax } = this.#limits;
    try {
      const text = write();
      if (text.length <= pageTextCharsMax) return text;
    } catch (error) {
      if (!(error instanceof TextIsFull)) throw error;
    }
    throw new ToolError('OUTPUT_LIMIT', `the page unfolds to more than ${pageTextCharsMax} characters`);
  }

  #parse(page: FetchedPage): PageTree {
    return parsePage(this.#text(page), this.#limits);
  }

  #text({ body, contentType, isCut }: FetchedPage): string {
    return decodeText(body, { contentType, isCut }).text.replace(/\r\n?/g, '\n');
  }

  #valueOf(element: Element, attr: string | undefined, base: string): string[] {
    const value = attr === undefined ? lineOf(element) : element.attribs[attr];
    if (value === undefined) return [];
    const shown = attr === 'href' || attr === 'src' ? (absoluteLink(value, base) ?? value) : value;
    return [withoutUnseen(shown).slice(0, this.#limits.scrapedCharsMax)];
  }
}

/** The content without invisible characters, which could carry text for a model that no person sees. */
function toContent(text: string, leftOut: LeftOut, facts: Partial<PageContent> = {}): PageContent {
  const content = withoutUnseen(text);
  const more = content.length === text.length ? 0 : charactersIn(text) - charactersIn(content);
  const unseen = leftOut.unseen + more;
  const { notes = [], title, ...others } = facts;
  const shown = title === undefined ? undefined : withoutUnseen(title);
  return { ...others, ...(shown && { title: shown }), content, notes: [...notes, ...notesOf({ ...leftOut, unseen })] };
}

function notesOf(tree: LeftOut & Partial<Pick<PageTree, 'isCut'>>): string[] {
  const counts = [
    [tree.hiddenElements, 'hidden element'],
    [tree.comments, 'comment'],
    [tree.unseen, 'invisible character'],
  ] as const;
  const parts = counts.filter(([n]) => n > 0).map(([n, what]) => `${n} ${what}${n === 1 ? '' : 's'}`);
  return [
    ...(parts.length > 0 ? [`left out: ${parts.join(', ')}`] : []),
    ...(tree.isCut ? ['the page is larger or more deeply nested than what is read; its end is missing'] : []),
  ];
}

function unsupported({ url, contentType = 'of no type' }: FetchedPage, why: string): ToolError {
  return new ToolError('UNSUPPORTED', `${url.slice(0, 200)} (${contentType.slice(0, 100)}) ${why}`, {
    suggestion: 'Use http_request to get an answer as it is.',
  });
}
