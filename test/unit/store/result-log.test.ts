/** The result log on a real disk: nothing is lost, invented, or kept beyond its bounds. */
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { type Powers, systemPowers } from '../../../src/base/powers.ts';
import type { CallLog } from '../../../src/store/call-log.ts';
import { ResultLog } from '../../../src/store/result-log.ts';
import { temporaryDir, until } from '../../support/daemon.ts';

let base: string;
let folder: string;
let nowMs: number;
beforeEach(() => {
  base = temporaryDir('results');
  folder = join(base, 'results');
  nowMs = Date.now();
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const powers: Powers = { ...systemPowers(), now: () => nowMs };
const DONE = { status: 'done' } as const;
const open = (limits: object = {}) => new ResultLog({ folder, limits: { ...defaultLimits, ...limits }, powers });
const owner = (callId: string, sessionId = 's') => ({ sessionId, callId });
const found = async (log: ResultLog, callId: string) => (await log.ofCall(callId, 's')) as CallLog;
const text = async (log: CallLog) => (await log.bytesAt(0, 2 ** 30)).toString('latin1');
const seqs = async (log: CallLog) =>
  (await log.entriesAfter(0, 2 ** 30)).map(({ seq, stream }) => `${seq}${stream[3]}`);

test('every split of the same bytes reads back as the same bytes, from every offset and after every chunk', async () => {
  await using log = open();
  const bytes = Buffer.from('é€\0\n', 'utf8');
  for (let cut = 0; cut < 2 ** (bytes.length - 1); cut += 1) {
    const chunks: Buffer[] = [];
    let from = 0;
    for (let at = 1; at <= bytes.length; at += 1) {
      if (at < bytes.length && (cut >> (at - 1)) % 2 === 0) continue;
      chunks.push(bytes.subarray(from, at));
      from = at;
    }
    const id = `c${cut}`;
    for (const [at, chunk] of chunks.entries())
      expect(log.append(owner(id), at % 2 ? 'stderr' : 'stdout', chunk).seq).toBe(at + 1);
    log.end(owner(id), DONE);
    const one = await found(log, id);
    expect(await one.extent()).toEqual({ bytesTotal: bytes.length, seq: chunks.length, state: DONE });
    for (let offset = 0; offset <= bytes.length; offset += 1)
      expect(await one.bytesAt(offset, 3)).toEqual(bytes.subarray(offset, offset + 3));
    for (let seq = 0; seq <= chunks.length; seq += 1) {
      const entries = await one.entriesAfter(seq, 1000);
      expect(entries.map((it) => it.seq)).toEqual(chunks.slice(seq).map((_, at) => seq + at + 1));
      expect(Buffer.concat(entries.map((it) => it.data))).toEqual(Buffer.concat(chunks.slice(seq)));
    }
  }
});

test('five MiB in chunks of all sizes read back by pages, whole, also beyond the blocks and marks of the file', async () => {
  await using log = open();
  const chunks = Array.from({ length: 400 }, (_, at) => Buffer.alloc(1 + ((at * 7919) % 26_000), at));
  chunks.push(Buffer.alloc(600_000, 'x'), Buffer.alloc(1, 'y'));
  for (const chunk of chunks) await log.append(owner('c'), 'stdout', chunk).written;
  const one = await found(log, 'c');
  const pages: Buffer[] = [];
  for (let offset = 0; ; offset += 65_536) {
    const page = await one.bytesAt(offset, 65_536);
    pages.push(page);
    if (page.length < 65_536) break;
  }
  expect(Buffer.concat(pages).equals(Buffer.concat(chunks))).toBe(true);
  let seq = 0;
  for (const parts: Uint8Array[] = []; ; ) {
    const entries = await one.entriesAfter(seq, 100_000);
    if (entries.length === 0) {
      expect(Buffer.concat(parts).equals(Buffer.concat(chunks))).toBe(true);
      break;
    }
    expect(entries[0]?.seq).toBe(seq + 1);
    parts.push(...entries.map((it) => it.data));
    seq += entries.length;
  }
});

test('files are for their owner alone', async () => {
  await using log = open();
  log.append(owner('c'), 'stdout', Buffer.from('x'));
  await (await found(log, 'c')).flush();
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(readdirSync(folder).map((it) => statSync(join(folder, it)).mode & 0o777)).toEqual([0o600]);
});

test('a call is found by its session and its id, and by its id alone the newest is', async () => {
  await using log = open();
  log.append(owner('c', 'a'), 'stdout', Buffer.from('of a'));
  log.append(owner('c', 'b'), 'stdout', Buffer.from('of b'));
  expect(await text((await log.ofCall('c', 'a')) as CallLog)).toBe('of a');
  expect(await text((await log.ofCall('c')) as CallLog)).toBe('of b');
  expect(await log.ofCall('c', 'other')).toBeUndefined();
});

describe('bounds', () => {
  test('a log that is full keeps what it has, says so, and goes on counting', async () => {
    await using log = open({ resultLogBytesMax: 200 });
    for (let seq = 1; seq <= 30; seq += 1)
      expect(log.append(owner('c'), 'stdout', Buffer.from('0123456789')).seq).toBe(seq);
    log.end(owner('c'), DONE);
    const one = await found(log, 'c');
    const { bytesTotal, cut, state } = await one.extent();
    expect([cut, state]).toEqual(['size', DONE]);
    expect(bytesTotal).toBeGreaterThan(50);
    expect(bytesTotal).toBeLessThanOrEqual(200);
    expect(await text(one)).toBe('0123456789'.repeat(bytesTotal / 10));
  });

  test('the oldest ended logs make room for new ones, and those still written do not', async () => {
    await using log = open({ resultLogTotalBytesMax: 3000, resultLogBytesMax: 2000 });
    for (const id of ['running', 'old', 'young']) log.append(owner(id), 'stdout', Buffer.alloc(800));
    log.end(owner('old'), DONE);
    log.end(owner('young'), DONE);
    log.append(owner('new'), 'stdout', Buffer.alloc(1000));
    expect(await log.ofCall('old', 's')).toBeUndefined();
    for (const id of ['running', 'young', 'new']) expect(await log.ofCall(id, 's')).toBeDefined();
    log.append(owner('more'), 'stdout', Buffer.alloc(900));
    log.append(owner('too much'), 'stdout', Buffer.alloc(1900));
    expect(await (await found(log, 'too much')).extent()).toMatchObject({ bytesTotal: 0, cut: 'size' });
    expect(await (await found(log, 'running')).extent()).toEqual({ bytesTotal: 800, seq: 1 });
    await until(() => readdirSync(folder).length === 4);
  });

  test.each([
    ['bytes', { resultLogTotalBytesMax: 1000 }],
    ['calls', { resultLogsMax: 8 }],
  ])('the principal who keeps most loses the oldest, and nobody else loses any: %s', async (_, limits) => {
    const put = (log: ResultLog, storedFor: string, count: number) => {
      for (let at = 0; at < count; at += 1) {
        const of = { ...owner(`${storedFor}${at}`), storedFor };
        log.append(of, 'stdout', Buffer.alloc(20));
        log.end(of, DONE);
      }
    };
    const kept = async (log: ResultLog, whose: string) =>
      (await log.owners()).filter((it) => it.storedFor === whose).length;
    {
      await using log = open(limits);
      put(log, 'anna', 2);
      put(log, 'bert', 30);
      expect(await kept(log, 'anna')).toBe(2);
      expect(await kept(log, 'bert')).toBeLessThan(30);
      expect((await log.owners())[0]?.callId).toBe('bert29');
    }
    // The next daemon knows whose output each file is.
    await using log = open(limits);
    put(log, 'bert', 30);
    expect(await kept(log, 'anna')).toBe(2);
  });

  test('no more than so many calls are kept', async () => {
    await using log = open({ resultLogsMax: 2 });
    for (const id of ['1', '2', '3']) {
      log.append(owner(id), 'stdout', Buffer.from(id));
      log.end(owner(id), DONE);
    }
    expect(await log.ofCall('1', 's')).toBeUndefined();
    expect(await text(await found(log, '3'))).toBe('3');
    await until(() => readdirSync(folder).length === 2);
  });

  test('a log that is too old is removed, whether or not anybody asks for it', async () => {
    await using log = open({ resultLogKeptMs: 20 });
    log.append(owner('c'), 'stdout', Buffer.from('x'));
    log.end(owner('c'), DONE);
    const { ref } = await found(log, 'c');
    nowMs += 21;
    expect(await log.byRef(ref)).toBeUndefined();
    await until(() => readdirSync(folder).length === 0);
    log.append(owner('d'), 'stdout', Buffer.from('x'));
    log.end(owner('d'), DONE);
    nowMs += 21;
    await until(() => readdirSync(folder).length === 0);
  });
});

describe('a disk that takes no more', () => {
  test('ends the log, not the call: what was written stays, the rest is counted', async () => {
    await using log = open();
    log.append(owner('c'), 'stdout', Buffer.from('kept'));
    const one = await found(log, 'c');
    await one.flush();
    // From now on no file can be created there.
    rmSync(folder, { recursive: true });
    writeFileSync(folder, '');
    expect(log.append(owner('d'), 'stdout', Buffer.from('lost')).seq).toBe(1);
    const other = await found(log, 'd');
    expect(await other.extent()).toEqual({ bytesTotal: 0, seq: 0, cut: 'disk' });
    expect(log.append(owner('d'), 'stdout', Buffer.from('lost')).seq).toBe(2);
    log.end(owner('d'), DONE);
    expect(await other.extent()).toEqual({ bytesTotal: 0, seq: 0, state: DONE, cut: 'disk' });
    rmSync(folder);
    mkdirSync(folder);
  });

  test('or is too slow holds no more in memory than it may, and keeps what it took', async () => {
    await using log = open({ resultLogWaitingBytesMax: 300 });
    for (let at = 0; at < 10; at += 1) log.append(owner('c'), 'stdout', Buffer.alloc(100, 'x'));
    const one = await found(log, 'c');
    expect(await one.extent()).toEqual({ bytesTotal: 200, seq: 2, cut: 'disk' });
    log.append(owner('d'), 'stdout', Buffer.from('room again'));
    expect(await text(await found(log, 'd'))).toBe('room again');
  });
});

describe('after a restart', () => {
  test('logs are read on, with their ends', async () => {
    {
      await using log = open();
      log.append(owner('c'), 'stdout', Buffer.from('out'));
      log.append(owner('c'), 'stderr', Buffer.from('err'));
      log.end(owner('c'), { status: 'cancelled' });
    }
    await using log = open();
    const one = await found(log, 'c');
    expect(await one.extent()).toEqual({ bytesTotal: 6, seq: 2, state: { status: 'cancelled' } });
    expect([await text(one), await seqs(one)]).toEqual(['outerr', ['1o', '2e']]);
  });

  test('a log that was cut off anywhere gives its whole chunks and says that it was', async () => {
    {
      await using log = open();
      for (const part of ['one', 'two', 'three']) log.append(owner('c'), 'stdout', Buffer.from(part));
    }
    const file = join(folder, readdirSync(folder)[0] as string);
    const whole = readFileSync(file);
    const start = whole.indexOf('one') - 5;
    for (let bytes = whole.lastIndexOf('{') - 1; bytes >= start; bytes -= 1) {
      truncateSync(file, bytes);
      await using log = open();
      const one = await found(log, 'c');
      const parts = ['one', 'two', 'three'].filter((part) => whole.indexOf(part) + part.length <= bytes);
      expect([await text(one), await one.extent()]).toEqual([
        parts.join(''),
        { bytesTotal: parts.join('').length, seq: parts.length, state: { status: 'error' }, cut: 'crash' },
      ]);
    }
  });

  test('foreign and damaged files do no harm', async () => {
    mkdirSync(folder);
    writeFileSync(join(folder, 'notes.txt'), 'mine');
    const name = `${powers.uuid()}.log`;
    writeFileSync(join(folder, name), 'no log at all');
    const { ref } = await (async () => {
      await using log = open();
      const taken = log.append(owner('c'), 'stdout', Buffer.from('good'));
      await log.ofCall('c');
      return taken;
    })();
    expect(readdirSync(folder).sort()).toEqual([`${ref}.log`, 'notes.txt'].sort());
    appendFileSync(join(folder, `${ref}.log`), Buffer.from([1, 0xff, 0xff, 0xff, 0xff, 0]));
    await using log = open();
    expect(await text((await log.byRef(ref)) as CallLog)).toBe('good');
  });

  test('logs beyond the bounds of the new daemon are removed, the oldest first', async () => {
    {
      await using log = open();
      for (const id of ['1', '2', '3']) {
        log.append(owner(id), 'stdout', Buffer.alloc(1000, id));
        log.end(owner(id), DONE);
      }
    }
    await using log = open({ resultLogTotalBytesMax: 2500 });
    expect(await log.ofCall('1', 's')).toBeUndefined();
    expect(await text(await found(log, '2'))).toBe('2'.repeat(1000));
    await until(() => readdirSync(folder).length === 2);
  });
});
