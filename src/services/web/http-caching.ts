/** Answers requests from the principal's web cache as RFC 9111 allows it to a private cache. */
import CachePolicy from 'http-cache-semantics';
import type { Powers } from '../../base/powers.ts';
import { canonical, isRecord } from '../../base/text/values.ts';
import type { HttpResponse } from '../../sandbox/egress/proxy-messages.ts';
import type { WebCache } from '../../store/web-cache.ts';
import { FOR_ANY_ORIGIN, type Hop, type HopResponse } from './http-exchange.ts';

export interface CachingParts {
  readonly webCache: Pick<WebCache, 'get' | 'put'>;
  readonly powers: Pick<Powers, 'now'>;
  readonly principal: string;
}

export interface CachingHooks {
  /** Called before an answer is given without asking the server. Throws to refuse it. */
  beforeReuse(hop: Hop): void;
  send(hop: Hop): Promise<HttpResponse>;
}

interface KeptAnswer {
  readonly policy: CachePolicy;
  readonly body: Uint8Array;
}

/** Sends requests through the cache. With `renew` kept answers are not used, but replaced. */
export class CachingSender {
  readonly #parts: CachingParts;
  readonly #hooks: CachingHooks;
  readonly #renews: boolean;
  readonly #policies: typeof CachePolicy;

  constructor(parts: CachingParts, hooks: CachingHooks, mode: 'use' | 'renew') {
    this.#parts = parts;
    this.#hooks = hooks;
    this.#renews = mode === 'renew';
    this.#policies = policiesWith(parts.powers);
  }

  async send(hop: Hop): Promise<HopResponse> {
    if (!isPublic(hop)) return { ...(await this.#hooks.send(hop)), cached: 'no' };
    const kept = this.#renews ? undefined : await this.#find(hop);
    if (!kept) return this.#fetch(hop);
    const asked = toRequest(hop);
    if (kept.policy.satisfiesWithoutRevalidation(asked)) {
      this.#hooks.beforeReuse(hop);
      return { ...toResponse(kept), cached: 'fresh' };
    }
    const { host: _, ...headers } = kept.policy.revalidationHeaders(asked) as Record<string, string>;
    const response = await this.#hooks.send({ ...hop, headers });
    if (response.status !== 304) return this.#keep(hop, response);
    // A 304 without a validator speaks of the one answer that the request named.
    const named = { ...validatorsOf(toResponse(kept)), ...response.headers };
    const { policy, matches } = kept.policy.revalidatedPolicy(asked, { ...response, headers: named });
    if (!matches) return this.#fetch(hop);
    const renewed = { policy, body: kept.body };
    await this.#put(hop, renewed);
    return { ...toResponse(renewed), cached: 'revalidated' };
  }

  async #fetch(hop: Hop): Promise<HopResponse> {
    return this.#keep(hop, await this.#hooks.send(hop));
  }

  /** Keeps an answer that may be used again, and gives it. */
  async #keep(hop: Hop, response: HttpResponse): Promise<HopResponse> {
    const Policy = this.#policies;
    // Without heuristics: an agent that looks at a server it works on must not see what it served before.
    const policy = new Policy(toRequest(hop), response, { shared: false, cacheHeuristic: 0 });
    const isOfUse = policy.timeToLive() > 0 || Object.keys(validatorsOf(response)).length > 0;
    if (policy.storable() && isOfUse && response.headers['set-cookie'] === undefined && !response.truncated)
      await this.#put(hop, { policy, body: response.body });
    return { ...response, cached: 'no' };
  }

  #put(hop: Hop, { policy, body }: KeptAnswer): Promise<void> {
    return this.#parts.webCache.put(this.#parts.principal, keyOf(hop), { about: policy.toObject(), body });
  }

  async #find(hop: Hop): Promise<KeptAnswer | undefined> {
    const entry = await this.#parts.webCache.get(this.#parts.principal, keyOf(hop));
    if (!isRecord(entry?.about)) return undefined;
    try {
      const about = entry.about as unknown as CachePolicy.CachePolicyObject;
      return { policy: this.#policies.fromObject(about), body: entry.body };
    } catch {
      return undefined; // The package changed its form.
    }
  }
}

/** The package's class, with our clock. */
function policiesWith({ now }: Pick<Powers, 'now'>): typeof CachePolicy {
  return class extends CachePolicy {
    now(): number {
      return now();
    }
  };
}

/** Whether everybody could make the request: any header beyond these may be a credential. */
const isPublic = ({ method, headers, body }: Hop): boolean =>
  method === 'GET' &&
  body === undefined &&
  Object.keys(headers).every((it) => FOR_ANY_ORIGIN.includes(it.toLowerCase()));

/** The URL and all headers, so that each variant by `vary` has a place of its own. */
const keyOf = ({ url, headers }: Hop): string => canonical([url, lowerCased(headers)]);

const toRequest = ({ url, method, headers }: Hop): CachePolicy.HttpRequest => ({
  url,
  method,
  headers: { ...lowerCased(headers), host: new URL(url).host },
});

const lowerCased = (headers: Hop['headers']): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/** The headers by which a server says later whether an answer still holds. */
const validatorsOf = ({ headers }: Pick<HttpResponse, 'headers'>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name === 'etag' || name === 'last-modified'));

function toResponse({ policy, body }: KeptAnswer): HttpResponse {
  const { st: status, resh } = policy.toObject();
  return { status, headers: resh as Record<string, string>, body, truncated: false };
}
