import type { HostReport } from '../../base/call.ts';
import type { Powers } from '../../base/powers.ts';
import type { OutsideProgram } from '../../base/protected-names.ts';
import type { CoarseIn, UnfollowedIn } from '../../hosts/host-masks.ts';
import type { Pipeline } from '../../pipeline/pipeline.ts';
import type { Running } from '../../services/capability.ts';
import type { CacheStatus } from '../../store/result-cache.ts';
import type { Policies } from '../policies.ts';

/** What `status` reports about the daemon. */
export interface StatusParts {
  readonly version: string;
  readonly pipeline: Pipeline;
  readonly confinement: {
    level: string;
    backend: string;
    cgroup: string;
    missing: readonly string[];
    unixSockets: string;
  };
  /** Result of each sandbox probe at start: `ok`, `leaks` or `unknown`. */
  readonly probes: Readonly<Record<string, string>>;
  /** The barriers that did not hold, and how to mend each. */
  readonly gaps: readonly { readonly id: string; readonly shows: string; readonly fix: string }[];
  readonly powers: Powers;
  hostStatus(): Promise<HostReport[]>;
  coarseMasks(): readonly CoarseIn[];
  unfollowed(): readonly UnfollowedIn[];
  outsidePrograms(): readonly OutsideProgram[];
  /** False if no host is there and the last one could not be started. */
  canStartHosts(): boolean;
  /** The daemon's capabilities. */
  readonly running: readonly Running[];
  /** Cached results of reading. */
  readonly cache: { readonly status: CacheStatus; clear(): { entries: number; bytes: number } };
  auditStatus(): { entries: number; writable: boolean; overSize?: true };
  diskStatus(): { freeBytes: number };
  approvalsPending(): number;
  readonly policies: Pick<Policies, 'status'>;
  listeners(): string[];
}
