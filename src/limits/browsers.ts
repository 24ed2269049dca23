/** Bounds of the browsers that open pages for calls. */
import { bytes, count, KiB, MiB, ms } from './units.ts';

export const browserLimits = {
  /** Browsers at once over all sessions; each takes some hundred megabytes. */
  browsersMax: count().default(2),
  /** Browsers of one session at once. */
  sessionBrowsersMax: count().default(1),
  /** Memory of one browser with all its processes, in MiB. */
  browserMemoryMb: count().default(1_024),
  /** Processes and threads of one browser; an empty page takes about 120. */
  browserTasksMax: count().default(768),
  /** CPU time of one browser with all its processes, so that a page can't occupy the processors for its whole time. */
  browserCpuMs: ms().default(60_000),
  /** Interval at which a browser's use is measured. */
  browserLookMs: ms().default(50),
  /** Bytes of the files of one browser, which lie in memory. */
  browserTmpBytes: bytes().default(256 * MiB),
  /** Time that a page has to load; then it is shown as it is. */
  browserLoadMs: ms().default(15_000),
  /** Bytes of one message of a browser. */
  browserMessageBytes: bytes().default(32 * MiB),
  /** Bytes of a screenshot; with the default of mcpMediaBytesMax it fits into one MCP result. */
  screenshotBytesMax: bytes().default(3 * MiB),
  /** Pixels of the height of a screenshot; the rest of a longer page is cut. */
  screenshotHeightMax: count().default(16_384),
  /** Lines of a page's console that a result shows. */
  browserConsoleMax: count().default(50),
  /** Characters of one such line. */
  browserConsoleChars: count().default(KiB),
};
