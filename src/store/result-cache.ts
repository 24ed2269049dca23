/** Caches results within limits of bytes, number and age. The reader decides whether a result is still valid. */
import { LRUCache } from 'lru-cache';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';

/** Which entry is evicted first: the least recently used, the least often used, the first to expire, or the largest. */
export const CACHE_STRATEGIES = ['lru', 'lfu', 'ttl', 'size'] as const;
export type CacheStrategy = (typeof CACHE_STRATEGIES)[number];

export interface CacheStatus {
  strategy: CacheStrategy;
  entries: number;
  bytes: number;
  hits: number;
  misses: number;
  /** Misses caused by results that were no longer valid. */
  stale: number;
}

interface CacheEntry<Entry> {
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
  readonly #entries: LRUCache<string, CacheEntry<Entry>>;
  readonly #options: ResultCacheOptions;
  #hits = 0;
  #misses = 0;
  #stale = 0;

  constructor(options: ResultCacheOptions) {
    this.#options = options;
    const { cacheEntriesMax, cacheBytesMax, cacheTtlMs } = options.limits;
    this.#entries = new LRUCache({
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
      entries: this.#entries.size,
      bytes: this.#entries.calculatedSize,
      hits: this.#hits,
      misses: this.#misses,
      stale: this.#stale,
    };
  }

  /** Removes all entries and returns how much that was. Hit and miss counters continue. */
  clear(): { entries: number; bytes: number } {
    const { entries, bytes } = this.status;
    this.#entries.clear();
    return { entries, bytes };
  }

  /** A valid entry; an invalid one is removed. */
  get(key: string, holds: (entry: Entry) => boolean): Entry | undefined {
    const stored = this.#entries.get(key);
    if (stored && holds(stored.entry)) {
      stored.uses += 1;
      this.#hits += 1;
      return stored.entry;
    }
    this.#misses += 1;
    if (stored) {
      this.#stale += 1;
      this.#entries.delete(key);
    }
    return undefined;
  }

  /** Stores an entry unless it is larger than an eighth of the cache, which would evict everything else. `ttlMs` shortens its lifetime. */
  put(key: string, entry: Entry, { bytes, ttlMs }: { bytes: number; ttlMs?: number | undefined }): void {
    const { cacheBytesMax, cacheTtlMs } = this.#options.limits;
    if (bytes > cacheBytesMax / 8) return;
    this.#entries.delete(key);
    this.#makeRoom(bytes);
    const stored = { entry, bytes: Math.max(1, bytes), storedAt: this.#options.powers.monotonicMs(), uses: 0 };
    this.#entries.set(key, stored, { ttl: Math.min(ttlMs ?? cacheTtlMs, cacheTtlMs) });
  }

  /** Evicts entries for strategies that the library does not have. */
  #makeRoom(bytes: number): void {
    const { strategy, limits } = this.#options;
    if (strategy === 'lru') return;
    const isFull = () =>
      this.#entries.size >= limits.cacheEntriesMax || this.#entries.calculatedSize + bytes > limits.cacheBytesMax;
    while (this.#entries.size > 0 && isFull()) {
      let first: { key: string; score: number } | undefined;
      for (const key of this.#entries.rkeys()) {
        const stored = this.#entries.peek(key);
        if (stored === undefined) continue;
        const score = this.#score(key, stored);
        if (first === undefined || score < first.score) first = { key, score };
      }
      // Expired entries are not listed, but the library still counts them.
      if (first) this.#entries.delete(first.key);
      else this.#entries.purgeStale();
    }
  }

  /** Eviction order: the lowest score goes first; among equals the least recently used. */
  #score(key: string, { bytes, uses }: CacheEntry<Entry>): number {
    const { strategy } = this.#options;
    if (strategy === 'lfu') return uses;
    return strategy === 'size' ? -bytes : this.#entries.getRemainingTTL(key);
  }
}
