/** Validation of data, also by schemas that never end. */
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { toolRunner } from '../../support/search.ts';

let workspace: string;
beforeAll(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-validate-')));
});
afterAll(() => rmSync(workspace, { recursive: true }));

interface Validated {
  valid: boolean;
  errors: { path: string; message: string; line?: number; column?: number }[];
  truncated: boolean;
}
const validate = (input: Record<string, unknown>) => toolRunner({ workspace }).run<Validated>('data_validate', input);

test.each([
  ['json', '{"a": 1,\n "b" 2}', { line: 2, column: 6 }],
  ['json', '[1,]', { line: 1, column: 4 }],
  ['json', '// no\n1', { line: 1, column: 1 }],
  ['json', '', { line: 1, column: 1 }],
  ['jsonc', '{\n  // fine\n  "a": [1,],\n  "b": x }', { line: 4, column: 8 }],
  ['yaml', 'a: 1\nb: [1, 2\nc: 3\n', { line: 3, column: 1 }],
  ['yaml', 'a: 1\na: 2\n', { line: 2, column: 1 }],
  ['yaml', 'a: &x 1\nb: *y\n', { message: 'nothing before it has the anchor of the alias y', line: 2, column: 4 }],
  ['yaml', 'a: 1\n---\nb: 2\n', { message: 'a second document; one is checked at a time', line: 2, column: 1 }],
  ['toml', 'a = 1\nb = = 2\n', { line: 2, column: 5 }],
])('broken %s %j is invalid, and where it is broken is told', async (format, data, spot) => {
  const { valid, errors } = await validate({ format, data });
  expect(valid).toBe(false);
  expect(errors[0]).toMatchObject(spot);
});

test.each([
  ['jsonc', '{ /* a */ "a": [1,], }'],
  ['yaml', 'a: &x [1]\nb: *x\n'],
  ['toml', 'at = 2026-11-21T10:00:00Z\n[t]\nx = 1\n'],
])('whole %s is valid', async (format, data) => {
  expect(await validate({ format, data })).toEqual({ valid: true, errors: [], truncated: false });
});

test('a text is valid JSON where the engine itself can read it, and only there', async () => {
  const text = fc.oneof(
    fc.json(),
    fc.string(),
    fc.json().map((it) => it.replace(/[,:\]}"]/, '')),
    fc.constant('\uFEFF{}'),
  );
  await fc.assert(
    fc.asyncProperty(text, async (data) => {
      let reads = true;
      try {
        JSON.parse(data);
      } catch {
        reads = false;
      }
      expect((await validate({ data })).valid).toBe(reads);
    }),
    { numRuns: 200 },
  );
});

test.each([
  ['json', '{"a": [1,\n "x"]}', { line: 2, column: 2 }],
  ['yaml', 'a:\n  - 1\n  - x\n', { line: 3, column: 5 }],
  ['toml', 'a = [1, "x"]\n', {}],
])(
  'a value that does not fit a schema is reported by its path, in %s by its position too',
  async (format, data, spot) => {
    const schema = { properties: { a: { items: { type: 'integer' } } } };
    expect((await validate({ format, data, schema })).errors).toEqual([
      { path: '/a/1', message: 'must be integer', ...spot },
    ]);
  },
);

test('a schema of 2020-12 holds by its own words', async () => {
  const schema = { prefixItems: [{ const: 1 }], items: false, $defs: { x: {} }, unevaluatedItems: false };
  expect(await validate({ data: '[1]', schema })).toMatchObject({ valid: true });
  expect(await validate({ data: '[1, 2]', schema })).toMatchObject({ valid: false });
  expect((await validate({ data: '{"b":1}', schema: { additionalProperties: false } })).errors).toMatchObject([
    { message: 'must NOT have additional properties: "b"' },
  ]);
});

test('a schema that refers to itself as a whole holds at every depth', async () => {
  const schema = { properties: { n: { type: 'number' }, child: { $ref: '#' } } };
  expect(await validate({ data: '{"child": {"child": {"n": 1}}}', schema })).toMatchObject({ valid: true });
  expect((await validate({ data: '{"child": {"child": {"n": "x"}}}', schema })).errors).toMatchObject([
    { path: '/child/child/n', message: 'must be number' },
  ]);
});

test('data that lies in itself is more than a schema that recurses can check, and that is said', async () => {
  const said = { valid: false, errors: [{ message: expect.stringContaining('within itself') }] };
  for (const schema of [{ items: { $ref: '#' } }, { uniqueItems: true }])
    expect(await validate({ format: 'yaml', data: '- &a [*a]\n- &b [*b]\n', schema })).toMatchObject(said);
});

test.each([
  ['toml', 'a = inf\nb = -inf\nc = nan\n'],
  ['yaml', 'a: .inf\nb: -.inf\nc: .nan\n'],
])('numbers that JSON has no word for are numbers in %s', async (format, data) => {
  const schema = { additionalProperties: { type: 'number' } };
  expect(await validate({ format, data, schema })).toMatchObject({ valid: true });
});

test('integers of 64 bits are valid TOML, whatever a double holds of them; those of more are not', async () => {
  const schema = { additionalProperties: { type: 'integer', minimum: -1e19, maximum: 1e19 } };
  const data = 'a = 9223372036854775807\nb = -9223372036854775808\nc = 0x20000000000001\nd = [1]\n';
  expect(await validate({ format: 'toml', data })).toEqual({ valid: true, errors: [], truncated: false });
  expect(await validate({ format: 'toml', data: data.replace('[1]', '1'), schema })).toMatchObject({ valid: true });
  expect(await validate({ format: 'toml', data: 'a = 9223372036854775808' })).toMatchObject({
    valid: false,
    errors: [{ message: 'the integer 9223372036854775808 needs more than 64 bits' }],
  });
});

test.each([
  ['a pattern that repeats what repeats', JSON.stringify(`${'a'.repeat(40)}!`), { type: 'string', pattern: '^(a+)+$' }],
  ['a schema that doubles at each step', '1', doubling(40)],
])('%s is ended in time, and a call beside it is not held up', async (_, data, schema) => {
  const from = performance.now();
  await expect(validate({ data, schema })).rejects.toMatchObject({ code: 'CPU_LIMIT' });
  expect(performance.now() - from).toBeLessThan(2000);
  expect(await validate({ data: '1', schema: {} })).toMatchObject({ valid: true });
});

function doubling(depth: number): object {
  const steps = Array.from({ length: depth }, (_, at) => [
    `s${at}`,
    { allOf: [{ $ref: `#/$defs/s${at + 1}` }, { $ref: `#/$defs/s${at + 1}` }] },
  ]);
  return { $ref: '#/$defs/s0', $defs: { ...Object.fromEntries(steps), [`s${depth}`]: {} } };
}

test.each([
  ['a reference to elsewhere', { $ref: 'https://example.com/schema.json' }],
  ['a reference to a file', { $ref: 'other.json' }],
  ['no schema', { type: 7 }],
  ['an older draft', { $schema: 'http://json-schema.org/draft-07/schema#' }],
  ['too large a schema', { enum: ['x'.repeat(200_000)] }],
])('%s is INPUT_INVALID', async (_, schema) => {
  await expect(validate({ data: '1', schema })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
});

test('aliases that multiply are refused, and so is what nests without end', async () => {
  const bomb = [
    'a: &a [x]',
    ...'bcdefghij'.split('').map((it, at) => `${it}: &${it} [${`*${'abcdefghi'[at]},`.repeat(9)}]`),
  ];
  expect(await validate({ format: 'yaml', data: bomb.join('\n') })).toMatchObject({
    errors: [{ message: expect.stringContaining('aliases multiply') }],
  });
  for (const format of ['json', 'yaml']) {
    const deep = validate({ format, data: '['.repeat(200_000) });
    expect(await deep.catch((it: { code: string }) => it)).toSatisfy(
      (it) => it.errors?.[0].message === 'nested too deep to be read' || it.code === 'CPU_LIMIT',
    );
  }
});

test('__proto__ in data is a key like others', async () => {
  const schema = { additionalProperties: false };
  for (const [format, data] of [
    ['json', '{"__proto__": 1}'],
    ['yaml', '__proto__: 1'],
    ['toml', '__proto__ = 1'],
  ]) {
    expect(await validate({ format, data, schema })).toMatchObject({ valid: false });
  }
});

test('no more than 100 problems are told, and files are bounded', async () => {
  const { errors, truncated } = await validate({
    data: JSON.stringify(Array(500).fill('x')),
    schema: { items: { type: 'number' } },
  });
  expect(errors).toHaveLength(100);
  expect(truncated).toBe(true);
  writeFileSync(join(workspace, 'large.json'), ' '.repeat(2 ** 20 + 1));
  await expect(validate({ path: 'large.json' })).rejects.toMatchObject({ code: 'FILE_LIMIT' });
  writeFileSync(join(workspace, 'tsconfig.json'), '{ /* fine */ }');
  expect(await validate({ path: 'tsconfig.json' })).toMatchObject({ valid: true });
});
