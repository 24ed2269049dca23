/** Which calls can be undone, and by whom, across restarts; foreign content of a spool does no harm. */
import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { UndoJournal } from '../../../src/store/undo/undo-journal.ts';
import { temporaryDir } from '../../support/daemon.ts';

let stateDir: string;
let workspace: string;
beforeEach(() => {
  stateDir = temporaryDir('state');
  workspace = temporaryDir('ws');
});
afterEach(() => {
  for (const it of [stateDir, workspace]) fs.rmSync(it, { recursive: true });
});

const open = (limits = {}, now = Date.now()) =>
  new UndoJournal({ stateDir, limits: { ...defaultLimits, ...limits }, powers: { ...systemPowers(), now: () => now } });
const caller = (callId: string, sessionId = 's', principal = 'p') => ({ callId, sessionId, principal, workspace });
const undoer = (id: string, principal = 'p', role: 'agent' | 'operator' = 'agent') => ({
  id,
  principal,
  role,
  workspace,
});

function keep(journal: UndoJournal, of: ReturnType<typeof caller>, bytes = 10): string {
  const key = journal.keyOf(of);
  journal.begin(of);
  const file = join(journal.spoolOf(workspace) as string, key);
  fs.writeFileSync(file, 'x'.repeat(bytes));
  journal.end(key, { undo: 'full', bytes, paths: ['a'] });
  return file;
}

test('a call is found by its own session, its principal and operators, and by nobody else', () => {
  using journal = open();
  keep(journal, caller('c', 's1', 'p1'));
  keep(journal, caller('c', 's2', 'p2'));
  expect(journal.find({ callId: 'c' }, undoer('s1', 'p1'))?.sessionId).toBe('s1');
  expect(journal.find({ callId: 'c' }, undoer('new', 'p1'))?.sessionId).toBe('s1');
  expect(journal.find({ callId: 'c' }, undoer('new', 'p3'))).toBeUndefined();
  expect(journal.find({ callId: 'c' }, undoer('new', 'p3', 'operator'))).toBeDefined();
  expect(journal.find({ callId: 'c' }, undoer('new', 'p2', 'operator'))?.sessionId).toBe('s2');
  expect(journal.find({ callId: 'c', of: 's1' }, undoer('new', 'p2', 'operator'))?.sessionId).toBe('s1');
  expect(journal.find({ callId: 'c', of: 's2' }, undoer('s1', 'p1'))).toBeUndefined();
  expect(journal.find({ callId: 'c', of: 's1' }, undoer('new', 'p1'))?.sessionId).toBe('s1');
});

test('a call that is not over is not found, and is known to the next daemon as cut off', () => {
  const first = open();
  first.begin(caller('c'));
  expect(first.find({ callId: 'c' }, undoer('s'))).toBeUndefined();
  expect(first.cutOff(workspace)).toEqual([]);
  first[Symbol.dispose]();
  using next = open();
  expect(next.cutOff(workspace)).toEqual([next.keyOf(caller('c'))]);
  next.drop(next.keyOf(caller('c')));
  expect(next.cutOff(workspace)).toEqual([]);
});

test('old and unknown journals are removed when a daemon starts', () => {
  const first = open({}, 1_000);
  const old = keep(first, caller('old'));
  const unknown = join(first.spoolOf(workspace) as string, 'f'.repeat(64));
  for (const it of [old, unknown]) fs.mkdirSync(`${it}.large`);
  fs.writeFileSync(unknown, '');
  first[Symbol.dispose]();
  using next = open({ journalKeptMs: 1_000 }, 10_000);
  expect(fs.readdirSync(next.spoolOf(workspace) as string)).toEqual([]);
  expect(next.status).toEqual({ calls: 0, bytes: 0 });
});

test('files that a host planted in its folder are removed without being followed, or left', () => {
  using journal = open({ journalCallsMax: 1 });
  const outside = temporaryDir('outside');
  fs.writeFileSync(join(outside, 'precious'), '');
  const first = keep(journal, caller('1'));
  const large = `${first}.large`;
  fs.mkdirSync(large);
  fs.symlinkSync(outside, join(large, 'link'));
  fs.linkSync(join(outside, 'precious'), join(large, 'hard'));
  const second = keep(journal, caller('2'));
  expect([first, large].map((it) => fs.existsSync(it))).toEqual([false, false]);
  for (const it of [second, `${second}.large`]) {
    fs.rmSync(it, { force: true });
    fs.symlinkSync(outside, it);
  }
  const third = keep(journal, caller('3'));
  fs.rmSync(third);
  fs.mkdirSync(join(third, 'deep'), { recursive: true });
  const fourth = keep(journal, caller('4'));
  expect(fs.readdirSync(outside)).toEqual(['precious']);
  expect(fs.readdirSync(journal.spoolOf(workspace) as string).sort()).toEqual(
    [third, fourth].map((it) => basename(it)).sort(),
  );
  fs.rmSync(outside, { recursive: true });
});

test('exclusive work gives its answer to each caller that comes meanwhile', async () => {
  using journal = open();
  let works = 0;
  const work = async () => [`${++works}`];
  const answers = await Promise.all([journal.runExclusively(workspace, work), journal.runExclusively(workspace, work)]);
  expect(answers).toEqual([['1'], ['1']]);
  expect(await journal.runExclusively(workspace, work)).toEqual(['2']);
});

test('a call whose file made room on a full disk is not to be undone any more, and a workspace that is gone stops no start', () => {
  const first = open();
  fs.rmSync(keep(first, caller('lost')));
  keep(first, caller('kept'));
  first[Symbol.dispose]();
  {
    using next = open();
    expect(next.find({ callId: 'lost' }, undoer('s'))).toBeUndefined();
    expect(next.find({ callId: 'kept' }, undoer('s'))).toBeDefined();
    expect(next.status.calls).toBe(1);
  }
  fs.rmSync(workspace, { recursive: true });
  using last = open({}, Date.now() + 2 * defaultLimits.journalKeptMs);
  expect(last.status.calls).toBe(0);
  fs.mkdirSync(workspace);
});

test('over a bound the principal who keeps most loses the oldest, and others lose nothing', () => {
  using journal = open({ journalBytesMax: 100 });
  const quiet = keep(journal, caller('old', 's1', 'quiet'), 30);
  const loud = Array.from({ length: 8 }, (_, at) => keep(journal, caller(`c${at}`, 's2', 'loud'), 20));
  expect(fs.existsSync(quiet)).toBe(true);
  expect(loud.map((it) => fs.existsSync(it))).toEqual([...Array(5).fill(false), true, true, true]);
  expect(journal.status).toEqual({ calls: 4, bytes: 90 });
});

test('the same holds for their number, and for what an earlier daemon kept', () => {
  {
    using first = open();
    keep(first, caller('old', 's1', 'quiet'));
    for (let at = 0; at < 4; at++) keep(first, caller(`c${at}`, 's2', 'loud'));
  }
  using journal = open({ journalCallsMax: 2 });
  expect(journal.status.calls).toBe(2);
  expect(journal.find({ callId: 'old' }, undoer('s1', 'quiet'))).toBeDefined();
  expect(journal.find({ callId: 'c3' }, undoer('s2', 'loud'))).toBeDefined();
});
