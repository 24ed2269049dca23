/** The order of the stages, in one place; docs/lifecycle.md draws it. */
import type { Hosts } from '../hosts/hosts.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { AuditLog } from '../store/audit-log.ts';
import { approve } from './approve.ts';
import { audit } from './audit.ts';
import { cache } from './cache.ts';
import { costCap } from './cost-cap.ts';
import { execute } from './execute.ts';
import { FairQueue } from './fair-queue.ts';
import { lock } from './lock.ts';
import { permission } from './permission.ts';
import { rateLimit } from './rate-limit.ts';
import { retry } from './retry.ts';
import { sanitize } from './sanitize.ts';
import { schedule } from './schedule.ts';
import type { Handler, Stage } from './stage.ts';

export type { Call, Toolset } from './stage.ts';

import { validate } from './validate.ts';

export interface PipelineParts {
  readonly auditLog: AuditLog;
  readonly hosts: Hosts;
  readonly limits: Limits;
  readonly powers: Powers;
}

export interface Pipeline {
  readonly run: Handler;
  readonly queue: FairQueue;
}

/**
 * Audit is outermost, so that refusals are recorded too; the rate limit needs only the name, so that floods of bad input
 * are bounded; policy sees checked input only; permission comes before the cache; a person is asked only on a miss; the
 * sanitizer is inside the cache, so that secrets are never stored.
 */
export function createPipeline({ auditLog, hosts, limits, powers }: PipelineParts): Pipeline {
  const queue = new FairQueue(limits);
  const order: Stage[] = [
    audit(auditLog, powers),
    rateLimit,
    costCap,
    validate,
    permission,
    cache,
    approve,
    retry,
    lock,
    schedule(queue, limits, powers),
    sanitize(limits),
  ];
  return { queue, run: order.reduceRight((next, stage) => stage(next), execute(hosts, limits, powers)) };
}
