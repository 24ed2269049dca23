/** What a person sees of a changed tool before accepting it. */
import { expect, test } from 'vitest';
import { changesOf } from '../../../src/cli/providers/providers.ts';

const withTypes = (from: string, to: string) => ({
  name: 'copy',
  inputSchema: { type: 'object', properties: { from: { type: from }, to: { type: to } }, required: ['from'] },
});

test('parameters that change places are shown, although the words stay the same', () => {
  expect(changesOf(withTypes('string', 'number'), withTypes('number', 'string'))).toEqual([
    '- inputSchema.properties.from.type: "string"',
    '- inputSchema.properties.to.type: "number"',
    '+ inputSchema.properties.from.type: "number"',
    '+ inputSchema.properties.to.type: "string"',
  ]);
});

test('an unchanged value is not shown, and a new one is shown whole', () => {
  const long = 'x'.repeat(1200);
  expect(changesOf({ a: [1], b: {} }, { a: [1], b: {} })).toEqual([]);
  expect(changesOf(undefined, { a: long }).map((it) => it.length)).toEqual([502, 502, 207]);
});

test('a name with a dot is not the way to a value within', () => {
  expect(changesOf({ a: { b: 1 } }, { 'a.b': 1 })).toEqual(['- a.b: 1', '+ "a.b": 1']);
});
