/** How many calls each day had, counted from the record in slices that never block the event loop for long. */

import type { DatabaseSync } from 'node:sqlite';
import type * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import type { Read } from '../../base/result-shapes.ts';
import { TimeSlices } from '../time-slices.ts';
import type { SeqRange } from './query.ts';
import type { callDay } from './shapes.ts';

export type CallDay = Read<z.output<typeof callDay>>;

interface CountedRow {
  readonly day: string;
  readonly kind: 'outcome' | 'refusal';
  readonly isFailed: number;
  readonly count: number;
  readonly ms: number | null;
}

/** Most entries that one statement counts, which takes a few milliseconds. */
const SLICE = 4096;
const DAY_MS = 86_400_000;

const COUNT = `SELECT substr(at, 1, 10) AS day, kind, code IS NOT NULL AS isFailed, COUNT(*) AS count, SUM(durationMs) AS ms
  FROM audit WHERE seq BETWEEN ? AND ? AND kind IN ('outcome', 'refusal') GROUP BY 1, 2, 3`;

/** The record as it is counted. */
export interface CountedRecord {
  readonly database: DatabaseSync;
  readonly extent: SeqRange;
  readonly powers: Powers;
}

/** Throws SHUTTING_DOWN if the record was closed, as it may be while it is counted. */
export function assertOpen({ database }: CountedRecord): void {
  if (!database.isOpen) throw new ToolError('SHUTTING_DOWN', 'the audit log was closed');
}

/** The days of the last `days`, today included, that had calls; the newest first. Rejects with SHUTTING_DOWN. */
export async function callDays(record: CountedRecord, days: number): Promise<CallDay[]> {
  assertOpen(record);
  const { database, extent, powers } = record;
  const { first, last } = extent;
  const statement = database.prepare(COUNT);
  const oldest = new Date(powers.now() - (days - 1) * DAY_MS).toISOString().slice(0, 10);
  const counted = new Map<string, { calls: number; failed: number; refused: number; ran: number; ms: number }>();
  const slices = new TimeSlices(powers);
  for (let to = last; to >= first; to -= SLICE) {
    const rows = statement.all(Math.max(first, to - SLICE + 1), to) as unknown as CountedRow[];
    for (const { day, kind, isFailed, count, ms } of rows) {
      if (day < oldest) continue;
      const it = counted.get(day) ?? { calls: 0, failed: 0, refused: 0, ran: 0, ms: 0 };
      counted.set(day, it);
      it.calls += count;
      if (kind === 'refusal') it.refused += count;
      else {
        it.ran += count;
        it.ms += ms ?? 0;
        it.failed += isFailed ? count : 0;
      }
    }
    // Entries are in the order of their times.
    if (rows.some(({ day }) => day < oldest)) break;
    await slices.pause();
    assertOpen(record);
  }
  return [...counted]
    .sort(([a], [b]) => (a > b ? -1 : 1))
    .map(([day, { calls, failed, refused, ran, ms }]) => ({
      day,
      calls,
      failed,
      refused,
      ...(ran > 0 && { meanMs: Math.round((ms / ran) * 1000) / 1000 }),
    }));
}
