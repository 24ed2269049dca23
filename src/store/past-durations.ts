/** Recent durations of calls from the audit log. */
import type { AuditLog } from './audit/log.ts';

/** The most recent successful calls of a tool; limited to one day, so that the log is not searched for a tool that is never used. */
const SAMPLE = { success: true, since: '1d', limit: 50 } as const;

/** The mean duration in milliseconds, up to a time if one is given; undefined for a tool without a call in the last day. */
export async function pastDurationMs(log: AuditLog, tool: string, until?: string): Promise<number | undefined> {
  const { entries } = await log.query({ ...SAMPLE, tool, until });
  const times = entries.flatMap(({ durationMs }) => durationMs ?? []);
  return times.length === 0 ? undefined : times.reduce((sum, it) => sum + it, 0) / times.length;
}
