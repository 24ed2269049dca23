/** HTTP exchanges of one call: each request is judged, made by the egress process, or answered from the web cache. */
import type { EgressReport, HttpAnswer, HttpRequest, HttpResponse } from '../../egress/messages.ts';
import { ToolError } from '../../errors.ts';
import type { Egress, EgressLease } from '../../hosts/egress.ts';
import type { Limits } from '../../limits.ts';
import { decide } from '../../policy/decide.ts';
import { type NetworkLayer, refusedName, toHostName } from '../../policy/network.ts';
import type { Powers } from '../../powers.ts';
import type { WebCache } from '../../store/web-cache.ts';
import { destinationOf } from '../../tools/context/requests.ts';
import type { Attempt, RunFacts } from '../outcome.ts';
import { refusalOf } from '../refusal.ts';
import type { ClearedCall } from '../stage.ts';
import { networkOf, timeLimitOf } from './bounds.ts';
import { CachingSender } from './web/http-caching.ts';
import {
  assertResponse,
  type Exchange,
  type ExchangeRequest,
  exchange,
  type Hop,
  type HopResponse,
  unlisted,
} from './web/http-exchange.ts';

export interface FetchParts {
  readonly egress: Egress;
  readonly webCache: Pick<WebCache, 'get' | 'put'>;
  readonly limits: Limits;
  readonly powers: Powers;
}

export interface FetchHooks {
  readonly attempt: Attempt;
  /** Can still refuse the call before anything is sent. */
  readonly beforeStart: () => Promise<void>;
}

/** Makes one HTTP exchange for a call. Throws POLICY_DENIED, TIMEOUT, UPSTREAM_FAILED, and the reason of an abort. */
export type Exchanger = (request: ExchangeRequest) => Promise<Exchange>;

/** What `work` gave, or the error of an exchange that it let pass, with the hosts that were connected to. */
export type Exchanged<T> = ({ readonly value: T } | { readonly error: ToolError }) & {
  readonly facts: Partial<RunFacts>;
};

/**
 * Lets a call make HTTP exchanges while `work` runs, each request of which the policy judges, redirects included. Throws
 * what `beforeStart` throws, and the reason of an abort.
 */
export async function withExchanges<T>(
  call: ClearedCall,
  parts: FetchParts,
  { attempt, beforeStart }: FetchHooks,
  work: (exchanger: Exchanger) => Promise<T>,
): Promise<Exchanged<T>> {
  await beforeStart();
  const exchanges = new Exchanges(call, parts, attempt);
  try {
    const value = await work((request) => exchanges.make(request));
    return { value, facts: { ...attempt, ...(await exchanges.end()) } };
  } catch (error) {
    const connected = await exchanges.end();
    if (call.controller.signal.aborted || !(error instanceof ToolError)) throw error;
    return { error, facts: { ...attempt, ...connected } };
  }
}

class Exchanges {
  readonly #call: ClearedCall;
  readonly #parts: FetchParts;
  readonly #attempt: Attempt;
  readonly #layers: readonly NetworkLayer[];
  readonly #endsAtMs: number;
  readonly #done = Promise.withResolvers<void>();
  /** The egress process is needed from the first request on that the cache does not answer. */
  #lease: Promise<EgressLease> | undefined;
  #report: Promise<EgressReport | 'lost'> | undefined;

  /** Throws POLICY_DENIED if no host can be connected to. */
  constructor(call: ClearedCall, parts: FetchParts, attempt: Attempt) {
    this.#call = call;
    this.#parts = parts;
    this.#attempt = attempt;
    this.#layers = listedHosts(call);
    this.#endsAtMs = parts.powers.monotonicMs() + timeLimitOf(call, parts.limits);
  }

  make(request: ExchangeRequest): Promise<Exchange> {
    return exchange(request, { redirectsMax: this.#parts.limits.httpRedirectsMax, send: this.#senderOf(request) });
  }

  /** Ends the connections, and tells which there were. */
  async end(): Promise<Pick<RunFacts, 'connected'>> {
    this.#done.resolve();
    // SANDBOX_UNAVAILABLE and the reason of an abort reached the request that waited.
    const report = await this.#report?.catch(() => undefined);
    return report && report !== 'lost' && report.connected.length > 0 ? { connected: report.connected } : {};
  }

  #senderOf(request: ExchangeRequest): (hop: Hop) => Promise<HopResponse> {
    const first = destinationOf(request.url);
    const judge = ({ url }: Hop) => {
      if (destinationOf(url) !== first) assertRedirect(this.#call, url);
    };
    const send = async (hop: Hop): Promise<HttpResponse> => {
      judge(hop);
      const withinMs = Math.max(1, Math.ceil(this.#endsAtMs - this.#parts.powers.monotonicMs()));
      return assertResponse(await this.#fetch({ ...hop, bytesMax: request.bytesMax, withinMs }), hop.url);
    };
    if (!request.cache) return async (hop) => ({ ...(await send(hop)), cached: 'no' });
    const beforeReuse = (hop: Hop) => {
      judge(hop);
      assertListed(this.#layers, hop.url);
      this.#start();
    };
    const { principal } = this.#call;
    const caching = new CachingSender({ ...this.#parts, principal }, { beforeReuse, send }, request.cache);
    return async (hop) => {
      const response = await caching.send(hop);
      const body = response.body.subarray(0, request.bytesMax);
      return { ...response, body, truncated: response.truncated || body.length < response.body.length };
    };
  }

  async #fetch(asked: HttpRequest): Promise<HttpAnswer> {
    this.#lease ??= this.#open();
    return (await this.#lease).fetch(asked);
  }

  #open(): Promise<EgressLease> {
    const opened = Promise.withResolvers<EgressLease>();
    const lent = this.#parts.egress.lend(this.#layers, this.#call.controller.signal, async (lease) => {
      this.#start();
      opened.resolve(lease);
      await this.#done.promise;
      return {};
    });
    this.#report = lent.then(({ egress }) => egress);
    this.#report.catch(opened.reject);
    return opened.promise;
  }

  #start(): void {
    if (this.#attempt.started) return;
    this.#attempt.started = true;
    this.#call.announce({ status: 'in-progress', startedAt: new Date(this.#parts.powers.now()).toISOString() });
  }
}

/** The hosts that a call may connect to. Throws POLICY_DENIED if there are none. */
export function listedHosts(call: ClearedCall): readonly NetworkLayer[] {
  const layers = networkOf(call.policyNow(), 'external_api');
  if (layers) return layers;
  const target = call.checked.effects[0]?.target ?? call.checked.tool.name;
  throw unlisted(target, 'the policy lists no host that may be connected to');
}

/** Refuses a URL whose host the lists do not hold. Throws POLICY_DENIED. */
export function assertListed(layers: readonly NetworkLayer[], url: string): void {
  const { hostname, port, protocol } = new URL(url);
  const host = toHostName(hostname) ?? hostname;
  const refusal = refusedName(layers, { host, port: Number(port) || (protocol === 'https:' ? 443 : 80) });
  if (refusal) throw unlisted(destinationOf(url), refusal.reason);
}

/**
 * Judges where a server sends the call by the rules in force now, beside the network lists. A person's yes covers it if
 * the same rule asks about both: nobody could see the second host before. Throws POLICY_DENIED.
 */
export function assertRedirect(call: ClearedCall, url: string): void {
  const policy = call.policyNow();
  const target = destinationOf(url);
  const question = { ...call.question, effects: [{ kind: 'connect', target }] as const };
  const decided = decide(policy, question);
  if (decided.decision === 'deny') throw refusalOf(policy, decided, question);
  if (decided.decision === 'allow' || (call.approval && decided.by.id === call.rule)) return;
  throw new ToolError('POLICY_DENIED', `the server redirects to \`${target}\`, and a person must be asked about it`, {
    rule: decided.by.id,
    suggestion: 'Ask for that URL itself.',
    details: { decision: 'ask' },
  });
}
