/** code_parse on real sources, with the real parser child. */
import { mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ParsedCode } from '../../../../src/tools/source/source-code.ts';
import { toolRunner } from '../../../support/search.ts';

let workspace: string;
let tools: ReturnType<typeof toolRunner>;
beforeAll(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-parse-')));
  tools = toolRunner({ workspace });
});
afterAll(() => {
  tools.servers[Symbol.dispose]();
  rmSync(workspace, { recursive: true, force: true });
});
const parse = (input: Record<string, unknown>) => tools.run<ParsedCode>('code_parse', input);
const namesOf = ({ symbols }: ParsedCode) => symbols.map((it) => `${it.type} ${it.name} ${it.line}-${it.endLine}`);

describe('TypeScript and JavaScript', () => {
  test('symbols, imports and exports have their names, kinds and lines', async () => {
    const code = [
      "import type { A } from './a.ts';",
      "import b, { type C, c as d } from './b.ts';",
      "import * as fs from 'node:fs';",
      "import './effect.ts';",
      "export * from './e.ts';",
      "export { x, type Y } from './f.ts';",
      'export default function main() {',
      '  const local = 1;',
      '  return local;',
      '}',
      'export const K = 1, arrow = () => 2;',
      'class Box<T> { #hidden = 1; open() { return this.#hidden; } }',
      'interface I { x: number }',
      'type T = string;',
      "const lazy = await import('./lazy.ts');",
      "const old = require('./old.cjs');",
    ].join('\n');
    const found = await parse({ code });
    expect(found.errors).toEqual([]);
    expect(namesOf(found)).toEqual([
      ...['function main 7-10', 'variable K 11-11', 'function arrow 11-11', 'class Box 12-12'],
      ...['variable #hidden 12-12', 'function open 12-12', 'interface I 13-13', 'variable x 13-13', 'type T 14-14'],
      ...['variable lazy 15-15', 'variable old 16-16'],
    ]);
    expect(found.imports.map((it) => [it.module, it.line, it.names, it.kind, it.typeOnly])).toEqual([
      ['./a.ts', 1, ['A'], 'static', true],
      ['./b.ts', 2, ['default', 'C', 'c'], 'static', false],
      ['node:fs', 3, ['*'], 'static', false],
      ['./effect.ts', 4, [], 'static', false],
      ['./e.ts', 5, ['*'], 'reexport', false],
      ['./f.ts', 6, ['x', 'Y'], 'reexport', false],
      ['./lazy.ts', 15, ['*'], 'dynamic', false],
      ['./old.cjs', 16, ['*'], 'require', false],
    ]);
    expect(found.exports.map((it) => [it.name, it.line, it.typeOnly, it.from])).toEqual([
      ['*', 5, false, './e.ts'],
      ['x', 6, false, './f.ts'],
      ['Y', 6, true, './f.ts'],
      ['default', 7, false, undefined],
      ['K', 11, false, undefined],
      ['arrow', 11, false, undefined],
    ]);
  });

  test('columns count UTF-16 units, so that an emoji counts two, in symbols and in errors', async () => {
    expect((await parse({ code: 'const s = "😀é"; function after() {}' })).symbols).toContainEqual(
      expect.objectContaining({ name: 'after', line: 1, column: 27 }),
    );
    const { errors } = await parse({ code: '/* 😀 */ let = = 1;' });
    expect(errors[0]).toMatchObject({ line: 1, column: 16 });
  });

  test.each([
    ['python', "s = '😀é'; two = 1"],
    ['go', 'package a\n/* 😀é */ var two = 1'],
    ['rust', '/* 😀é */ static two: i32 = 1;'],
    ['typescript', "const s = '😀é', two = 1;"],
  ])('columns count UTF-16 units in %s, too', async (language, code) => {
    const last = code.split('\n').at(-1) as string;
    const { symbols } = await parse({ code, language });
    expect(symbols.find((it) => it.name === 'two')?.column).toBe(last.indexOf('two') + 1);
  });

  test('an error tells its line, and what is around it is still found', async () => {
    const found = await parse({ code: 'export const a = 1;\nfunction (\n' });
    expect(found.errors[0]?.line).toBeGreaterThanOrEqual(2);
    expect(found.symbols).toContainEqual(expect.objectContaining({ name: 'a' }));
  });

  test('JSX is read in .js, .jsx and .tsx; exports of CommonJS are found', async () => {
    for (const fileName of ['a.js', 'a.jsx', 'a.tsx'])
      expect((await parse({ code: 'const a = <b>{1}</b>;', fileName })).errors).toEqual([]);
    const found = await parse({ code: 'module.exports = f;\nexports.g = 1;\nfunction f() {}', fileName: 'a.cjs' });
    expect(found).toMatchObject({ language: 'javascript', exports: [{ name: 'default' }, { name: 'g', line: 2 }] });
  });
});

test('Python: names without an underscore are exports, or those of __all__', async () => {
  const code =
    'from os import path as p, sep\nimport a.b as c, d\nX = 1\nclass K:\n  y = 2\n  def m(self):\n    z = 3\ndef _f(): pass\n';
  const found = await parse({ code, language: 'python' });
  expect(namesOf(found)).toEqual([
    ...['variable X 3-3', 'class K 4-7', 'variable y 5-5', 'function m 6-7', 'function _f 8-8'],
  ]);
  expect(found.imports.map((it) => [it.module, it.names])).toEqual([
    ['os', ['path', 'sep']],
    ['a.b', ['*']],
    ['d', ['*']],
  ]);
  expect(found.exports.map((it) => it.name)).toEqual(['X', 'K']);
  const named = await parse({ code: `${code}__all__ = ['_f']\n`, language: 'python' });
  expect(named.exports.map((it) => it.name)).toEqual(['_f']);
});

test('Go: capitals are exports', async () => {
  const code =
    'package p\nimport (\n  "fmt"\n  x "a/b"\n)\ntype S struct{ F int }\nfunc (s S) M() {}\nfunc local() { var v int; _ = v }\nconst C = 1\n';
  const found = await parse({ code, language: 'go' });
  expect(namesOf(found)).toEqual([
    ...['class S 6-6', 'variable F 6-6', 'function M 7-7', 'function local 8-8', 'variable C 9-9'],
  ]);
  expect(found.imports.map((it) => it.module)).toEqual(['fmt', 'a/b']);
  expect(found.exports.map((it) => it.name)).toEqual(expect.arrayContaining(['S', 'M', 'C']));
  expect(found.exports.map((it) => it.name)).not.toContain('local');
});

test('Rust: `use` trees are unfolded, `pub` is an export', async () => {
  const code = 'use a::{b, c::{d as e, f}};\nmod inner;\npub fn open() {}\nfn own() {}\npub struct S { x: i32 }\n';
  const found = await parse({ code, language: 'rust' });
  expect(found.imports.map((it) => [it.module, it.names[0]])).toEqual([
    ['a', 'b'],
    ['a::c', 'd'],
    ['a::c', 'f'],
    ['self::inner', '*'],
  ]);
  expect(found.exports.map((it) => it.name)).toEqual(['open', 'S']);
});

test('the syntax tree has outer nodes first, each with the one that holds it, and no more than the bound', async () => {
  const found = await parse({ code: 'f(1);', ast: true });
  expect(found.ast?.map((it) => [it.kind, it.depth])).toEqual([
    ['program', 0],
    ['expression_statement', 1],
    ['call_expression', 2],
    ['identifier', 3],
    ['arguments', 3],
    ['number', 4],
  ]);
  const parentOf = (at: number) => found.ast?.[found.ast[at]?.parent ?? -1]?.kind;
  expect([0, 1, 2, 3, 4, 5].map(parentOf)).toEqual([
    undefined,
    'program',
    'expression_statement',
    'call_expression',
    'call_expression',
    'arguments',
  ]);
  const large = await parse({ code: 'f(1);'.repeat(10_000), ast: true });
  expect(large).toMatchObject({ truncated: true });
  expect(large.ast).toHaveLength(2_000);
});

describe('hostile sources', () => {
  test('nesting that crashes the parser ends the call with a code, and the next call works', async () => {
    const code = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    await expect(parse({ code: code.slice(0, 100_000).padEnd(200_000, ']') })).rejects.toMatchObject({
      code: 'CPU_LIMIT',
    });
    expect((await parse({ code: 'const a = 1;' })).symbols).toHaveLength(1);
  });

  test('200 000 tokens are parsed, and the lists are cut', async () => {
    writeFileSync(join(workspace, 'large.ts'), 'export const abc = 1 + 2;\n'.repeat(30_000));
    const found = await parse({ path: 'large.ts' });
    expect(found.truncated).toBe(true);
    expect(found.symbols).toHaveLength(2_000);
    const list = Array.from({ length: 100_000 }, (_, at) => at).join(', ');
    writeFileSync(join(workspace, 'large.py'), `value = [${list}]\n`);
    const tree = await parse({ path: 'large.py', ast: true });
    expect(tree).toMatchObject({ truncated: true, symbols: [{ name: 'value' }] });
    expect(tree.ast).toHaveLength(2_000);
  });

  test('a link out of the workspace, a missing file and a language without a parser are refused', async () => {
    symlinkSync('/etc/passwd', join(workspace, 'out.ts'));
    writeFileSync(join(workspace, 'a.rb'), 'def x; end');
    await expect(parse({ path: 'out.ts' })).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
    await expect(parse({ path: 'none.ts' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(parse({ path: 'a.rb' })).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  });
});
