/** Bounds of HTTP requests that the egress process makes for calls, and of what is kept of their answers. */
import { bytes, count, MiB } from './units.ts';

export const httpLimits = {
  /** Concurrent HTTP requests of calls over all sessions; each may hold its body and that of its answer. */
  httpRequestsMax: count().default(32),
  /** Concurrent HTTP requests of one session, so that a slow server delays only its own callers. */
  sessionHttpRequestsMax: count().default(8),
  /** Bytes of an HTTP answer's body that a caller gets; the rest is cut. */
  httpBodyBytesMax: bytes().default(MiB),
  /** Redirects that one request follows, so that servers that send a call in a circle end it soon. */
  httpRedirectsMax: count().default(5),
  /** Factor by which a compressed body may grow; beyond it the answer is an attack on whoever reads it. Pages grow 3- to 30-fold. */
  httpInflateRatioMax: count().default(200),
  /** Decompressed bytes up to which no factor is too high: ten lines of spaces grow a hundredfold. */
  httpInflateFreeBytes: bytes().default(MiB),
};
