/** The fast way through a stream, which looks at bytes, beside the slow one, which looks at text: they never differ. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CREDENTIALS } from '../../../src/redact/credentials.ts';
import { LiteralSearch } from '../../../src/redact/search.ts';
import { TOKENS } from '../../../src/redact/tokens.ts';
import { RedactingStream, redactText } from '../../../src/redact.ts';

const rules = [...TOKENS, ...CREDENTIALS];
const search = new LiteralSearch(rules);
const literals = rules.flatMap((it) => [...it.literals, ...it.literals.map((one) => one.slice(0, -1))]);

const SECRETS = [
  `ghp_${'aB3dE6gH9j'.repeat(4)}`,
  `password=${'q7Rt2LmZ9x'}`,
  `-----BEGIN PRIVATE KEY-----\n${'MIIEvQIBADANBgkqhkiG9w0BAQEFAASC'.repeat(80)}\n-----END PRIVATE KEY-----`,
  'https://user:s3cretPw9@host/x',
  `eyJhbGciOiJIUzI1NiJ9.${'eyJzdWIiOiIxMjM0NTY3ODkwIn0aB3'.repeat(40)}.sig`,
];
const part = fc.oneof(
  fc.constantFrom(...literals, ...SECRETS, ' ', '\n', '=', ': ', '"', 'é', '\u0000'),
  fc.string({ maxLength: 20 }),
  fc
    .tuple(fc.constantFrom('-', 'a', 'took=12ms\n', 'sk', 'toke'), fc.integer({ min: 1, max: 700 }))
    .map(([it, n]) => it.repeat(n)),
);
const bytesOf = fc.array(part, { maxLength: 30 }).map((it) => Buffer.from(it.join(''), 'utf8'));

test('a stream cut anywhere gives what the whole text gives', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 5000 }), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(bytesOf, sizes, fc.nat(3), (bytes, all, shift) => {
      // At an address of any parity.
      const room = Buffer.alloc(bytes.length + shift);
      bytes.copy(room, shift);
      const stream = new RedactingStream();
      const out: Uint8Array[] = [];
      for (let at = shift, turn = 0; at < room.length; turn++) {
        const size = all[turn % all.length] as number;
        out.push(Buffer.from(stream.push(room.subarray(at, at + size))));
        at += size;
      }
      out.push(stream.end());
      expect(Buffer.concat(out).toString('latin1')).toBe(redactText(bytes.toString('latin1')));
    }),
    { numRuns: 1000 },
  );
});

/** The first literal at or after `from` that not all of its rules dismiss. */
function nextOf(text: string, bytes: Uint8Array, from: number): number | undefined {
  for (let found = search.next(text, from); found; found = search.next(text, found.at + 1)) {
    const { at, end, rules } = found;
    if (!rules.every((it) => it.dismisses?.(bytes, end))) return at;
  }
  return undefined;
}

test('what a rule dismisses it says nothing of, whatever follows', () => {
  const rules = [...TOKENS, ...CREDENTIALS].filter((it) => it.dismisses);
  expect(rules.length).toBeGreaterThan(0);
  const piece = fc.constantFrom('@', ':', '/', 'a', 'user', 's3cretPw9', ' ', '"', 'é', 'x'.repeat(200));
  const texts = fc.array(piece, { maxLength: 12 }).map((it) => it.join(''));
  fc.assert(
    fc.property(fc.constantFrom(...rules), texts, texts, (rule, known, after) => {
      const literal = rule.literals[0] as string;
      const [bytes, end] = [Buffer.from(literal + known, 'latin1'), literal.length];
      if (!rule.dismisses?.(bytes, end)) return;
      const text = Buffer.from(literal + known + after, 'latin1').toString('latin1');
      expect(rule.look({ text, at: 0, end, final: true })).toBe('none');
    }),
    { numRuns: 2000 },
  );
});

test('what begins is found in bytes exactly where it is found in text', () => {
  fc.assert(
    fc.property(bytesOf, fc.nat(40), (bytes, from) => {
      const text = bytes.toString('latin1');
      const begin = Math.min(from, text.length);
      expect(search.nextInBytes(bytes, begin)).toBe(nextOf(text, bytes, begin));
      expect(search.begunInBytes(bytes, begin)).toBe(search.begun(text, begin));
    }),
    { numRuns: 1000 },
  );
});

test('the first look at a text by its low bytes finds each literal that the search by characters does, wherever it stands', () => {
  const near = (n: number) => fc.integer({ min: n - 4, max: n + 4 });
  const length = fc.oneof(fc.integer({ min: 0, max: 200 }), near(16_384), near(32_766));
  const pad = fc.tuple(fc.constantFrom('x', '-', 'щ', '👍', '瀠'), length).map(([it, n]) => it.repeat(n).slice(0, n));
  const middle = fc.oneof(fc.constantFrom(...literals, ...SECRETS), fc.string({ maxLength: 20 }));
  const text = fc.tuple(pad, middle, pad).map((it) => it.join(''));
  fc.assert(
    fc.property(text, (it) => {
      const seen: number[] = [];
      expect(search.some(it, ({ at }) => seen.push(at) === 0)).toBe(false);
      expect(seen).toEqual(placesOf(it));
      expect(search.some(it, () => true)).toBe(seen.length > 0);
    }),
    { numRuns: 500 },
  );
});

function placesOf(text: string): number[] {
  const places: number[] = [];
  for (let found = search.next(text, 0); found; found = search.next(text, found.at + 1)) places.push(found.at);
  return places;
}
