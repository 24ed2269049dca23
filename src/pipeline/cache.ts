/** Serves the result of a read again while everything that it read is unchanged. */
import { hash } from 'node:crypto';
import type { Limits } from '../base/limits.ts';
import { canonical } from '../base/text/values.ts';
import type { Witness } from '../hosts/job.ts';
import type { ResultCache } from '../store/result-cache.ts';
import { allHold, isWitnesses } from './execute/witness.ts';
import { type Outcome, succeeded } from './outcome.ts';
import type { JudgedCall, Stage } from './stage.ts';

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
  viewKeyOf(call: JudgedCall): string;
}

/**
 * Caches only results of calls that were allowed without asking, keyed by policy and path rules, so that no caller is
 * given what only another may see. A result is not cached if not everything that it read can be checked later.
 */
export const cache =
  ({ results, limits, viewKeyOf }: CacheParts): Stage<JudgedCall> =>
  (next) =>
  async (call) => {
    const { tool, tier } = call.checked;
    const isCacheable = tool.cacheable === true && tier === 'read_only' && call.decision === 'allow';
    if (!isCacheable || call.options.cache === false || call.options.preview) return next(call);
    const key = keyOf(call, viewKeyOf(call));
    const known = results.get(key, ({ witnesses }) => allHold(witnesses, call.workspace));
    if (known) return fromCache(known);
    const outcome = await next(call);
    if (outcome.error) return outcome;
    const { data, usage, heldBytes } = outcome;
    const { witnesses, truncatedBytes } = usage ?? {};
    if (isWitnesses(witnesses, limits.cacheWitnessesMax)) {
      const bytes = heldBytes + witnesses.length * WITNESS_BYTES;
      results.put(key, { data, bytes: heldBytes, truncatedBytes, witnesses }, { bytes });
    }
    return outcome;
  };

/** Approximate bytes that a witness takes in memory. */
const WITNESS_BYTES = 200;

function fromCache({ data, bytes, truncatedBytes }: CachedResult): Outcome {
  const usage = {
    ...({ cpuMs: 0, outputBytes: 0, verdict: 'ok', enforcedBy: 'cache' } as const),
    truncatedBytes,
  };
  return succeeded(data, { cached: true, heldBytes: bytes, usage });
}

function keyOf(call: JudgedCall, viewKey: string): string {
  const { tool, input } = call.checked;
  const parts = [tool.name, tool.version, call.workspace, call.policy.version, viewKey, canonical(input)];
  return hash('sha256', parts.join('\0'), 'base64');
}
