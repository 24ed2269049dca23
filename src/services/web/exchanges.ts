/** HTTP exchanges of one call: each request is judged, made by the egress process, or answered from the web cache. */

import { ToolError } from '../../base/errors.ts';
import type { EgressLease } from '../../hosts/egress.ts';
import type { CallDoor } from '../../pipeline/doors/host-doors.ts';
import { personTimeOf } from '../../pipeline/doors/person-time.ts';
import { networkOf, timeLimitOf } from '../../pipeline/execute/bounds.ts';
import { type Attempt, type RunFacts, type RunHooks, trafficOf } from '../../pipeline/outcome.ts';
import { refusalOf } from '../../pipeline/refusal.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import { decide } from '../../policy/decide.ts';
import {
  type Destination,
  mayAsk,
  type NetworkLayer,
  type NetworkRule,
  refusedName,
  toHostName,
  withOpened,
} from '../../policy/network.ts';
import type { DoorAnswer, DoorQuestion, HttpRequest } from '../../sandbox/egress/messages.ts';
import type { EgressReport, HttpAnswer, HttpResponse } from '../../sandbox/egress/proxy-messages.ts';
import { destinationOf } from '../../tools/context/requests.ts';
import type { DaemonParts } from '../capability.ts';
import { CachingSender } from './http-caching.ts';
import {
  assertResponse,
  type Exchange,
  type ExchangeRequest,
  exchange,
  type Hop,
  type HopResponse,
  unlisted,
} from './http-exchange.ts';

export type FetchParts = Pick<DaemonParts, 'egress' | 'doors' | 'webCache' | 'limits' | 'powers'>;

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
  { attempt, beforeStart }: RunHooks,
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
  readonly #door: CallDoor | undefined;
  /** Hosts that were opened for this call. */
  readonly #opened: NetworkRule[] = [];
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
    this.#door = parts.doors.of(call, 'external_api');
    this.#endsAtMs = parts.powers.monotonicMs() + timeLimitOf(call, parts.limits);
  }

  make(request: ExchangeRequest): Promise<Exchange> {
    return exchange(request, { redirectsMax: this.#parts.limits.httpRedirectsMax, send: this.#senderOf(request) });
  }

  /** Ends the connections, and tells which there were. */
  async end(): Promise<Pick<RunFacts, 'connected' | 'sent'>> {
    this.#done.resolve();
    // SANDBOX_UNAVAILABLE and the reason of an abort reached the request that waited.
    return trafficOf(await this.#report?.catch(() => undefined));
  }

  #senderOf(request: ExchangeRequest): (hop: Hop) => Promise<HopResponse> {
    const first = destinationOf(request.url);
    const judge = ({ url }: Hop) => {
      if (destinationOf(url) !== first) assertRedirect(this.#call, url);
    };
    const send = async (hop: Hop): Promise<HttpResponse> => {
      judge(hop);
      await this.#openDoor(hop.url);
      const waitedMs = personTimeOf(this.#call)?.ms ?? 0;
      const withinMs = Math.max(1, Math.ceil(this.#endsAtMs + waitedMs - this.#parts.powers.monotonicMs()));
      return assertResponse(await this.#fetch({ ...hop, bytesMax: request.bytesMax, withinMs }), hop.url);
    };
    if (!request.cache) return async (hop) => ({ ...(await send(hop)), cached: 'no' });
    const beforeReuse = (hop: Hop) => {
      judge(hop);
      assertListed(this.#layersNow, hop.url);
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

  get #layersNow(): readonly NetworkLayer[] {
    return this.#door ? withOpened({ layers: this.#layers, asks: this.#door.asks }, this.#opened) : this.#layers;
  }

  /** Has a person asked about a host that is not listed, if the policy says so. Throws POLICY_DENIED if it stays closed. */
  async #openDoor(url: string): Promise<void> {
    const to = addressedBy(url);
    const asked = this.#door && { layers: this.#layers, asks: this.#door.asks };
    if (!asked || !refusedName(this.#layersNow, to) || !mayAsk(asked, to)) return;
    const answer = await this.#door?.answer({ kind: 'host', ...to, sent: 0 });
    this.#call.controller.signal.throwIfAborted();
    if (answer && 'open' in answer) this.#opened.push(...answer.open);
    else
      throw unlisted(destinationOf(url), answer && 'refused' in answer ? answer.refused : 'nobody is asked about it');
  }

  #open(): Promise<EgressLease> {
    const opened = Promise.withResolvers<EgressLease>();
    // The proxy asks about what was opened here, and is answered at once.
    const door = this.#door && { ...this.#door, answer: (it: DoorQuestion) => this.#answer(it) };
    const run = async (lease: EgressLease) => {
      this.#start();
      opened.resolve(lease);
      await this.#done.promise;
      return {};
    };
    const lent = this.#parts.egress.lend(this.#layers, this.#call.controller.signal, run, door);
    this.#report = lent.then(({ egress }) => egress);
    this.#report.catch(opened.reject);
    return opened.promise;
  }

  async #answer(question: DoorQuestion): Promise<DoorAnswer> {
    const isOpen = question.kind === 'host' && !refusedName([this.#opened], question);
    return isOpen ? { open: this.#opened } : { refused: 'nobody was asked about it' };
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

export function addressedBy(url: string): Destination {
  const { hostname, port, protocol } = new URL(url);
  return { host: toHostName(hostname) ?? hostname, port: Number(port) || (protocol === 'https:' ? 443 : 80) };
}

/** Refuses a URL whose host the lists do not hold. Throws POLICY_DENIED. */
export function assertListed(layers: readonly NetworkLayer[], url: string): void {
  const refusal = refusedName(layers, addressedBy(url));
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
