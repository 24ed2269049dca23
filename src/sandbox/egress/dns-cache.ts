/**
 * Resolves names once for all commands: callers that ask for a name during its lookup share that lookup, and its addresses are kept for the
 * name's TTL. `npm install` opens dozens of connections to one registry.
 */
import { LRUCache } from 'lru-cache';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';

/** The addresses of a name in the order to try them. Rejects if there are none. */
export type Resolve = (name: string) => Promise<readonly string[]>;
/** How long a name's addresses may be kept, in milliseconds; undefined if DNS does not know the name (`/etc/hosts`). */
export type TtlOf = (name: string) => Promise<number | undefined>;

export interface DnsCacheOptions {
  readonly resolve: Resolve;
  readonly ttlOf: TtlOf;
  readonly limits: Pick<Limits, 'egressNamesKeptMax' | 'egressNameKeptMs'>;
  readonly powers: Pick<Powers, 'monotonicMs'>;
}

export class DnsCache {
  readonly #options: DnsCacheOptions;
  readonly #running = new Map<string, Promise<readonly string[]>>();
  readonly #addresses: LRUCache<string, readonly string[]>;

  constructor(options: DnsCacheOptions) {
    this.#options = options;
    const { limits, powers } = options;
    this.#addresses = new LRUCache({
      max: limits.egressNamesKeptMax,
      ttl: limits.egressNameKeptMs,
      ttlResolution: 0,
      perf: { now: () => powers.monotonicMs() },
    });
  }

  /** The name's addresses. Rejects if there are none; failures are not kept. */
  async lookup(name: string): Promise<readonly string[]> {
    return this.#addresses.get(name) ?? this.#running.get(name) ?? this.#start(name);
  }

  #start(name: string): Promise<readonly string[]> {
    const lookup = this.#options.resolve(name).finally(() => this.#running.delete(name));
    this.#running.set(name, lookup);
    // The caller gets the same rejection from `lookup`.
    this.#keep(name, lookup).catch(() => {});
    return lookup;
  }

  /** Keeps the addresses for the TTL. getaddrinfo reports none, so DNS is queried in parallel without delaying the caller. */
  async #keep(name: string, lookup: Promise<readonly string[]>): Promise<void> {
    const [addresses, ttlMs] = await Promise.all([lookup, this.#options.ttlOf(name)]);
    const ttl = Math.min(ttlMs ?? 0, this.#options.limits.egressNameKeptMs);
    if (ttl > 0 && addresses.length > 0) this.#addresses.set(name, addresses, { ttl });
  }
}
