/** Moves of directories with the real language server, written as a host writes them. */
import { existsSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { TypeCheck } from '../../../../src/tools/source/typescript.ts';
import { type ToolFolder, toolFolder, writeFiles } from '../../../support/search.ts';

interface Moved {
  files: { path: string; diff?: string }[];
  moved: { from: string; to: string };
  truncated: boolean;
}

let folder: ToolFolder;
let workspace: string;
let tools: ToolFolder['tools'];
beforeAll(() => {
  folder = toolFolder();
  ({ workspace, tools } = folder);
});
afterAll(() => folder[Symbol.dispose]());
beforeEach(() => {
  for (const it of readdirSync(workspace)) rmSync(join(workspace, it), { recursive: true });
});

const write = (files: Record<string, string>) => writeFiles(workspace, files);
const read = (path: string) => readFileSync(join(workspace, path), 'utf8');
const move = (path: string, to: string, more: object = {}) =>
  tools.run<Moved>('code_refactor', { operation: 'move_file', path, to, ...more });
const errorsOf = async () =>
  (await tools.run<TypeCheck>('code_type_check', { project: '.' })).errors.map((it) => `${it.code} ${it.message}`);

const TREE = {
  'tsconfig.json': `{ "compilerOptions": { "strict": true, "noEmit": true, "module": "nodenext", "allowImportingTsExtensions": true, "paths": { "@lib/*": ["./src/lib/*"] } }, "include": ["src"] }`,
  'src/base.ts': 'export const base = 1;\nexport type Base = number;\n',
  'src/lib/index.ts': "export * from './deep/it.ts';\nexport { base } from '../base.ts';\n",
  'src/lib/deep/it.ts':
    "import type { Top } from '../../top.ts';\nexport const it = (top: Top) => [top, import('../index.ts'), import('../../base.ts')];\nexport type Other = import('../../base.ts').Base;\n",
  'src/lib/style.css': '',
  'src/top.ts': "import { it } from './lib/deep/it.ts';\r\nexport type Top = string;\r\nexport const all = it;\r\n",
  'src/lib2/near.ts': "import { base } from '../lib/index.ts';\nexport const near = base;\n",
  'src/other/alias.ts': "import { it } from '@lib/deep/it.ts';\nexport const alias = it;\n",
  'script/run.mjs':
    "import { base } from '../src/lib/index.ts';\nawait import('../src/lib/deep/it.ts');\nconsole.log(base, '../src/lib/index.ts');\n",
  'script/old.cjs': "const lib = require('../src/lib/index.ts');\n",
};

test('a moved directory keeps what all imports mean, of it and by it, in projects and outside of them', async () => {
  write(TREE);
  expect(await errorsOf()).toEqual([]);
  const done = await move('src/lib', 'src/parts/core');
  expect(done.moved).toEqual({ from: 'src/lib', to: 'src/parts/core' });
  expect(existsSync(join(workspace, 'src/lib'))).toBe(false);
  expect(read('src/parts/core/index.ts')).toBe(
    "export * from './deep/it.ts';\nexport { base } from '../../base.ts';\n",
  );
  expect(read('src/parts/core/deep/it.ts')).toContain("from '../../../top.ts'");
  expect(read('src/parts/core/deep/it.ts')).toContain("import('../index.ts'), import('../../../base.ts')");
  expect(existsSync(join(workspace, 'src/parts/core/style.css'))).toBe(true);
  expect(read('src/top.ts')).toContain("import { it } from './parts/core/deep/it.ts';\r\n");
  expect(read('src/lib2/near.ts')).toContain("from '../parts/core/index.ts'");
  expect(read('script/run.mjs')).toBe(
    "import { base } from '../src/parts/core/index.ts';\nawait import('../src/parts/core/deep/it.ts');\nconsole.log(base, '../src/lib/index.ts');\n",
  );
  expect(read('script/old.cjs')).toContain("require('../src/parts/core/index.ts')");
  expect(await errorsOf()).toEqual([]);
});

test('a directory that moves there and back is as it was', async () => {
  write({ ...TREE, 'src/other/alias.ts': '' });
  const before = Object.keys(TREE).map((it) => read(it));
  await move('src/lib', 'src/core');
  await move('src/core', 'src/lib');
  expect(Object.keys(TREE).map((it) => read(it))).toEqual(before);
});

test('imports of other files than sources follow, and names of directories stay names of directories', async () => {
  write({
    'tsconfig.json': '{ "compilerOptions": { "noEmit": true, "module": "esnext", "moduleResolution": "bundler" } }',
    'assets/logo.svg': '',
    'app/index.js': "import '../assets/logo.svg';\nimport './own.css';\nimport { x } from '..';\n",
    'app/own.css': '',
    'index.js': "export * from './app';\nexport const x = 1;\n",
  });
  await move('app', 'src/ui');
  expect(read('src/ui/index.js')).toBe(
    "import '../../assets/logo.svg';\nimport './own.css';\nimport { x } from '../..';\n",
  );
  expect(read('index.js')).toBe("export * from './src/ui';\nexport const x = 1;\n");
});

test('a directory is moved to no path that is taken, inside of it or outside, and not with its project', async () => {
  write({ ...TREE, 'pack/package.json': '{}', 'pack/a.ts': 'export {};\n', 'notes/a.txt': '' });
  symlinkSync('src', join(workspace, 'link'));
  const refused = (code: string) => ({ code });
  await expect(move('src/lib', 'src/other')).rejects.toMatchObject(refused('ALREADY_EXISTS'));
  await expect(move('src/lib', 'src/lib/inner')).rejects.toMatchObject(refused('INPUT_INVALID'));
  await expect(move('src/lib', './src/lib/')).rejects.toMatchObject(refused('INPUT_INVALID'));
  await expect(move('.', 'all')).rejects.toMatchObject(refused('INPUT_INVALID'));
  await expect(move('src/lib', '../lib')).rejects.toMatchObject(refused('ACCESS_DENIED'));
  await expect(move('pack', 'packs')).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('package.json'),
  });
  for (const it of ['notes', 'link', 'nothing'])
    await expect(move(it, 'moved')).rejects.toMatchObject({ code: expect.stringMatching(/UNSUPPORTED|NOT_FOUND/) });
  await expect(tools.run('code_refactor', { operation: 'organize_imports', path: 'src/lib' })).rejects.toMatchObject(
    refused('UNSUPPORTED'),
  );
  for (const [path, text] of Object.entries(TREE)) expect(read(path)).toBe(text);
});

test('settings that name a moved file or directory follow, and keep the dot that they need', async () => {
  const options = { noEmit: true, module: 'esnext', moduleResolution: 'bundler', paths: { '~one': ['./lib/one.ts'] } };
  write({
    'tsconfig.json': JSON.stringify({ compilerOptions: options, include: ['lib', 'use.ts'] }),
    'lib/one.ts': 'export const one = 1;\n',
    'use.ts': "import { one } from '~one';\nexport const two = one;\n",
  });
  await move('lib/one.ts', 'lib/uno.ts');
  expect(read('tsconfig.json')).toContain('{"~one":["./lib/uno.ts"]}');
  await move('lib', 'parts');
  expect(read('tsconfig.json')).toContain('{"~one":["./parts/uno.ts"]}');
  expect(read('tsconfig.json')).toContain('"include":["parts","use.ts"]');
  expect(await errorsOf()).toEqual([]);
});

test('a preview shows all diffs and moves nothing', async () => {
  write(TREE);
  const { files, truncated } = await move('src/lib', 'src/core', { preview: true });
  expect(files.map((it) => it.path)).toContain('src/top.ts');
  expect(files.find((it) => it.path === 'src/top.ts')?.diff).toContain('./core/deep/it.ts');
  expect(truncated).toBe(true);
  for (const [path, text] of Object.entries(TREE)) expect(read(path)).toBe(text);
});
