import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import type { AuditLog } from '../../../../src/store/audit/log.ts';
import { callsOf, LogFolder } from '../../../support/audit.ts';

const DAY = 86_400_000;
const limits = { auditCheckpointEntries: 10, auditRetentionMs: 90 * DAY };
const firstSeq = async (log: AuditLog) => (await log.query({ order: 'oldest', limit: 1 })).entries[0]?.seq;
const write = (log: AuditLog, n: number) => {
  for (const it of callsOf(n / 2)) {
    log.append(it);
    log.flush();
  }
};

describe('retention', () => {
  test('drops what is too old up to a checkpoint, says so, and the rest still verifies', async () => {
    using folder = new LogFolder();
    let log = folder.open(limits);
    write(log, 46);
    folder.powers.nowMs += 60 * DAY;
    folder.powers.fire(1000);
    write(log, 40);
    expect(await log.dropOldest()).toBe(0);
    folder.powers.nowMs += 31 * DAY;
    expect(await log.dropOldest()).toBe(40);
    expect(await firstSeq(log)).toBe(41);
    expect((await log.query({ limit: 1 })).entries[0]).toMatchObject({
      seq: 87,
      kind: 'policy',
      detail: { log: { dropped: { upTo: 40, because: 'age' } } },
    });
    expect(log.entries).toBe(47);
    expect(JSON.parse(readFileSync(folder.checkpoints, 'utf8').split('\n')[0] as string).seq).toBe(40);
    expect(await log.verify()).toEqual({ ok: true, entries: 47, droppedBefore: 41 });
    log = folder.open(limits);
    expect(await log.dropOldest()).toBe(0);
    expect(await log.verify()).toEqual({ ok: true, entries: 47, droppedBefore: 41 });
    folder.powers.nowMs += 100 * DAY;
    expect(await log.dropOldest()).toBe(47);
    expect(await log.verify()).toEqual({ ok: true, entries: 1, droppedBefore: 88 });
  });

  test('drops what is too much', async () => {
    using folder = new LogFolder();
    const auditBytesMax = 256 * 1024;
    const log = folder.open({ ...limits, auditBytesMax, auditMinAgeMs: 0, auditRefusalsPerMinute: 1000 });
    for (let i = 0; i < 4; i++) {
      for (let k = 0; k < 100; k++) {
        log.append({ kind: 'session', sessionId: 's', principal: 'p', detail: { text: 'x'.repeat(2000) } });
        log.flush();
      }
      await log.dropOldest();
      expect(await log.verify()).toMatchObject({ ok: true });
    }
    folder.close();
    expect(statSync(folder.path).size).toBeLessThan(3 * auditBytesMax);
  });

  test('keeps what is younger than the least age although it is too much, and tells that it is', async () => {
    using folder = new LogFolder();
    const log = folder.open({ ...limits, auditBytesMax: 128 * 1024 });
    const fill = (n: number) => {
      for (let k = 0; k < n; k++) {
        log.append({ kind: 'outcome', sessionId: 's', principal: 'p', input: 'x'.repeat(4000) });
        log.flush();
      }
    };
    log.append({ kind: 'intent', sessionId: 's', principal: 'p', callId: 'deed' });
    fill(50);
    folder.powers.nowMs += DAY - 1;
    fill(50);
    expect(await log.dropOldest()).toBe(0);
    expect(log.status).toMatchObject({ writable: true, overSize: true });
    expect((await log.query({ callId: 'deed' })).entries).toHaveLength(1);
    fill(1);
    expect(JSON.stringify((await log.query({ limit: 1 })).entries[0]?.input).length).toBeLessThan(1200);
    folder.powers.nowMs += 2;
    expect(await log.dropOldest()).toBeGreaterThan(40);
    expect(await log.verify()).toMatchObject({ ok: true, droppedForSize: 50, droppedBefore: 51 });
  });

  test('runs by itself at the start and hourly', async () => {
    using folder = new LogFolder();
    write(folder.open(limits), 40);
    folder.powers.nowMs += 91 * DAY;
    const log = folder.open(limits);
    folder.powers.fire(0);
    await log.verify(); // Waits for its turn.
    expect(await firstSeq(log)).toBe(41);
    expect(folder.powers.delays).toContain(3_600_000);
  });

  test('cutting more than it said is found', async () => {
    using folder = new LogFolder();
    const log = folder.open(limits);
    write(log, 40);
    folder.powers.nowMs += 91 * DAY;
    write(log, 40);
    await log.dropOldest();
    expect(await firstSeq(log)).toBe(41);
    folder.edit((it) => it.exec('DELETE FROM audit WHERE seq <= 50; DELETE FROM checkpoints WHERE seq < 50'));
    expect(await log.verify()).toMatchObject({
      ok: false,
      firstBroken: 1,
      reason: expect.stringContaining('up to 50'),
    });
  });

  test('an end in the midst of it leaves a log that verifies and is tidied the next time', async () => {
    using folder = new LogFolder();
    let log = folder.open(limits);
    write(log, 1000);
    folder.powers.nowMs += 91 * DAY;
    write(log, 20);
    const before = readFileSync(folder.checkpoints);
    await log.dropOldest();
    expect(await firstSeq(log)).toBe(1001);
    folder.close();
    // As if the daemon had ended before it wrote the file, and was restarted.
    const known = before.toString('utf8').split('\n').slice(0, -1);
    const since = readFileSync(folder.checkpoints, 'utf8').split('\n').slice(0, -1);
    const all = [...known, ...since.filter((it) => !known.includes(it))];
    writeFileSync(folder.checkpoints, all.map((it) => `${it}\n`).join(''));
    log = folder.open(limits);
    expect(await log.verify()).toEqual({ ok: true, entries: 21, droppedBefore: 1001 });
    folder.powers.nowMs += 91 * DAY;
    expect(await log.dropOldest()).toBe(21);
    expect(await log.verify()).toEqual({ ok: true, entries: 1, droppedBefore: 1022 });
    expect(readFileSync(folder.checkpoints, 'utf8').trim().split('\n')).toHaveLength(2);
  });
});
