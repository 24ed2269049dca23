import { expect, test } from 'vitest';
import { builtinTools } from '../../../../src/tools/builtin.ts';
import { LoadedTools } from '../../../../workers/host/loaded-tools.ts';

test('a thread loads the tools that its calls name, and no others', async () => {
  const tools = new LoadedTools();
  expect(tools.loaded).toEqual([]);
  const read = await tools.named('file_read');
  expect(read).toBe(builtinTools.file_read);
  expect(await tools.named('file_read')).toBe(read);
  expect(tools.loaded).toEqual([read]);
});

test('each built-in tool, and the one that undoes calls, can be loaded', async () => {
  const tools = new LoadedTools();
  for (const name of [...Object.keys(builtinTools), 'calls_undo']) expect((await tools.named(name))?.name).toBe(name);
});

test.each(['no_such_tool', 'toString', '__proto__', 'constructor'])('%s is no tool', async (name) => {
  expect(await new LoadedTools().named(name)).toBeUndefined();
});
