/** A thread that writes to the audit log in a folder, with a checkpoint for each entry or two, until it is ended. */
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { AuditLog } from '../../src/store/audit/log.ts';

const limits = { ...defaultLimits, auditCheckpointEntries: 2 };
const log = new AuditLog(join(workerData as string, 'audit.db'), limits, systemPowers(), { redact: (it) => it });
for (;;) {
  log.append({ kind: 'session', sessionId: 's', principal: 'p' });
  log.flush();
  await setTimeout(5);
}
