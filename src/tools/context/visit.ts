/** What a tool has a browser do with a page. `workers/browser/` does it, in a sandbox that holds nothing but the browser. */

export interface PageVisit {
  readonly url: string;
  /** Size of the window in CSS pixels. */
  readonly width: number;
  readonly height: number;
  /** The page is shown when it has loaded, when also its requests have ended, or when an element is there. */
  readonly waitFor: 'load' | 'idle' | { readonly selector: string };
  /** Time to wait after that. */
  readonly waitMs: number;
  /** The result: the page as HTML, or a picture of the window or of the whole page. */
  readonly show: 'html' | { readonly format: 'png' | 'jpeg'; readonly fullPage: boolean };
}
