/** The audit log stays within its bound in bytes: first reads are recorded as sums, then changes are refused. */
import { statSync } from 'node:fs';
import { expect, test } from 'vitest';
import { LogFolder } from '../../../support/audit.ts';

const KiB = 1024;
const DAY = 86_400_000;
const limits = { auditBytesMax: 1024 * KiB, auditOverflowBytesMax: 256 * KiB };

function opened() {
  const folder = new LogFolder();
  Object.assign(folder.powers, { monotonicMs: () => folder.powers.nowMs });
  return { folder, log: folder.open(limits) };
}
type Opened = ReturnType<typeof opened>;

const who = (principal: string, sessionId = 's') => ({ principal, sessionId });
const text = 'x'.repeat(4_000);

function reads({ log }: Opened, count: number, principal = 'p'): void {
  for (let i = 0; i < count; i++) {
    log.append(
      { kind: 'outcome', ...who(principal, `s${i % 300}`), tool: 'file_read', input: text },
      { isReading: true },
    );
    if (i % 100 === 0) log.flush();
  }
  log.flush();
}

/** Makes changing calls until they are refused; gives how many succeeded. */
function deeds({ log }: Opened, count: number, principal = 'p'): number {
  for (let i = 0; i < count; i++) {
    try {
      log.assertRoom(principal);
    } catch (error) {
      expect(error).toMatchObject({ code: 'RATE_LIMITED', extras: { details: { retryAfterMs: expect.any(Number) } } });
      return i;
    }
    const call = { ...who(principal), callId: `${principal}${i}`, tool: 'file_write' };
    log.append({ kind: 'intent', ...call, input: text });
    log.append({ kind: 'outcome', ...call });
    log.flush();
  }
  return count;
}

function rowsOf(folder: LogFolder, sql: string): Record<string, unknown>[] {
  let rows: Record<string, unknown>[] = [];
  folder.edit((database) => {
    rows = database.prepare(sql).all();
  });
  return rows;
}

test('reading beyond its part is recorded in sums, and none of it is left out of them', () => {
  const it = opened();
  using folder = it.folder;
  reads(it, 5_000);
  expect(statSync(folder.path).size).toBeLessThan(400 * KiB);
  folder.powers.fire(10_000);
  it.log.flush();
  const details = rowsOf(folder, "SELECT detail FROM audit WHERE kind = 'outcome'").map((row) => row.detail);
  const merged = details.flatMap((it) =>
    it === null ? [] : [JSON.parse(it as string) as { merged: number; tools: object }],
  );
  expect(merged[0]?.tools).toEqual({ file_read: merged[0]?.merged });
  const whole = details.filter((it) => it === null).length;
  expect(whole + merged.reduce((sum, it) => sum + it.merged, 0)).toBe(5_000);
});

test('a principal that has filled its share may change nothing until later, and its calls are recorded whole until then', async () => {
  const it = opened();
  using folder = it.folder;
  const done = deeds(it, 5_000);
  expect(done).toBeGreaterThan(50);
  expect(done).toBeLessThan(200);
  expect(rowsOf(folder, "SELECT seq FROM audit WHERE tool = 'file_write'")).toHaveLength(2 * done);
  // Another principal has its own share.
  expect(deeds(it, 10, 'q')).toBe(10);
  folder.powers.nowMs += DAY / 2;
  expect(deeds(it, 10)).toBe(10);
  expect(await it.log.verify()).toMatchObject({ ok: true });
});

test('many principals together stay within the bound, with refusals and sessions too', async () => {
  const it = opened();
  using folder = it.folder;
  for (let at = 0; at < 40; at++) {
    deeds(it, 500, `p${at}`);
    reads(it, 500, `p${at}`);
    for (let i = 0; i < 500; i++) {
      it.log.append({ kind: 'refusal', ...who(`p${at}`, `r${i}`), code: 'RATE_LIMITED', input: text });
      it.log.append({ kind: 'session', ...who(`p${at}`, `r${i}`) });
    }
    folder.powers.fire(10_000);
    await it.log.dropOldest();
  }
  expect(statSync(folder.path).size).toBeLessThan(limits.auditBytesMax + 2 * limits.auditOverflowBytesMax);
  expect(await it.log.verify()).toMatchObject({ ok: true });
});
