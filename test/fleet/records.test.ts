/** The collector: one signed chain a node, whatever the bus does with the batches. */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { type AuditBatch, chain, GENESIS, type LogEnd, signedPosition } from '../../src/fleet/audit-batch.ts';
import { AuditShipper } from '../../src/fleet/audit-shipper.ts';
import { Collector } from '../../src/fleet/collector.ts';
import type { FleetLink } from '../../src/fleet/link.ts';
import { isSignedBy, memberKeys } from '../../src/fleet/nats.ts';
import { fromWire, toWire } from '../../src/fleet/wire.ts';
import { AuditLog } from '../../src/store/audit/log.ts';
import { removeTree, temporaryDir } from '../support/daemon.ts';

const folder = temporaryDir('collector');
afterAll(() => removeTree(folder));
const keys = await memberKeys();
let made = 0;
const collectorOf = (limits = defaultLimits, path = join(folder, `${++made}.db`)) =>
  new Collector(path, {
    fleet: 'test',
    limits,
    now: () => 1_000,
    keyOf: (node) => (node === 'a' ? keys.publicKey : undefined),
    isSignedBy,
  });

/** Lines as `audit export` writes them. */
function linesFrom(first: LogEnd, count: number): { lines: string[]; end: LogEnd } {
  let end = first;
  const lines = Array.from({ length: count }, () => {
    const text = JSON.stringify({ seq: end.seq + 1, at: 'now', kind: 'session', previousHash: end.hash });
    const hash = createHash('sha256').update(text).digest('hex');
    end = { seq: end.seq + 1, hash };
    return `${text.slice(0, -1)},"hash":"${hash}"}`;
  });
  return { lines, end };
}
let at = 0;
const batchOf = (given: Pick<AuditBatch, 'lines' | 'end'>, atMs = ++at): AuditBatch => {
  const { lines, end } = given;
  return { lines, end, atMs, signature: keys.sign(signedPosition('test', 'a', { end, atMs })) };
};

test('entries that follow each other are kept, and a second collector goes on where the first one ended', async () => {
  const first = linesFrom(GENESIS, 3);
  const path = join(folder, 'kept.db');
  {
    using collector = collectorOf(defaultLimits, path);
    expect(await collector.take('a', batchOf(first))).toEqual({ has: first.end });
  }
  using collector = collectorOf(defaultLimits, path);
  const second = linesFrom(first.end, 2);
  expect(await collector.take('a', batchOf(second))).toEqual({ has: second.end });
  expect(collector.logs).toMatchObject([{ node: 'a', end: { seq: 5 }, gaps: [] }]);
});

test('a batch that nobody, somebody else or another fleet has signed is not taken', async () => {
  using collector = collectorOf();
  const given = linesFrom(GENESIS, 1);
  const other = await memberKeys();
  const { end } = given;
  const signatures = [
    '',
    other.sign(signedPosition('test', 'a', { end, atMs: 1 })),
    keys.sign(signedPosition('other', 'a', { end, atMs: 1 })),
    keys.sign(signedPosition('test', 'b', { end, atMs: 1 })),
    keys.sign(signedPosition('test', 'a', { end, atMs: 2 })),
  ];
  for (const signature of signatures)
    expect(await collector.take('a', { ...given, atMs: 1, signature })).toBeUndefined();
  expect(await collector.take('unknown', batchOf(given))).toBeUndefined();
  expect(collector.logs).toEqual([]);
});

describe('a log is not trusted any more', () => {
  const whole = linesFrom(GENESIS, 3);
  const other = linesFrom({ seq: 0, hash: 'b'.repeat(64) }, 3);
  test.each([
    ['its end was cut off', { lines: [], end: linesFrom(GENESIS, 2).end }, 'had 3 entries before'],
    ['its last entry is another one', { lines: [], end: other.end }, 'entry 3 is not the one'],
    ['it was written anew', linesFrom({ seq: 3, hash: 'c'.repeat(64) }, 1), 'does not follow'],
    ['an entry came again', whole, 'entry 1 came again'],
  ])('a log is no longer trusted if %s', async (_, next, reason) => {
    using collector = collectorOf();
    await collector.take('a', batchOf(whole));
    const receipt = await collector.take('a', batchOf(next));
    expect(receipt).toEqual({ has: whole.end, broken: expect.stringContaining(reason) });
    // What comes later is not taken either.
    expect(await collector.take('a', batchOf(linesFrom(whole.end, 1)))).toEqual(receipt);
  });

  test('a log is no longer trusted if a line was changed on its way', () => {
    const lines = whole.lines.map((it) => it.replace('"now"', '"then"'));
    expect(chain({ lines, end: whole.end }, GENESIS)).toEqual({
      ok: false,
      reason: expect.stringContaining('changed'),
    });
    expect(chain({ lines: whole.lines.slice(0, 2), end: whole.end }, GENESIS)).toMatchObject({ ok: false });
    expect(chain({ lines: [whole.lines[0] ?? '', whole.lines[2] ?? ''], end: whole.end }, GENESIS)).toMatchObject({
      ok: false,
      reason: 'entry 2 is missing',
    });
  });
});

test('a batch that the bus sends again changes nothing', async () => {
  using collector = collectorOf();
  const [first, second] = [linesFrom(GENESIS, 1), linesFrom(linesFrom(GENESIS, 1).end, 1)];
  const [early, late] = [batchOf(first), batchOf(second)];
  await collector.take('a', early);
  await collector.take('a', late);
  expect(await collector.take('a', early)).toEqual({ has: second.end });
});

test('entries that retention dropped before they were collected are told as a gap', async () => {
  using collector = collectorOf();
  const first = linesFrom(GENESIS, 2);
  await collector.take('a', batchOf(first));
  const later = linesFrom({ seq: 9, hash: 'd'.repeat(64) }, 1);
  expect(await collector.take('a', batchOf(later))).toEqual({ has: later.end });
  expect(collector.logs[0]?.gaps).toEqual([[3, 9]]);
});

test('the newest entries of a node are kept, up to the bound', async () => {
  const path = join(folder, 'bound.db');
  using collector = collectorOf({ ...defaultLimits, fleetCollectedEntriesMax: 4 }, path);
  await collector.take('a', batchOf(linesFrom(GENESIS, 10)));
  const { DatabaseSync } = await import('node:sqlite');
  using database = new DatabaseSync(path, { readOnly: true });
  expect(database.prepare('SELECT min(seq) AS first, count(*) AS n FROM entries').get()).toEqual({ first: 7, n: 4 });
});

test('a real log is shipped in batches below the bound, and ends as the log does', async () => {
  const limits = { ...defaultLimits, fleetAuditBatchBytes: 4096 };
  const powers = systemPowers();
  using log = new AuditLog(join(folder, 'audit.db'), limits, powers, { redact: (it) => it });
  for (let n = 0; n < 40; n++)
    log.append({
      kind: 'intent',
      sessionId: 's',
      principal: 'p',
      callId: `c${n}`,
      input: { text: 'é"\n\u202e'.repeat(50) },
    });
  using collector = collectorOf(limits);
  const sizes: number[] = [];
  const link = {
    isConnected: true,
    request: async (_: string, data: Uint8Array) => {
      sizes.push(data.length);
      return toWire(await collector.take('a', fromWire(data)));
    },
  } as unknown as FleetLink;
  const daemon = { request: (_: string, filter: object) => log.query(filter) } as never;
  using _ = new AuditShipper({ fleet: 'test', node: 'a', keys, link, daemon, limits, powers });
  const { entries } = await log.query({ order: 'newest', limit: 1 });
  await expect.poll(() => collector.logs[0]?.end.seq).toBe(entries[0]?.seq);
  expect(collector.logs[0]).toMatchObject({ end: { hash: entries[0]?.hash }, gaps: [] });
  expect(collector.logs[0]?.broken).toBeUndefined();
  expect(sizes.length).toBeGreaterThan(5);
  expect(Math.max(...sizes)).toBeLessThan(2 * limits.fleetAuditBatchBytes);
});
