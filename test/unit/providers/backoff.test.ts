import { expect, test } from 'vitest';
import { backoffMs } from '../../../src/services/providers/backoff.ts';

const limits = { providerBackoffMs: 500, providerBackoffMsMax: 60_000 };

test('each wait is twice the one before it, up to a bound, with up to a half taken off', () => {
  expect([1, 2, 3, 8, 1000].map((attempt) => backoffMs(attempt, limits, 0))).toEqual([500, 1000, 2000, 60_000, 60_000]);
  expect(backoffMs(2, limits, 1)).toBe(500);
});
