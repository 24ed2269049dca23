/** Results of calls as MCP's. */
import { expect, test } from 'vitest';
import type { ToolResult } from '../../../src/call.ts';
import { defaultLimits } from '../../../src/limits.ts';
import { toCallResult } from '../../../src/mcp/map.ts';

const parts = { limits: defaultLimits, links: true, keep: () => 'kept' };
const contentOf = (data: unknown) =>
  toCallResult({ success: true, data, callId: 'c', metadata: {} } as unknown as ToolResult, parts).content;

test('content of kinds is given in the kinds of MCP', () => {
  const content = [
    { type: 'text', text: 'a' },
    { type: 'image', mimeType: 'image/png', data: 'AAAA' },
  ];
  expect(contentOf({ content })).toEqual(content);
});

test.each([
  [{ content: [], count: 3 }],
  [{ content: [{ type: 'text' }] }],
  [{ content: [{ type: 'image', data: 7 }] }],
  [{ content: [null] }],
])('data of a plugin that only looks like that is told whole: %j', (data) => {
  expect(contentOf(data)).toEqual([{ type: 'text', text: JSON.stringify(data) }]);
});
