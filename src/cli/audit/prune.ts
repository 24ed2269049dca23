/** `ringfence audit prune`: drops old entries through the daemon, which records who did. */
import { ageMsOf } from '../../store/audit/query.ts';
import { type CliCaller, connect } from '../connect.ts';
import { EXIT, harmless, print, printJson, UsageError } from '../output.ts';

export interface AuditPruneFlags {
  /** An age such as `30d`. */
  readonly olderThan?: string;
  readonly keep?: number;
  readonly json?: boolean;
}

/** Returns the exit code. Throws CliError UNREACHABLE without a daemon: only its log can say who removed what. */
export async function auditPrune({ olderThan, keep, json }: AuditPruneFlags, caller: CliCaller): Promise<number> {
  if ((olderThan === undefined) === (keep === undefined))
    throw new UsageError('say which entries: either --older-than AGE or --keep N');
  if (olderThan !== undefined && ageMsOf(olderThan) === undefined)
    throw new UsageError(`--older-than takes an age such as 30d or 12h, not ${harmless(olderThan)}`);
  if (keep !== undefined && (!Number.isSafeInteger(keep) || keep < 1))
    throw new UsageError(`--keep must be a whole number of at least 1, not ${keep}`);
  await using client = await connect({ ...caller, role: 'operator' });
  const asked = olderThan === undefined ? { keep } : { olderThan };
  const answer = await client.request('audit.prune', asked);
  if (json) printJson(answer);
  else print(`dropped ${answer.dropped} entries; ${answer.entries} are kept`);
  return EXIT.OK;
}
