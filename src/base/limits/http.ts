/** Bounds of HTTP requests that the egress process makes for calls, and of what is kept of their answers. */
import { MiB } from './units.ts';

export const httpLimits = {
  /** Concurrent HTTP requests of calls over all sessions; each may hold its body and that of its answer. */
  httpRequestsMax: 32,
  /** Concurrent HTTP requests of one session, so that a slow server delays only its own callers. */
  sessionHttpRequestsMax: 8,
  /** Bytes of an HTTP answer's body that a caller gets; the rest is cut. */
  httpBodyBytesMax: MiB,
  /** Redirects that one request follows, so that servers that send a call in a circle end it soon. */
  httpRedirectsMax: 5,
  /** Factor by which a compressed body may grow; beyond it the answer is an attack on whoever reads it. Pages grow 3- to 30-fold. */
  httpInflateRatioMax: 200,
  /** Decompressed bytes up to which no factor is too high: ten lines of spaces grow a hundredfold. */
  httpInflateFreeBytes: MiB,
  /** Bytes of web answers that are kept for one principal, so that fetching pages can't fill the disk; the least recently used are dropped. */
  webCacheBytesMax: 64 * MiB,
  /** Web answers that are kept for one principal; each takes a file, which takes at least a block. */
  webCacheEntriesMax: 2_000,
  /** Principals whose web answers are kept; beyond it those of the principal who had none for longest are dropped. */
  webCachePrincipalsMax: 16,
  /** Longest time for which a web answer is kept, whatever its server says: 7 days. */
  webCacheKeptMs: 7 * 86_400_000,
};
