import { describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { decide, decideTool, otherNames } from '../../../src/policy/decide.ts';
import { parsePolicy } from '../../../src/policy/load.ts';
import type { ToolDefinition } from '../../../src/services/providers/messages.ts';
import { providersSchema, toProviderSettings } from '../../../src/services/providers/settings.ts';
import { assertPresentable, takeListed, toNamedTool } from '../../../src/services/providers/tool.ts';
import { questionOf } from '../../support/policy.ts';

const context = { env: {}, toShownFolder: String, toWorkspace: String, toPath: String };
const named = (inputSchema: object, provider: object = { command: ['a'] }) => {
  const [settings] = toProviderSettings(providersSchema.parse({ fix: provider }) as never, context);
  const definition: ToolDefinition = {
    name: 'do',
    description: 'Does.',
    inputSchema: inputSchema as ToolDefinition['inputSchema'],
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
  ])('a schema that can not be listed is found before a list is made: %j', (schema) => {
    expect(() => assertPresentable(named(schema))).toThrow(TypeError);
  });

  test.each([
    [{}],
    [{ type: 'object' }],
    [{ type: 'object', properties: { a: { $ref: '#/x' } }, $defs: {} }],
    [{ allOf: [] }],
  ])('an odd but readable schema is taken: %j', (schema) => {
    expect(() => assertPresentable(named(schema))).not.toThrow();
  });

  test('a schema with a pattern that never ends is not tried', () => {
    const { parse } = named({ type: 'object', properties: { a: { type: 'string', pattern: '(a+)+$' } } });
    const input = { a: `${'a'.repeat(40)}!` };
    expect(parse(input)).toEqual(input);
  });
});

test('messages of a compromised host are shown as any others, and no tool twice', () => {
  const [settings] = toProviderSettings(providersSchema.parse({ fix: { command: ['a'] } }) as never, context);
  const schema = (description: string) => ({ type: 'object', properties: { a: { description } } });
  const told = {
    tools: [
      { name: 'do', description: 'Does\u202e it\u001b[8m.', inputSchema: schema('x\u200by') },
      { name: 'do', description: 'Does another thing.', inputSchema: schema('z') },
      { name: 'do\n\u001b[1A', description: '', inputSchema: schema('z') },
      { name: 'large', description: '', inputSchema: schema('z'.repeat(100_000)) },
      { name: 'odd', description: '', inputSchema: { type: 'object', properties: { a: null } } },
    ],
    refused: [],
    server: { name: 'x', version: '1' },
  };
  const { tools, refused } = takeListed(told, { settings: settings as never, limits: defaultLimits });
  expect(tools).toEqual([{ name: 'do', description: 'Does it[8m.', inputSchema: schema('xy') }]);
  expect(refused.map(({ reason }) => reason.slice(0, 25))).toEqual([
    'another tool has this nam',
    'a name takes 1 to 128 let',
    'its schema has 100055 byt',
    'its schema is none: Canno',
  ]);
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
  expect(() => tool.effects(parse({ to: 'other.org', files: [long] }) as never)).toThrow(
    /at most 262144 are allowed in one call/,
  );
});

test('a tool that the operator deprecates says so to models and callers', () => {
  const provider = { command: ['a'], tools: { do: { deprecated: { replacement: 'new__do' } } } };
  const { tool, warnings } = named({ type: 'object' }, provider);
  expect(tool.summary).toMatch(/^\(Deprecated: use new__do instead\) /);
  expect(warnings?.({})).toEqual(['fix__do is deprecated: use new__do instead']);
  expect(named({ type: 'object' }).warnings?.({})).toEqual([]);
});

describe('a policy names the tools of providers', () => {
  const { tool } = named({ type: 'object' });
  test.each([
    ['fix__do', 'deny'],
    ['*', 'deny'],
    ['mcp:*', 'deny'],
    ['mcp:fix/*', 'deny'],
    ['mcp:fix/do', 'deny'],
    ['mcp:other/*', 'ask'],
    ['fix', 'ask'],
  ])('`tools.disable: [%s]` makes it %s', (pattern, decision) => {
    const policy = parsePolicy(`tools: { disable: ["${pattern}"] }\n`, 'p.yaml');
    expect(decideTool(policy, tool)).toBe(decision);
    const asker = { principal: 'p', session: 's', sawUntrusted: false };
    const question = questionOf({ tool: tool.name, aliases: otherNames(tool), tier: tool.tier });
    expect(decide(policy, { ...question, ...asker }).decision).toBe(decision);
  });
});
