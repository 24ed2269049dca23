/** The shared name lookup, with a test clock and resolver. */
import { expect, test } from 'vitest';
import { DnsCache } from '../../../src/sandbox/egress/dns-cache.ts';

function namesWith(ttlMs: number | undefined, limits = { egressNamesKeptMax: 2, egressNameKeptMs: 1000 }) {
  const asked: string[] = [];
  const clock = { ms: 1 };
  const answer = { fails: false, hold: Promise.resolve() };
  const names = new DnsCache({
    limits,
    powers: { monotonicMs: () => clock.ms },
    ttlOf: async () => ttlMs,
    async resolve(name) {
      asked.push(name);
      await answer.hold;
      if (answer.fails) throw new Error('ENOTFOUND');
      return [`192.0.2.${asked.length}`];
    },
  });
  /** Looks up a name, and waits for its TTL. */
  const lookup = async (name: string) => {
    const found = await names.lookup(name);
    await new Promise((done) => setImmediate(done));
    return found;
  };
  return { names, lookup, asked, clock, answer };
}

test('connections that want one name at once share one lookup', async () => {
  const { names, asked } = namesWith(undefined);
  const all = await Promise.all(Array.from({ length: 20 }, () => names.lookup('registry.test')));
  expect(asked).toEqual(['registry.test']);
  expect(all).toEqual(Array.from({ length: 20 }, () => ['192.0.2.1']));
});

test('addresses are kept for the TTL of their name, and not longer', async () => {
  const { lookup, asked, clock } = namesWith(60);
  expect(await lookup('a.test')).toEqual(['192.0.2.1']);
  clock.ms += 59;
  expect(await lookup('a.test')).toEqual(['192.0.2.1']);
  clock.ms += 2;
  expect(await lookup('a.test')).toEqual(['192.0.2.2']);
  expect(asked).toHaveLength(2);
});

test('a TTL of days is cut to the bound', async () => {
  const { lookup, clock } = namesWith(864e5);
  await lookup('a.test');
  clock.ms += 1001;
  expect(await lookup('a.test')).toEqual(['192.0.2.2']);
});

test.each([0, undefined])('a TTL of %s keeps nothing', async (ttlMs) => {
  const { lookup, asked } = namesWith(ttlMs);
  await lookup('a.test');
  await lookup('a.test');
  expect(asked).toHaveLength(2);
});

test('a failure is told to everybody who waits for it, and asked for again by the next', async () => {
  const { names, lookup, answer } = namesWith(60);
  answer.fails = true;
  const both = await Promise.allSettled([names.lookup('a.test'), names.lookup('a.test')]);
  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  answer.fails = false;
  expect(await lookup('a.test')).toEqual(['192.0.2.2']);
});

test('no more names are kept than the bound says', async () => {
  const { lookup, asked } = namesWith(900);
  for (const name of ['a.test', 'b.test', 'c.test', 'a.test']) await lookup(name);
  expect(asked).toEqual(['a.test', 'b.test', 'c.test', 'a.test']);
});
