import { createHash } from 'node:crypto';
import { appendFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type AuditRow, COLUMNS, hashOf } from '../../../../src/store/audit/entry.ts';
import type { AuditEntry } from '../../../../src/store/audit/log.ts';
import { callsOf, LogFolder } from '../../../support/audit.ts';

const text = fc.string({ maxLength: 12, unit: 'binary' });
const entry: fc.Arbitrary<AuditEntry> = fc.record(
  {
    kind: fc.constantFrom('session', 'intent', 'outcome', 'refusal', 'approval', 'policy'),
    sessionId: text,
    principal: text,
    callId: text,
    tool: text,
    input: fc.jsonValue(),
    effects: fc.array(fc.record({ kind: fc.constantFrom('read', 'write'), target: text }), { maxLength: 2 }),
    decision: fc.constantFrom('allow', 'ask', 'deny'),
    rule: text,
    code: text,
    durationMs: fc.double(),
    detail: fc.dictionary(text, fc.jsonValue(), { maxKeys: 2 }),
  },
  { requiredKeys: ['kind', 'sessionId', 'principal'] },
);

interface Tampered {
  readonly database: DatabaseSync;
  readonly folder: LogFolder;
  /** Number of rows. */
  readonly n: number;
  /** A random number below `below`. */
  readonly pick: (below: number) => number;
}
const rowOf = (database: DatabaseSync, seq: number) =>
  database.prepare('SELECT * FROM audit WHERE seq = ?').get(seq) as AuditRow;
const insert = (database: DatabaseSync, row: AuditRow) =>
  database
    .prepare(`INSERT INTO audit (${COLUMNS.join()}) VALUES (${COLUMNS.map(() => '?').join()})`)
    .run(...COLUMNS.map((it) => row[it]));
const cutTail = ({ database, n, pick }: Tampered) => {
  const from = 1 + pick(n);
  database.prepare('DELETE FROM audit WHERE seq >= ?').run(from);
  return from;
};

function editField({ database, n, pick }: Tampered): void {
  const seq = 1 + pick(n);
  const column = COLUMNS[pick(COLUMNS.length)] as (typeof COLUMNS)[number];
  const row = rowOf(database, seq);
  const old = row[column];
  const value =
    column === 'seq'
      ? n + 1 + pick(5)
      : column === 'durationMs'
        ? old === 1
          ? 2
          : 1
        : ['x', `${old} `, '{"a":1},"detail":{}', old === '' ? ' ' : ''][pick(4)];
  database.prepare(`UPDATE audit SET ${column} = ? WHERE seq = ?`).run(value === old ? 'y' : (value ?? null), seq);
}

/** Rewrites rows from `seq` on with matching hashes, which is all that is possible without the key. */
function forge(database: DatabaseSync, seq: number, change: (row: AuditRow) => void): void {
  let previousHash = seq === 1 ? '0'.repeat(64) : (rowOf(database, seq - 1).hash as string);
  const rows = database.prepare('SELECT * FROM audit WHERE seq >= ? ORDER BY seq').all(seq) as AuditRow[];
  const update = database.prepare('UPDATE audit SET tool = ?, previousHash = ?, hash = ? WHERE seq = ?');
  for (const row of rows) {
    change(row);
    row.previousHash = previousHash;
    row.hash = previousHash = hashOf(row);
    update.run(row.tool, row.previousHash, row.hash, row.seq);
  }
  database.prepare('UPDATE head SET hash = ?').run(previousHash);
}

const forgeTool = (row: AuditRow): void => {
  row.tool = 'forged';
};

const ATTACKS: Record<string, (it: Tampered) => void> = {
  'editing a field': editField,
  'dropping a row': ({ database, n, pick }) => database.prepare('DELETE FROM audit WHERE seq = ?').run(1 + pick(n)),
  'dropping a row and closing the gap': ({ database, n, pick }) => {
    const gone = 1 + pick(n);
    database.prepare('DELETE FROM audit WHERE seq = ?').run(gone);
    for (let seq = gone + 1; seq <= n; seq++)
      database.prepare('UPDATE audit SET seq = ? WHERE seq = ?').run(seq - 1, seq);
  },
  'swapping two rows': ({ database, n, pick }) => {
    const a = 1 + pick(n - 1);
    const b = a + 1 + pick(n - a);
    const [first, second] = [rowOf(database, a), rowOf(database, b)];
    database.prepare('DELETE FROM audit WHERE seq IN (?, ?)').run(a, b);
    insert(database, { ...first, seq: b });
    insert(database, { ...second, seq: a });
  },
  'doubling a row': ({ database, n, pick }) => insert(database, { ...rowOf(database, 1 + pick(n)), seq: n + 1 }),
  'cutting the head': ({ database, n, pick }) =>
    database.prepare('DELETE FROM audit WHERE seq <= ?').run(1 + pick(n - 1)),
  'cutting the tail': (it) => void cutTail(it),
  'cutting the tail of table and checkpoints': (it) => {
    it.database.prepare('DELETE FROM checkpoints WHERE seq >= ?').run(cutTail(it));
  },
  'cutting the tail of table and checkpoints, with an older end': (it) => {
    const from = cutTail(it);
    it.database.prepare('DELETE FROM checkpoints WHERE seq >= ?').run(from);
    it.database.prepare('UPDATE head SET seq = ?').run(from - 1);
  },
  'rewriting the tail with hashes that fit': ({ database, n, pick }) => forge(database, 1 + pick(n), forgeTool),
  'rewriting all, without any checkpoint': ({ database, folder }) => {
    forge(database, 1, forgeTool);
    database.exec('DELETE FROM checkpoints');
    rmSync(folder.checkpoints);
  },
  'appending a row with a hash that fits': ({ database, n }) => {
    const last = rowOf(database, n);
    const row = { ...last, seq: n + 1, previousHash: last.hash };
    row.hash = hashOf(row);
    insert(database, row);
    database.prepare('UPDATE head SET seq = ?, hash = ?').run(row.seq, row.hash);
  },
  'cutting the file of checkpoints': ({ folder, pick }) => {
    const lines = readFileSync(folder.checkpoints, 'utf8').trim().split('\n');
    const left = lines.slice(0, pick(lines.length));
    writeFileSync(folder.checkpoints, left.map((it) => `${it}\n`).join(''));
  },
  'editing a line of the file of checkpoints': ({ folder, pick }) => {
    const bytes = readFileSync(folder.checkpoints);
    const at = pick(bytes.length);
    bytes[at] = bytes[at] === 0x41 ? 0x42 : 0x41;
    writeFileSync(folder.checkpoints, bytes);
  },
  'editing a checkpoint in the table': ({ database, pick }) => {
    const column = ['hash', 'at', 'signature'][pick(3)];
    database.exec(`UPDATE checkpoints SET ${column} = ${column} || ' ' WHERE seq = (SELECT max(seq) FROM checkpoints)`);
  },
  'deleting any rows of the table of checkpoints': ({ database, pick }) => {
    const rows = database.prepare('SELECT seq FROM checkpoints ORDER BY seq').all() as { seq: number }[];
    const from = pick(rows.length);
    for (const { seq } of rows.slice(from, from + 1 + pick(rows.length - from)))
      database.prepare('DELETE FROM checkpoints WHERE seq = ?').run(seq);
  },
  'deleting the table of checkpoints and the proof of its end': ({ database }) => {
    database.exec('DELETE FROM checkpoints; DROP TABLE IF EXISTS checkpoints_end');
  },
  'taking the key away': ({ folder }) => rmSync(folder.key),
};

const limits = { auditCheckpointEntries: 5, auditBatchMax: 3 };

describe.each(Object.entries(ATTACKS))('%s', (_, attack) => {
  test.each(['while the daemon runs', 'while it does not'])('tampering with the log is found %s', async (when) => {
    const log = fc.array(entry, { minLength: 3, maxLength: 24 });
    await fc.assert(
      fc.asyncProperty(log, fc.infiniteStream(fc.nat()), async (entries, numbers) => {
        using folder = new LogFolder();
        let open = folder.open(limits);
        for (const it of entries) open.append(it);
        expect(await open.verify()).toEqual({ ok: true, entries: entries.length });
        if (when === 'while it does not') folder.close();
        const pick = (below: number) => (numbers.next().value as number) % below;
        folder.edit((database) => attack({ database, folder, n: entries.length, pick }));
        if (when === 'while it does not') open = folder.open(limits);
        const found = await open.verify();
        expect(found).toMatchObject({ ok: false, reason: expect.stringMatching(/./) });
        // It is still detected after further writes of the daemon.
        open.append({ kind: 'session', sessionId: 's', principal: 'p' });
        expect(await open.verify()).toMatchObject({ ok: false });
        open = folder.open(limits);
        for (let i = 0; i < 30; i++) open.append({ kind: 'session', sessionId: 's', principal: 'p' });
        expect(await open.verify()).toMatchObject({ ok: false });
      }),
      { numRuns: 8 },
    );
  });
});

describe('verify', () => {
  const written = (folder: LogFolder, n = 20) => {
    const log = folder.open(limits);
    for (const it of callsOf(n / 2)) log.append(it);
    log.flush();
    return log;
  };

  test('names the first entry that is wrong, and why', async () => {
    using folder = new LogFolder();
    const log = written(folder);
    folder.edit((it) => it.exec("UPDATE audit SET tool = 'x' WHERE seq = 12"));
    expect(await log.verify()).toEqual({ ok: false, entries: 11, firstBroken: 12, reason: 'entry 12 was changed' });
    folder.edit((it) => it.exec('DELETE FROM audit WHERE seq = 7'));
    expect(await log.verify()).toMatchObject({ firstBroken: 7, reason: 'entry 7 is missing' });
  });

  test('names what was signed last and is gone', async () => {
    using folder = new LogFolder();
    const log = written(folder);
    folder.edit((it) => it.exec('DELETE FROM audit WHERE seq > 15; DELETE FROM checkpoints WHERE seq > 15'));
    expect(await log.verify()).toMatchObject({
      firstBroken: 16,
      reason: 'the log was signed up to entry 18 and ends before',
    });
  });

  test('names a checkpoint whose row is gone, and trusts the entries that the file still proves', async () => {
    using folder = new LogFolder();
    const log = written(folder);
    folder.edit((it) => it.exec('DELETE FROM checkpoints WHERE seq = 12'));
    const found = await log.verify();
    expect(found).toMatchObject({ ok: false, reason: 'the checkpoint of entry 12 is missing in the database' });
    expect(found).not.toHaveProperty('firstBroken');
  });

  test('a daemon that was killed between the file and the table of checkpoints left nothing broken', async () => {
    using folder = new LogFolder();
    using killed = new LogFolder();
    const log = written(folder);
    const copyDatabase = () => {
      for (const name of ['audit.db', 'audit.db-wal', 'audit.key'])
        writeFileSync(`${killed.folder}/${name}`, readFileSync(`${folder.folder}/${name}`));
    };
    log.append({ kind: 'session', sessionId: 's', principal: 'p' });
    folder.powers.fire(10);
    copyDatabase();
    // The line of the next checkpoint is in the file; its row is not in the copy.
    expect(await log.verify()).toEqual({ ok: true, entries: 21 });
    writeFileSync(killed.checkpoints, readFileSync(folder.checkpoints));
    const after = killed.open(limits);
    after.append({ kind: 'session', sessionId: 's', principal: 'p' });
    expect(await after.verify()).toEqual({ ok: true, entries: 22 });
    expect(await killed.open(limits).verify()).toEqual({ ok: true, entries: 22 });
  });

  test('a checkpoint that the database does not take is not in the file either, and is made later', async () => {
    using folder = new LogFolder();
    const log = written(folder);
    const lines = () => readFileSync(folder.checkpoints, 'utf8').trim().split('\n').length;
    const before = lines();
    folder.edit((it) =>
      it.exec("CREATE TRIGGER full BEFORE INSERT ON checkpoints BEGIN SELECT RAISE(ABORT, 'full'); END"),
    );
    log.append({ kind: 'session', sessionId: 's', principal: 'p' });
    expect(await log.verify()).toMatchObject({ ok: true });
    expect(lines()).toBe(before);
    folder.edit((it) => it.exec('DROP TRIGGER full'));
    expect(await log.verify()).toEqual({ ok: true, entries: 21 });
    expect(lines()).toBe(before + 1);
  });

  test('finds a tail that was forged after an end without a last checkpoint', async () => {
    using folder = new LogFolder();
    written(folder).append({ kind: 'session', sessionId: 's', principal: 'p' });
    using copy = new LogFolder();
    folder.powers.fire(10);
    for (const name of ['audit.db', 'audit.db-wal', 'audit.key', 'audit.checkpoints'])
      writeFileSync(`${copy.folder}/${name}`, readFileSync(`${folder.folder}/${name}`));
    copy.edit((database) => forge(database, 21, forgeTool));
    expect(await copy.open().verify()).toMatchObject({ ok: false, reason: expect.stringContaining('seal') });
  });

  test('an end in the midst of a line of the checkpoint file is no fault', async () => {
    using folder = new LogFolder();
    written(folder);
    folder.close();
    appendFileSync(folder.checkpoints, '{"seq":99,"ha');
    const log = folder.open();
    log.append({ kind: 'session', sessionId: 's', principal: 'p' });
    expect(await log.verify()).toEqual({ ok: true, entries: 21 });
  });

  test('an unreadable database is an answer, not a crash', async () => {
    using folder = new LogFolder();
    const log = written(folder);
    folder.edit((it) => it.exec('UPDATE audit SET seq = 9007199254740993 WHERE seq = 20'));
    expect(await log.verify()).toMatchObject({ ok: false, entries: 19 });
    folder.edit((it) => it.exec("UPDATE audit SET effects = '{', detail = 'x', input = '' WHERE seq = 3"));
    expect((await log.query({ order: 'oldest', limit: 3 })).entries[2]).toMatchObject({ effects: '{', detail: 'x' });
    folder.edit((it) => it.exec('DROP TABLE audit'));
    expect(await log.verify()).toMatchObject({ ok: false });
  });

  test('entries may be written, signed and dropped while it walks, and the event loop has its turns', async () => {
    using folder = new LogFolder();
    const log = folder.open({ auditCheckpointEntries: 100 });
    for (const it of callsOf(4000)) log.append(it);
    let longest = 0;
    // Processor time: a busy machine lets this thread wait.
    const now = () => {
      const { user, system } = process.threadCpuUsage();
      return (user + system) / 1000;
    };
    let last = now();
    let turns = 0;
    let done = false;
    const walk = log.verify().finally(() => {
      done = true;
    });
    while (!done) {
      log.append({ kind: 'session', sessionId: 's', principal: 'p' });
      log.flush();
      turns += 1;
      await new Promise((resolve) => setImmediate(resolve));
      longest = Math.max(longest, now() - last);
      last = now();
    }
    expect(await walk).toMatchObject({ ok: true });
    expect(turns).toBeGreaterThan(2);
    expect(longest).toBeLessThan(100); // 15 ms on this machine.
    expect(await log.verify()).toMatchObject({ ok: true });
  });

  test('nobody but the log itself can say that entries were dropped', async () => {
    using folder = new LogFolder();
    const log = written(folder);
    const log_ = { dropped: { upTo: 10, hash: 'x', because: 'age' } };
    log.append({ kind: 'policy', sessionId: 's', principal: 'p', detail: { log: log_, other: 1 } });
    log.flush();
    folder.edit((it) => it.exec('DELETE FROM audit WHERE seq <= 10'));
    expect(await log.verify()).toMatchObject({ ok: false, firstBroken: 1 });
    expect((await log.query({ limit: 1 })).entries[0]?.detail).toEqual({ other: 1 });
  });

  test('the chain can be checked with sha256 and the exported lines alone', async () => {
    using folder = new LogFolder();
    const log = folder.open();
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { minLength: 1, maxLength: 10 }), async (entries) => {
        for (const it of entries) log.append(it);
      }),
      { numRuns: 10 },
    );
    log.append({
      kind: 'session',
      sessionId: 's',
      principal: 'p',
      input: { __proto__: null, 2: 'b', 1: 'a', a: -0, n: 1e21 },
    });
    let previousHash = '0'.repeat(64);
    for await (const line of log.exportEntries('jsonl')) {
      const body = `${line.slice(0, line.lastIndexOf(',"hash":'))}}`;
      const { hash, previousHash: previous } = JSON.parse(line);
      expect(createHash('sha256').update(body).digest('hex')).toBe(hash);
      expect(previous).toBe(previousHash);
      previousHash = hash;
    }
  });
});
