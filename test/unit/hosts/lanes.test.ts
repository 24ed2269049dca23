/** Which lane a job takes, and what happens to it when the lane's thread ends. */
import { Socket } from 'node:net';
import { beforeEach, expect, test } from 'vitest';
import { Lanes } from '../../../src/hosts/lanes.ts';

let nowMs: number;
let asked: number[];
let lost: number[];
let sockets: Socket[];
let lanes: Lanes;
beforeEach(() => {
  nowMs = 0;
  [asked, lost, sockets] = [[], [], [new Socket(), new Socket()]];
  lanes = new Lanes({
    sockets,
    frameBytesMax: 1000,
    pollMs: 0,
    powers: { monotonicMs: () => nowMs },
    open: (lane) => asked.push(lane),
    onBytes() {},
    onLost: (lane) => lost.push(lane.number),
  });
});

const numberOf = (job: number) => lanes.take(job)?.number;

test('short jobs all go by the first one', () => {
  for (let job = 0; job < 16; job++) expect(numberOf(job)).toBe(0);
  expect(asked).toEqual([]);
});

test('one that a slow job holds up is passed by, as soon as another thread is there', () => {
  lanes.take(1);
  nowMs = 50;
  expect([numberOf(2), numberOf(3), asked]).toEqual([0, 0, [1]]);
  lanes.opened(1);
  expect([numberOf(4), numberOf(5)]).toEqual([1, 1]);
  nowMs = 100;
  // Both lanes are held up.
  expect(numberOf(6)).toBe(1);
});

test('no more threads are asked for than there are lanes', () => {
  for (let job = 0; job < 5; job++) {
    lanes.take(job);
    nowMs += 50;
    lanes.opened(1);
  }
  expect(asked).toEqual([1]);
});

test('one whose thread ended gives its jobs back, takes no more, and its host is worn', () => {
  lanes.take(1)?.jobs.delete(1);
  lanes.take(2);
  lanes.take(3);
  expect([lanes.worn, lanes.ended(0), lanes.worn]).toEqual([false, [2, 3], true]);
  expect(lanes.take(4)).toBeUndefined();
  lanes.opened(0);
  expect(lanes.take(5)).toBeUndefined();
});

test('one whose socket fails takes no more, and its host is told of it', () => {
  lanes.take(1);
  sockets[0]?.emit('error', new Error('EPIPE'));
  expect([lost, lanes.take(2), lanes.worn, lanes.ended(0)]).toEqual([[0], undefined, true, [1]]);
});

test('what a host that was taken over says of lanes that there are none of changes nothing', () => {
  lanes.opened(1);
  lanes.opened(7);
  expect([lanes.ended(7), lanes.worn, numberOf(1)]).toEqual([[], false, 0]);
});
