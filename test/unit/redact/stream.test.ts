/** A text in chunks is redacted like the whole text; literals are found at any position. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CREDENTIALS } from '../../../src/base/redact/credentials.ts';
import { LiteralSearch } from '../../../src/base/redact/search.ts';
import { TOKENS } from '../../../src/base/redact/tokens.ts';
import { RedactingStream, redactText } from '../../../src/base/redact.ts';

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
      // At an address of either parity.
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

test('each literal is found wherever it stands, also beside characters whose low bytes look like it', () => {
  const near = (n: number) => fc.integer({ min: n - 4, max: n + 4 });
  const length = fc.oneof(fc.integer({ min: 0, max: 200 }), near(16_384), near(32_766));
  const pad = fc.tuple(fc.constantFrom('x', '-', 'щ', '👍', '瀠'), length).map(([it, n]) => it.repeat(n).slice(0, n));
  const middle = fc.oneof(fc.constantFrom(...literals, ...SECRETS), fc.string({ maxLength: 20 }));
  const text = fc.tuple(pad, middle, pad).map((it) => it.join(''));
  fc.assert(
    fc.property(text, (it) => {
      expect(placesOf(it)).toEqual(placesByIndexOf(it));
    }),
    { numRuns: 500 },
  );
});

/** The expected positions, found by the simplest search. */
function placesByIndexOf(text: string): number[] {
  const places = new Set<number>();
  for (const { literals: all, anyCase } of rules)
    for (const literal of all) {
      const within = anyCase ? text.replaceAll(/[A-Z]/g, (it) => it.toLowerCase()) : text;
      for (let at = within.indexOf(literal); at >= 0; at = within.indexOf(literal, at + 1)) places.add(at);
    }
  return [...places].sort((a, b) => a - b);
}

function placesOf(text: string): number[] {
  const places: number[] = [];
  for (let found = search.next(text, 0); found; found = search.next(text, found.at + 1)) places.push(found.at);
  return places;
}
