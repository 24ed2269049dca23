/** Runs a call that is one HTTP request of its input. */

import { failed, type Outcome, type RunHooks, succeeded } from '../../pipeline/outcome.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import type { WebRequest } from '../../tools/context/requests.ts';
import { type FetchParts, withExchanges } from './exchanges.ts';
import { toHttpData } from './http-data.ts';
import { busyFacts } from './http-exchange.ts';

/** Gives the data of the answer, POLICY_DENIED, TIMEOUT or UPSTREAM_FAILED. Throws as `withExchanges` does. */
export async function runFetch(
  request: WebRequest,
  call: ClearedCall,
  { parts, hooks }: { parts: FetchParts; hooks: RunHooks },
): Promise<Outcome> {
  const { limits, powers } = parts;
  const startedMs = powers.monotonicMs();
  const asked = { ...request, bytesMax: limits.httpBodyBytesMax };
  const { facts, ...ended } = await withExchanges(call, parts, hooks, (exchanger) => exchanger(asked));
  if ('error' in ended) return failed(ended.error, facts);
  const { value } = ended;
  const usage = { cpuMs: 0, outputBytes: value.body.length, verdict: 'ok', enforcedBy: 'egress proxy' } as const;
  const durationMs = Math.round(powers.monotonicMs() - startedMs);
  return succeeded(
    { ...toHttpData(value, limits), durationMs },
    { ...facts, usage, ...busyFacts(value, powers.now()) },
  );
}
