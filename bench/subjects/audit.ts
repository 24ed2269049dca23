import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { AUDIT_SCHEMA, COLUMNS } from '../../src/store/audit/entry.ts';
import { type AuditEntry, AuditLog } from '../../src/store/audit/log.ts';
import { openDatabase } from '../../src/store/database.ts';
import { temporaryDir } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { auditEntry } from '../floors/audit-entry.ts';
import { inTurns } from '../measure.ts';

/** Inserts the same rows without bounds, hash, seal or signature. */
function createFloor(path: string): { write(entries: number): void } & Disposable {
  const database = openDatabase(path);
  database.exec(AUDIT_SCHEMA);
  const insert = database.prepare(`INSERT INTO audit (${COLUMNS.join()}) VALUES (${COLUMNS.map(() => '?').join()})`);
  const json = (value: unknown) => JSON.stringify(value) ?? null;
  const hash = 'f'.repeat(64);
  let seq = 0;
  const write = (it: AuditEntry) =>
    insert.run(
      ...[++seq, new Date().toISOString(), it.kind, it.sessionId, it.callId ?? null, it.tool ?? null, null],
      ...[it.principal, it.decision ?? null, null, it.durationMs ?? null, hash, hash],
      ...[json(it.resources), json(it.effects), null, json(it.input)],
    );
  return {
    write(entries) {
      database.exec('BEGIN');
      for (let i = 0; i < entries; i++) write(auditEntry());
      database.exec('COMMIT');
    },
    [Symbol.dispose]: () => database.close(),
  };
}

/** The longest time in ms for which `run` blocked its thread, and its duration. */
async function held(run: () => Promise<unknown>): Promise<{ worstMs: number; tookMs: number }> {
  let worstMs = 0;
  let last = performance.now();
  const look = setInterval(() => {
    worstMs = Math.max(worstMs, performance.now() - last - 1);
    last = performance.now();
  }, 1);
  const from = performance.now();
  await run();
  clearInterval(look);
  return { worstMs, tookMs: performance.now() - from };
}

export default defineBench({
  title: 'The audit log',
  question: 'What does an entry cost beside an unsigned row, and what does reading cost?',
  async run(bench) {
    const folder = temporaryDir('audit-bench');
    try {
      using log = new AuditLog(join(folder, 'audit.db'), defaultLimits, systemPowers(), { redact: (it) => it });
      using floor = createFloor(join(folder, 'floor.db'));
      const write = (entries: number) => () => {
        for (let i = 0; i < entries; i++) log.append(auditEntry());
        log.flush();
      };
      bench.times(
        await inTurns(
          {
            '50 rows, one transaction': () => floor.write(50),
            '50 entries, one write': write(50),
            '1 row, one transaction': () => floor.write(1),
            '1 entry, on disk (an intent)': write(1),
          },
          { rounds: bench.size(3, 10), times: bench.size(40, 300) },
        ),
        {
          over: {
            '50 entries, one write': '50 rows, one transaction',
            '1 entry, on disk (an intent)': '1 row, one transaction',
          },
        },
      );
      let entries = 0;
      const verified = await held(async () => {
        const found = await log.verify();
        if (!found.ok) throw new Error(found.reason);
        entries = found.entries;
      });
      bench.value(`verify, ${entries} entries`, (entries / verified.tookMs) * 1000, '/s');
      bench.value('verify, longest hold of the event loop', verified.worstMs, 'ms');
      const asked = await held(() => log.query({ callId: 'none' }));
      bench.value('a query that finds nothing without an index', asked.tookMs, 'ms');
      bench.value('the same, longest hold of the event loop', asked.worstMs, 'ms');
    } finally {
      rmSync(folder, { recursive: true });
    }
  },
});
