import { spawnSync } from 'node:child_process';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { systemPowers } from '../../src/base/powers.ts';

const powers = systemPowers();

afterEach(() => {
  vi.useRealTimers();
});

const timeOf = (uuid: string): number => Number.parseInt(uuid.replaceAll('-', '').slice(0, 12), 16);

describe('uuid', () => {
  test('a uuid is a version 7 of the RFC variant', () => {
    for (let i = 0; i < 1000; i++)
      expect(powers.uuid()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });

  test('sorts in the order of making, also when thousands are made within a millisecond', () => {
    const made = Array.from({ length: 20_000 }, () => powers.uuid());
    expect(made.toSorted()).toEqual(made);
    expect(new Set(made).size).toBe(made.length);
  });

  test('sorts in the order of making over all powers of one process', () => {
    const other = systemPowers();
    const made = Array.from({ length: 2000 }, (_, i) => (i % 2 ? other : powers).uuid());
    expect(made.toSorted()).toEqual(made);
  });

  test('begins with the time in milliseconds', () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_000 });
    expect(timeOf(powers.uuid())).toBe(Date.now());
  });

  test('sorts in the order of making when the clock goes back an hour, and when it stands still', () => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 7_200_000 });
    const before = powers.uuid();
    vi.setSystemTime(Date.now() - 3_600_000);
    const after = Array.from({ length: 10_000 }, () => powers.uuid());
    expect([before, ...after].toSorted()).toEqual([before, ...after]);
  });
});

test('a secret is 32 bytes in hex and never the same twice', () => {
  const secrets = Array.from({ length: 100 }, () => powers.secret());
  for (const secret of secrets) expect(secret).toMatch(/^[0-9a-f]{64}$/);
  expect(new Set(secrets).size).toBe(100);
});

describe('a timer', () => {
  test('fires once, after its delay and not before', () => {
    vi.useFakeTimers();
    let fired = 0;
    powers.after(20, () => (fired += 1));
    vi.advanceTimersByTime(19);
    expect(fired).toBe(0);
    vi.advanceTimersByTime(1000);
    expect(fired).toBe(1);
  });

  test('a cancelled timer does not fire, even if cancelled twice, and a fired one may be cancelled', () => {
    vi.useFakeTimers();
    const fired: string[] = [];
    const cancelled = powers.after(1, () => fired.push('cancelled'));
    const kept = powers.after(2, () => fired.push('kept'));
    cancelled.cancel();
    cancelled.cancel();
    vi.advanceTimersByTime(1000);
    kept.cancel();
    expect(fired).toEqual(['kept']);
  });

  test('does not keep its process alive', () => {
    const script = "import { systemPowers } from './src/base/powers.ts'; systemPowers().after(600_000, () => {});";
    const { status, signal } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { timeout: 20_000 });
    expect([status, signal]).toEqual([0, null]);
  });
});
