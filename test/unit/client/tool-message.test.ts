/** A result in the form of a model's tool answer. */
import { describe, expect, test } from 'vitest';
import type { ToolResult } from '../../../src/base/call.ts';
import { ToolError } from '../../../src/base/errors.ts';
import { toToolMessage } from '../../../src/client/client.ts';

const metadata: ToolResult['metadata'] = {
  durationMs: 1,
  queuedMs: 0,
  cached: false,
  retriesAttempted: 0,
  timestamp: '2026-01-01T00:00:00.000Z',
  undo: 'none',
  resources: { cpuMs: 1, outputBytes: 1, verdict: 'ok', enforcedBy: 'rlimit' },
};
const succeeded = (data: unknown, more: object = {}): ToolResult => ({
  callId: 'c',
  tool: 'file_read',
  success: true,
  data,
  metadata: { ...metadata, ...more },
});
const failed: ToolResult = {
  callId: 'c',
  tool: 'file_read',
  success: false,
  metadata,
  error: new ToolError('NOT_FOUND', 'there is no file a', { suggestion: 'List the folder.' }).toWire(),
};

describe('a success', () => {
  const result = succeeded({ content: 'one\ntwo\n', lines: 2 });
  const text = 'one\ntwo\n';

  test('a success is an item of the Responses API', () => {
    expect(toToolMessage('openai', 'call_1', result)).toEqual({
      type: 'function_call_output',
      call_id: 'call_1',
      output: text,
    });
  });
  test('a success is a message of Chat Completions', () => {
    expect(toToolMessage('openai-chat', 'call_1', result)).toEqual({
      role: 'tool',
      tool_call_id: 'call_1',
      content: text,
    });
  });
  test('a success is a block of the Messages API without an error', () => {
    expect(toToolMessage('anthropic', 'toolu_1', result)).toEqual({
      type: 'tool_result',
      tool_use_id: 'toolu_1',
      content: text,
    });
  });
});

test('a failure tells its code, what happened and what to do, and is marked where the API has a mark', () => {
  expect(toToolMessage('anthropic', 'toolu_1', failed)).toEqual({
    type: 'tool_result',
    tool_use_id: 'toolu_1',
    content: 'NOT_FOUND: there is no file a\nList the folder.',
    is_error: true,
  });
  expect(toToolMessage('openai', 'call_1', failed).output).toMatch(/^NOT_FOUND: /);
});

test('warnings, what the call was kept from and what is missing of its output reach the model', () => {
  const denied = [{ kind: 'connect', target: 'example.org:443', layer: 'policy' }];
  const { content } = toToolMessage(
    'openai-chat',
    'call_1',
    succeeded({ stdout: 'x' }, { warnings: ['slow disk'], denied, truncated: { bytesTotal: 99, ref: 'r' } }),
  );
  expect(content).toBe(
    '{"stdout":"x"}\nwarning: slow disk\n' +
      'kept from: [{"kind":"connect","target":"example.org:443","layer":"policy"}]\n' +
      '[not all output is here: it had 99 bytes]',
  );
});

test('a picture of an external provider is named and not sent as a megabyte of letters', () => {
  const data = { content: [{ type: 'image', mimeType: 'image/png', data: 'A'.repeat(1e6) }] };
  expect(toToolMessage('anthropic', 'toolu_1', succeeded(data)).content).toBe(
    '{"content":[{"type":"image","mimeType":"image/png","data":"[1000000 base64 characters are left out]"}]}',
  );
});
