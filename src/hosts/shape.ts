import type { Tier } from '../call.ts';
import type { Limits } from '../limits.ts';

/** Threads of a host, and the jobs that each runs at once. */
export function shapeOf(tier: Tier, limits: Limits): { threads: number; jobsPerThread: number } {
  // One thread can wait for many commands. Reads are short: a thread that already has its next job need not be woken.
  if (tier === 'execute') return { threads: 1, jobsPerThread: limits.hostCommandsMax };
  return { threads: limits.hostThreadsMax, jobsPerThread: tier === 'read_only' ? limits.threadJobsMax : 1 };
}

/** How many jobs a host of this tier takes at once. */
export function placesOf(tier: Tier, limits: Limits): number {
  const { threads, jobsPerThread } = shapeOf(tier, limits);
  return threads * jobsPerThread;
}
