/**
 * Drops entries that are too old or too many, or that an operator asks to drop. A cut is always at a checkpoint, which remains as the provable start of the chain, and is
 * recorded as an entry before anything is deleted; so an interrupted cut leaves a log that verifies.
 */
import type { DatabaseSync } from 'node:sqlite';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { TimeSlices } from '../time-slices.ts';
import type { Checkpoints } from './checkpoints.ts';

export interface AuditCut {
  /** Seq of the last entry to be dropped. */
  readonly upTo: number;
  readonly hash: string;
  readonly because: 'age' | 'size' | 'operator';
  /** The principal who asked for the removal. */
  readonly by?: string;
}

/** An operator's wish to drop entries: those older than an age, or all but a number of them. */
export interface AuditPrune {
  readonly by: string;
  readonly olderThanMs?: number | undefined;
  readonly keep?: number | undefined;
}

export interface RetentionParts {
  readonly database: DatabaseSync;
  readonly checkpoints: Checkpoints;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Seq of the first and last entry. */
  readonly extent: () => { first: number; last: number };
  /** Stores the cut as a signed entry. Throws if that fails. */
  readonly record: (cut: AuditCut) => void;
}

/** Rows deleted in one transaction, about 5 ms. */
const STEP = 256;
/** Least share that is dropped to make room, so that cuts are rare. */
const SLACK = 0.1;

/** Drops what an operator asks to drop, else what the limits demand, and returns the number of entries; stops early if the log is closed meanwhile. Throws SQLite errors. */
export async function dropOldest(log: RetentionParts, prune?: AuditPrune): Promise<number> {
  const { database, powers } = log;
  const { first } = log.extent();
  const cut = prune ? await findAsked(log, prune) : await findCut(log);
  if (!cut || !database.isOpen || cut.upTo < first) return 0;
  log.record(cut);
  const slices = new TimeSlices(powers);
  const entries = database.prepare('DELETE FROM audit WHERE seq <= ? AND seq <= ?');
  for (let to = first + STEP - 1; to - STEP < cut.upTo && database.isOpen; to += STEP) {
    entries.run(to, cut.upTo);
    await slices.pause();
  }
  if (!database.isOpen) return 0;
  const some = database.prepare(
    'DELETE FROM checkpoints WHERE seq IN (SELECT seq FROM checkpoints WHERE seq < ? ORDER BY seq LIMIT ?)',
  );
  while (some.run(cut.upTo, STEP).changes > 0) {
    await slices.pause();
    if (!database.isOpen) return 0;
  }
  await log.checkpoints.trimFile(cut.upTo);
  return cut.upTo - first + 1;
}

/**
 * The last checkpoint that an operator's wish includes. Entries younger than auditMinAgeMs stay: who steals an operator's token must not be
 * able to remove what they did with it before a person looks.
 */
async function findAsked(log: RetentionParts, { by, olderThanMs = 0, keep = 0 }: AuditPrune) {
  const { limits, database } = log;
  const old = await findOld(log, Math.max(olderThanMs, limits.auditMinAgeMs));
  if (!old || !database.isOpen) return undefined;
  const most = Math.min(old.upTo, log.extent().last - keep);
  const found = database.prepare('SELECT seq AS upTo, hash FROM checkpoints WHERE seq <= ? ORDER BY seq DESC LIMIT 1');
  const position = found.get(most) as { upTo: number; hash: string } | undefined;
  return position && ({ ...position, because: 'operator', by } as const);
}

async function findCut(log: RetentionParts): Promise<AuditCut | undefined> {
  const old = await findOld(log, log.limits.auditRetentionMs);
  const { first, last } = log.extent();
  if (!log.database.isOpen) return undefined;
  const over = shareToDrop(log);
  if (over === 0) return old;
  const target = first + Math.ceil((last - first + 1) * over) - 1;
  const before = new Date(log.powers.now() - log.limits.auditMinAgeMs).toISOString();
  // The first checkpoint that makes enough room; if all of those are too young, the last one that is old enough.
  const at = (sql: string, seq: number) =>
    log.database
      .prepare(`SELECT seq AS upTo, hash FROM checkpoints WHERE at <= ? AND seq ${sql} LIMIT 1`)
      .get(before, seq);
  const position = (at('>= ? ORDER BY seq', target) ?? at('< ? ORDER BY seq DESC', target)) as
    | { upTo: number; hash: string }
    | undefined;
  return position && position.upTo > (old?.upTo ?? 0) ? { ...position, because: 'size' } : old;
}

/** Bytes used by a database on disk, without free pages, which are reused. */
export function bytesOf(database: DatabaseSync): number {
  const pragma = (name: string) => Object.values(database.prepare(`PRAGMA ${name}`).get() as object)[0] as number;
  return (pragma('page_count') - pragma('freelist_count')) * pragma('page_size');
}

/** Share of the entries that must be dropped for the database to fit. */
export function shareToDrop({ database, limits }: Pick<RetentionParts, 'database' | 'limits'>): number {
  const used = bytesOf(database);
  if (used <= limits.auditBytesMax) return 0;
  return Math.min(1, 1 - (limits.auditBytesMax / used) * (1 - SLACK));
}

/** The last checkpoint of those that are older than an age. */
async function findOld({ database, powers }: RetentionParts, ageMs: number): Promise<AuditCut | undefined> {
  const before = new Date(powers.now() - ageMs).toISOString();
  const slices = new TimeSlices(powers);
  const page = database.prepare('SELECT seq AS upTo, hash, at FROM checkpoints WHERE seq > ? ORDER BY seq LIMIT ?');
  let found: AuditCut | undefined;
  while (database.isOpen) {
    const some = page.all(found?.upTo ?? 0, STEP) as unknown as { upTo: number; hash: string; at: string }[];
    for (const { upTo, hash, at } of some) {
      if (at >= before) return found;
      found = { upTo, hash, because: 'age' };
    }
    if (some.length < STEP) return found;
    await slices.pause();
  }
  return undefined;
}
