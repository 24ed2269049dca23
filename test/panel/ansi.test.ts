/** Output of programs as spans of text: colours are kept, everything else that an escape sequence can do is not. */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { PLAIN, spansOf } from '../../panel/src/parts/ansi.ts';

const ESC = '\u001b';
const spans = (text: string) => spansOf(text, PLAIN).spans;

test.each([
  [
    'a colour and its end',
    `${ESC}[31mred${ESC}[0m plain`,
    [
      ['red', 'c1'],
      [' plain', ''],
    ],
  ],
  [
    'bright and bold',
    `${ESC}[1;92mok${ESC}[22m still green`,
    [
      ['ok', 'c10 b'],
      [' still green', 'c10'],
    ],
  ],
  [
    'a colour beyond the sixteen, which is left out',
    `${ESC}[38;5;200mpink${ESC}[38;2;1;2;3mtrue`,
    [
      ['pink', ''],
      ['true', ''],
    ],
  ],
  [
    'a moved cursor and a cleared screen',
    `a${ESC}[2J${ESC}[10;10Hb`,
    [
      ['a', ''],
      ['b', ''],
    ],
  ],
  ['a link', `${ESC}]8;;http://x\u0007text${ESC}]8;;${ESC}\\`, [['text', '']]],
  ['a title that never ends', `a${ESC}]0;title`, [['a', '']]],
  ['control characters', 'a\u0008\u0000b\tc\r\nd', [['ab\tc\nd', '']]],
])('the ANSI reader turns into spans: %s', (_, text, expected) => {
  expect(spans(text).map((it) => [it.text, it.kind])).toEqual(expected);
});

test('a colour goes on in the next piece of output', () => {
  const { ink } = spansOf(`${ESC}[33mwarn`, PLAIN);
  expect(spansOf('ing', ink).spans).toEqual([{ text: 'ing', kind: 'c3' }]);
});

test('no control character but tab and line feed is left of any text', () => {
  const piece = fc.constantFrom(ESC, '[', ']', ';', '0', '31', 'm', 'H', '\u0007', '\u009b', '\r', '\n', '<b>', 'x');
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const text = spans(pieces.join(''))
        .map((it) => it.text)
        .join('');
      expect(text).not.toMatch(/[^\P{Cc}\t\n]/u);
    }),
  );
});
