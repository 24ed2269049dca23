/** Refactorings of real sources by the real language server, written as a host writes them. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { TypeCheck, TypeProblem } from '../../../../src/tools/source/typescript.ts';
import { type ToolFolder, toolFolder, writeFiles } from '../../../support/search.ts';

interface Refactored {
  files: { path: string; replacements: number; diff?: string }[];
  moved?: { from: string; to: string };
  newErrors: TypeProblem[];
  checkedFiles: number;
  truncated: boolean;
  unresolved?: { name: string; choices: string[] }[];
}

const repository = fileURLToPath(new URL('../../../../', import.meta.url));
let folder: ToolFolder;
let workspace: string;
let tools: ToolFolder['tools'];

beforeEach(() => {
  folder = toolFolder();
  ({ workspace, tools } = folder);
});
afterEach(() => folder[Symbol.dispose]());

const write = (files: Record<string, string>) => writeFiles(workspace, files);
const read = (path: string) => readFileSync(join(workspace, path), 'utf8');
const refactor = (input: Record<string, unknown>) => tools.run<Refactored>('code_refactor', input);
const rename = (input: Record<string, unknown>) => refactor({ operation: 'rename', ...input });
const move = (path: string, to: string) => refactor({ operation: 'move_file', path, to });
const pathsOf = ({ files }: Refactored) => files.map((it) => it.path).sort();
const check = (input: Record<string, unknown>) => tools.run<TypeCheck & { success: boolean }>('code_type_check', input);

/** All files by path, with their bytes. */
const contentsOf = (root: string): Map<string, string> =>
  new Map(
    readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((it) => it.isFile())
      .map((it) => join(it.parentPath, it.name))
      .sort()
      .map((it) => [it, readFileSync(it, 'latin1')]),
  );

const OPTIONS = '"strict": true, "noEmit": true, "module": "nodenext", "allowImportingTsExtensions": true';
const SHAPES = {
  'tsconfig.json': `{ "compilerOptions": { ${OPTIONS} }, "include": ["src"] }`,
  'src/shape.ts':
    'export function area(r: number) {\n  return r * r;\n}\nexport class Box {\n  #side = 1;\n  get() {\n    return this.#side;\n  }\n}\n',
  'src/use.ts':
    "import { area } from './shape.ts';\r\n/* é😀 */ export const o = { area };\r\nexport const s = area(2) + o.area(1);\r\n",
  'src/index.ts': "export * from './shape.ts';\nexport { o } from './use.ts';\n",
};

describe('a rename', () => {
  test('asked at an import changes the definition and all uses, in UTF-16 positions and with the line ends as they are', async () => {
    write(SHAPES);
    const done = await rename({ path: 'src/use.ts', line: 1, column: 10, newName: 'surface' });
    expect(pathsOf(done)).toEqual(['src/shape.ts', 'src/use.ts']);
    expect(done).toMatchObject({ newErrors: [], truncated: false });
    expect(read('src/shape.ts')).toContain('export function surface(r: number)');
    expect(read('src/use.ts')).toBe(
      "import { surface } from './shape.ts';\r\n/* é😀 */ export const o = { area: surface };\r\nexport const s = surface(2) + o.area(1);\r\n",
    );
    expect(await check({ project: '.' })).toMatchObject({ success: true });
  });

  test('takes columns in UTF-16 units, names with a line, and names alone; a byte order mark stays', async () => {
    write({ ...SHAPES, 'src/bom.ts': '\uFEFFconst one = 1;\nexport const two = one;\n' });
    await rename({ path: 'src/use.ts', line: 2, column: 23, newName: 'shapes' });
    expect(read('src/use.ts')).toContain('/* é😀 */ export const shapes = { area };');
    expect(read('src/index.ts')).toContain("export { shapes as o } from './use.ts'");
    await rename({ path: 'src/bom.ts', symbol: 'one', newName: 'uno' });
    expect(readFileSync(join(workspace, 'src/bom.ts'), 'utf8')).toBe('\uFEFFconst uno = 1;\nexport const two = uno;\n');
    await rename({ path: './src/shape.ts', symbol: '#side', line: 5, newName: '#edge' });
    expect(read('src/shape.ts')).toContain('return this.#edge;');
  });

  test('a rename of a name that several symbols have asks for the line', async () => {
    write({
      'a.ts': 'export function f(x: number) {\n  return x;\n}\nexport function g(x: number) {\n  return -x;\n}\n',
    });
    await expect(rename({ path: 'a.ts', symbol: 'x', newName: 'y' })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      message: expect.stringMatching(/line 1 .*line 4/),
    });
    await rename({ path: 'a.ts', symbol: 'x', line: 5, newName: 'y' });
    expect(read('a.ts')).toBe(
      'export function f(x: number) {\n  return x;\n}\nexport function g(y: number) {\n  return -y;\n}\n',
    );
  });

  test('a rename that would bring an error, another meaning or a merged declaration is refused and writes nothing', async () => {
    write({
      ...SHAPES,
      'src/twice.ts': 'export const a = 1;\nexport const b = 2;\n',
      'src/local.ts': 'const base = 1;\nexport function f(near: number) {\n  return base + near;\n}\n',
      'src/merge.ts': 'export interface A { x: 1 }\nexport interface B { y: 2 }\nexport const c: A | B = { x: 1 };\n',
      'src/other.ts': 'export function box() {}\n',
      'src/barrel.ts': "export * from './shape.ts';\nexport * from './other.ts';\nexport * from './twice.ts';\n",
    });
    const before = contentsOf(workspace);
    const refused = async (input: Record<string, unknown>) =>
      expect(rename(input)).rejects.toMatchObject({ code: 'CONFLICT' });
    await refused({ path: 'src/twice.ts', symbol: 'a', newName: 'b' });
    await refused({ path: 'src/local.ts', symbol: 'base', newName: 'near' });
    await refused({ path: 'src/merge.ts', symbol: 'A', newName: 'B' });
    await refused({ path: 'src/other.ts', symbol: 'box', newName: 'area' });
    for (const newName of ['class', 'class x', 'a-b', '1a', '', 'x; evil()'])
      await expect(rename({ path: 'src/twice.ts', symbol: 'a', newName })).rejects.toThrow(/newName/);
    expect(contentsOf(workspace)).toEqual(before);
    const shown = await rename({ path: 'src/other.ts', symbol: 'box', newName: 'area', preview: true });
    expect(shown.newErrors).toMatchObject([{ file: 'src/barrel.ts', code: 'TS2308' }]);
    expect(shown.files[0]?.diff).toContain('+export function area() {}');
    expect(contentsOf(workspace)).toEqual(before);
  });

  test('back to a name that lists kept as an alias takes the alias away', async () => {
    const lists =
      "import type { Box, area } from './shape.ts';\nexport { type Box, area as\n  area2, area } from './shape.ts';\nexport type It = [Box, typeof area];\n";
    write({ ...SHAPES, 'src/index.ts': lists });
    await rename({ path: 'src/shape.ts', symbol: 'area', newName: 'surface' });
    expect(read('src/index.ts')).toContain('surface as area }');
    await rename({ path: 'src/shape.ts', symbol: 'surface', newName: 'area' });
    expect(read('src/index.ts')).toBe(lists);
  });

  test('a rename compares files that have errors already, and does not count those as new', async () => {
    write({
      ...SHAPES,
      'src/bad.ts': "import { area } from './shape.ts';\nexport const n: string = area(1);\narea('x');\n",
    });
    const done = await rename({ path: 'src/shape.ts', symbol: 'area', newName: 'surface' });
    expect(done.newErrors).toEqual([]);
    expect(read('src/bad.ts')).toContain("surface('x');");
  });

  test('a rename of a symbol outside, in packages or in hidden files is refused', async () => {
    write({
      'node_modules/pkg/package.json': '{ "name": "pkg", "types": "index.d.ts" }',
      'node_modules/pkg/index.d.ts': 'export declare const there: number;\n',
      '.gitignore': 'node_modules\n',
      '.git/HEAD': '',
      'a.ts': "import { there } from 'pkg';\nexport const x = there.toFixed();\n",
    });
    await expect(rename({ path: 'a.ts', symbol: 'there', newName: 'here' })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    });
    await expect(rename({ path: 'a.ts', symbol: 'toFixed', newName: 'here' })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    });
    await expect(rename({ path: '../a.ts', symbol: 'x', newName: 'y' })).rejects.toMatchObject({
      code: 'ACCESS_DENIED',
    });
  });

  test('a rename in a file outside of any project works alone', async () => {
    write({ ...SHAPES, 'script/run.js': 'const one = 1;\nconsole.log(one);\n' });
    await rename({ path: 'script/run.js', symbol: 'one', newName: 'two' });
    expect(read('script/run.js')).toBe('const two = 1;\nconsole.log(two);\n');
  });

  test('there and back leaves the sources of this repository byte for byte', async () => {
    for (const it of ['src', 'workers', 'tsconfig.json', 'package.json'])
      cpSync(join(repository, it), join(workspace, it), { recursive: true });
    const before = contentsOf(workspace);
    const names = [
      { path: 'src/base/errors.ts', symbol: 'ToolError', line: undefined, newName: 'FailureOfTool', back: 'ToolError' },
      { path: 'src/base/paths.ts', symbol: 'isBelow', newName: 'liesBelow', back: 'isBelow' },
      { path: 'workers/symbols/symbols.ts', symbol: 'byPosition', newName: 'inOrder', back: 'byPosition' },
    ];
    for (const { back, newName, path, symbol } of names) {
      const done = await rename({ path, symbol, newName });
      expect(done).toMatchObject({ newErrors: [], truncated: false });
      expect(contentsOf(workspace)).not.toEqual(before);
      await rename({ path, symbol: newName, newName: back });
      expect(contentsOf(workspace)).toEqual(before);
    }
  }, 120_000);
});

describe('a move', () => {
  test('changes the imports of the file and its own, with the endings that they have', async () => {
    write({
      ...SHAPES,
      'src/sub/it.ts':
        "import { area } from '../shape.ts';\nexport * from '../use.ts';\nexport const it = () => [area, import('../use.ts')];\n",
      'src/last.ts': "import { it } from './sub/it.ts';\nit();\n",
      'src/other/x.ts': 'export {};\n',
    });
    const done = await move('src/sub/it.ts', 'src/other/that.ts');
    expect(done).toMatchObject({ moved: { from: 'src/sub/it.ts', to: 'src/other/that.ts' }, newErrors: [] });
    expect(pathsOf(done)).toEqual(['src/last.ts']);
    expect(existsSync(join(workspace, 'src/sub/it.ts'))).toBe(false);
    expect(read('src/last.ts')).toBe("import { it } from './other/that.ts';\nit();\n");
    await move('src/other/that.ts', 'src/that.ts');
    expect(read('src/that.ts')).toContain("import { area } from './shape.ts';\nexport * from './use.ts';");
    expect(read('src/that.ts')).toContain("import('./use.ts')");
    write({ 'src/compiled.ts': "export { area } from './shape.js';\n" });
    await move('src/shape.ts', 'src/new/deep/form.ts');
    expect(read('src/compiled.ts')).toBe("export { area } from './new/deep/form.js';\n");
    expect(read('src/that.ts')).toContain("from './new/deep/form.ts'");
    expect(await check({ project: '.' })).toMatchObject({ success: true });
  });

  test('leaves packages alone, and names of directories as they are', async () => {
    write({
      ...SHAPES,
      'tsconfig.json':
        '{ "compilerOptions": { "strict": true, "noEmit": true, "moduleResolution": "bundler", "module": "esnext" } }',
      '.gitignore': 'node_modules\n',
      '.git/HEAD': '',
      'node_modules/pkg/package.json': '{ "name": "pkg", "types": "index.d.ts" }',
      'node_modules/pkg/index.d.ts': 'export declare const there: number;\n',
      'node_modules/pkg/sub.d.ts': "export { there } from '.';\n",
      'src/shape.ts': 'export const area = (r: number) => r;\n',
      'src/use.ts':
        "import { there } from 'pkg/sub';\nimport { area } from './shape';\nexport const o = area(there);\n",
      'src/index.ts': "export * from './use';\n",
      'src/deep/all.ts': "import { o } from '..';\nexport const all = [o];\n",
    });
    const done = await move('src/use.ts', 'src/useful.ts');
    expect(done).toMatchObject({ newErrors: [], truncated: false });
    expect(pathsOf(done)).toEqual(['src/index.ts']);
    expect(await check({ project: '.' })).toMatchObject({ success: true });
  });

  test('a move to a path that is taken, or to a file that is no source, is refused', async () => {
    write(SHAPES);
    const before = contentsOf(workspace);
    await expect(move('src/shape.ts', 'src/use.ts')).rejects.toMatchObject({ code: 'ALREADY_EXISTS' });
    await expect(move('src/shape.ts', 'src/shape.md')).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    await expect(move('src/shape.ts', '../shape.ts')).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
    await expect(move('src', 'lib.ts')).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    expect(contentsOf(workspace)).toEqual(before);
  });
});

test('a rename of a symbol of both JavaScript and its declarations is refused: TypeScript would change only one', async () => {
  write({
    'lib/a.js': 'const own = 1;\nexport const both = own;\n',
    'lib/a.d.ts': 'export declare const both: number;\n',
    'lib/b.js': "import { both } from './a.js';\nconsole.log(both);\n",
  });
  const before = contentsOf(workspace);
  for (const path of ['lib/a.js', 'lib/a.d.ts', 'lib/b.js'])
    await expect(rename({ path, symbol: 'both', newName: 'all' })).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  await expect(move('lib/a.js', 'lib/c.js')).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  expect(contentsOf(workspace)).toEqual(before);
  await rename({ path: 'lib/a.js', symbol: 'own', newName: 'mine' });
  expect(read('lib/a.js')).toContain('both = mine');
});

describe('imports', () => {
  const IMPORTS =
    "import { o } from './use.ts';\nimport { Box, area } from './shape.ts';\nexport const b = new Box();\n";

  test('imports are put in order, and those without a use are removed', async () => {
    write({ ...SHAPES, 'src/a.ts': IMPORTS });
    await refactor({ operation: 'remove_unused_imports', path: 'src/a.ts' });
    expect(read('src/a.ts')).toBe("import { Box } from './shape.ts';\nexport const b = new Box();\n");
    write({ 'src/a.ts': `${IMPORTS}export const c = [area, o];\n` });
    await refactor({ operation: 'organize_imports', path: 'src/a.ts' });
    expect(
      read('src/a.ts').startsWith("import { Box, area } from './shape.ts';\nimport { o } from './use.ts';\n"),
    ).toBe(true);
  });

  test('missing imports are added if only one export has the name', async () => {
    write({
      ...SHAPES,
      'src/index.ts': '',
      'src/two.ts': 'export const same = 1;\n',
      'src/three.ts': 'export const same = 2;\n',
      'src/a.ts': "import { o } from './use.ts';\r\nexport const b = [new Box(), area(1), o, same, nowhere];\r\n",
    });
    const { unresolved, newErrors } = await refactor({ operation: 'add_missing_imports', path: 'src/a.ts' });
    expect(newErrors).toEqual([]);
    expect(read('src/a.ts')).toContain("from './shape.ts';\r\n");
    expect(read('src/a.ts')).not.toMatch(/[^\r]\n/);
    expect(unresolved?.map((it) => [it.name, it.choices.length])).toEqual([
      ['same', 2],
      ['nowhere', 0],
    ]);
  });
});

test('a server that is killed meanwhile fails the call, nothing is written, and the next call has another one', async () => {
  execFileSync('mkfifo', [join(workspace, 'pipe.ts')]);
  write({ 'tsconfig.json': '{}', 'a.ts': 'export const one = 1;\n' });
  const failed = expect(rename({ path: 'a.ts', symbol: 'one', newName: 'two' })).rejects.toMatchObject({
    code: 'HOST_CRASHED',
  });
  await expect.poll(() => tools.servers.typescript.pid).toBeDefined();
  process.kill(tools.servers.typescript.pid as number, 'SIGKILL');
  await failed;
  expect(read('a.ts')).toBe('export const one = 1;\n');
  rmSync(join(workspace, 'pipe.ts'));
  await rename({ path: 'a.ts', symbol: 'one', newName: 'two' });
  expect(read('a.ts')).toBe('export const two = 1;\n');
});
