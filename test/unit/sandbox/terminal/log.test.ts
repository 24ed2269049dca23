import fc from 'fast-check';
import { expect, test } from 'vitest';
import { TerminalLog } from '../../../../src/sandbox/terminal/log.ts';

test('the log gives back what was pushed from any position, and the number of overwritten bytes', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ maxLength: 40 })),
      fc.nat(200),
      fc.integer({ min: 4, max: 64 }),
      (texts, seq, size) => {
        const log = new TerminalLog(size);
        const all = Buffer.from(texts.map((it) => it.replaceAll(/[^ -~]/g, '.')).join(''));
        for (const text of texts) log.push(Buffer.from(text.replaceAll(/[^ -~]/g, '.')));
        const { text, seq: next, missedBytes } = log.after(seq, 1000);
        const from = Math.min(seq, all.length);
        const start = Math.max(from, all.length - size);
        expect({ text, next, missedBytes }).toEqual({
          text: all.subarray(start).toString(),
          next: all.length,
          missedBytes: start - from,
        });
      },
    ),
  );
});

test('no character is cut, whatever the size of a page', () => {
  const text = 'aé€😀'.repeat(20);
  for (const page of [4, 5, 6, 7, 11]) {
    const log = new TerminalLog(1000);
    log.push(Buffer.from(text));
    let read = '';
    for (let seq = 0; seq < log.end; ) {
      const excerpt = log.after(seq, page);
      expect(excerpt.seq).toBeGreaterThan(seq);
      read += excerpt.text;
      seq = excerpt.seq;
    }
    expect(read).toBe(text);
  }
});

test('a character that has not come whole is left for the next answer', () => {
  const log = new TerminalLog(100);
  const euro = Buffer.from('€');
  log.push(Buffer.concat([Buffer.from('x'), euro.subarray(0, 2)]));
  expect(log.after(0, 100)).toMatchObject({ text: 'x', seq: 1 });
  log.push(euro.subarray(2));
  expect(log.after(1, 100)).toMatchObject({ text: '€', seq: 4 });
});
