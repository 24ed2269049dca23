/** Bounds of the browsers that open pages for calls. */
import { KiB, MiB } from './units.ts';

export const browserLimits = {
  /** Browsers at once over all sessions; each takes some hundred megabytes. */
  browsersMax: 2,
  /** Browsers of one session at once. */
  sessionBrowsersMax: 1,
  /** Memory of one browser with all its processes, in MiB. */
  browserMemoryMb: 1_024,
  /** Processes and threads of one browser; an empty page takes about 120. */
  browserTasksMax: 768,
  /** CPU time of one browser with all its processes, so that a page can't occupy the processors for its whole time. */
  browserCpuMs: 60_000,
  /** Interval at which a browser's use is measured. */
  browserLookMs: 50,
  /** Bytes of the files of one browser, which lie in memory. */
  browserTmpBytes: 256 * MiB,
  /** Time that a page has to load; then it is shown as it is. */
  browserLoadMs: 15_000,
  /** Bytes of one message of a browser. */
  browserMessageBytes: 32 * MiB,
  /** Bytes of a screenshot; with the default of mcpMediaBytesMax it fits into one MCP result. */
  screenshotBytesMax: 3 * MiB,
  /** Pixels of the height of a screenshot; the rest of a longer page is cut. */
  screenshotHeightMax: 16_384,
  /** Lines of a page's console that a result shows. */
  browserConsoleMax: 50,
  /** Characters of one such line. */
  browserConsoleChars: KiB,
};
