/** Serves the result of a read again while everything that it read is unchanged. */
import { hash } from 'node:crypto';
import { isWitnesses, type Witness } from '../hosts/job.ts';
import type { Limits } from '../limits.ts';
import type { ResultCache } from '../store/result-cache.ts';
import { canonical } from '../text/values.ts';
import { allHold } from './execute/witness.ts';
import { type Call, checkedOf, type Stage } from './stage.ts';

export interface CachedResult {
  readonly data: unknown;
  readonly bytes: number;
  readonly truncatedBytes: number | undefined;
  readonly witnesses: readonly Witness[];
}

export interface CacheParts {
  readonly results: ResultCache<CachedResult>;
  readonly limits: Limits;
  /** Identifies the path rules that apply to a call. */
  viewKeyOf(call: Call): string;
}

/**
 * Caches only results of calls that were allowed without asking, keyed by policy and path rules, so that no caller is
 * given what only another may see. A result is not cached if not everything that it read can be checked later.
 */
export const cache =
  ({ results, limits, viewKeyOf }: CacheParts): Stage =>
  (next) =>
  async (call) => {
    const { tool, tier } = checkedOf(call);
    const isCacheable = tool.cacheable === true && tier === 'read_only' && call.decision === 'allow';
    if (!isCacheable || call.options.cache === false || call.options.preview) return next(call);
    const key = keyOf(call, viewKeyOf(call));
    const known = results.get(key, ({ witnesses }) => allHold(witnesses, call.workspace));
    if (known) return give(known, call);
    const data = await next(call);
    const { usage, heldBytes } = call.outcome;
    const { witnesses, truncatedBytes } = usage ?? {};
    if (isWitnesses(witnesses, limits.cacheWitnessesMax)) {
      const bytes = heldBytes + witnesses.length * WITNESS_BYTES;
      results.put(key, { data, bytes: heldBytes, truncatedBytes, witnesses }, { bytes });
    }
    return data;
  };

/** Approximate bytes that a witness takes in memory. */
const WITNESS_BYTES = 200;

function give({ data, bytes, truncatedBytes }: CachedResult, call: Call): unknown {
  call.outcome.cached = true;
  call.outcome.heldBytes = bytes;
  call.outcome.usage = {
    ...{ cpuMs: 0, outputBytes: 0, verdict: 'ok', enforcedBy: 'cache' },
    ...(truncatedBytes !== undefined && { truncatedBytes }),
  };
  return data;
}

function keyOf(call: Call, viewKey: string): string {
  const { tool, input } = checkedOf(call);
  const parts = [tool.name, tool.version, call.workspace, call.policy.version, viewKey, canonical(input)];
  return hash('sha256', parts.join('\0'), 'base64');
}
