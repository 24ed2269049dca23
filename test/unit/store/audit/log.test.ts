import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { callDays } from '../../../../src/store/audit/daily.ts';
import type { AuditRecord } from '../../../../src/store/audit/log.ts';
import { callsOf, LogFolder } from '../../../support/audit.ts';

const session = { kind: 'session', sessionId: 's', principal: 'agent' } as const;
const seqs = (entries: readonly AuditRecord[]) => entries.map((it) => it.seq);

describe('appending', () => {
  test('an entry is on disk after the next turn of writing, and at once after flush', async () => {
    using folder = new LogFolder();
    const log = folder.open();
    const onDisk = () => {
      const database = new DatabaseSync(folder.path, { readOnly: true });
      using _ = { [Symbol.dispose]: () => database.close() };
      return database.prepare('SELECT count(*) AS n FROM audit').get()?.n;
    };
    log.append(session);
    expect([onDisk(), log.entries]).toEqual([0, 1]);
    folder.powers.fire(10);
    expect([onDisk(), log.entries]).toEqual([1, 1]);
    log.append(session);
    log.flush();
    expect([onDisk(), log.entries]).toEqual([2, 2]);
  });

  test('entries are numbered without gaps over restarts, each with the hash of the one before', async () => {
    using folder = new LogFolder();
    for (const round of [0, 1, 2]) {
      const log = folder.open();
      for (const entry of callsOf(2, `s${round}`)) log.append(entry);
    }
    const { entries } = await folder.open().query({ order: 'oldest' });
    expect(seqs(entries)).toEqual(Array.from({ length: 12 }, (_, at) => at + 1));
    expect(entries.map((it) => it.previousHash)).toEqual([
      '0'.repeat(64),
      ...entries.slice(0, -1).map((it) => it.hash),
    ]);
  });

  test('inputs, effects and details are redacted before they are stored', async () => {
    using folder = new LogFolder();
    const log = folder.open({}, { redact: (it) => JSON.parse(JSON.stringify(it).replaceAll('hunter2', '***')) });
    const effects = [{ kind: 'exec', target: 'login hunter2' }] as const;
    log.append({ ...session, kind: 'intent', input: { password: 'hunter2' }, effects, detail: { why: 'hunter2' } });
    log.flush();
    for (const file of readdirSync(folder.folder))
      expect(readFileSync(join(folder.folder, file), 'latin1')).not.toContain('hunter2');
    expect((await log.query({})).entries[0]).toMatchObject({ input: { password: '***' }, detail: { why: '***' } });
  });

  test('without a redactor, or when it throws, the input is not stored', async () => {
    using folder = new LogFolder();
    const entry = { ...session, kind: 'intent', input: 'hunter2' } as const;
    folder.open({}, {}).append(entry);
    const throwing = () => {
      throw new Error('no');
    };
    folder.open({}, { redact: throwing }).append(entry);
    const { entries } = await folder.open().query({ order: 'oldest' });
    expect(entries.map((it) => it.input)).toEqual([undefined, '[left out: it could not be redacted]']);
  });

  test('key, database and checkpoints are for their owner only, and the key stays the same', () => {
    using folder = new LogFolder();
    folder.open().append(session);
    const key = readFileSync(folder.key, 'utf8');
    folder.open().append(session);
    expect(readFileSync(folder.key, 'utf8')).toBe(key);
    for (const path of [folder.key, folder.path, folder.checkpoints]) expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  test('a checkpoint is made every so many entries, after a while, and at the end', () => {
    using folder = new LogFolder();
    const signed = () =>
      readFileSync(folder.checkpoints, 'utf8')
        .trim()
        .split('\n')
        .map((it) => JSON.parse(it).seq);
    const log = folder.open({ auditCheckpointEntries: 4 });
    const write = (n: number) => {
      for (let i = 0; i < n; i++) log.append(session);
      log.flush();
    };
    expect(signed()).toEqual([0]);
    write(3);
    expect(signed()).toEqual([0]);
    write(1);
    expect(signed()).toEqual([0, 4]);
    write(1);
    folder.powers.fire(1000);
    expect(signed()).toEqual([0, 4, 5]);
    write(2);
    folder.close();
    expect(signed()).toEqual([0, 4, 5, 7]);
    folder.open();
    expect(signed()).toEqual([0, 4, 5, 7]);
  });
});

describe('a log that can not be written', () => {
  test('says so, keeps what waits up to its bound, and tells what it had to give up', async () => {
    using folder = new LogFolder();
    const log = folder.open({ auditBatchMax: 4 });
    log.append(session);
    log.flush();
    const other = new DatabaseSync(folder.path);
    other.exec('BEGIN EXCLUSIVE');
    log.append({ ...session, tool: 't0' });
    expect(() => log.flush()).toThrow(expect.objectContaining({ code: 'STORE_FAILED' }));
    expect(log.writable).toBe(false);
    for (let i = 1; i <= 6; i++) log.append({ ...session, tool: `t${i}` });
    expect(log.entries).toBe(5);
    other.exec('ROLLBACK');
    other.close();
    folder.powers.fire(5000);
    expect(log.writable).toBe(true);
    const { entries } = await log.query({ order: 'oldest' });
    expect(entries.map((it) => it.tool)).toEqual([undefined, undefined, 't3', 't4', 't5', 't6']);
    expect(entries[1]?.detail).toEqual({ log: { lost: 3 } });
    expect(await log.verify()).toEqual({ ok: true, entries: 6 });
  });
});

describe('query', () => {
  test('gives what the filters say, the newest first, and goes on at the cursor', async () => {
    using folder = new LogFolder();
    const log = folder.open();
    for (const entry of callsOf(40, 'a')) log.append(entry);
    folder.powers.nowMs += 3_600_000;
    for (const entry of callsOf(40, 'b')) log.append({ ...entry, tool: 'file_read' });
    log.append({ ...session, kind: 'refusal', code: 'POLICY_DENIED', tool: 'file_read', callId: 'x' });
    log.append({ ...session, kind: 'outcome', code: 'TIMEOUT', tool: 'file_read', callId: 'y' });
    const count = async (filter: object) => (await log.query({ limit: 1000, ...filter })).entries.length;
    expect(await count({})).toBe(162);
    expect(await count({ session: 'a' })).toBe(80);
    expect(await count({ tool: 'file_read' })).toBe(82);
    expect(await count({ tool: 'file_read', kind: 'intent' })).toBe(40);
    expect(await count({ success: true })).toBe(80);
    expect(await count({ success: false })).toBe(2);
    expect(await count({ callId: 'call-7' })).toBe(4);
    expect(await count({ since: '30m' })).toBe(82);
    expect(await count({ until: '2026-01-01T01:00:00+00:00' })).toBe(80);
    expect(await count({ tool: "' OR 1 --" })).toBe(0);
    for (const order of ['newest', 'oldest'] as const) {
      const seen: number[] = [];
      for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
        const page = await log.query({ session: 'b', limit: 7, order, cursor });
        seen.push(...seqs(page.entries));
        cursor = page.cursor;
      }
      const all = Array.from({ length: 80 }, (_, at) => 81 + at);
      expect(seen).toEqual(order === 'oldest' ? all : all.reverse());
    }
    await expect(log.query({ since: 'yesterday' })).rejects.toMatchObject({ code: 'INVALID_PARAMS' });
    await expect(log.query({ cursor: 'x' })).rejects.toMatchObject({ code: 'INVALID_PARAMS' });
  });

  test('a text is found in tools, inputs, effects, codes and details, as it is and in any case, and nowhere else', async () => {
    using folder = new LogFolder();
    const log = folder.open({}, { redact: (it) => it });
    const effects = [{ kind: 'exec', target: 'rm -rf "a b"' }] as const;
    log.append({ ...session, kind: 'intent', tool: 'file_read', input: { path: 'src\\x_y.ts' }, effects });
    log.append({ ...session, kind: 'outcome', tool: 'file_read', code: 'NOT_FOUND', detail: { note: '100 %' } });
    for (let n = 0; n < 400; n++) log.append(session);
    log.flush();
    const found = async (text: string) => seqs((await log.query({ text, order: 'oldest' })).entries);
    for (const it of ['FILE_R', 'read']) expect(await found(it)).toEqual([1, 2]);
    for (const it of ['rm -rf "a b"', 'src\\x_y', 'X_Y.TS', '"a ']) expect(await found(it)).toEqual([1]);
    for (const it of ['not_found', '100 %']) expect(await found(it)).toEqual([2]);
    for (const it of ['x-y', 'src/', 'r%m', '1000', "'"]) expect(await found(it)).toEqual([]);
  });

  test('an answer is bounded in characters as well', async () => {
    using folder = new LogFolder();
    const log = folder.open({ auditQueryCharsMax: 1000 });
    for (let i = 0; i < 10; i++) log.append({ ...session, detail: { text: 'x'.repeat(400) } });
    const { entries, cursor } = await log.query({});
    expect([entries.length, cursor]).toEqual([3, '8']);
  });

  test('an intent of a former run without an outcome is unknown; one of this run is not yet', async () => {
    using folder = new LogFolder();
    const [intent, outcome] = callsOf(1) as [never, never];
    const other = { ...(intent as object), callId: 'other' } as never;
    let log = folder.open();
    for (const entry of [intent, outcome, other]) log.append(entry);
    const openOnes = async () => (await log.query({ kind: 'intent' })).entries.filter((it) => it.outcome === 'unknown');
    expect(await openOnes()).toEqual([]);
    log = folder.open();
    log.append({ ...(intent as object), callId: 'third' } as never);
    expect((await openOnes()).map((it) => it.callId)).toEqual(['other']);
    for (const order of ['newest', 'oldest'] as const)
      expect((await log.query({ unknown: true, order })).entries.map((it) => it.callId)).toEqual(['other']);
    expect(await log.verify()).toMatchObject({ ok: true });
  });

  test('the calls of each day are counted, with those that failed and were refused', async () => {
    using folder = new LogFolder();
    const log = folder.open();
    const ended = { kind: 'outcome', sessionId: 's', principal: 'p', callId: 'c', durationMs: 10 } as const;
    folder.powers.nowMs = Date.UTC(2026, 0, 1, 23, 59);
    log.append(ended);
    folder.powers.nowMs = Date.UTC(2026, 0, 3);
    for (let call = 0; call < 5_000; call++) log.append({ ...ended, durationMs: 30 });
    log.append({ ...ended, code: 'TIMEOUT', durationMs: 30 });
    log.append({ ...ended, kind: 'refusal', code: 'POLICY_DENIED' });
    log.append({ ...ended, kind: 'intent' });
    const newest = { day: '2026-01-03', calls: 5_002, failed: 1, refused: 1, meanMs: 30 };
    const oldest = { day: '2026-01-01', calls: 1, failed: 0, refused: 0, meanMs: 10 };
    expect(await log.counted((it) => callDays(it, 3))).toEqual([newest, oldest]);
    expect(await log.counted((it) => callDays(it, 2))).toEqual([newest]);
    folder.powers.nowMs = Date.UTC(2026, 5, 1);
    expect(await log.counted((it) => callDays(it, 30))).toEqual([]);
  });

  test('a closed log refuses, and a walk under way ends', async () => {
    using folder = new LogFolder();
    const log = folder.open();
    for (const entry of callsOf(50)) log.append(entry);
    log.flush();
    const walk = log.verify();
    const lines = log.exportEntries('jsonl');
    await lines.next();
    folder.close();
    await expect(log.query({})).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    await expect(log.verify()).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    await expect(log.counted((it) => callDays(it, 1))).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
    await expect(walk).rejects.toMatchObject({ code: 'SHUTTING_DOWN' });
  });
});
