/** How much a call may use: the least that the daemon, each layer of its policy, its tool and its caller allow. */
import { hash } from 'node:crypto';
import { PASSED_ON, type Tier } from '../../base/call.ts';
import type { CommandBounds, Limits } from '../../base/limits.ts';
import { TIERS } from '../../base/result-shapes.ts';
import type { Job } from '../../hosts/job.ts';
import { layersOf, otherNames } from '../../policy/decide.ts';
import type { NetworkLayer } from '../../policy/network.ts';
import type { Policy, TierBound, ToolBounds } from '../../policy/schema.ts';
import { tmpOf } from '../../store/command-homes.ts';
import type { Tool } from '../../tools/tool.ts';
import type { Call, CheckedCall, JudgedCall } from '../stage.ts';

interface BoundQuery {
  readonly tier: Tier;
  readonly key: TierBound;
  readonly most: number;
  /** The tool, if the policy may have bounds for that tool alone. */
  readonly tool?: Pick<Tool, 'name' | 'aliases' | 'runs'>;
}

/** The least of the daemon's own bound `most` and what the policy layers allow for the tier and for the tool. */
export function leastOf(policy: Policy, { tier, key, most, tool }: BoundQuery): number {
  let least = most;
  for (const { tiers, toolBounds } of layersOf(policy)) {
    least = Math.min(least, tiers[tier][key] ?? Infinity);
    if (!toolBounds || !tool) continue;
    for (const name of [tool.name, ...otherNames(tool)])
      if (Object.hasOwn(toolBounds, name))
        least = Math.min(least, toolBounds[name]?.[key as keyof ToolBounds] ?? Infinity);
  }
  return least;
}

/** How long a call may run, in milliseconds from its start. The caller's own time limit counts from the call's arrival, elsewhere. */
export function timeLimitOf(call: CheckedCall, limits: Limits): number {
  const { tier, tool, input } = call.checked;
  const most = tool.timeoutMs?.(input as never) ?? Infinity;
  return Math.min(most, leastOf(call.policy, { tier, tool, key: 'timeoutMs', most: limits.callTimeoutMs[tier] }));
}

/** What a command may use. A tool of another tier that runs programs is held to the bounds of both tiers. */
export function commandBoundsOf(
  policy: Policy,
  { commandMax, commandOutputBytes }: Limits,
  tier: Tier = 'execute',
): CommandBounds {
  const ofTier = (key: 'cpuMs' | 'memoryMb', most: number) =>
    leastOf(policy, { tier, key, most: ofExecute(key, most) });
  const ofExecute = (key: TierBound, most: number) => leastOf(policy, { tier: 'execute', key, most });
  return {
    cpuMs: ofTier('cpuMs', commandMax.cpuMs),
    memoryMb: ofTier('memoryMb', commandMax.memoryMb),
    processes: ofExecute('processes', commandMax.processes),
    fileMb: ofExecute('fileMb', commandMax.fileMb),
    outputBytes: ofExecute('outputBytes', 2 * commandOutputBytes),
  };
}

/** What a call of each tier may use at most, for people; a bound that nobody set is absent. */
export function tierBoundsOf(policy: Policy, limits: Limits): Record<Tier, Partial<Record<TierBound, number>>> {
  const boundsOf = (tier: Tier): Partial<Record<TierBound, number>> => {
    const least = (key: TierBound, most = Infinity) => leastOf(policy, { tier, key, most });
    const timeoutMs = least('timeoutMs', limits.callTimeoutMs[tier]);
    const costUsdPerDay = least('costUsdPerDay');
    const used =
      tier === 'execute'
        ? commandBoundsOf(policy, limits)
        : {
            cpuMs: least('cpuMs'),
            memoryMb: tier === 'external_api' ? Infinity : least('memoryMb', limits.threadHeapMb),
            outputBytes: least('outputBytes', limits.resultBytesMax),
          };
    const all = Object.entries({ timeoutMs, costUsdPerDay, ...used });
    return Object.fromEntries(all.filter(([, value]) => Number.isFinite(value)));
  };
  return Object.fromEntries(TIERS.map((tier) => [tier, boundsOf(tier)])) as ReturnType<typeof tierBoundsOf>;
}

const nameOf = (text: string): string => hash('sha256', text).slice(0, 32);

/**
 * Names the HOME of a call's commands, and the /tmp that they share with the other commands of their session. What one session leaves there runs in others (Python runs each `.pth`), so sessions share a
 * HOME only if they have the same authority: the same principal, policies with the same layers, and both by a token that was passed on
 * or neither. It outlives sessions and changes of a policy's text, since filling its caches takes minutes.
 */
export function homeOf({
  principal,
  policy,
  parents,
  sessionId,
  options,
}: Pick<Call, 'principal' | 'policy' | 'parents' | 'sessionId' | 'options'>): NonNullable<Job['home']> {
  const isPassedOn = parents.some(({ tool }) => tool === PASSED_ON);
  const home = nameOf(JSON.stringify([principal, isPassedOn, layersOf(policy).map((it) => it.name)]));
  // What outlives its session has a /tmp in memory.
  return { home, ...(!options.detached && { tmp: tmpOf(sessionId) }) };
}

/** CPU time in milliseconds that a tool may use of its thread, if a policy layer bounds it; commands have bounds of their own. */
export function threadCpuOf(policy: Policy, tier: Tier): { cpuMs?: number } {
  const cpuMs = leastOf(policy, { tier, key: 'cpuMs', most: Infinity });
  return tier === 'execute' || cpuMs === Infinity ? {} : { cpuMs };
}

/** Heap of the tool's thread in MB, if a policy layer bounds it. The heap is fixed per host: another heap needs another host. */
export function heapOf(policy: Policy, tier: Tier): { heapMb?: number } {
  const heapMb = leastOf(policy, { tier, key: 'memoryMb', most: Infinity });
  return tier === 'execute' || heapMb === Infinity ? {} : { heapMb };
}

/** The connections that every policy layer allows to a command or an HTTP request; undefined if a layer allows none. */
export function networkOf(policy: Policy, tier: 'execute' | 'external_api' = 'execute'): NetworkLayer[] | undefined {
  const networks = layersOf(policy).map((it) => it.tiers[tier].network);
  if (networks.includes(undefined)) return undefined;
  const lists = networks.filter((it): it is NetworkLayer => it !== 'any');
  return lists.length === 0 ? undefined : lists;
}

/** Which of the layers of `networkOf` have a person asked about hosts that they don't list. */
export const asksOf = (policy: Policy, tier: 'execute' | 'external_api' = 'execute'): boolean[] =>
  layersOf(policy)
    .map((it) => it.tiers[tier])
    .filter(({ network }) => network !== 'any')
    .map((it) => it.networkAsks === true);

/**
 * Whether a previewed command gets the network of its policy: only if every layer says so, and no person would have been asked about
 * the command, since what is sent can't be taken back.
 */
export const mayPreviewConnect = (policy: Policy, { decision }: Pick<JudgedCall, 'decision'>): boolean =>
  decision === 'allow' && layersOf(policy).every((it) => it.tiers.execute.previewNetwork === true);
