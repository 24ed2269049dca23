import { expect, test } from 'vitest';
import { previewByRunner, runByRunner } from '../../../../src/pipeline/execute/runner.ts';
import { builtinToolset } from '../../../../src/tools/registry.ts';

const callOf = (name: string) => ({ checked: { tool: builtinToolset().get(name)?.tool, input: {} } }) as never;
const withNone = { runners: {}, background: {} } as never;

test('a tool whose capability the daemon lacks is TOOL_DISABLED, and others run in their host', () => {
  for (const name of ['http_request', 'code_run']) {
    expect(() => runByRunner(callOf(name), {} as never, withNone)).toThrow(
      expect.objectContaining({ code: 'TOOL_DISABLED' }),
    );
    expect(() => previewByRunner(callOf(name), {})).toThrow(name);
  }
  expect(runByRunner(callOf('file_read'), {} as never, withNone)).toBeUndefined();
});
