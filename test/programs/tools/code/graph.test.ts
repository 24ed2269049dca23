/** code_graph on real trees, with the real parser child and ripgrep. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ImportGraphAnswer } from '../../../../src/tools/source/source-code.ts';
import { circlesOf, componentsOf } from '../../../../workers/code/graph/circles.ts';
import { type ToolFolder, toolFolder, toolRunner, writeFiles } from '../../../support/search.ts';

let outside: string;
let folder: ToolFolder;
let workspace: string;
let tools: ToolFolder['tools'];
beforeEach(() => {
  folder = toolFolder();
  ({ parent: outside, workspace, tools } = folder);
});
afterEach(() => folder[Symbol.dispose]());

const put = (files: Record<string, string>) => writeFiles(workspace, files);
const graph = (input: Record<string, unknown> = {}) => tools.run<ImportGraphAnswer>('code_graph', input);
const edgesOf = ({ edges }: ImportGraphAnswer) =>
  edges.map((it) => `${it.from} > ${it.to}${it.typeOnly ? ' (types)' : ''}`).sort();
const allEdges = async () => edgesOf(await graph({ show: 'imports' }));

describe('circles', () => {
  test('files that import each other are shown in order; imports of types alone count only if asked for', async () => {
    put({
      'a.ts': "import './b.ts';",
      'b.ts': "export * from './c.ts';",
      'c.ts': "const a = await import('./a.ts');",
      'self.ts': "import './self.ts';",
      't.ts': "import type { U } from './u.ts';\nexport type T = U;",
      'u.ts': "import { type T } from './t.ts';\nexport type U = T;",
    });
    expect(await graph({ show: 'cycles' })).toMatchObject({ cycles: [['a.ts', 'b.ts', 'c.ts'], ['self.ts']] });
    expect((await graph({ types: true })).cycles).toContainEqual(['t.ts', 'u.ts']);
    expect(await allEdges()).toContain('t.ts > u.ts (types)');
  });

  test('a chain of 20 000 files and a circle around it need no stack', () => {
    const chain = new Map(Array.from({ length: 20_000 }, (_, at) => [`${at}`, [`${at + 1}`]]));
    expect(componentsOf(chain)).toEqual([]);
    chain.set('20000', ['0']);
    expect(circlesOf(chain, 10)[0]).toHaveLength(20_001);
  });

  test('each node of a component is in one of the circles that are shown', () => {
    const eight = new Map([
      ['a', ['b']],
      ['b', ['a', 'c']],
      ['c', ['d']],
      ['d', ['b']],
      ['e', ['a']],
    ]);
    expect(circlesOf(eight, 10)).toEqual([
      ['a', 'b'],
      ['c', 'd', 'b'],
    ]);
  });
});

describe('names of modules', () => {
  test('tsconfig paths are followed through extends and references, even where they go round in circles', async () => {
    put({
      'tsconfig.json': '{ "extends": "./base.json", "references": [{ "path": "./tsconfig.app.json" }] } // comment',
      'base.json': '{}',
      'tsconfig.base.json': '{ "extends": "./tsconfig.json", "compilerOptions": { "paths": { "@lib/*": ["lib/*"] } } }',
      'tsconfig.app.json': '{ "extends": "./tsconfig.base.json", "compilerOptions": { "baseUrl": "src" } }',
      'lib/one.ts': 'export const one = 1;',
      'src/deep/two.ts': 'export const two = 2;',
      'src/main.ts': "import '@lib/one';\nimport 'deep/two';\nimport '@lib/none';\nimport 'react';",
    });
    const found = await graph({ show: 'imports' });
    expect(edgesOf(found)).toEqual(['src/main.ts > lib/one.ts', 'src/main.ts > src/deep/two.ts']);
    expect(found.unresolved).toMatchObject([{ file: 'src/main.ts', line: 3, module: '@lib/none' }]);
    expect(found.external).toEqual(['react']);
  });

  test('.js means .ts, a directory its index, #name and packages of the workspace their package.json', async () => {
    put({
      'package.json': '{ "name": "root", "imports": { "#own": "./own.ts" }, "workspaces": ["packages/*"] }',
      'own.ts': 'export {};',
      'dir/index.ts': 'export {};',
      'style.css': '',
      'data.json': '{}',
      'packages/a/package.json': '{ "name": "@w/a", "exports": { ".": "./dist/index.js", "./x": "./src/x.ts" } }',
      'packages/a/src/index.ts': 'export {};',
      'packages/a/src/x.ts': 'export {};',
      'main.ts': "import './own.js';\nimport './dir';\nimport '#own';\nimport './style.css';\nimport './data.json';",
      'packages/b/b.ts': "import '@w/a';\nimport '@w/a/x';\nimport '@w/other/y';\nimport 'node:fs';",
    });
    const found = await graph({ show: 'imports' });
    expect(edgesOf(found)).toEqual([
      'main.ts > dir/index.ts',
      'main.ts > own.ts',
      'packages/b/b.ts > packages/a/src/index.ts',
      'packages/b/b.ts > packages/a/src/x.ts',
    ]);
    expect(found.unresolved).toEqual([]);
    expect(found.external).toEqual(['@w/other', 'node:fs']);
  });

  test('Python, Go and Rust are resolved by their own rules, within the workspace', async () => {
    put({
      'app/__init__.py': '',
      'app/main.py': 'from .util import f\nfrom app import other\nimport os\n',
      'app/util.py': '',
      'app/other.py': 'import app.main\n',
      'go.mod': 'module example.org/m\n',
      'cmd/main.go': 'package main\nimport "example.org/m/pkg"\nimport "fmt"\n',
      'pkg/p.go': 'package pkg\n',
      'rs/src/main.rs': 'mod inner;\nuse crate::inner::deep::f;\nuse std::fmt;\n',
      'rs/src/inner/mod.rs': 'pub mod deep;\nuse super::x;\n',
      'rs/src/inner/deep.rs': 'use crate::inner;\n',
    });
    const found = await graph({ show: 'imports' });
    expect(edgesOf(found)).toEqual([
      'app/main.py > app/other.py',
      'app/main.py > app/util.py',
      'app/other.py > app/main.py',
      'cmd/main.go > pkg/p.go',
      'rs/src/inner/deep.rs > rs/src/inner/mod.rs',
      'rs/src/inner/mod.rs > rs/src/inner/deep.rs',
      'rs/src/main.rs > rs/src/inner/deep.rs',
      'rs/src/main.rs > rs/src/inner/mod.rs',
    ]);
    expect(found.external).toEqual(['fmt', 'os', 'std']);
    expect(found.cycles).toContainEqual(['app/main.py', 'app/other.py']);
  });
});

test('imports and importers are followed for so many steps', async () => {
  put({ 'a.ts': "import './b';", 'b.ts': "import './c';", 'c.ts': "import './d';", 'd.ts': '' });
  expect((await graph({ show: 'imports', file: './a.ts', depth: 2 })).nodes).toEqual(['a.ts', 'b.ts', 'c.ts']);
  expect((await graph({ show: 'importers', file: 'd.ts', depth: 1 })).nodes).toEqual(['d.ts', 'c.ts']);
  await expect(graph({ show: 'imports', file: 'none.ts' })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
});

test('possibly unused files are reported with a reason, and files that tests, package.json and configuration use are not', async () => {
  put({
    'package.json': '{ "main": "dist/entry.js", "scripts": { "gen": "node tool/gen.ts" } }',
    'src/entry.ts': "import { a } from './a.ts';\nexport * from './passed.ts';\na();",
    'src/a.ts': 'export const a = () => {};\nexport const never = 1;',
    'src/passed.ts': 'export const passed = 1;',
    'src/dead.ts': "import './deader.ts';",
    'src/deader.ts': '',
    'tool/gen.ts': '',
    'test/a.test.ts': '',
    'vite.config.ts': '',
  });
  const found = await graph({ show: 'unused' });
  expect(found.unusedFiles).toMatchObject([
    { file: 'src/dead.ts', reason: expect.stringContaining('Nothing imports it') },
    { file: 'src/deader.ts', reason: expect.stringContaining('such as src/dead.ts') },
  ]);
  expect(found.unusedExports).toMatchObject([{ file: 'src/a.ts', line: 2, name: 'never' }]);
});

test('a change, a new file and a deleted one are seen by the next call', async () => {
  put({ 'a.ts': "import './b.ts';" });
  expect((await graph()).unresolved).toHaveLength(1);
  put({ 'b.ts': '' });
  expect(await allEdges()).toEqual(['a.ts > b.ts']);
  put({ 'a.ts': '// no longer imports anything\n' });
  expect(await allEdges()).toEqual([]);
  put({ 'a.ts': "import '@x';\n", 'tsconfig.json': '{ "compilerOptions": { "paths": { "@x": ["./b.ts"] } } }' });
  expect(await allEdges()).toEqual(['a.ts > b.ts']);
  rmSync(join(workspace, 'b.ts'));
  expect(await allEdges()).toEqual([]);
});

describe('hostile trees', () => {
  test('links, extends, paths and specifiers that lead out of the workspace lead nowhere', async () => {
    mkdirSync(join(outside, 'secret'));
    writeFileSync(join(outside, 'secret/found.ts'), 'export const secret = 1;');
    writeFileSync(join(outside, 'secret/tsconfig.json'), '{ "compilerOptions": { "paths": { "@s": ["./a.ts"] } } }');
    put({
      'a.ts':
        "import '../secret/found.ts';\nimport './link/found.ts';\nimport '@out/found';\nimport '@s';\nimport './file';",
      'tsconfig.json':
        '{ "extends": ["../secret/tsconfig.json", "./link/tsconfig.json"], "compilerOptions": { "paths": { "@out/*": ["../secret/*"] } } }',
    });
    symlinkSync(join(outside, 'secret'), join(workspace, 'link'));
    symlinkSync(join(outside, 'secret/found.ts'), join(workspace, 'file.ts'));
    const found = await graph({ show: 'imports' });
    expect(found.edges).toEqual([]);
    expect(found.nodes).toEqual(['a.ts']);
    expect(found.unresolved.map((it) => it.module)).toEqual([
      '../secret/found.ts',
      './link/found.ts',
      '@out/found',
      './file',
    ]);
    expect(found.external).toEqual(['@s']);
    expect(JSON.stringify(found)).not.toContain('secret = 1');
  });

  test('a file that the policy hides is not read, and its importer is told that it is not shown', async () => {
    put({ 'a.ts': "import './private/key.ts';", 'private/key.ts': "import './other.ts';", 'private/other.ts': '' });
    tools.servers[Symbol.dispose]();
    const deny = {
      id: 'private',
      match: { path: 'private/**' },
      decision: 'deny',
      reason: 'It is private.',
      source: 'test',
    } as const;
    tools = toolRunner({ workspace, rules: [deny as never] });
    const found = await graph({ show: 'imports' });
    expect(found.nodes).toEqual(['a.ts']);
    expect(found.unresolved[0]?.reason).toContain('not shown');
  });

  test('nesting that ends the parser costs that file only', async () => {
    put({
      'a.ts': "import './bad.ts';",
      'bad.ts': `const a = ${'['.repeat(100_000)}${']'.repeat(100_000)};`,
      'c.ts': "import './a.ts';",
    });
    expect(await graph()).toMatchObject({ skipped: ['bad.ts'], totals: { files: 2 } });
    expect(await allEdges()).toEqual(['a.ts > bad.ts', 'c.ts > a.ts']);
  });

  test('configuration that nests, lies about its types or is no JSON is ignored', async () => {
    put({
      'package.json': `{"main":${'['.repeat(100_000)}`,
      'tsconfig.json': '{ "compilerOptions": { "paths": [1], "baseUrl": {} }, "extends": 5, "references": "x" }',
      'sub/tsconfig.json': 'no json',
      'a.ts': "import './sub/b.ts';",
      'sub/b.ts': '',
    });
    expect(await allEdges()).toEqual(['a.ts > sub/b.ts']);
  });

  test('10 000 files are gone through, and the answer stays within its bounds', async () => {
    for (let at = 0; at < 10_000; at += 1)
      put({ [`d${at % 100}/f${at}.ts`]: `import '../d${(at + 1) % 100}/f${(at + 1) % 10_000}.ts';\n` });
    const found = await graph({ show: 'imports' });
    expect(found).toMatchObject({ totals: { files: 10_000, edges: 10_000, cycles: 1 }, truncated: true });
    expect(found.edges).toHaveLength(2_000);
    expect(found.nodes).toHaveLength(2_000);
  }, 60_000);
});

test('the graph of this repository has the imports that a search for them finds', async () => {
  const root = fileURLToPath(new URL('../../../..', import.meta.url));
  tools.servers[Symbol.dispose]();
  tools = toolRunner({ workspace: root, limits: { graphEntriesMax: 100_000 } });
  const found = await graph({ path: 'src', show: 'imports' });
  const searched = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((it) => it.endsWith('.ts'))
    .flatMap((it) => {
      const from = join('src', it);
      const text = readFileSync(join(root, from), 'utf8');
      const names = [...text.matchAll(/(?:from |import\(|^import )'(\.[^']+)'/gm)].map(([, name = '']) => name);
      const targets = new Set(names.map((name) => relative(root, join(root, dirname(from), name))));
      return [...targets]
        .filter((to) => to.startsWith('src/') && existsSync(join(root, to)))
        .map((to) => `${from} > ${to}`);
    });
  expect(found.edges.map((it) => `${it.from} > ${it.to}`).sort()).toEqual(searched.sort());
  expect(found.cycles).toEqual([]);
});
