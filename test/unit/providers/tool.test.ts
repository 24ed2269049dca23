import { describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/limits.ts';
import type { Definition } from '../../../src/providers/messages.ts';
import { providersSchema, toProviderSettings } from '../../../src/providers/settings.ts';
import { assertPresentable, toNamedTool } from '../../../src/providers/tool.ts';

const places = { env: {}, toShownFolder: String, toWorkspace: String, toPath: String };
const named = (inputSchema: object, provider: object = { command: ['a'] }) => {
  const [settings] = toProviderSettings(providersSchema.parse({ fix: provider }) as never, places);
  const definition: Definition = {
    name: 'do',
    description: 'Does.',
    inputSchema: inputSchema as Definition['inputSchema'],
  };
  const options = { name: 'fix__do', digest: 'sha256:0', limits: defaultLimits, assertAccepted() {} };
  return toNamedTool({ ...options, settings: settings as never, definition });
};

describe('a schema that a server made up', () => {
  test.each([
    [{ type: 'object', properties: { a: { enum: 'x' } } }],
    [{ type: 'object', properties: { a: { anyOf: {} } } }],
    [{ type: 'object', properties: { a: {} }, required: { includes: 'no function' } }],
    [{ type: 'object', properties: { a: null } }],
  ])('that no list can be made of is found before one is: %j', (schema) => {
    expect(() => assertPresentable(named(schema))).toThrow(TypeError);
  });

  test.each([
    [{}],
    [{ type: 'object' }],
    [{ type: 'object', properties: { a: { $ref: '#/x' } }, $defs: {} }],
    [{ allOf: [] }],
  ])('that is odd and readable is taken: %j', (schema) => {
    expect(() => assertPresentable(named(schema))).not.toThrow();
  });

  test('with a pattern that never ends is not tried', () => {
    const { parse } = named({ type: 'object', properties: { a: { type: 'string', pattern: '(a+)+$' } } });
    const input = { a: `${'a'.repeat(40)}!` };
    expect(parse(input)).toEqual(input);
  });
});

test('a call goes to the host of its provider, and where its parameters say', () => {
  const tools = { do: { effects: { connect: ['to'], write: ['files'] } } };
  const { tool, parse } = named({ type: 'object' }, { url: 'https://example.org/mcp', tools });
  expect(tool.effects(parse({ to: 'other.org', files: ['a', 'b'] }) as never)).toEqual([
    { kind: 'connect', target: 'example.org:443' },
    { kind: 'connect', target: 'other.org' },
    { kind: 'write', target: 'a' },
    { kind: 'write', target: 'b' },
  ]);
  const long = 'a'.repeat(defaultLimits.declaredTargetChars);
  expect(() => tool.effects(parse({ to: 'other.org', files: [long] }) as never)).toThrow(/at most 262144 are judged/);
});
