/** Disk space for the record: who frees it, in which order, and when there is none. */
import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { DiskRoom } from '../../../src/store/disk-room.ts';
import { ResultLog } from '../../../src/store/result-log.ts';
import { temporaryDir } from '../../support/daemon.ts';

const MiB = 1024 * 1024;
let stateDir: string;
beforeEach(() => {
  stateDir = temporaryDir('state');
});
afterEach(() => rmSync(stateDir, { recursive: true }));

/** A disk of 48 MiB with `used` bytes in use; 12 MiB are reserved for the record. */
function roomOn(used: () => number): DiskRoom {
  const readDisk = () => ({ totalBytes: 48 * MiB, freeBytes: 48 * MiB - used() });
  return new DiskRoom({ stateDir, limits: defaultLimits, powers: systemPowers(), readDisk });
}

test('outputs make room first, then what can be undone, until the reserve is there', () => {
  let used = 44 * MiB;
  using room = roomOn(() => used);
  const dropped: string[] = [];
  const keeper = (name: string, pieces: number) => () => {
    if (pieces === 0) return false;
    pieces -= 1;
    dropped.push(name);
    used -= 2 * MiB;
    return true;
  };
  room.register('undo', keeper('undo', 5));
  room.register('results', keeper('results', 2));
  expect(room.has(0)).toBe(false);
  expect(room.makeRoom()).toBe(true);
  expect(dropped).toEqual(['results', 'results', 'undo', 'undo']);
  expect([room.has(0), room.has(1), room.makeRoom()]).toEqual([true, false, false]);
});

test('an error of dropping data on a full disk ends nothing: the next kind makes room', () => {
  let used = 44 * MiB;
  using room = roomOn(() => used);
  room.register('results', () => {
    throw new Error('database or disk is full');
  });
  expect(room.makeRoom()).toBe(false);
  room.register('undo', () => {
    used -= 2 * MiB;
    return true;
  });
  expect(room.makeRoom()).toBe(true);
  expect(room.has(0)).toBe(true);
});

test('the error with nothing left to drop says what to delete, the largest first and no records', () => {
  using room = roomOn(() => 47 * MiB);
  for (const [name, bytes] of Object.entries({ 'daemon.log': 5000, 'audit.db': 9000, 'audit-2026.db': 7000 }))
    writeFileSync(join(stateDir, name), Buffer.alloc(bytes));
  expect(room.makeRoom()).toBe(false);
  expect(room.status).toEqual({
    freeBytes: MiB,
    reserveBytes: 12 * MiB,
    advice: `delete ${join(stateDir, 'audit-2026.db')} (7 KiB), ${join(stateDir, 'daemon.log')} (5 KiB), or make room on the disk of ${stateDir}, or name another one with --state`,
  });
});

test('output of calls leaves the reserve alone, on its way to the disk too, and the oldest one makes room', async () => {
  const folder = join(stateDir, 'results');
  mkdirSync(folder);
  using room = roomOn(() => readdirSync(folder).reduce((sum, it) => sum + statSync(join(folder, it)).size, 0));
  await using log = new ResultLog({
    folder,
    limits: { ...defaultLimits, resultLogWaitingBytesMax: 64 * MiB },
    powers: systemPowers(),
    room,
  });
  const owner = { sessionId: 's', callId: 'c' };
  const pieces = Array.from({ length: 40 }, () => Buffer.alloc(MiB));
  for (const it of pieces) log.append(owner, 'stdout', it);
  log.end(owner, { status: 'done' });
  const first = await log.ofCall('c', 's');
  await first?.flush();
  expect(await first?.extent()).toMatchObject({ cut: 'disk' });
  expect((await first?.extent())?.bytesTotal).toBeLessThanOrEqual(36 * MiB);
  log.append({ ...owner, callId: 'd' }, 'stdout', Buffer.alloc(MiB));
  expect(await log.ofCall('c', 's')).toBeUndefined();
});
