import { describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { silentLog, systemPowers } from '../../../src/base/powers.ts';
import { type CacheStrategy, ResultCache } from '../../../src/store/result-cache.ts';

const LIMITS = { ...defaultLimits, cacheEntriesMax: 3, cacheBytesMax: 8000, cacheTtlMs: 1000 };
const yes = () => true;

function create(strategy: CacheStrategy) {
  let now = 1;
  const powers = { ...systemPowers(silentLog), monotonicMs: () => now };
  const cache = new ResultCache<{ name: string }>({ strategy, limits: LIMITS, powers });
  const put = (name: string, bytes = 10, ttlMs?: number) => cache.put(name, { name }, { bytes, ttlMs });
  const has = (name: string) => cache.get(name, yes) !== undefined;
  return { cache, put, has, pass: (ms: number) => (now += ms) };
}

describe('who makes room', () => {
  test('lru: the one unused for longest', () => {
    const { put, has } = create('lru');
    for (const it of ['a', 'b', 'c']) put(it);
    has('a');
    put('d');
    expect(['a', 'b', 'c', 'd'].filter(has)).toEqual(['a', 'c', 'd']);
  });

  test('lfu: the one used least, however lately', () => {
    const { put, has } = create('lfu');
    for (const it of ['a', 'b', 'c']) put(it);
    for (const it of ['a', 'a', 'b', 'b', 'c']) has(it);
    put('d');
    expect(['a', 'b', 'c', 'd'].filter(has)).toEqual(['a', 'b', 'd']);
  });

  test('ttl: the one that expires first', () => {
    const { put, has } = create('ttl');
    put('a', 10, 900);
    put('b', 10, 100);
    put('c', 10, 500);
    put('d');
    expect(['a', 'b', 'c', 'd'].filter(has)).toEqual(['a', 'c', 'd']);
  });

  test('size: the largest', () => {
    const { put, has } = create('size');
    put('a', 10);
    put('b', 900);
    put('c', 100);
    put('d', 10);
    expect(['a', 'b', 'c', 'd'].filter(has)).toEqual(['a', 'c', 'd']);
  });
});

test.each(['lru', 'lfu', 'ttl', 'size'] as const)('%s: bytes, number and age stay within their bounds', (strategy) => {
  const { cache, put, has, pass } = create(strategy);
  for (let at = 0; at < 100; at++) {
    put(`k${at}`, 1 + ((at * 37) % 1000));
    expect(cache.status.entries).toBeLessThanOrEqual(3);
    expect(cache.status.bytes).toBeLessThanOrEqual(8000);
  }
  pass(1001);
  expect(Array.from({ length: 100 }, (_, at) => `k${at}`).filter(has)).toEqual([]);
});

test('a result that would take more than an eighth of the cache is not kept', () => {
  const { put, has } = create('lru');
  put('large', 1001);
  expect(has('large')).toBe(false);
});

test('an outdated result is dropped and counted', () => {
  const { cache, put } = create('lru');
  put('a');
  expect(cache.get('a', () => false)).toBeUndefined();
  expect(cache.get('a', yes)).toBeUndefined();
  expect(cache.status).toMatchObject({ hits: 0, misses: 2, stale: 1, entries: 0 });
});
