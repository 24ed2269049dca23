import { expect, test } from 'vitest';
import { LogFolder } from '../../../support/audit.ts';

const refusal = (more: object = {}) =>
  ({ kind: 'refusal', sessionId: 's', principal: 'p', tool: 'file_read', code: 'POLICY_DENIED', ...more }) as const;
const limits = { auditRefusalsPerMinute: 5, auditRefusalsPerMinutePrincipal: 8 };

test('a flood of refusals becomes one entry that says how many there were', async () => {
  using folder = new LogFolder();
  const log = folder.open(limits);
  for (let i = 0; i < 100; i++) log.append(refusal({ input: { path: 'x'.repeat(16_000) } }));
  log.append(refusal({ code: 'RATE_LIMITED' }));
  folder.powers.fire(10_000);
  const { entries } = await log.query({ order: 'oldest' });
  expect(entries).toHaveLength(6);
  for (const it of entries.slice(0, 5)) expect(JSON.stringify(it.input).length).toBeLessThan(1200);
  expect(entries[5]).toMatchObject({
    kind: 'refusal',
    sessionId: 's',
    principal: 'p',
    code: 'POLICY_DENIED',
    detail: { merged: 96, codes: { POLICY_DENIED: 95, RATE_LIMITED: 1 } },
  });
});

test('other sessions of the same principal do not get around it, other principals are not merged', async () => {
  using folder = new LogFolder();
  const log = folder.open(limits);
  for (let i = 0; i < 1000; i++) log.append(refusal({ sessionId: `s${i}` }));
  log.append(refusal({ principal: 'q' }));
  folder.close(); // Counted entries are not lost.
  const { entries } = await folder.open(limits).query({ order: 'oldest', limit: 1000 });
  const whole = entries.filter((it) => it.detail === undefined);
  expect(whole.map((it) => it.principal)).toEqual([...Array(8).fill('p'), 'q']);
  const merged = entries.flatMap((it) => (it.detail?.merged as number | undefined) ?? []);
  expect(merged.length).toBeLessThan(70);
  expect(merged.reduce((a, b) => a + b)).toBe(992);
});

test('entries of permitted calls are never merged', async () => {
  using folder = new LogFolder();
  const log = folder.open(limits);
  for (let i = 0; i < 50; i++) {
    log.append({ kind: 'intent', sessionId: 's', principal: 'p', callId: `${i}` });
    log.append({ kind: 'outcome', sessionId: 's', principal: 'p', callId: `${i}` });
  }
  expect((await log.query({})).entries).toHaveLength(100);
});
