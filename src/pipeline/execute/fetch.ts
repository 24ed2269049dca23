/** Runs a call that is HTTP requests: the egress process makes them, and reaches only hosts that every policy layer lists. */
import type { EgressReport } from '../../egress/messages.ts';
import { ToolError } from '../../errors.ts';
import type { Egress } from '../../hosts/egress.ts';
import type { Limits } from '../../limits.ts';
import { decide } from '../../policy/decide.ts';
import type { NetworkLayer } from '../../policy/network.ts';
import type { Powers } from '../../powers.ts';
import { destinationOf, type WebRequest } from '../../tools/context/requests.ts';
import { type Attempt, failed, type Outcome, type RunFacts, succeeded } from '../outcome.ts';
import { refusalOf } from '../refusal.ts';
import type { ClearedCall } from '../stage.ts';
import { networkOf, timeLimitOf } from './bounds.ts';
import { toHttpData } from './http-data.ts';
import { assertResponse, type Exchange, type ExchangeRequest, exchange, unlisted } from './http-exchange.ts';

export interface FetchParts {
  readonly egress: Egress;
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
 * what `beforeStart` throws, SANDBOX_UNAVAILABLE, and the reason of an abort.
 */
export async function withExchanges<T>(
  call: ClearedCall,
  { egress, limits, powers }: FetchParts,
  { attempt, beforeStart }: FetchHooks,
  work: (exchanger: Exchanger) => Promise<T>,
): Promise<Exchanged<T>> {
  const layers = layersOf(call);
  const { signal } = call.controller;
  const { egress: report, ...ended } = await egress.lend(layers, signal, async ({ fetch }) => {
    await beforeStart();
    attempt.started = true;
    call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
    const endsAtMs = powers.monotonicMs() + timeLimitOf(call, limits);
    const exchanger: Exchanger = (request) =>
      exchange(request, {
        redirectsMax: limits.httpRedirectsMax,
        send: async (hop) => {
          if (destinationOf(hop.url) !== destinationOf(request.url)) assertRedirect(call, hop.url);
          const withinMs = Math.max(1, Math.ceil(endsAtMs - powers.monotonicMs()));
          return assertResponse(await fetch({ ...hop, bytesMax: request.bytesMax, withinMs }), hop.url);
        },
      });
    try {
      return { value: await work(exchanger) };
    } catch (error) {
      if (signal.aborted || !(error instanceof ToolError)) throw error;
      return { error };
    }
  });
  return { ...ended, facts: { ...attempt, ...connectedOf(report) } };
}

const connectedOf = (report: EgressReport | 'lost'): Partial<RunFacts> =>
  report === 'lost' || report.connected.length === 0 ? {} : { connected: report.connected };

/** The lists that every connection of the call needs. Throws POLICY_DENIED. */
function layersOf({ policy, checked }: ClearedCall): NetworkLayer[] {
  const layers = networkOf(policy, 'external_api');
  if (layers) return layers;
  throw unlisted(checked.effects[0]?.target ?? checked.tool.name, 'the policy lists no host that may be connected to');
}

/**
 * Judges where a server sends the call by the rules in force now, beside the network lists, which the egress process
 * applies. A person's yes covers it if the same rule asks about both: nobody could see the second host before. Throws
 * POLICY_DENIED.
 */
function assertRedirect(call: ClearedCall, url: string): void {
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

/** Gives the data of the answer, POLICY_DENIED, TIMEOUT or UPSTREAM_FAILED. Throws as `withExchanges` does. */
export async function runFetch(
  request: WebRequest,
  call: ClearedCall,
  { parts, hooks }: { parts: FetchParts; hooks: FetchHooks },
): Promise<Outcome> {
  const { limits, powers } = parts;
  const startedMs = powers.monotonicMs();
  const asked = { ...request, bytesMax: limits.httpBodyBytesMax };
  const { facts, ...ended } = await withExchanges(call, parts, hooks, (exchanger) => exchanger(asked));
  if ('error' in ended) return failed(ended.error, facts);
  const { value } = ended;
  const usage = { cpuMs: 0, outputBytes: value.body.length, verdict: 'ok', enforcedBy: 'egress proxy' } as const;
  const durationMs = Math.round(powers.monotonicMs() - startedMs);
  return succeeded({ ...toHttpData(value, limits), durationMs }, { ...facts, usage });
}
