/** The caches of results and of answers of web servers: what an operator sees of them, and clears together. */
import type { CacheStatus, ResultCache } from './result-cache.ts';
import type { WebCache } from './web-cache.ts';

export function cachesOf<Result extends object>(results: ResultCache<Result>, webCache: WebCache) {
  return {
    get status(): CacheStatus {
      return results.status;
    },
    clear() {
      const [ofReads, ofServers] = [results.clear(), webCache.clear()];
      return { entries: ofReads.entries + ofServers.entries, bytes: ofReads.bytes + ofServers.bytes };
    },
  };
}
