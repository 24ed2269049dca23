import { expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import type { ToolInfo } from '../../../src/tools/capability.ts';
import { declarationsOf } from '../../../src/tools/declarations.ts';
import { builtinToolset, toolsOf, toToolInfo } from '../../../src/tools/registry.ts';

const info = (name: string, inputSchema: object): ToolInfo =>
  ({ name, inputSchema, outputSchema: { properties: { a: {}, b: {} } } }) as ToolInfo;
const schema = {
  type: 'object',
  properties: {
    path: { type: 'string' },
    n: { type: 'integer' },
    kind: { enum: ['x', 'y'] },
    all: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'null' }] } },
    env: { type: 'object', additionalProperties: { type: 'string' } },
    any: {},
  },
  required: ['path'],
};

test('a tool is told by its parameters and the names of what it gives', () => {
  expect(declarationsOf([info('t', schema)], 1000).split('\n')[1]).toBe(
    't({path: string, n?: number, kind?: "x"|"y", all?: (string|null)[], env?: {[name: string]: string}, any?: unknown}): {a, b}',
  );
});

test('less is told where there is no room: no results, then names alone, then as many as fit', () => {
  const tools = [info('first', schema), info('second', schema)];
  const whole = declarationsOf(tools, 1000);
  expect(declarationsOf(tools, whole.length - 1)).not.toContain('{a, b}');
  expect(declarationsOf(tools, 100)).toMatch(/\nfirst second$/);
  expect(declarationsOf(tools, 60).length).toBeLessThanOrEqual(61);
});

test('all built-in tools fit with their results', () => {
  const infos = toolsOf(builtinToolset()).map((it) => toToolInfo(it, 'allow'));
  expect(declarationsOf(infos, defaultLimits.codeDeclarationsChars)).toContain('file_read({path: string');
  expect(declarationsOf(infos, defaultLimits.codeDeclarationsChars)).toContain('truncated}');
});
