/** What tools learn about a page that was fetched. `workers/pages/` reads it, in a host without workspace and network. */

export interface FetchedPage {
  /** Address that gave the page, after all redirects. */
  readonly url: string;
  /** The header `content-type`. */
  readonly contentType?: string | undefined;
  readonly body: Uint8Array;
  /** Whether the body was longer. */
  readonly isCut: boolean;
  readonly status: number;
  /** ISO 8601. */
  readonly fetchedAt: string;
  /** Whether the body came from the web cache: without asking the server, or after it said that nothing changed. */
  readonly cached: 'no' | 'fresh' | 'revalidated';
  /** Whether a browser has run the scripts of the page. */
  readonly isRendered?: boolean;
}

export const FORMATS = ['markdown', 'text', 'html', 'json'] as const;

export interface ContentQuery {
  readonly format: (typeof FORMATS)[number];
  /** CSS selector of the parts that are wanted; the whole page if absent. */
  readonly selector?: string | undefined;
}

export interface PageContent {
  readonly content: string;
  readonly title?: string | undefined;
  readonly language?: string;
  /** The links of the page, in the format `text`, which has no others. */
  readonly links?: readonly string[];
  /** Parts of the page that were left out, and what to know about it. */
  readonly notes: readonly string[];
}

export interface Selector {
  readonly css: string;
  /** Name of the attribute that is wanted instead of the text. */
  readonly attr?: string | undefined;
  /** Whether all matches are wanted; else the first one. */
  readonly all: boolean;
}

export interface Scraped {
  readonly data: Readonly<Record<string, string | string[]>>;
  readonly missing: readonly string[];
  readonly notes: readonly string[];
}

export interface PageReader {
  /** Throws UNSUPPORTED for what is no text, NOT_FOUND if nothing matches the selector, INPUT_INVALID for one that can't be read. */
  content(page: FetchedPage, query: ContentQuery): Promise<PageContent>;
  /** Throws UNSUPPORTED for what is no HTML, INPUT_INVALID for a selector that can't be read. */
  scrape(page: FetchedPage, selectors: Readonly<Record<string, Selector>>, max: number): Promise<Scraped>;
}
