import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { TaskStore } from '../../../src/services/agents/task-store.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ringfence-tasks-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const open = (limits: object = {}) =>
  new TaskStore(join(folder, 'tasks.db'), { ...defaultLimits, ...limits }, systemPowers());
const about = (taskId: string, principal = 'ada') => ({
  taskId,
  principal,
  callId: 'c',
  sessionId: 's',
  workspace: '/w',
  agent: 'default',
  model: 'm',
  prompt: 'p',
  startedAt: new Date(0).toISOString(),
  parents: [],
});
const end = { ended: 'done' as const, endedAt: new Date(1).toISOString() };

test('the newest tasks are kept, and those that run whatever their age', () => {
  using store = open({ tasksKept: 2 });
  for (const it of ['a', 'b', 'c', 'd']) {
    store.begin(about(it));
    store.append(it, { kind: 'answer' });
    if (it !== 'a') store.end(it, end);
  }
  store.begin(about('e'));
  expect(store.list(undefined, 9).map((it) => it.taskId)).toEqual(['e', 'd', 'a']);
  expect(store.find(undefined, 'b')).toBeUndefined();
  expect(store.find(undefined, 'd')?.transcript).toEqual([{ kind: 'answer' }]);
});

test('a transcript has its bound, and says that it was cut', () => {
  using store = open({ taskTranscriptBytes: 50 });
  store.begin(about('a'));
  for (const text of ['x'.repeat(20), 'y'.repeat(40), 'z']) store.append('a', { text });
  expect(store.find('ada', 'a')).toMatchObject({ truncated: true, transcript: [{ text: 'x'.repeat(20) }] });
});

test('a principal sees its own tasks, and no others', () => {
  using store = open();
  store.begin(about('a'));
  store.begin(about('b', 'bob'));
  expect(store.list('ada', 9).map((it) => it.taskId)).toEqual(['a']);
  expect([store.find('ada', 'b'), store.find('', 'b')]).toEqual([undefined, undefined]);
  expect(store.list(undefined, 1).map((it) => it.taskId)).toEqual(['b']);
});

test('tasks of an earlier daemon that did not end have ended by an error, and an end is final', () => {
  {
    using store = open();
    store.begin(about('a'));
    store.begin(about('b'));
    store.end('b', end);
    store.end('b', { ...end, ended: 'error' });
  }
  using store = open();
  expect(store.list(undefined, 9)).toMatchObject([
    { taskId: 'b', ended: 'done', running: false },
    { taskId: 'a', ended: 'error', reason: 'the daemon ended while the task ran', running: false },
  ]);
});
