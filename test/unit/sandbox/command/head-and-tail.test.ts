import fc from 'fast-check';
import { expect, test } from 'vitest';
import { HeadAndTail } from '../../../../src/sandbox/command/head-and-tail.ts';

const chunks = fc.array(fc.string({ unit: 'grapheme', maxLength: 40 }), { maxLength: 40 });

test('a text under the bound is kept whole, and one over it by its start and end in whole characters', () => {
  fc.assert(
    fc.property(chunks, fc.integer({ min: 16, max: 400 }), fc.integer({ min: 1, max: 13 }), (texts, bytesMax, step) => {
      const all = Buffer.from(texts.join('').toWellFormed());
      const kept = new HeadAndTail(bytesMax);
      for (let at = 0; at < all.length; at += step) kept.push(all.subarray(at, at + step));
      const text = kept.text();
      expect(kept.bytesTotal).toBe(all.length);
      if (!kept.truncated) {
        expect(text).toBe(all.toString());
        return;
      }
      const [, head, left, tail] = /^([\s\S]*)\n… (\d+) bytes left out …\n([\s\S]*)$/.exec(text) ?? [];
      expect(all.toString().startsWith(head as string)).toBe(true);
      expect(all.toString().endsWith(tail as string)).toBe(true);
      expect(Buffer.byteLength(`${head}${tail}`) + Number(left)).toBe(all.length);
      expect(Number(left)).toBeLessThanOrEqual(all.length - bytesMax + 8);
    }),
  );
});
