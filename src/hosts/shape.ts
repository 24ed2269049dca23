import type { Tier } from '../base/call.ts';
import type { Limits } from '../base/limits.ts';
import type { ThreadsSetup } from './job.ts';

/** The threads of a host, and how many jobs it takes at once. */
export interface HostShape extends Omit<ThreadsSetup, 'firstFd'> {
  readonly jobs: number;
}

export function shapeOf(tier: Tier, limits: Limits): HostShape {
  const {
    hostThreadsMax: max,
    hostCommandsMax,
    threadJobsMax,
    hostThreadStartsMax,
    terminalsMax,
    forwardsMax,
  } = limits;
  // One thread waits for all commands. What it started ends with it, so a new thread would have nothing to go on with.
  // Jobs that wait for what runs in the background take no place of a command.
  const jobsPerThread = hostCommandsMax + terminalsMax + forwardsMax;
  if (tier === 'execute') return { max: 1, starts: 1, jobs: hostCommandsMax, jobsPerThread };
  const starts = Math.max(max, hostThreadStartsMax);
  // Reads are short: a thread that already has its next job need not be woken.
  const jobs = tier === 'read_only' ? max * threadJobsMax : max;
  return { max, starts, jobs, jobsPerThread: tier === 'read_only' ? jobs : 1 };
}
