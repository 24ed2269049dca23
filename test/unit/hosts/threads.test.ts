/** Which thread a job goes to, and what happens to it when that thread ends. */
import { Socket } from 'node:net';
import { beforeEach, describe, expect, test } from 'vitest';
import { Threads, type ThreadsOptions } from '../../../src/hosts/threads.ts';

let nowMs: number;
let asked: number[];
let ended: number[];
let lost: number[];
let sockets: Socket[];
let threads: Threads;

/** Threads of which the first takes jobs. */
function make(shape: Partial<Pick<ThreadsOptions, 'max' | 'jobsPerThread'>> & { starts?: number } = {}): Threads {
  const { max = 2, jobsPerThread = 16, starts = 2 } = shape;
  [asked, ended, lost, sockets] = [[], [], [], Array.from({ length: starts }, () => new Socket())];
  const made = new Threads({
    sockets,
    max,
    jobsPerThread,
    frameBytesMax: 1000,
    pollMs: 0,
    powers: { monotonicMs: () => nowMs },
    start: (it) => asked.push(it),
    end: (it) => ended.push(it),
    onBytes() {},
    onLost: (it) => lost.push(it.number),
  });
  threads = made;
  open(0);
  return made;
}
beforeEach(() => {
  nowMs = 0;
  make();
});

/** Tells that a thread takes jobs, as its first frame does. */
function open(number: number): void {
  const thread = threads.all[number];
  if (thread) threads.opened(thread);
}

/** Sends a job; gives the thread that it went to, undefined if it waits. */
function run(job: number): number | undefined {
  threads.run({ id: job, tool: 'file_read', input: {} });
  return threads.of(job)?.number;
}
const NONE = { begun: [], stranded: [] };

test('short jobs all go to the first thread', () => {
  for (let job = 0; job < 16; job++) expect(run(job)).toBe(0);
  expect(asked).toEqual([]);
});

test('a thread that a slow job holds up is passed by, as soon as another one is there', () => {
  run(1);
  nowMs = 50;
  expect([run(2), run(3), asked]).toEqual([0, 0, [1]]);
  open(1);
  expect([run(4), run(5)]).toEqual([1, 1]);
  nowMs = 100;
  // Both threads are held up.
  expect(run(6)).toBe(1);
});

test('no more threads run than may', () => {
  make({ starts: 4 });
  for (let job = 0; job < 5; job++) {
    run(job);
    nowMs += 50;
    open(1);
  }
  expect(asked).toEqual([1]);
});

test('a job that finds no room waits, and goes to the next thread that has some', () => {
  make({ jobsPerThread: 1 });
  expect([run(1), run(2), run(3), asked]).toEqual([0, undefined, undefined, [1]]);
  open(1);
  expect([threads.of(2)?.number, threads.of(3)]).toEqual([1, undefined]);
  threads.finish(1);
  expect(threads.of(3)?.number).toBe(0);
});

test('a job that is not wanted any more before a thread has room for it goes to none', () => {
  make({ jobsPerThread: 1 });
  for (const it of [1, 2]) run(it);
  threads.finish(2);
  open(1);
  expect(threads.of(2)).toBeUndefined();
  expect(threads.jobsIn(1)).toEqual([]);
});

describe('a thread that ended', () => {
  test('gives back the jobs that it had begun, and the others go on in another thread', () => {
    make({ starts: 3 });
    for (const it of [1, 2, 3, 4]) run(it);
    threads.finish(1);
    expect(threads.ended(0, 2)).toEqual({ begun: [2], stranded: [] });
    expect([asked, threads.of(3)]).toEqual([[1], undefined]);
    open(1);
    expect(threads.jobsIn(1)).toEqual([
      { id: 3, index: 0 },
      { id: 4, index: 1 },
    ]);
    expect(run(5)).toBe(1);
  });

  test('a thread that ended is replaced until as many were started as may, and then its host is worn', () => {
    make({ max: 1, starts: 2 });
    expect([threads.ended(0, 0), asked, threads.worn]).toEqual([NONE, [1], false]);
    open(1);
    expect([threads.ended(1, 0), asked, threads.worn]).toEqual([NONE, [1], true]);
  });

  test('strands the jobs that no other thread can take', () => {
    make({ max: 1, starts: 1 });
    for (const it of [1, 2]) run(it);
    expect(threads.ended(0, 1)).toEqual({ begun: [1], stranded: [2] });
    expect(threads.worn).toBe(true);
  });

  test('takes no job after its socket failed, and its host is asked about it', () => {
    make({ starts: 3 });
    run(1);
    sockets[0]?.emit('error', new Error('EPIPE'));
    expect([lost, run(2), threads.ended(0, 1)]).toEqual([[0], undefined, { begun: [1], stranded: [] }]);
  });

  test('an end of a thread that a taken-over host made up is ignored', () => {
    open(1);
    open(7);
    expect([threads.ended(7, 3), threads.worn, run(1)]).toEqual([NONE, false, 0]);
  });
});

test('a thread that is idle for long ends, but not the last one, nor one that keeps something or can not be replaced', () => {
  make({ starts: 4, jobsPerThread: 1 });
  for (const it of [1, 2]) run(it);
  open(1);
  for (const it of [1, 2]) threads.finish(it);
  nowMs = 1000;
  threads.reap(1000);
  expect(ended).toEqual([]);
  nowMs = 1001;
  const [, second] = threads.all;
  if (second) second.kept = 1;
  threads.reap(1000);
  expect(ended).toEqual([0]);
  threads.reap(1000);
  expect([ended, threads.worn]).toEqual([[0], false]);
  make({ starts: 2, jobsPerThread: 1 });
  for (const it of [1, 2]) run(it);
  open(1);
  for (const it of [1, 2]) threads.finish(it);
  nowMs = 9999;
  threads.reap(1000);
  expect(ended).toEqual([]);
});
