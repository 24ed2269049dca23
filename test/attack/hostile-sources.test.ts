/**
 * Sources that parsers, linters, formatters and compilers crash on or take long for, through every code tool that reads
 * them: the call ends with an answer or a code, and the next call is answered. All tools run in this process, so a
 * parser that ran here would end it.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ToolError } from '../../src/base/errors.ts';
import { type ToolFolder, toolFolder, writeFiles } from '../support/search.ts';

let folder: ToolFolder;
beforeAll(() => {
  folder = toolFolder();
});
afterAll(() => folder[Symbol.dispose]());
beforeEach(() => {
  execFileSync('find', [folder.workspace, '-mindepth', '1', '-delete']);
  writeFiles(folder.workspace, { 'tsconfig.json': '{ "compilerOptions": { "noEmit": true } }' });
});

type Call = [tool: Parameters<ToolFolder['tools']['run']>[0], input: Record<string, unknown>];
const NAMED = { symbol: 'one', path: 'a.ts', preview: true };
/** What each tool is asked about a.ts. What parsers and ruff take is tried with their own tools' tests. */
const CALLS: Record<string, Call> = {
  code_graph: ['code_graph', { show: 'unused' }],
  code_type_check: ['code_type_check', { files: ['a.ts'] }],
  code_lint: ['code_lint', { paths: ['a.ts'], engine: 'builtin', fix: true }],
  code_format: ['code_format', { paths: ['a.ts'], engine: 'builtin', check: true }],
  code_rewrite: ['code_rewrite', { pattern: 'one + 1', rewrite: 'one + 2', language: 'typescript', preview: true }],
  'rename by code_refactor': ['code_refactor', { operation: 'rename', ...NAMED, newName: 'uno' }],
  'move_file of a directory by code_refactor': [
    'code_refactor',
    { operation: 'move_file', path: 'dir', to: 'moved', preview: true },
  ],
};

const put = (value: string) =>
  writeFiles(folder.workspace, {
    'a.ts': `const one = 1;\nexport const two = one + 1;\nexport const value = ${value};\nexport * from './dir/inner.ts';\n`,
    'dir/inner.ts': "import { two } from '../a.ts';\nexport const three = two;\n",
  });

describe.each(Object.entries(CALLS))('%s', (name, [tool, input]) => {
  test(`${name} ends with an answer or a code for a source that nests 20 000 deep, and works after it`, async () => {
    put(`${'['.repeat(20_000)}${']'.repeat(20_000)}`);
    const signal = AbortSignal.timeout(NESTED_MS);
    const end = await folder.tools.run(tool, input, signal).then(
      () => undefined,
      (error: unknown) => error,
    );
    // Anything but a tool's error and the end of its time is a fault of ours.
    if (end !== undefined && end !== signal.reason) expect(end).toBeInstanceOf(ToolError);
    put('1');
    await folder.tools.run(tool, input);
  }, 60_000);

  test(`${name} takes a source of 200 000 tokens`, async () => {
    put(`[${Array.from({ length: 100_000 }, (_, at) => at).join(', ')}]`);
    await folder.tools.run(tool, input);
  }, 60_000);
});

/** TypeScript checks nested lists in a time that doubles with each level, and ends with the call. */
const NESTED_MS = 4_000;

test('positions count UTF-16 units in findings, and changes are made where they are found', async () => {
  const line = "/* 😀é */ export const a = (x: number) => '😀' + eval(x) + x;";
  writeFiles(folder.workspace, { 'a.ts': `${line}\n`, 'b.ts': `${line}\n`, 'c.ts': `${line}\n` });
  const { security } = await folder.tools.run<{ security: { column: number }[] }>('code_analyze', {
    path: 'a.ts',
    checks: ['security'],
  });
  expect(security.map((it) => it.column)).toEqual([line.indexOf('eval') + 1]);
  await folder.tools.run('code_rewrite', {
    pattern: 'eval($A)',
    rewrite: 'é($A)',
    language: 'typescript',
    include: ['b.ts'],
  });
  expect(readFileSync(join(folder.workspace, 'b.ts'), 'utf8')).toBe(`${line.replace('eval', 'é')}\n`);
  await folder.tools.run('code_format', { paths: ['c.ts'], engine: 'builtin' });
  expect(readFileSync(join(folder.workspace, 'c.ts'), 'utf8')).toBe(`${line.replaceAll("'", '"')}\n`);
});
