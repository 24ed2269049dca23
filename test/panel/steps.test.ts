/** Composed steps as calls, batch files and programs: what is written in a field is what the call gets. */
import { expect, test } from 'vitest';
import { layOut } from '../../panel/src/batches/layout.ts';
import { outputsOf, parametersOf } from '../../panel/src/compose/schema.ts';
import {
  freeId,
  fromBatchFile,
  type Step,
  toBatchFile,
  toCall,
  WHOLE_INPUT,
  withInputs,
} from '../../panel/src/compose/steps.ts';
import { toProgram } from '../../src/pipeline/batch/program.ts';

const SCHEMA = {
  type: 'object',
  properties: {
    limit: { type: 'integer' },
    path: { type: 'string' },
    force: { type: 'boolean' },
    list: { type: 'array', items: { type: 'string' } },
  },
  required: ['path'],
};
const parameters = parametersOf(SCHEMA);
const step = (id: string, fields: Record<string, string>, after: string[] = []): Step => ({
  id,
  tool: 'some_tool',
  fields: new Map(Object.entries(fields)),
  after,
});

test('parameters that are needed come first, and each has its kind', () => {
  expect(parameters?.map(({ name, kind, isRequired }) => [name, kind, isRequired])).toEqual([
    ['path', 'text', true],
    ['limit', 'json', false],
    ['force', 'json', false],
    ['list', 'json', false],
  ]);
  expect(parametersOf({ anyOf: [{ type: 'object' }] })).toBeUndefined();
});

test('outputs are named as references name them', () => {
  const output = {
    properties: { files: { items: { properties: { path: {}, 'odd name': {} } } }, count: {} },
    anyOf: [{ properties: { more: {} } }],
  };
  expect(outputsOf(output)).toEqual(['data.files', 'data.files[0]', 'data.files[0].path', 'data.count', 'data.more']);
  expect(outputsOf(undefined)).toEqual([]);
});

test('texts stay as they are, other fields are JSON or one reference, and empty ones are left out', () => {
  const call = toCall(step('a', { path: '1', limit: '${b.data.count}', list: '["x"]', force: '' }, ['b']), parameters);
  expect(call).toEqual({
    id: 'a',
    tool: 'some_tool',
    dependsOn: ['b'],
    input: { path: '1', limit: '${b.data.count}', list: ['x'] },
  });
  expect(toCall(step('a', {}), parameters).input).toEqual({ path: '' });
  expect(() => toCall(step('a', { limit: 'few' }), parameters)).toThrow('In limit of a is neither JSON nor one');
  expect(toCall(step('a', { [WHOLE_INPUT]: '{"x": 1}' }), undefined).input).toEqual({ x: 1 });
});

test('a parameter that is named like a property of all objects is one like any other', () => {
  const own = parametersOf(JSON.parse('{"properties": {"__proto__": {"type": "string"}}}'));
  expect(own).toHaveLength(1);
  const { input } = toCall({ id: 'a', tool: 't', fields: new Map([['__proto__', 'x']]), after: [] }, own);
  expect(Object.keys(input as object)).toEqual(['__proto__']);
});

test('a batch file is read again as the steps that it was written from', () => {
  const steps = [
    step('a', { path: 'x', limit: '3' }),
    step('b', { path: 'before ${a.data.text} after', force: 'true', list: '${a.data.list}' }, ['a']),
  ];
  const file = toBatchFile(steps.map((it) => toCall(it, parameters)));
  expect(fromBatchFile(file, () => parameters)).toEqual(steps);
  expect(fromBatchFile('[{"id": "a", "tool": "t", "input": {"odd": 1}}]', () => parameters)).toEqual([
    { id: 'a', tool: 't', after: [], fields: new Map([[WHOLE_INPUT, '{\n  "odd": 1\n}']]) },
  ]);
  const many = JSON.stringify(Array.from({ length: 101 }, (_, at) => ({ id: `c${at}`, tool: 't' })));
  expect(() => fromBatchFile(many, () => parameters)).toThrow('The file has 101 calls; at most 100');
  for (const text of ['{', '{}', '{"calls": [{}]}', 'null'])
    expect(() => fromBatchFile(text, () => parameters)).toThrow(/is neither JSON|is no batch|has no id/);
});

test('a program takes the parts that references name, and texts stay texts', async () => {
  const calls = [
    { id: 'a', tool: 'make', input: {} },
    {
      id: 'b',
      tool: 'odd.name',
      input: { whole: '${a.data.list[1].x}', text: 'n=${a.n}; $${a.n} `${a}` ${HOME}', deep: [{ y: '${a.n}' }] },
    },
    { id: 'c', tool: 'take', input: '', dependsOn: ['b'] },
  ];
  const code = toProgram(calls, ['a', 'b', 'c']);
  const seen: unknown[] = [];
  const tools = {
    make: async () => ({ n: 7, list: [0, { x: { deep: true } }] }),
    'odd.name': async (input: unknown) => seen.push(input),
    take: async () => seen.length,
  };
  const AsyncFunction = (async () => {}).constructor as new (...parts: string[]) => (tools: object) => Promise<unknown>;
  expect(await new AsyncFunction('tools', code)(tools)).toMatchObject({ c: 1 });
  expect(seen).toEqual([{ whole: { deep: true }, text: 'n=7; ${a.n} `${a}` ${HOME}', deep: [{ y: 7 }] }]);
});

test('inputs are replaced by their values, and nothing else is', () => {
  const input = { n: '${input.n}', text: '${input.n} of $${input.n}, ${other.n}, ${input.no}' };
  expect(withInputs([{ id: 'a', tool: 't', input }], { n: 7 })).toEqual([
    { id: 'a', tool: 't', input: { n: 7, text: '7 of $${input.n}, ${other.n}, ${input.no}' } },
  ]);
});

test('names of steps are short and free', () => {
  expect(freeId('file_read', [])).toBe('read');
  expect(freeId('file_read', [step('read', {}), step('read2', {})])).toBe('read3');
});

test('a line around the calls between has a place of its own in each column', () => {
  const { at, rows, edges } = layOut([
    { id: 'a', level: 0, dependsOn: [] },
    { id: 'b', level: 1, dependsOn: ['a'] },
    { id: 'c', level: 2, dependsOn: ['b', 'a'] },
  ]);
  const [, , long] = edges;
  expect([rows, edges.map((it) => it.via.length), long?.to]).toEqual([2, [0, 0, 1], 'c']);
  expect(long?.via[0]).not.toEqual(at.get('b'));
  // Each call waits for all before it: too many lines to lead around.
  const ids = Array.from({ length: 40 }, (_, id) => `c${id}`);
  const dense = layOut(ids.map((id, level) => ({ id, level, dependsOn: ids.slice(0, level) })));
  expect([dense.rows, dense.edges.length, dense.edges.every((it) => it.via.length === 0)]).toEqual([1, 780, true]);
});

test('calls are placed by level, beside those that they wait for', () => {
  const { at, columns, rows, edges } = layOut([
    { id: 'a', level: 0, dependsOn: [] },
    { id: 'b', level: 0, dependsOn: [] },
    { id: 'after b', level: 1, dependsOn: ['b', 'not drawn'] },
    { id: 'after a', level: 1, dependsOn: ['a'] },
  ]);
  expect([columns, rows]).toEqual([2, 2]);
  expect(edges).toEqual([
    { from: 'b', to: 'after b', via: [] },
    { from: 'a', to: 'after a', via: [] },
  ]);
  expect(at.get('after a')).toEqual({ column: 1, row: 0 });
  expect(at.get('after b')).toEqual({ column: 1, row: 1 });
});
