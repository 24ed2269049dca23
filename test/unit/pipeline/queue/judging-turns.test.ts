import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { type Powers, systemPowers } from '../../../../src/base/powers.ts';
import { JudgingTurns } from '../../../../src/pipeline/queue/judging-turns.ts';

/** A clock that moves only while something is judged, or by hand; due timers fire then. */
function clock() {
  let nowMs = 0;
  let timers: { atMs: number; fn: () => void }[] = [];
  const powers: Powers = {
    ...systemPowers(),
    monotonicMs: () => nowMs,
    after: (delayMs, fn) => {
      const timer = { atMs: nowMs + delayMs, fn };
      timers.push(timer);
      const cancel = () => {
        timers = timers.filter((it) => it !== timer);
      };
      return { cancel };
    },
  };
  const work = (ms: number) => {
    nowMs += ms;
  };
  /** Moves the clock, fires due timers, and lets their work run. */
  const pass = async (ms: number) => {
    for (let left = ms; left >= 0; left--) {
      const due = timers.filter((it) => it.atMs <= nowMs);
      timers = timers.filter((it) => !due.includes(it));
      for (const { fn } of due) fn();
      await setImmediate();
      if (left > 0) nowMs += 1;
    }
  };
  return { powers, work, pass };
}

const signal = new AbortController().signal;
const heavy = (session: string, more: object = {}) => ({ line: 'ls', targets: 0, session, signal, ...more });

function judging(limits = defaultLimits) {
  const { powers, work, pass } = clock();
  const turns = new JudgingTurns(limits, powers);
  const judged: string[] = [];
  const judge = async (session: string, ms: number, more: object = {}) => {
    await turns.take(heavy(session, more));
    judged.push(session);
    work(ms);
  };
  return { turns, judge, judged, pass };
}

test('calls are judged at once until ten milliseconds were used, then each waits as long as those before it took', async () => {
  const { judge, judged, pass } = judging();
  for (let i = 0; i < 4; i++) void judge('a', 7);
  await pass(0);
  expect(judged).toEqual(['a', 'a']);
  // 14 ms were used, of which more than 10 must be forgiven first.
  await pass(5);
  expect(judged).toHaveLength(3);
  await pass(7);
  expect(judged).toHaveLength(4);
});

test('the session that used least is next among those that wait, and equals take turns', async () => {
  const { judge, judged, pass } = judging();
  await judge('greedy', 40);
  for (const session of ['greedy', 'greedy', 'b', 'b', 'c', 'c']) void judge(session, 1);
  await pass(60);
  expect(judged.slice(1, 5)).toEqual(['b', 'c', 'b', 'c']);
  expect(judged).toHaveLength(7);
});

test('no session gets around it by others: what one used holds up the judging of all', async () => {
  const { judge, judged, pass } = judging();
  for (let at = 0; at < 8; at++) void judge(`session ${at}`, 7);
  await pass(0);
  expect(judged).toHaveLength(2);
});

test('a call without a command line, and of few targets, waits for nobody', async () => {
  const { turns, judge } = judging();
  await judge('a', 1000);
  await turns.take(heavy('a', { line: undefined, targets: defaultLimits.judgedAtOnceTargets }));
});

test('a call of many targets waits like a command line', async () => {
  const { judge, judged, pass } = judging();
  await judge('a', 20);
  void judge('b', 1, { line: undefined, targets: 1_000 });
  await pass(5);
  expect(judged).toEqual(['a']);
  await pass(6);
  expect(judged).toEqual(['a', 'b']);
});

test('an abort leaves the line, and more than may wait are QUEUE_FULL', async () => {
  const { judge, judged, pass } = judging({ ...defaultLimits, sessionQueueMax: 2 });
  await judge('a', 100);
  const gone = new AbortController();
  const given = judge('a', 1, { signal: gone.signal });
  void judge('a', 1);
  await expect(judge('a', 1)).rejects.toMatchObject({ code: 'QUEUE_FULL' });
  gone.abort(new Error('gone'));
  await expect(given).rejects.toThrow('gone');
  await pass(95);
  expect(judged).toEqual(['a', 'a']);
});
