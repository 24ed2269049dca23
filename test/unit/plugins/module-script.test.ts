/** Modules as scripts: their imports and exports, with every line in its place. */
import { runInThisContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { toScript } from '../../../src/base/module-script.ts';

type Exports = Record<string, unknown>;

/** The exports of a module with the given imports. */
async function exportsOf(text: string, ...given: Exports[]): Promise<Exports> {
  const run = runInThisContext(toScript(text, 'm.js').script, 'm.js') as (...given: Exports[]) => Promise<Exports>;
  return { ...(await run(...given)) };
}

describe('a module gives what it exports', () => {
  test.each([
    ['export const a = 1, b = 2;', { a: 1, b: 2 }],
    ['const a = 1; export { a as b, a };', { b: 1, a: 1 }],
    ['export let a = 1; a += 1;', { a: 2 }],
    ['export default 1 + 1;', { default: 2 }],
    ['const é = "🙂"; export { é as a };', { a: '🙂' }],
    ['export const text = "export const b = 1; import x from y";', { text: 'export const b = 1; import x from y' }],
    ['/* export const c = 1 */ export const a = await Promise.resolve(3);', { a: 3 }],
    ['', {}],
    ['export default function () {}\n[1].map((it) => it); export const a = 1', { default: expect.any(Function), a: 1 }],
    ['export default class {}\n(1, 2)', { default: expect.any(Function) }],
    ['export default async () => 1\n;[1].at(0)', { default: expect.any(Function) }],
    [
      'export default function f() {}\n[1].map(f); export const a = f',
      { default: expect.any(Function), a: expect.any(Function) },
    ],
    ['export default (function () { return 1 })()', { default: 1 }],
    ['#!/usr/bin/env node\nexport const a = 1', { a: 1 }],
    ['const a = 1; export { a as "a b" }', { 'a b': 1 }],
  ])('%j gives %j', async (text, exports) => {
    expect(await exportsOf(text)).toEqual(exports);
  });

  test('functions and classes, named or not', async () => {
    const {
      f,
      g,
      C,
      default: d,
    } = await exportsOf(
      'export async function f() { return 1 }\nexport function* g() {}\nexport class C {}\nexport default function () { return f() }',
    );
    expect([typeof f, typeof g, typeof C]).toEqual(['function', 'function', 'function']);
    expect(await (d as () => Promise<number>)()).toBe(1);
  });
});

test('a module has what it imports, by every form of import', async () => {
  const text = `import d, { a as b, 'c d' as c } from './x.js';
import * as all from "./y.js";
import './z.js';
export { e as f } from './w.js';
export const g = [d, b, all.n];`;
  const { imports } = toScript(text, 'm.js');
  expect(imports.map((it) => [it.specifier, it.names])).toEqual([
    ['./x.js', ['default', 'a', 'c d']],
    ['./y.js', []],
    ['./z.js', []],
    ['./w.js', ['e']],
  ]);
  expect(await exportsOf(text, { default: 1, a: 2, 'c d': 3 }, { n: 4 }, {}, { e: 5 })).toEqual({ f: 5, g: [1, 2, 4] });
});

test('an error keeps its line and column', async () => {
  const text = "import {\n  a,\n} from './x.js';\nexport const b = 1;\n  export const c = a.b.c;\n";
  const commented = 'export /* of\n two lines */ const b = 1;\n  export const c = b.b.c;\n';
  expect(((await exportsOf(commented).catch((thrown: unknown) => thrown)) as Error).stack).toMatch(/m\.js:3:24/);
  const error = (await exportsOf(text, { a: {} }).catch((thrown: unknown) => thrown)) as Error;
  expect(error.stack).toMatch(/m\.js:5:24/);
});

test.each([["export * from './x.js'"], ['export const { a } = f()'], ['export const [a] = []']])(
  '%s is refused',
  (text) => {
    expect(() => toScript(text, 'm.js')).toThrow(/is not supported in a compartment \(m\.js:1\)/);
  },
);
