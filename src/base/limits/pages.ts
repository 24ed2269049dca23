/** Bounds of reading web pages, search results and other documents of strangers. */
import { KiB, MiB } from './units.ts';

export const pageLimits = {
  /** Bytes of a page that are read; the rest is cut. Bounds what the gateway holds of one. */
  pageBytesMax: 4 * MiB,
  /** Nesting of elements in a page; deeper ones count as part of their parent, as in browsers. Converters overflow their stack on 20 000. */
  pageDepthMax: 512,
  /** Open elements of a page, nested or never closed: the parser searches them for each end tag. */
  pageOpenElementsMax: 2_048,
  /** Nodes of a page; one with millions of empty elements takes seconds and hundreds of megabytes. */
  pageNodesMax: 200_000,
  /** Characters that a page may unfold to, markup included: cells that span a thousand columns each write a thousand. */
  pageTextCharsMax: 8 * MiB,
  /** CPU time of reading one page, so that one made to be slow keeps others waiting no longer. */
  pageCpuMs: 2_000,
  /**
   * Memory that the process that reads pages may reserve, in MiB, buffers outside of the JavaScript heap included: what a
   * page or PDF unfolds to beyond it ends that process. Node with two threads reserves 1 850 MiB, and uses 320.
   */
  pageHostMemoryMb: 2_560,
  /** Pages of a PDF that are read; a small file may have any number of them. */
  pdfPagesMax: 500,
  /** Characters of the content that one call may ask for; more would fill a model's context. */
  pageCharsMax: 200_000,
  /** CSS selectors in one call; each one walks through the whole page. */
  selectorsMax: 50,
  /** Characters of a CSS selector; a long one takes time for each element. */
  selectorCharsMax: 500,
  /** Matches of one selector in an answer; `*` matches every element. */
  selectorMatchesMax: 1_000,
  /** Characters of one scraped value; longer ones are cut. */
  scrapedCharsMax: 16 * KiB,
  /** Results of one web search; models read all of them. */
  searchResultsMax: 20,
  /** Characters of a search query; services refuse longer ones. */
  searchQueryCharsMax: 400,
  /** Characters of the snippet of one search result; longer ones are cut, since some services send whole pages. */
  searchSnippetCharsMax: 1_000,
  /** Bytes of all results of one search as JSON; the rest is left out. */
  searchBytesMax: 32 * KiB,
  /** Bytes of pages as text that a thread keeps, so that reading on in a page does not convert it again. */
  pagesKeptBytes: 16 * MiB,
};
