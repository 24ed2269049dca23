// What does an audit entry cost, appended and written, beside the floor: the same rows inserted without bounding, hash, seal or signature?
import { rmSync } from 'node:fs';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { defaultLimits } from '../src/limits.ts';
import { systemPowers } from '../src/powers.ts';
import { AUDIT_SCHEMA, COLUMNS } from '../src/store/audit-entry.ts';
import { type AuditEntry, AuditLog } from '../src/store/audit-log.ts';
import { openDatabase } from '../src/store/database.ts';
import { temporaryDir } from '../test/support/daemon.ts';

const small = process.argv.includes('--small');
const entries = small ? 10_000 : 200_000;
const blocks = 10;
/** Entries written together: a busy turn's, and one alone, as the intent of each call that may change something. */
const TOGETHER = [50, 1];

const folder = temporaryDir('audit-bench');
const powers = systemPowers();
const log = new AuditLog(join(folder, 'audit.db'), defaultLimits, powers, { redact: (it) => it });
const floor = openDatabase(join(folder, 'floor.db'));
floor.exec(AUDIT_SCHEMA);
const insert = floor.prepare(`INSERT INTO audit (${COLUMNS.join()}) VALUES (${COLUMNS.map(() => '?').join()})`);

let made = 0;
function entry(): AuditEntry {
  made += 1;
  return {
    ...{ kind: made % 2 ? 'intent' : 'outcome', sessionId: `0193-session-${made % 5}`, principal: 'agent' },
    ...{
      callId: `01930000-aaaa-7bbb-8ccc-${String(made >> 1).padStart(12, '0')}`,
      tool: 'file_write',
      decision: 'allow',
    },
    input: { path: 'docs/notes.md', content: 'x'.repeat(100) },
    effects: [{ kind: 'write', target: 'docs/notes.md' }],
    durationMs: 1.25,
    resources: { cpuMs: 1, outputBytes: 40, verdict: 'ok', enforcedBy: 'cgroup' },
  };
}

let seq = 0;
const hash = 'f'.repeat(64);
function insertPlainly(it: AuditEntry): void {
  const json = (value: unknown) => JSON.stringify(value) ?? null;
  insert.run(
    ...[++seq, new Date(powers.now()).toISOString(), it.kind, it.sessionId, it.callId ?? null, it.tool ?? null, null],
    ...[it.principal, it.decision ?? null, null, it.durationMs ?? null, hash, hash],
    ...[json(it.resources), json(it.effects), null, json(it.input)],
  );
}

const subjects = {
  floor(together: number) {
    floor.exec('BEGIN');
    for (let i = 0; i < together; i++) insertPlainly(entry());
    floor.exec('COMMIT');
  },
  log(together: number) {
    for (let i = 0; i < together; i++) log.append(entry());
    log.flush();
  },
};

/** Medians over blocks that take turns, µs an entry. */
function measure(together: number): Record<keyof typeof subjects, number> {
  const took = { floor: [] as number[], log: [] as number[] };
  const times = Math.ceil(entries / blocks / together / 4);
  for (let block = 0; block < blocks; block++) {
    for (const name of ['floor', 'log'] as const) {
      const from = performance.now();
      for (let i = 0; i < times; i++) subjects[name](together);
      took[name].push(((performance.now() - from) / times / together) * 1000);
    }
  }
  const median = (all: number[]) => all.sort((a, b) => a - b)[all.length >> 1] as number;
  return { floor: median(took.floor), log: median(took.log) };
}

console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}\n`);
const row = (name: string, value: string) => console.log(`${name.padEnd(56)} ${value}`);
for (const together of TOGETHER) measure(together); // Warms up.
for (const together of TOGETHER) {
  const µs = measure(together);
  row(`insert alone, ${together} a transaction (floor), µs an entry`, µs.floor.toFixed(1));
  row(`append and flush, ${together} a transaction, µs an entry`, µs.log.toFixed(1));
  row(`append and flush / insert alone, ${together} a transaction`, (µs.log / µs.floor).toFixed(2));
}
let worst = 0;
let last = performance.now();
const watch = setInterval(() => {
  worst = Math.max(worst, performance.now() - last - 1);
  last = performance.now();
}, 1);
const from = performance.now();
const verified = await log.verify();
const verifyMs = performance.now() - from;
if (!verified.ok) throw new Error(verified.reason);
row('verify, entries a second', String(Math.round((verified.entries / verifyMs) * 1000)));
row('verify, longest hold of the event loop, ms', worst.toFixed(1));
worst = 0;
last = performance.now();
const asked = performance.now();
await log.query({ callId: 'none' });
row('query that finds nothing without an index, ms', (performance.now() - asked).toFixed(1));
row('the same, longest hold of the event loop, ms', worst.toFixed(1));
clearInterval(watch);
log[Symbol.dispose]();
floor.close();
rmSync(folder, { recursive: true });
