/** Types of real sources, checked by the real language server and compiler. */
import { execFileSync } from 'node:child_process';
import { existsSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Rule } from '../../../../src/policy/schema.ts';
import type { TypeCheck } from '../../../../src/tools/source/typescript.ts';
import { type ToolFolder, toolFolder, toolRunner, writeFiles } from '../../../support/search.ts';

type Checked = TypeCheck & { success: boolean };

let parent: string;
let folder: ToolFolder;
let workspace: string;
let tools: ToolFolder['tools'];

beforeEach(() => {
  folder = toolFolder();
  ({ parent, workspace, tools } = folder);
});
afterEach(() => folder[Symbol.dispose]());

const write = (files: Record<string, string>) => writeFiles(workspace, files);
const check = (input: Record<string, unknown>, signal?: AbortSignal) =>
  tools.run<Checked>('code_type_check', input, signal);

const PROJECT = { 'tsconfig.json': '{ "compilerOptions": { "strict": true, "noEmit": true }, "include": ["src"] }' };

describe('checks of files', () => {
  test('errors are told with their line, their column in UTF-16 units and their code', async () => {
    write({ ...PROJECT, 'src/a.ts': '/* é😀 */ export const a: number = "x";\r\nexport const b: string = 1;\r\n' });
    const found = await check({ path: 'src/a.ts' });
    expect(found).toMatchObject({
      success: false,
      errors: [
        { file: 'src/a.ts', line: 1, column: 24, code: 'TS2322' },
        { file: 'src/a.ts', line: 2, column: 14, code: 'TS2322' },
      ],
      warnings: [],
      totalErrors: 2,
      checkedFiles: 1,
      truncated: false,
      engine: { name: 'typescript', version: expect.stringMatching(/^7\./) },
    });
  });

  test('a check sees changes on disk since the last check, in the file and in its imports', async () => {
    write({ ...PROJECT, 'src/a.ts': 'export const a = 1;\n', 'src/b.ts': "import { a } from './a';\na.toFixed();\n" });
    expect(await check({ files: ['src/b.ts'] })).toMatchObject({ success: true, errors: [] });
    write({ 'src/a.ts': 'export const a = "one";\n' });
    expect(await check({ files: ['src/b.ts'] })).toMatchObject({ success: false, errors: [{ code: 'TS2551' }] });
    write({ 'src/b.ts': "import { a } from './a';\na.trim();\n" });
    expect(await check({ files: ['src/b.ts'] })).toMatchObject({ success: true });
  });

  test('suggestions are listed for who asks for them', async () => {
    write({ ...PROJECT, 'src/a.ts': 'const unused = 1;\nexport {};\n' });
    expect(await check({ path: 'src/a.ts' })).toMatchObject({ success: true, warnings: [] });
    expect(await check({ path: 'src/a.ts', severity: 'suggestion' })).toMatchObject({
      success: true,
      warnings: [{ code: 'TS6133', line: 1, column: 7 }],
    });
  });

  test('a directory without a project is checked file by file, and a file outside of any project on its own', async () => {
    write({ 'lib/a.ts': 'export const a: number = "x";\n', 'lib/b.js': 'export const b = 1;\n', 'lib/c.txt': 'c' });
    expect(await check({ path: 'lib' })).toMatchObject({ checkedFiles: 2, totalErrors: 1 });
    expect(await check({ path: './lib/b.js' })).toMatchObject({ checkedFiles: 1, success: true });
    await expect(check({ path: 'lib/c.txt' })).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    await expect(check({ path: '../x.ts' })).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
    await expect(check({ path: 'gone.ts' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('a module that the policy hides is told as such', async () => {
    const secrets: Rule = {
      id: 'keys',
      layer: 'session',
      source: 'test',
      match: { path: ['**/keys.ts'], effect: ['read'] },
      decision: 'deny',
      reason: 'These are keys.',
    } as unknown as Rule;
    tools = toolRunner({ workspace, rules: [secrets] });
    write({ ...PROJECT, 'src/a.ts': "import { key } from './keyz';\nimport './keys.js';\nkey;\n" });
    const { errors } = await check({ path: 'src/a.ts' });
    expect(errors[0]).not.toHaveProperty('hint');
    expect(errors[1]).toMatchObject({ line: 2, hint: expect.stringContaining('src/keys.ts') });
  });

  test('a server that is killed meanwhile is told, and the next check has another one', async () => {
    execFileSync('mkfifo', [join(workspace, 'pipe.ts')]);
    write({ 'tsconfig.json': '{}', 'a.ts': 'export {};\n' });
    const running = check({ files: ['a.ts'] });
    const failed = expect(running).rejects.toMatchObject({ code: 'HOST_CRASHED' });
    await expect.poll(() => tools.servers.typescript.pid).toBeDefined();
    process.kill(tools.servers.typescript.pid as number, 'SIGKILL');
    await failed;
    rmSync(join(workspace, 'pipe.ts'));
    expect(await check({ files: ['a.ts'] })).toMatchObject({ success: true });
  });
});

describe('checks of projects', () => {
  test('all files of the project are checked, and types of several lines are told whole', async () => {
    write({
      ...PROJECT,
      'src/a.ts': 'export const a: { x: { y: string } } = { x: { z: 1 } } as { x: { z: number } };\n',
      'src/b.ts': 'export const b = 1;\n',
      'test/c.ts': 'const c: number = "outside of the project";\n',
    });
    const found = await check({});
    expect(found).toMatchObject({ success: false, totalErrors: 1, checkedFiles: 2 });
    expect(found.errors[0]).toMatchObject({ file: 'src/a.ts', line: 1, column: 14 });
    expect(found.errors[0]?.message.split('\n').length).toBeGreaterThan(1);
    expect(await check({ path: '.' })).toEqual(found);
    expect(await check({ project: 'tsconfig.json' })).toEqual(found);
  });

  test('the alias of other runtimes checks strictly unless told otherwise', async () => {
    write({
      'p/tsconfig.json': '{ "compilerOptions": { "strict": false } }',
      'p/a.ts': 'export const f = (a) => a;\n',
    });
    expect(await check({ project: 'p' })).toMatchObject({ success: true });
    expect(await check({ project: 'p', strict: true })).toMatchObject({ success: false, errors: [{ code: 'TS7006' }] });
  });

  test('options that only older compilers know are errors of the project, and nothing is written', async () => {
    const options = { target: 'es3', baseUrl: '.', composite: true, tsBuildInfoFile: 'x.tsbuildinfo', outDir: 'out' };
    write({ 'tsconfig.json': JSON.stringify({ compilerOptions: options }), 'a.ts': 'export const a = 1;\n' });
    const { errors, success } = await check({});
    expect(success).toBe(false);
    expect(errors.map((it) => [it.file, it.code, it.isConfig])).toEqual([
      ['tsconfig.json', 'TS6046', true],
      ['tsconfig.json', 'TS5102', true],
    ]);
    expect(existsSync(join(workspace, 'x.tsbuildinfo')) || existsSync(join(workspace, 'out'))).toBe(false);
  });

  test('a hostile project runs nothing and shows nothing of outside', async () => {
    const canary = join(parent, 'canary');
    const evil = `require('node:fs').writeFileSync(${JSON.stringify(canary)}, 'x');\nmodule.exports = {};\n`;
    writeFileSync(join(parent, 'secret.ts'), 'export const key = "hunter2";\nexport const n: number = key;\n');
    write({
      'node_modules/evil/package.json': '{ "name": "evil", "main": "index.js" }',
      'node_modules/evil/index.js': evil,
      'node_modules/evil/tsconfig.js': evil,
      'tsconfig.json': JSON.stringify({
        extends: ['evil', './cycle.json'],
        compilerOptions: { plugins: [{ name: 'evil', transform: 'evil' }], strict: true },
        include: ['**/*', '../**/*'],
        references: [{ path: '../' }],
      }),
      'cycle.json': '{ "extends": "./tsconfig.json" }',
      'a.ts': "import { key } from '../secret';\nexport const n: 1 = key;\n",
    });
    symlinkSync('../secret.ts', join(workspace, 'link.ts'));
    const found = await check({ path: '.' });
    expect(found.success).toBe(false);
    expect(found.errors.map((it) => it.file).filter((it) => it.startsWith('..') || it.startsWith('/'))).toEqual([]);
    expect(JSON.stringify(found)).not.toContain('canary');
    expect(existsSync(canary)).toBe(false);
    await expect(check({ path: 'link.ts' })).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
    await expect(check({ project: '..' })).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
  });

  test('a project that needs more memory than it may have ends its compiler only', async () => {
    tools = toolRunner({ workspace, limits: { typeCheckMemoryBytes: 48 * 1024 * 1024 } });
    write({ 'tsconfig.json': '{}', 'a.ts': 'export const target = 1;\n'.repeat(200_000) });
    await expect(check({})).rejects.toMatchObject({ code: 'MEMORY_LIMIT' });
  });

  test('an aborted check answers at once', async () => {
    execFileSync('mkfifo', [join(workspace, 'pipe.ts')]);
    write({ 'tsconfig.json': '{}' });
    const stop = new AbortController();
    const running = check({}, stop.signal);
    const failed = expect(running).rejects.toThrow('enough');
    stop.abort(new Error('enough'));
    await failed;
  });
});
