/** The bounds of each tier by the policy in force, for views that show what was used beside what may be. */
import { signal } from '@preact/signals';
import { request } from '../connection.ts';

export type BoundName = 'timeoutMs' | 'cpuMs' | 'memoryMb' | 'processes' | 'fileMb' | 'outputBytes' | 'costUsdPerDay';
export type TierBounds = Readonly<Partial<Record<BoundName, number>>>;

/** By tier. */
export const tierBounds = signal<Readonly<Record<string, TierBounds>>>({});

/** Reads the bounds; rejects as `request` does. */
export async function loadBounds(): Promise<void> {
  const { tiers } = (await request('policy.get')) as unknown as { tiers: Readonly<Record<string, TierBounds>> };
  tierBounds.value = tiers;
}
