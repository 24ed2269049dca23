/** Lines of files that are too large to be read whole, beside the same lines of a file that is not. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type ToolRunOptions, toolFolder, toolRunner } from '../../support/search.ts';

const read = (workspace: string, input: object, limits: ToolRunOptions['limits'] = {}) =>
  toolRunner({ workspace, limits }).run('file_read', { path: 'a', ...input });

test('lines of a large file are those of a small one, with the same count of lines and hash', async () => {
  using folder = toolFolder();
  const text = fc.array(fc.constantFrom('a', 'é', '\n', '\r\n', 'b\n'), { minLength: 1, maxLength: 12 });
  const line = fc.integer({ min: 1, max: 6 });
  await fc.assert(
    fc.asyncProperty(text, line, line, async (parts, startLine, more) => {
      const content = `${parts.join('')}${'\nx'.repeat(12)}`; // Longer than any range, which alone is bounded.
      writeFileSync(join(folder.workspace, 'a'), content);
      const range = { startLine, endLine: startLine + more };
      const whole = await read(folder.workspace, range);
      const fileBytesMax = Buffer.byteLength(content) - 1;
      expect(await read(folder.workspace, range, { fileBytesMax })).toEqual(whole);
    }),
    { numRuns: 100 },
  );
});

test('three lines of a log of 14 MB are read, and more than the bound is refused', async () => {
  using folder = toolFolder();
  const lines = Array.from({ length: 700_000 }, (_, at) => `line ${at + 1} of a log\n`);
  writeFileSync(join(folder.workspace, 'a'), lines.join(''));
  expect(await read(folder.workspace, { startLine: 600_001, maxLines: 3 })).toMatchObject({
    content: lines.slice(600_000, 600_003).join(''),
    lines: 700_000,
    size: lines.join('').length,
    truncated: true,
  });
  for (const input of [{}, { startLine: 2 }])
    await expect(read(folder.workspace, input)).rejects.toMatchObject({ code: 'FILE_LIMIT' });
  await expect(read(folder.workspace, { startLine: 700_001 })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
});
