import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { type Powers, silentLog, systemPowers } from '../../../src/base/powers.ts';
import { CostLedger, type CostLimits, type CostReservation } from '../../../src/store/cost-ledger.ts';

const folder = mkdtempSync(join(tmpdir(), 'ringfence-costs-'));
afterAll(() => rmSync(folder, { recursive: true }));

let files = 0;
const NOON = Date.parse('2026-03-01T12:00:00Z');

function ledgerAt(nowMs = NOON) {
  const clock = { nowMs };
  const warned: unknown[] = [];
  const log = {
    ...silentLog,
    warn: (fields: object) => void warned.push(fields),
    error: (fields: object) => void warned.push(fields),
  };
  const powers: Powers = { ...systemPowers(log), now: () => clock.nowMs };
  const path = join(folder, `${files++}.db`);
  const open = () => new CostLedger(path, defaultLimits, powers);
  return { path, clock, warned, open };
}

const payer = { tier: 'external_api', principal: 'p', sessionId: 's', tool: 't' } as const;
const request = (max: CostLimits['max'] = {}, dayAskAbove?: number) => ({
  ...payer,
  callId: 'c',
  limits: { max, ...(dayAskAbove !== undefined && { dayAskAbove }) },
});

test('a reserved cost counts as spent; settling books the actual cost, releasing gives the reservation back', () => {
  using ledger = ledgerAt().open();
  const first = ledger.reserve(0.5, request());
  const second = ledger.reserve(0.25, request());
  expect(ledger.spentUsd(payer)).toEqual({ day: 0.75, principal: 0.75, session: 0.75 });
  expect(first.settle(0.1)).toBe(0.1);
  second.release();
  expect(ledger.spentUsd(payer)).toEqual({ day: 0.1, principal: 0.1, session: 0.1 });
  first.release();
  expect(second.settle(5)).toBe(5);
  expect(ledger.spentUsd(payer).day).toBe(0.1);
});

test.each([
  ['day', { ...payer, principal: 'other', sessionId: 'other' }],
  ['principal', { ...payer, sessionId: 'other' }],
  ['session', payer],
] as const)('a hard limit per %s is COST_LIMIT, up to the millionth', (per, other) => {
  using ledger = ledgerAt().open();
  const limits = { max: { [per]: 0.3 } };
  ledger.reserve(0.1, { ...payer, callId: 'a', limits }).settle();
  ledger.reserve(0.2, { ...other, callId: 'b', limits });
  expect(() => ledger.reserve(0.000_000_1, { ...other, callId: 'c', limits })).toThrow(
    expect.objectContaining({
      code: 'COST_LIMIT',
      extras: expect.objectContaining({ details: { spentUsd: 0.3, limitUsd: 0.3, per } }) as object,
    }) as Error,
  );
  expect(ledger.reserve(0, { ...other, callId: 'd', limits }).usd).toBe(0);
});

test('limits of one tier, principal or session say nothing about another', () => {
  using ledger = ledgerAt().open();
  const limits = { max: { principal: 1, session: 1 } };
  const reserve = (more: object) => ledger.reserve(1, { ...payer, callId: 'c', limits, ...more });
  reserve({});
  expect(() => reserve({ principal: 'q' })).toThrow('a session');
  expect(() => reserve({ sessionId: 't' })).toThrow('principal');
  reserve({ principal: 'q', sessionId: 't' });
  reserve({ tier: 'execute' });
});

test('the soft limit is reported, not refused, and free calls are not asked about', () => {
  using ledger = ledgerAt().open();
  expect(ledger.reserve(1, request({}, 1)).ask).toBe(false);
  expect(ledger.reserve(0.01, request({}, 1)).ask).toBe(true);
  expect(ledger.reserve(0, request({}, 1)).ask).toBe(false);
});

test.each([NaN, -0.01, -Infinity, Infinity, 1000.01, 1e300])('%d USD are no cost of a call', (usd) => {
  using ledger = ledgerAt().open();
  expect(() => ledger.reserve(usd, request())).toThrow(expect.objectContaining({ code: 'COST_LIMIT' }) as Error);
  expect(ledger.spentUsd(payer).day).toBe(0);
});

test.each([
  [NaN, 0.5],
  [-3, 0.5],
  [Infinity, 0.5],
  [undefined, 0.5],
  [1e300, 1000],
  [0, 0],
  [2, 2],
])('a call of 0.5 USD that says it cost %d is booked as %d', (said, booked) => {
  using ledger = ledgerAt().open();
  expect(ledger.reserve(0.5, request()).settle(said)).toBe(booked);
  expect(ledger.spentUsd(payer).day).toBe(booked);
});

test('costs are told by day, principal and tool: running calls as reserved, ended ones as booked, refused ones not', () => {
  const { clock, open } = ledgerAt();
  using ledger = open();
  ledger.reserve(1, request()).settle(0.4);
  ledger.reserve(0.5, request());
  ledger.reserve(9, { ...request(), tool: 'refused' }).release();
  expect(() => ledger.reserve(2, { ...request({ day: 1 }), tool: 'refused' })).toThrow('USD a day');
  clock.nowMs += 24 * 3_600_000;
  ledger.reserve(0, { ...request(), principal: 'q', tool: 'free' }).settle();
  ledger.reserve(2, { ...request(), principal: 'q', tool: 'u' });
  const today = [
    { day: '2026-03-02', principal: 'q', tool: 'u', calls: 1, usd: 2 },
    { day: '2026-03-02', principal: 'q', tool: 'free', calls: 1, usd: 0 },
  ];
  expect(ledger.byTool(1)).toEqual(today);
  expect(ledger.byTool(2)).toEqual([...today, { day: '2026-03-01', principal: 'p', tool: 't', calls: 2, usd: 0.9 }]);
  clock.nowMs += 401 * 24 * 3_600_000;
  expect(ledger.byTool(3660)).toEqual([]);
});

test('a million tiny costs are not rounded away', () => {
  using ledger = ledgerAt().open();
  for (let n = 0; n < 10; n++) ledger.reserve(1e-9, request()).settle();
  expect(ledger.spentUsd(payer).day).toBe(0.00001);
});

test('a day ends at midnight UTC, a session does not, and what was reserved before is settled where it was reserved', () => {
  const { clock, open } = ledgerAt(Date.parse('2026-03-01T23:59:59.999Z'));
  using ledger = open();
  const late = ledger.reserve(1, request({ day: 1 }));
  expect(() => ledger.reserve(1, request({ day: 1 }))).toThrow('USD a day');
  clock.nowMs += 1;
  expect(ledger.spentUsd(payer)).toEqual({ day: 0, principal: 0, session: 1 });
  expect(() => ledger.reserve(1, request({ day: 1, session: 1 }))).toThrow('a session');
  ledger.reserve(1, request({ day: 1 })).settle();
  late.settle(0.4);
  expect(ledger.spentUsd(payer)).toEqual({ day: 1, principal: 1, session: 1.4 });
  clock.nowMs -= 1;
  expect(ledger.spentUsd(payer).day).toBe(0.4);
});

test('a reservation of an ended daemon counts as spent after a restart, is marked, and is reported once', () => {
  const { open, warned } = ledgerAt();
  const before = open();
  before.reserve(0.5, request()).settle(0.4);
  const open1 = before.reserve(0.3, request());
  before.reserve(0.2, request());
  before[Symbol.dispose]();
  open1.settle(0.1);
  open()[Symbol.dispose]();
  using after = open();
  expect(after.spentUsd(payer).day).toBeCloseTo(0.9);
  expect(after.lostReservations()).toEqual({ calls: 2, usd: 0.5 });
  expect(warned).toEqual([{ calls: 2 }]);
  expect(() => after.reserve(0.2, request({ day: 1 }))).toThrow('0.9 are spent');
});

test('costs older than 400 days are forgotten, and younger ones are not', () => {
  const { clock, open, path } = ledgerAt();
  const old = open();
  old.reserve(1, request());
  old[Symbol.dispose]();
  using ledger = open();
  clock.nowMs += 400 * 86_400_000;
  expect([ledger.spentUsd(payer).session, ledger.lostReservations().calls]).toEqual([1, 1]);
  clock.nowMs += 86_400_000;
  expect([ledger.spentUsd(payer).session, ledger.lostReservations().calls]).toEqual([0, 0]);
  using database = new DatabaseSync(path, { readOnly: true });
  expect(database.prepare('SELECT count(*) AS n FROM totals').get()).toMatchObject({ n: 0 });
});

test('calls that are released leave no row behind', () => {
  const { open, path } = ledgerAt();
  using ledger = open();
  for (let n = 0; n < 20; n++) ledger.reserve(1, { ...request(), sessionId: `s${n}` }).release();
  using database = new DatabaseSync(path, { readOnly: true });
  expect(
    database.prepare('SELECT (SELECT count(*) FROM totals) + (SELECT count(*) FROM reservations) AS n').get(),
  ).toMatchObject({ n: 0 });
});

test('a file that can not be written refuses to reserve, and a call that is over keeps what it reserved', () => {
  const { open, path, warned } = ledgerAt();
  using ledger = open();
  const reservation = ledger.reserve(1, request());
  using other = new DatabaseSync(path);
  other.exec('BEGIN EXCLUSIVE');
  expect(() => ledger.reserve(1, request())).toThrow(expect.objectContaining({ code: 'STORE_FAILED' }) as Error);
  expect(reservation.settle(0.5)).toBe(0.5);
  expect(warned).toHaveLength(1);
  other.exec('ROLLBACK');
  expect(ledger.spentUsd(payer).day).toBe(1);
});

const micros = fc.integer({ min: 0, max: 400_000 });
const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      does: fc.constant('reserve' as const),
      micros,
      session: fc.constantFrom('s1', 's2'),
      principal: fc.constantFrom('p1', 'p2'),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      does: fc.constant('settle' as const),
      at: fc.nat(),
      part: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ does: fc.constant('release' as const), at: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant('restart' as const) }) },
);

test('however calls reserve, settle, release and the daemon restarts, no limit is passed and the sums are what was settled', () => {
  const MAX = { day: 1, principal: 0.7, session: 0.6 };
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const { open } = ledgerAt();
      let ledger = open();
      let running: { reservation: CostReservation; session: string; principal: string }[] = [];
      // The model: counted micro-dollars by scope.
      const model = new Map<string, number>();
      const count = ({ session, principal }: { session: string; principal: string }, change: number) => {
        for (const key of ['day', session, principal]) model.set(key, (model.get(key) ?? 0) + change);
      };
      const micro = (usd: number) => Math.round(usd * 1e6);
      for (const it of steps) {
        if (it.does === 'restart') {
          ledger[Symbol.dispose]();
          ledger = open();
          running = [];
        } else if (it.does === 'reserve') {
          const { session, principal } = it;
          const fits =
            it.micros === 0 ||
            ((model.get('day') ?? 0) + it.micros <= micro(MAX.day) &&
              (model.get(session) ?? 0) + it.micros <= micro(MAX.session) &&
              (model.get(principal) ?? 0) + it.micros <= micro(MAX.principal));
          const reserve = () =>
            ledger.reserve(it.micros / 1e6, {
              ...payer,
              sessionId: session,
              principal,
              callId: 'c',
              limits: { max: MAX },
            });
          if (fits) {
            running.push({ reservation: reserve(), session, principal });
            count(it, it.micros);
          } else expect(reserve).toThrow('are spent or reserved');
        } else if (running.length > 0) {
          const [one] = running.splice(it.at % running.length, 1) as [(typeof running)[0]];
          const before = micro(one.reservation.usd);
          const actual = it.does === 'settle' ? Math.floor(before * it.part) : 0;
          if (it.does === 'settle') expect(one.reservation.settle(actual / 1e6)).toBe(actual / 1e6);
          else one.reservation.release();
          count(one, actual - before);
        }
        for (const session of ['s1', 's2'])
          for (const principal of ['p1', 'p2']) {
            const spent = ledger.spentUsd({ ...payer, sessionId: session, principal });
            expect([micro(spent.day), micro(spent.session), micro(spent.principal)]).toEqual([
              model.get('day') ?? 0,
              model.get(session) ?? 0,
              model.get(principal) ?? 0,
            ]);
            expect(spent.day <= MAX.day && spent.session <= MAX.session && spent.principal <= MAX.principal).toBe(true);
          }
      }
      ledger[Symbol.dispose]();
    }),
    { numRuns: 40 },
  );
});
