import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ServingTurns } from '../../../src/wire/protocol/serving-turns.ts';

function serving(servingTurnMs: number) {
  let nowMs = 0;
  const turns = new ServingTurns({ servingTurnMs }, { monotonicMs: () => nowMs });
  const begun: string[] = [];
  /** A connection with several requests, each of which takes a millisecond, most of it after a promise. */
  const connection = (name: string, requests: number) => {
    let left = requests;
    turns.enter(() => {
      left -= 1;
      begun.push(name);
      void Promise.resolve()
        .then(() => {})
        .then(() => (nowMs += 1));
      return left > 0;
    });
  };
  return { connection, begun };
}

test('requests of one round are begun for so long, and the rest in later rounds', async () => {
  const { connection, begun } = serving(5);
  connection('a', 40);
  const rounds: number[] = [];
  while (begun.length < 40) {
    const before = begun.length;
    await setImmediate();
    rounds.push(begun.length - before);
  }
  // The end of one round and the start of the next fall between two looks.
  expect(Math.max(...rounds)).toBeLessThanOrEqual(14);
});

test('connections take turns, one request each', async () => {
  const { connection, begun } = serving(5);
  connection('a', 4);
  connection('b', 2);
  while (begun.length < 6) await setImmediate();
  expect(begun).toEqual(['a', 'a', 'b', 'a', 'b', 'a']);
});

test('many connections have no more of a round than one has', async () => {
  const { connection, begun } = serving(5);
  for (let at = 0; at < 200; at++) connection(`${at}`, 1);
  await Promise.resolve();
  await setImmediate();
  expect(begun.length).toBeLessThanOrEqual(14);
});
