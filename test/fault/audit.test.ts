/** Kills a writer of the audit log in the middle of its calls. */
import { spawn } from 'node:child_process';
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { AuditLog, type AuditRecord } from '../../src/store/audit/log.ts';
import { startDaemon, temporaryDir } from '../support/daemon.ts';

const source = (path: string) => JSON.stringify(fileURLToPath(new URL(`../../src/${path}`, import.meta.url)));

/** Makes 1 000 calls, each with an intent on disk, then its effect, then its outcome, and reports its progress. */
const WRITER = `
import { writeFileSync, writeSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { AuditLog } from ${source('store/audit/log.ts')};
import { defaultLimits } from ${source('base/limits.ts')};
import { systemPowers } from ${source('base/powers.ts')};
const folder = process.argv[2];
// Outcomes are written with the next intent, not by a timer that may fire just before the kill.
const powers = { ...systemPowers(), after: () => ({ cancel() {} }) };
const log = new AuditLog(folder + '/audit.db', { ...defaultLimits, auditCheckpointEntries: 100 }, powers);
for (let i = 0; i < 1000; i++) {
  const call = { sessionId: 's', principal: 'p', callId: 'c' + i, tool: 'file_write' };
  log.append({ ...call, kind: 'intent' });
  log.flush();
  writeFileSync(folder + '/effects/c' + i, '');
  log.append({ ...call, kind: 'outcome' });
  if (i % 10 === 0) writeSync(1, i + '\\n');
  await setImmediate();
}
process.kill(process.pid, 'SIGKILL');`;

test.each([30, 400, 1000])(
  'killed after about %i of 1 000 calls: the chain holds, no effect is without its intent, open ones are unknown',
  async (killAt) => {
    const folder = temporaryDir('killed');
    using _ = { [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }) };
    mkdirSync(join(folder, 'effects'));
    const script = join(folder, 'writer.ts');
    writeFileSync(script, WRITER);
    const child = spawn(process.execPath, [script, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
    child.stdout.on('data', (chunk) => {
      if (
        String(chunk)
          .trimEnd()
          .split('\n')
          .some((it) => Number(it) >= killAt)
      )
        child.kill('SIGKILL');
    });
    expect(await new Promise((resolve) => child.once('exit', (_, signal) => resolve(signal)))).toBe('SIGKILL');

    using log = new AuditLog(join(folder, 'audit.db'), defaultLimits, systemPowers());
    expect(await log.verify()).toMatchObject({ ok: true });
    const found: AuditRecord[] = [];
    for await (const line of log.exportEntries('jsonl')) found.push(JSON.parse(line));
    const ended = new Set(found.filter((it) => it.kind === 'outcome').map((it) => it.callId));
    const intents = new Map(found.filter((it) => it.kind === 'intent').map((it) => [it.callId, it]));
    const effects = readdirSync(join(folder, 'effects'));
    expect(effects.length).toBeGreaterThan(Math.min(killAt, 999));
    expect(effects.filter((it) => !intents.has(it))).toEqual([]);
    for (const [callId, { outcome }] of intents) expect(outcome).toBe(ended.has(callId) ? undefined : 'unknown');
    expect(ended.size).toBeLessThan(intents.size); // The last outcome was not written yet.
    log.append({ kind: 'session', sessionId: 's', principal: 'p' });
    expect(await log.verify()).toMatchObject({ ok: true, entries: found.length + 1 });
  },
);

test('an agent that writes more than its share into the record is refused what changes something, and reads on', async () => {
  await using daemon = await startDaemon({ limits: { auditBytesMax: 256 * 1024, auditOverflowBytesMax: 64 * 1024 } });
  await using client = await daemon.connect();
  let refused: unknown;
  for (let i = 0; i < 500 && !refused; i++) {
    const result = await client.call('file_write', { path: 'a', content: 'x'.repeat(4_000) });
    if (!result.success) refused = result.error;
  }
  expect(refused).toMatchObject({
    code: 'RATE_LIMITED',
    rule: 'auditBytesMax',
    details: { retryAfterMs: expect.any(Number) },
  });
  for (let i = 0; i < 300; i++) expect(await client.call('file_read', { path: 'a' })).toMatchObject({ success: true });
  await using operator = await daemon.connect({ role: 'operator' });
  expect(await operator.request('audit.verify', {})).toMatchObject({ ok: true });
}, 60_000);
