/** Bounds that policies set for single tools. Pure. */
import type { Tier } from '../base/call.ts';
import { defaultLimits } from '../base/limits.ts';
import type { PolicyFile } from './schema/policy-file.ts';
import type { TierBound, ToolBounds } from './schema.ts';

type AllBounds = Readonly<Record<string, ToolBounds>>;

/** Takes the lower bound of parent and child. A higher one is no widening, since the tier's bound holds in any case. */
export function composeToolBounds(parent: AllBounds = {}, said: PolicyFile['tools'] = {}): AllBounds | undefined {
  const { disable: _, ...tools } = said;
  const all = new Map(Object.entries(parent));
  for (const [name, own] of Object.entries(tools)) {
    const before = all.get(name) ?? {};
    const least = (key: keyof ToolBounds) => {
      const values = [before[key], own[key]].filter((it) => it !== undefined);
      return values.length === 0 ? {} : { [key]: Math.min(...values) };
    };
    const bounds: ToolBounds = { ...least('timeoutMs'), ...least('outputBytes') };
    if (Object.keys(bounds).length > 0) all.set(name, bounds);
  }
  return all.size === 0 ? undefined : Object.fromEntries(all);
}

/** The bound that holds without any policy; a policy that says more would promise what the daemon does not give. */
export function daemonBound(tier: Tier, key: TierBound): number {
  const { callTimeoutMs, commandMax, commandOutputBytes, resultBytesMax, threadHeapMb } = defaultLimits;
  if (key === 'timeoutMs') return callTimeoutMs[tier];
  if (key === 'outputBytes') return tier === 'execute' ? 2 * commandOutputBytes : resultBytesMax;
  // A thread can't use more CPU time than passes.
  if (key === 'cpuMs' && tier !== 'execute') return callTimeoutMs[tier];
  if (key === 'memoryMb' && tier !== 'execute') return threadHeapMb;
  // The default is half of this machine's memory, which differs elsewhere; the daemon's own limit holds in any case.
  if (key === 'memoryMb') return Infinity;
  return key in commandMax ? commandMax[key as keyof typeof commandMax] : Infinity;
}
