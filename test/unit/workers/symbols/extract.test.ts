/** Extracts and inlines by the real TypeScript 6, written as a host writes it. */
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/limits.ts';
import { systemPowers } from '../../../../src/powers.ts';
import type { TypeCheck } from '../../../../src/tools/source/typescript.ts';
import { TypeScript6Child } from '../../../../workers/typescript6-child.ts';
import { type ToolFolder, toolFolder, toolRunner, writeFiles } from '../../../support/search.ts';

let folder: ToolFolder;
let workspace: string;
let tools: ToolFolder['tools'];
// One folder for all tests: both compilers stay warm, as they do in a host.
beforeAll(() => {
  folder = toolFolder();
  ({ workspace, tools } = folder);
});
afterAll(() => folder[Symbol.dispose]());
beforeEach(() => {
  for (const it of readdirSync(workspace)) rmSync(join(workspace, it), { recursive: true });
  write({ 'tsconfig.json': `{ "compilerOptions": { ${OPTIONS} }, "include": ["src"] }` });
});

const OPTIONS =
  '"strict": true, "noEmit": true, "module": "nodenext", "allowImportingTsExtensions": true, "allowJs": true';
const write = (files: Record<string, string>) => writeFiles(workspace, files);
const read = (path: string) => readFileSync(join(workspace, path), 'utf8');
const refactor = (input: Record<string, unknown>) =>
  tools.run<{ name?: string; files: { diff?: string }[]; newErrors: object[] }>('code_refactor', input);
const check = () => tools.run<TypeCheck & { success: boolean }>('code_type_check', { project: '.' });

/** The range of a piece of a file, with lines and columns from 1. */
function rangeOf(path: string, piece: string) {
  const text = read(path).replace(/^\uFEFF/, '');
  const at = text.indexOf(piece);
  expect(at, `${piece} is in ${path}`).toBeGreaterThanOrEqual(0);
  const position = (offset: number) => {
    const lines = text.slice(0, offset).split('\n');
    return [lines.length, (lines.at(-1) as string).length + 1];
  };
  const [startLine, startColumn] = position(at);
  const [endLine, endColumn] = position(at + piece.length);
  return { startLine, startColumn, endLine, endColumn };
}
const extract = (what: string, path: string, piece: string, more: object = {}) =>
  refactor({ operation: `extract_${what}`, path, range: rangeOf(path, piece), ...more });
const inline = (path: string, symbol: string, more: object = {}) =>
  refactor({ operation: 'inline', path, symbol, ...more });

describe('extracting', () => {
  test('a function gets the values that its code needs, the name that was given, and the types of other files', async () => {
    write({
      'src/shape.ts':
        'export interface Shape {\n  width: number;\n}\nexport const one = (): Shape => ({ width: 1 });\n',
      'src/a.ts':
        "import { one } from './shape.ts';\n\nexport function area(height: number) {\n  const shape = one();\n  const sum = shape.width * height + height;\n  return sum;\n}\n",
    });
    const done = await extract('function', 'src/a.ts', 'shape.width * height + height', { newName: 'sumOf' });
    expect(done).toMatchObject({ name: 'sumOf', newErrors: [] });
    expect(read('src/a.ts')).toContain('const sum = sumOf(shape, height);');
    expect(read('src/a.ts')).toMatch(/^function sumOf\(shape: .*Shape, height: number\) \{\n {2}return shape\.width/m);
    expect(await check()).toMatchObject({ success: true });
  });

  test('a function is declared outermost, or nearest if asked for, and a method if it needs `this`', async () => {
    const text =
      'export class Box {\n\tside = 2;\n\tarea(k: number) {\n\t\tconst a = k * 2;\n\t\treturn a * k + this.side * a;\n\t}\n}\n';
    write({ 'src/a.ts': text });
    await extract('function', 'src/a.ts', 'a * k', { newName: 'times' });
    expect(read('src/a.ts')).toMatch(/^function times\(a: number, k: number\) \{\n\treturn a \* k;\n\}/m);
    write({ 'src/a.ts': text });
    await extract('function', 'src/a.ts', 'a * k', { newName: 'times', scope: 'nearest' });
    expect(read('src/a.ts')).toMatch(/^\t\tfunction times\(\) \{/m);
    write({ 'src/a.ts': text });
    await extract('function', 'src/a.ts', 'this.side * a', { newName: 'times' });
    expect(read('src/a.ts')).toMatch(/return a \* k \+ this\.times\(a\);/);
    expect(await check()).toMatchObject({ success: true });
  });

  test('a variable and a type are named, and all line ends and a byte order mark stay as they are', async () => {
    write({
      'src/a.ts':
        '\uFEFF/* é😀 */ export function f(o: { a: number; b: string }, é: number) {\r\n  return "😀".length + é * 2 + o.a;\r\n}\r\n',
    });
    expect(await extract('variable', 'src/a.ts', 'é * 2', { newName: 'twice' })).toMatchObject({ name: 'twice' });
    expect(read('src/a.ts')).toContain('const twice = é * 2;\r\n  return "😀".length + twice + o.a;');
    await extract('type', 'src/a.ts', '{ a: number; b: string }', { newName: 'Options' });
    expect(read('src/a.ts')).toMatch(/type Options = \{\s*a: number;\s*b: string;?\s*\};/);
    expect(read('src/a.ts')).toContain('f(o: Options, é: number)');
    expect(read('src/a.ts').startsWith('\uFEFF')).toBe(true);
    expect(read('src/a.ts')).not.toMatch(/[^\r]\n/);
    expect(await check()).toMatchObject({ success: true });
  });

  test('works in JavaScript, and without a project and a name', async () => {
    write({ 'script/run.js': 'const one = 1;\nconsole.log(one + 2);\n' });
    const { name } = await extract('variable', 'script/run.js', 'one + 2');
    expect(name).toMatch(/^\w+$/);
    expect(read('script/run.js')).toBe(`const one = 1;\nconst ${name} = one + 2;\nconsole.log(${name});\n`);
  });

  test('is refused with the reason of TypeScript, and nothing is written', async () => {
    const text =
      'export function f(x: number) {\n  if (x > 1) return x;\n  const near = x + 1;\n  return near * x;\n}\nexport const far = 1;\n';
    write({ 'src/a.ts': text });
    const refused = (code: string, message: RegExp) => ({ code, message: expect.stringMatching(message) });
    await expect(extract('function', 'src/a.ts', 'if (x > 1) return x;')).rejects.toMatchObject(
      refused('INPUT_INVALID', /return/),
    );
    await expect(extract('type', 'src/a.ts', 'near * x')).rejects.toMatchObject(refused('INPUT_INVALID', /type/));
    await expect(extract('variable', 'src/a.ts', '\n  ')).rejects.toMatchObject(refused('INPUT_INVALID', /no code/));
    for (const newName of ['class', 'a-b', '#a'])
      await expect(extract('variable', 'src/a.ts', 'near * x', { newName })).rejects.toThrow(/newName/);
    await expect(refactor({ operation: 'extract_function', path: 'src/a.ts' })).rejects.toThrow(/needs range/);
    const beyond = { startLine: 1, startColumn: 1, endLine: 99, endColumn: 1 };
    await expect(refactor({ operation: 'extract_function', path: 'src/a.ts', range: beyond })).rejects.toMatchObject(
      refused('INPUT_INVALID', /no line 99/),
    );
    expect(read('src/a.ts')).toBe(text);
  });

  test('under a name that means something else there is refused', async () => {
    const text =
      'export function f(x: number) {\n  const near = x + 1;\n  return near * x;\n}\nexport const far = f(1) + 2;\n';
    write({ 'src/a.ts': text });
    for (const newName of ['near', 'f'])
      await expect(extract('function', 'src/a.ts', 'near * x', { newName })).rejects.toMatchObject({
        code: 'CONFLICT',
      });
    await expect(extract('variable', 'src/a.ts', 'f(1)', { newName: 'far' })).rejects.toMatchObject({
      code: 'CONFLICT',
    });
    expect(read('src/a.ts')).toBe(text);
  });

  test('shows with preview what it would write', async () => {
    write({ 'src/a.ts': 'export const a = (x: number) => x * x + 1;\n' });
    const shown = await extract('function', 'src/a.ts', 'x * x', { newName: 'square', preview: true });
    expect(shown.files[0]?.diff).toContain('+function square(x: number) {');
    expect(read('src/a.ts')).toBe('export const a = (x: number) => x * x + 1;\n');
  });
});

describe('inlining', () => {
  test('puts the value at all uses, with the brackets that it needs', async () => {
    write({ 'src/a.ts': 'export function f(x: number) {\n  const y = x + 1;\n  return y * y;\n}\n' });
    expect(await inline('src/a.ts', 'y')).toMatchObject({ newErrors: [] });
    expect(read('src/a.ts')).toBe('export function f(x: number) {\n  return (x + 1) * (x + 1);\n}\n');
  });

  test('takes the name by its position, at a use, too', async () => {
    write({ 'src/a.ts': 'export function f(x: number) {\n  const y = x;\n  return [x, y];\n}\n' });
    await refactor({ operation: 'inline', path: 'src/a.ts', line: 3, column: 14 });
    expect(read('src/a.ts')).toBe('export function f(x: number) {\n  return [x, x];\n}\n');
  });

  test.each([
    ['whose value is made twice', 'const y = g();\n  return [y, y];', /2 times/],
    ['whose value is never made', 'const y = g();\n  return [x];', /./],
    ['whose value would be made later', 'const y = g();\n  return () => y;', /function/],
    ['whose value would be made again and again', 'const y = [x];\n  for (;;) y.push(1);', /loop/],
    ['with a name that is another one there', 'const y = x;\n  return [1].map((x) => x + y);', /`x` means/],
    ['with a name that is written to', 'const y = x;\n  x = 2;\n  return y;', /`x`, of which/],
    ['with another `this` there', 'const y = this;\n  return function () { return y; };', /`this` means/],
    ['that has no value', 'let y: number;\n  y = 1;\n  return y;', /./],
    ['that is written to', 'let y = 1;\n  y = 2;\n  return y;', /./],
  ])('of a variable %s is refused', async (_, code, why) => {
    const text = `declare function g(): number;\nexport function f(this: object, x: number): unknown {\n  ${code}\n}\n`;
    write({ 'src/a.ts': text });
    await expect(inline('src/a.ts', 'y')).rejects.toMatchObject({
      code: expect.stringMatching(/CONFLICT|INPUT_INVALID/),
      message: expect.stringMatching(why),
    });
    expect(read('src/a.ts')).toBe(text);
  });

  test('of globals, own parameters and shorthand properties is possible', async () => {
    write({
      'src/a.ts':
        'export function f(x: number) {\n  const y = Math.PI * x;\n  const o = { x, z: [x].map((it) => it * 2), u: undefined };\n  return y + o.x;\n}\n',
    });
    await inline('src/a.ts', 'y');
    await inline('src/a.ts', 'o');
    expect(read('src/a.ts')).toContain('({ x, z: [x].map((it) => it * 2), u: undefined }).x');
  });
});

describe('TypeScript 6', () => {
  test('that is not installed is refused with what to install', async () => {
    const child = new TypeScript6Child(defaultLimits, systemPowers(), pathToFileURL('/nonexistent/a.js').href);
    const request = { operation: 'inline' as const, workspace, path: 'a.ts', text: 'const a = 1;', start: 6, end: 7 };
    await expect(child.refactor(request, new AbortController().signal)).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('TypeScript 6'),
      extras: { suggestion: expect.stringContaining('--omit=optional') },
    });
  });

  test('that needs more memory than it may have ends the call only', async () => {
    write({ 'src/a.ts': 'export const a = (x: number) => x * x + 1;\n' });
    const small = toolRunner({ workspace, limits: { typescript6MemoryBytes: 64 * 1024 * 1024 } });
    const input = { operation: 'extract_function', path: 'src/a.ts', range: rangeOf('src/a.ts', 'x * x') };
    await expect(small.run('code_refactor', input)).rejects.toMatchObject({ code: 'MEMORY_LIMIT' });
    small.servers[Symbol.dispose]();
    expect(read('src/a.ts')).toBe('export const a = (x: number) => x * x + 1;\n');
  });

  test('runs no plugin of a project, and follows no setting out of the child', async () => {
    const canary = join(folder.parent, 'canary');
    const evil = `require('node:fs').writeFileSync(${JSON.stringify(canary)}, '');\nmodule.exports = () => ({ create: (it) => it.languageService });\n`;
    write({
      'node_modules/evil/package.json': '{ "name": "evil", "main": "index.js" }',
      'node_modules/evil/index.js': evil,
      'node_modules/evil/tsconfig.json': '{ "compilerOptions": { "strict": true } }',
      'tsconfig.json': `{ "extends": "evil/tsconfig.json", "compilerOptions": { "plugins": [{ "name": "evil" }, { "transform": "evil" }] } }`,
      'a.ts': 'export const a = (x: number) => x * x + 1;\n',
    });
    await extract('function', 'a.ts', 'x * x', { newName: 'square' });
    expect(read('a.ts')).toContain('square(x)');
    await expect(async () => readFileSync(canary)).rejects.toThrow(/ENOENT/);
  });

  test('ends with a call that is aborted, and its failure fails the call', async () => {
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
    write({ 'src/deep.ts': `export const deep = ${deep};\nexport const a = (x: number) => x * x + 1;\n` });
    await expect(extract('function', 'src/deep.ts', 'x * x')).rejects.toMatchObject({
      code: expect.stringMatching(/HOST_CRASHED|MEMORY_LIMIT/),
    });
    write({ 'src/a.ts': 'export const a = (x: number) => x * x + 1;\n' });
    const range = rangeOf('src/a.ts', 'x * x');
    const input = { operation: 'extract_function', path: 'src/a.ts', range };
    await expect(tools.run('code_refactor', input, AbortSignal.timeout(100))).rejects.toThrow('aborted');
    await extract('function', 'src/a.ts', 'x * x', { newName: 'square' });
    expect(read('src/a.ts')).toContain('square(x)');
  });
});
