import { describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { toDefinition, toHarmless, toPlainText } from '../../../src/services/providers/text.ts';

const tool = (more: object) => toDefinition({ name: 'a', inputSchema: { type: 'object' }, ...more }, defaultLimits);
const nested = (depth: number): object => (depth === 0 ? {} : { properties: nested(depth - 1) });

describe('what a server says of a tool', () => {
  test('loses what a person does not see: escapes, directions, tags, zero widths', () => {
    const tags = 'do evil'
      .split('')
      .map((it) => String.fromCodePoint(0xe0000 + (it.codePointAt(0) as number)))
      .join('');
    expect(toPlainText(`a\u001b[31mb\u202ec\u200bd${tags}e\u{e0101}f\r\n\tg`, 100)).toBe('a[31mbcdef\n\tg');
    expect(tool({ inputSchema: { properties: { p: { description: `x${tags}` } } } }).inputSchema).toEqual({
      properties: { p: { description: 'x' } },
    });
  });

  test("a tool's description is cut to the part that a model reads", () => {
    expect(tool({ description: 'x'.repeat(100_000) }).description).toHaveLength(
      defaultLimits.providerDescriptionChars + 1,
    );
  });

  test.each([
    ['a schema that refers to elsewhere', { inputSchema: { $ref: 'http://127.0.0.1/x' } }, 'http://127.0.0.1/x'],
    [
      'one deep within',
      { inputSchema: { properties: { a: { $dynamicRef: 'file:///x' } } } },
      'only references within it',
    ],
    ['a schema that is too large', { inputSchema: { description: 'x'.repeat(40_000) } }, 'at most 32768'],
    ['one that is nested too deeply', { inputSchema: nested(100) }, 'nested too deeply'],
    ['parameters that look like others', { inputSchema: { properties: { 'a\u200b': {} } } }, 'unseen characters'],
    ['a schema that is none', { inputSchema: [] }, 'no object'],
    ['a name that is none', { name: 'a b' }, 'a name takes'],
  ])('a tool is refused with %s', (_, more, words) => {
    expect(() => tool(more)).toThrow(words);
  });

  test("a tool's schema may refer to its own parts", () => {
    const inputSchema = { $defs: { a: {} }, properties: { p: { $ref: '#/$defs/a' } } };
    expect(tool({ inputSchema }).inputSchema).toEqual(inputSchema);
  });
});

test('a secret stands in no text', () => {
  expect(toHarmless(['abcdefgh'], 'x abcdefgh yabcdefgh')).toBe('x [secret] y[secret]');
});

test('a secret of several lines is found, however its lines end', () => {
  expect(
    toHarmless(['first line\r\nsecond line'], { a: 'x first line\r\nsecond line', b: 'first line\nsecond line' }),
  ).toEqual({ a: 'x [secret]', b: '[secret]' });
  expect(toHarmless(['\u200b\u200b'], 'text')).toBe('text');
});

test('an answer keeps the joiners between the parts of an emoji', () => {
  expect(toHarmless([], '\u{1f469}\u200d\u{1f4bb} \u2764\ufe0f a\u200db')).toBe(
    '\u{1f469}\u200d\u{1f4bb} \u2764\ufe0f ab',
  );
});
