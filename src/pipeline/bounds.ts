/** How much a call may take: the least of what the daemon, each layer of its policy, its tool and its caller say. */
import { hash } from 'node:crypto';
import type { Tier } from '../call.ts';
import type { CommandBounds, Limits } from '../limits.ts';
import { layersOf } from '../policy/decide.ts';
import type { NetworkLayer } from '../policy/network.ts';
import type { Policy, TierBound, ToolBounds } from '../policy/schema.ts';
import type { Tool } from '../tools/tool.ts';
import { type Call, checkedOf } from './stage.ts';

interface Asked {
  readonly tier: Tier;
  readonly key: TierBound;
  readonly most: number;
  /** Where a policy may say something of it alone. */
  readonly tool?: Pick<Tool, 'name' | 'aliases'>;
}

/** Of the daemon's own bound and what the layers of a policy say of a tier, and of the tool. */
export function leastOf(policy: Policy, { tier, key, most, tool }: Asked): number {
  let least = most;
  for (const { tiers, toolBounds } of layersOf(policy)) {
    least = Math.min(least, tiers[tier][key] ?? Infinity);
    if (!toolBounds || !tool) continue;
    for (const { name } of [tool, ...tool.aliases])
      if (Object.hasOwn(toolBounds, name))
        least = Math.min(least, toolBounds[name]?.[key as keyof ToolBounds] ?? Infinity);
  }
  return least;
}

/** How long a call may run, in milliseconds from its start; what its caller allows runs since the call arrived. */
export function timeLimitOf(call: Call, limits: Limits): number {
  const { tier, tool, input } = checkedOf(call);
  const most = tool.timeoutMs?.(input as never) ?? Infinity;
  return Math.min(most, leastOf(call.policy, { tier, tool, key: 'timeoutMs', most: limits.callTimeoutMs[tier] }));
}

/** What a command of a call may use; of a tool of another tier that runs programs, what that one says, too. */
export function commandBoundsOf(
  policy: Policy,
  { commandMax, commandOutputBytes }: Limits,
  tier: Tier = 'execute',
): CommandBounds {
  const own = (key: 'cpuMs' | 'memoryMb', most: number) => leastOf(policy, { tier, key, most: of(key, most) });
  const of = (key: TierBound, most: number) => leastOf(policy, { tier: 'execute', key, most });
  return {
    cpuMs: own('cpuMs', commandMax.cpuMs),
    memoryMb: own('memoryMb', commandMax.memoryMb),
    processes: of('processes', commandMax.processes),
    fileMb: of('fileMb', commandMax.fileMb),
    outputBytes: of('outputBytes', 2 * commandOutputBytes),
  };
}

/**
 * Name of the home of a policy's commands: they share one where all layers have the same names. Others of the workspace may be allowed
 * more, or less, than they.
 */
export const homeOf = (policy: Policy): string =>
  hash('sha256', JSON.stringify(layersOf(policy).map((it) => it.name))).slice(0, 32);

/** CPU time that a tool may take of its thread, where a layer of the policy says so; commands have bounds of their own. */
export function threadCpuOf(policy: Policy, tier: Tier): { cpuMs?: number } {
  const cpuMs = leastOf(policy, { tier, key: 'cpuMs', most: Infinity });
  return tier === 'execute' || cpuMs === Infinity ? {} : { cpuMs };
}

/** The heap of that thread, which is one of its host: another heap is another host. */
export function heapOf(policy: Policy, tier: Tier): { heapMb?: number } {
  const heapMb = leastOf(policy, { tier, key: 'memoryMb', most: Infinity });
  return tier === 'execute' || heapMb === Infinity ? {} : { heapMb };
}

/** What a command of a call, or its request, may connect to: what every layer allows; undefined where one of them allows nothing. */
export function networkOf(policy: Policy, tier: 'execute' | 'external_api' = 'execute'): NetworkLayer[] | undefined {
  const said = layersOf(policy).map((it) => it.tiers[tier].network);
  if (said.includes(undefined)) return undefined;
  const lists = said.filter((it): it is NetworkLayer => it !== 'any');
  return lists.length === 0 ? undefined : lists;
}
