/** Patterns of parameters: they are checked, and none can take long. */
import { expect, test } from 'vitest';
import { defaultLimits as limits } from '../../../src/base/limits.ts';
import { FILE, toConnector } from '../../../src/services/connectors/connector.ts';
import { toToolset } from '../../../src/services/connectors/toolset.ts';
import { PinError } from '../../../src/services/pinned/pin-error.ts';

/** Parses a value of a parameter with the schema. */
function parser(schema: object): (value: unknown) => unknown {
  const input = JSON.stringify({ p: { description: 'P.', ...schema } });
  const text = `
connector: c
base: https://c.example
operations: { x: { description: X., request: { method: POST, path: /x, body: json }, input: ${input}, output: {} } }
`;
  const named = toToolset(toConnector({ [FILE]: text }, limits, 'c'), { assertConfigured() {} }).get('c__x');
  if (!named) throw new Error('the connector has no tool');
  return (p) => (named.parse({ p }) as { p: unknown }).p;
}

const MAIL = '^[\\w.+-]+@example\\.com$';

test.each([
  [{ type: 'string', pattern: MAIL }, 'a.b@example.com', 'a@evil.com'],
  [{ type: 'string', pattern: 'b' }, 'abc', 'ac'],
  [{ type: 'string', pattern: '^\\u0061\\/[^\\]]$' }, 'a/x', 'a/]'],
  [{ type: 'array', items: { type: 'string', pattern: MAIL } }, ['a@example.com'], ['a@example.com', 'b@evil.com']],
  [{ type: 'object', properties: { a: { type: 'string', pattern: '^x$' } } }, { a: 'x' }, { a: 'y' }],
  [{ type: 'object', additionalProperties: { type: 'string', pattern: '^x$' } }, { k: 'x' }, { k: 'y' }],
  [
    {
      anyOf: [
        { type: 'string', pattern: '^x$' },
        { type: 'string', pattern: '^y$' },
      ],
    },
    'y',
    'z',
  ],
  [
    {
      anyOf: [
        { type: 'string', pattern: MAIL },
        { type: 'array', items: { type: 'string', pattern: MAIL } },
      ],
    },
    ['a@example.com'],
    ['b@evil.com'],
  ],
  [{ anyOf: [{ type: 'string', pattern: '^x$' }, { type: 'number' }] }, 7, 'y'],
])('the schema %j takes %j and refuses %j', (schema, good, bad) => {
  const parse = parser(schema);
  expect(parse(good)).toEqual(good);
  expect(() => parse(bad)).toThrow(/must match/);
});

test("a parameter's error names the place of the wrong value", () => {
  expect(() => parser({ type: 'array', items: { type: 'string', pattern: '^x$' } })(['x', 'y'])).toThrow(
    expect.objectContaining({ issues: [expect.objectContaining({ path: ['p', 1], message: 'must match ^x$' })] }),
  );
});

test('a pattern that takes for ever in JavaScript takes no time', () => {
  const parse = parser({ type: 'string', pattern: '^(a+)+(a|aa)*$' });
  const startedMs = performance.now();
  expect(() => parse(`${'a'.repeat(limits.connectorPatternCharsMax - 1)}b`)).toThrow('must match');
  expect(performance.now() - startedMs).toBeLessThan(1_000);
});

test('a value that is longer than patterns are compared with is refused with the bound', () => {
  const parse = parser({ type: 'string', pattern: '^a*$' });
  expect(() => parse('a'.repeat(limits.connectorPatternCharsMax + 1))).toThrow('has more than 4096 characters');
});

test.each(['(?=a)b', '(a)\\1', '(?<!a)b', 'a{1001}'])(
  'a file with the pattern %s is refused with the reason',
  (pattern) => {
    expect(() => parser({ type: 'string', pattern })).toThrow(PinError);
    expect(() => parser({ type: 'string', pattern })).toThrow(
      /operations\.x\.input\.p\.pattern: can't be checked in linear time: /,
    );
  },
);
