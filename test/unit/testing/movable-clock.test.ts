import { expect, test } from 'vitest';
import { systemPowers, type Timer } from '../../../src/base/powers.ts';
import { MovableClock } from '../../../src/testing/movable-clock.ts';

/** A base clock that stands still until `pass` is called. */
function standing() {
  let nowMs = 0;
  const timers = new Set<{ at: number; fn: () => void }>();
  const powers = {
    ...systemPowers(),
    now: () => 1000 + nowMs,
    monotonicMs: () => nowMs,
    after(delayMs: number, fn: () => void): Timer {
      const timer = { at: nowMs + delayMs, fn };
      timers.add(timer);
      return { cancel: () => void timers.delete(timer) };
    },
  };
  const pass = (ms: number) => {
    nowMs += ms;
    for (const it of timers)
      if (it.at <= nowMs) {
        timers.delete(it);
        it.fn();
      }
  };
  return { powers, pass, timers };
}

function started() {
  const base = standing();
  const clock = new MovableClock(base.powers, 5000);
  const fired: string[] = [];
  return { ...base, clock, fired, note: (name: string) => () => void fired.push(`${name} at ${clock.now()}`) };
}

test('begins at its time, goes on with the base clock, and moves by what is skipped', () => {
  const { clock, pass } = started();
  expect(clock.now()).toBe(5000);
  pass(7);
  clock.advance(100);
  expect([clock.now(), clock.powers.now(), clock.powers.monotonicMs()]).toEqual([5107, 5107, 107]);
});

test('fires what is due once, in the order of its time, and leaves the rest its time', () => {
  const { clock, pass, fired, note, timers } = started();
  const { after, every } = clock.powers;
  after(50, note('late'));
  after(20, note('early'));
  after(200, note('rest'));
  const repeated = every(30, note('repeated'));
  clock.advance(100);
  expect(fired).toEqual(['early at 5100', 'repeated at 5100', 'late at 5100']);
  pass(30);
  expect(fired.slice(3)).toEqual(['repeated at 5130']);
  repeated.cancel();
  pass(70);
  expect(fired.slice(4)).toEqual(['rest at 5200']);
  expect(timers.size).toBe(0);
});

test('does not fire what another timer cancelled, and takes back no time', () => {
  const { clock, fired, note, pass } = started();
  const cancelled = clock.powers.after(20, note('cancelled'));
  clock.powers.after(10, () => cancelled.cancel());
  clock.advance(100);
  pass(100);
  expect(fired).toEqual([]);
  for (const it of [-1, Number.NaN, Number.POSITIVE_INFINITY])
    expect(() => clock.advance(it)).toThrow(`a clock moves by 0 ms or more, not by ${it}`);
});
