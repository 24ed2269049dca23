import { describe, expect, test } from 'vitest';
import { escapeUnseen, showBlock, showLine, visible } from '../../../src/text/shown-text.ts';

/** Each class of invisible characters, by name. */
const UNSEEN: [string, string][] = [
  ['a control', '\x1b'],
  ['C1', '\u009b'],
  ['a direction', '\u202e'],
  ['an isolate', '\u2066'],
  ['zero width', '\u200b'],
  ['a joiner between letters', '\u200d'],
  ['a soft hyphen', '\u00ad'],
  ['a line separator', '\u2028'],
  ['a paragraph separator', '\u2029'],
  ['a tag', '\u{e0041}'],
  ['an unassigned tag', '\u{e0002}'],
  ['a variation selector after a letter', '\ufe0f'],
  ['a supplementary variation selector', '\u{e0101}'],
  ['a Hangul filler', '\u3164'],
  ['a grapheme joiner', '\u034f'],
  ['half a character', '\ud800'],
];

describe('a character that nobody sees', () => {
  test.each(UNSEEN)('(%s) is an escape on every face', (_, it) => {
    const shownAs = `\\u{${(it.codePointAt(0) as number).toString(16)}}`;
    const text = `a${it}b`;
    expect(visible(text)).toBe(`a${shownAs}b`);
    expect(showLine(text)).toBe(`a${shownAs}b`);
    expect(showBlock(text, 1)).toEqual([`   | a${shownAs}b`]);
    const json = JSON.stringify({ text });
    const escaped = escapeUnseen(json);
    expect(escaped).not.toContain(it);
    expect(JSON.parse(escaped)).toEqual({ text });
  });
});

test('letters, emoji of several parts and the ends of lines are left as they are', () => {
  const text = 'Ærøskøbing\t日本 🇩🇰 👩🏽‍🚀 ❤️ 👨‍👩‍👧\nnext';
  expect(visible(text)).toBe(text);
  expect(showLine('one\ntwo')).toBe('one\\u{a}two');
});
