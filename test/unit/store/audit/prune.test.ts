/** An operator drops entries: the rest verifies and says so, and nobody can remove entries in another way. */
import { readFileSync, writeFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import type { AuditLog } from '../../../../src/store/audit/log.ts';
import { callsOf, LogFolder } from '../../../support/audit.ts';

const DAY = 86_400_000;
const limits = { auditCheckpointEntries: 10 };
const write = (log: AuditLog, n: number) => {
  for (const it of callsOf(n / 2)) {
    log.append(it);
    log.flush();
  }
};

/** A log with 46 entries that are 40 days old and 40 that are two. */
function grown(folder: LogFolder): AuditLog {
  const log = folder.open(limits);
  write(log, 46);
  folder.powers.fire(1000);
  folder.powers.nowMs += 38 * DAY;
  write(log, 40);
  folder.powers.fire(1000);
  folder.powers.nowMs += 2 * DAY;
  return log;
}

test('entries older than an age are removed, an entry names who did it, and the rest verifies and says so', async () => {
  using folder = new LogFolder();
  const log = grown(folder);
  expect(await log.dropOldest({ by: 'operator', olderThanMs: 30 * DAY })).toBe(46);
  const at = new Date(folder.powers.nowMs).toISOString();
  const [entry] = (await log.query({ limit: 1 })).entries;
  const detail = { log: { dropped: { upTo: 46, hash: expect.any(String), because: 'operator', by: 'operator' } } };
  expect(entry).toMatchObject({ seq: 87, at, kind: 'policy', detail });
  const pruned = { entry: 87, at, by: 'operator', upTo: 46 };
  expect(await log.verify()).toEqual({ ok: true, entries: 41, droppedBefore: 47, pruned });
  expect(await folder.open(limits).verify()).toEqual({ ok: true, entries: 41, droppedBefore: 47, pruned });
});

test('at least the number that is asked for is kept', async () => {
  using folder = new LogFolder();
  const log = grown(folder);
  expect(await log.dropOldest({ by: 'operator', keep: 25 })).toBe(56);
  // A cut is at a checkpoint, so that up to nine more are kept, and the entry about it.
  expect(log.entries).toBe(31);
  expect(await log.verify()).toMatchObject({ ok: true, entries: 31, pruned: { upTo: 56 } });
  expect(await log.dropOldest({ by: 'operator', keep: 1000 })).toBe(0);
});

test('entries younger than auditMinAgeMs stay, however few are to be kept', async () => {
  using folder = new LogFolder();
  const log = grown(folder);
  write(log, 30);
  folder.powers.fire(1000);
  expect(await log.dropOldest({ by: 'thief', keep: 1 })).toBe(86);
  expect((await log.query({ order: 'oldest', limit: 1 })).entries[0]?.seq).toBe(87);
  expect(await log.dropOldest({ by: 'thief', keep: 1 })).toBe(0);
  expect(await log.verify()).toMatchObject({ ok: true, pruned: { by: 'thief' } });
});

test('a log that has nothing to drop records nothing', async () => {
  using folder = new LogFolder();
  const log = folder.open(limits);
  write(log, 20);
  expect(await log.dropOldest({ by: 'operator', olderThanMs: 30 * DAY })).toBe(0);
  expect(log.entries).toBe(20);
});

/** Deletes entries and their checkpoints up to a seq, in the database and in the file. */
function removeUpTo(folder: LogFolder, seq: number): void {
  folder.edit((it) => it.exec(`DELETE FROM audit WHERE seq <= ${seq}; DELETE FROM checkpoints WHERE seq < ${seq}`));
  const lines = readFileSync(folder.checkpoints, 'utf8').split('\n');
  const kept = lines.filter((it) => it !== '' && (JSON.parse(it) as { seq: number }).seq >= seq);
  writeFileSync(folder.checkpoints, `${kept.join('\n')}\n`);
}

test.each([
  ['without a prune', false, 40, /entries up to 40 are missing, and no retention says/],
  ['more than the prune said', true, 70, /entries up to 70 are missing, and no retention says/],
])('entries that somebody deletes %s are missed', async (_, isPruned, upTo, reason) => {
  using folder = new LogFolder();
  const log = grown(folder);
  if (isPruned) await log.dropOldest({ by: 'operator', olderThanMs: 30 * DAY });
  folder.close();
  removeUpTo(folder, upTo);
  expect(await folder.open(limits).verify()).toMatchObject({ ok: false, reason: expect.stringMatching(reason) });
});

test('an entry that somebody makes say that an operator pruned is found out', async () => {
  using folder = new LogFolder();
  const log = grown(folder);
  log.append({
    kind: 'policy',
    sessionId: 's',
    principal: 'p',
    detail: { log: { dropped: { upTo: 40, hash: 'x', because: 'operator', by: 'operator' } } },
  });
  log.flush();
  expect((await log.query({ limit: 1 })).entries[0]?.detail ?? {}).not.toHaveProperty('log');
  folder.close();
  removeUpTo(folder, 40);
  const detail = JSON.stringify({ log: { dropped: { upTo: 40, hash: 'x', because: 'operator', by: 'operator' } } });
  folder.edit((it) => it.prepare("UPDATE audit SET kind = 'policy', detail = ? WHERE seq = 60").run(detail));
  expect(await folder.open(limits).verify()).toMatchObject({ ok: false, firstBroken: 60 });
});
