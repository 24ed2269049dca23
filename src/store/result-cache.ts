/** Results that may be given again, bounded in bytes, number and age. Whether one still holds is its reader's to know. */
import { LRUCache } from 'lru-cache';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';

/** What makes room: the one unused for longest, the one used least, the one that expires first, the largest. */
export const CACHE_STRATEGIES = ['lru', 'lfu', 'ttl', 'size'] as const;
export type CacheStrategy = (typeof CACHE_STRATEGIES)[number];

export interface CacheStatus {
  strategy: CacheStrategy;
  entries: number;
  bytes: number;
  hits: number;
  misses: number;
  /** Misses of results that were there and did not hold any more. */
  stale: number;
}

interface Kept<Entry> {
  readonly entry: Entry;
  readonly bytes: number;
  readonly storedAt: number;
  uses: number;
}

export interface ResultCacheOptions {
  readonly strategy: CacheStrategy;
  readonly limits: Limits;
  readonly powers: Powers;
}

export class ResultCache<Entry extends object> {
  readonly #kept: LRUCache<string, Kept<Entry>>;
  readonly #options: ResultCacheOptions;
  #hits = 0;
  #misses = 0;
  #stale = 0;

  constructor(options: ResultCacheOptions) {
    this.#options = options;
    const { cacheEntriesMax, cacheBytesMax, cacheTtlMs } = options.limits;
    this.#kept = new LRUCache({
      max: cacheEntriesMax,
      maxSize: cacheBytesMax,
      ttl: cacheTtlMs,
      ttlResolution: 0,
      sizeCalculation: ({ bytes }) => bytes,
      perf: { now: () => options.powers.monotonicMs() },
    });
  }

  get status(): CacheStatus {
    return {
      strategy: this.#options.strategy,
      entries: this.#kept.size,
      bytes: this.#kept.calculatedSize,
      ...{ hits: this.#hits, misses: this.#misses, stale: this.#stale },
    };
  }

  /** Forgets all; returns what that was. The counts of hits and misses go on. */
  clear(): { entries: number; bytes: number } {
    const { entries, bytes } = this.status;
    this.#kept.clear();
    return { entries, bytes };
  }

  /** What is there and holds; what does not is dropped. */
  get(key: string, holds: (entry: Entry) => boolean): Entry | undefined {
    const kept = this.#kept.get(key);
    if (kept && holds(kept.entry)) {
      kept.uses += 1;
      this.#hits += 1;
      return kept.entry;
    }
    this.#misses += 1;
    if (kept) {
      this.#stale += 1;
      this.#kept.delete(key);
    }
    return undefined;
  }

  /** One that is larger than an eighth of the whole is not kept: it would push out everything else. `ttlMs`: where it is to be less than others'. */
  put(key: string, entry: Entry, { bytes, ttlMs }: { bytes: number; ttlMs?: number | undefined }): void {
    const { cacheBytesMax, cacheTtlMs } = this.#options.limits;
    if (bytes > cacheBytesMax / 8) return;
    this.#kept.delete(key);
    this.#makeRoom(bytes);
    const kept = { entry, bytes: Math.max(1, bytes), storedAt: this.#options.powers.monotonicMs(), uses: 0 };
    this.#kept.set(key, kept, { ttl: Math.min(ttlMs ?? cacheTtlMs, cacheTtlMs) });
  }

  /** For strategies that the library does not have. */
  #makeRoom(bytes: number): void {
    const { strategy, limits } = this.#options;
    if (strategy === 'lru') return;
    const isFull = () =>
      this.#kept.size >= limits.cacheEntriesMax || this.#kept.calculatedSize + bytes > limits.cacheBytesMax;
    while (this.#kept.size > 0 && isFull()) {
      let first: { key: string; score: number } | undefined;
      for (const key of this.#kept.rkeys()) {
        const kept = this.#kept.peek(key);
        if (kept === undefined) continue;
        const score = this.#score(key, kept);
        if (first === undefined || score < first.score) first = { key, score };
      }
      // Entries that expired are none any more, though the library still counts them.
      if (first) this.#kept.delete(first.key);
      else this.#kept.purgeStale();
    }
  }

  /** The lowest goes first; of equals the one unused for longest. */
  #score(key: string, { bytes, uses }: Kept<Entry>): number {
    const { strategy } = this.#options;
    if (strategy === 'lfu') return uses;
    return strategy === 'size' ? -bytes : this.#kept.getRemainingTTL(key);
  }
}
