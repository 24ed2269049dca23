/** Symbols of real sources, by the real language server and parsers, as in a host. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { FoundReference, FoundSymbol } from '../../../../src/tools/source/symbols.ts';
import { toolRunner } from '../../../support/search.ts';

interface SymbolData {
  symbols: FoundSymbol[];
  totalResults: number;
  precision: string;
  truncated: boolean;
  skipped?: string[];
}
interface ReferenceData {
  references: FoundReference[];
  definitions: FoundSymbol[];
  totalReferences: number;
  precision: string;
  truncated: boolean;
  skipped?: string[];
}

let workspace: string;
let tools: ReturnType<typeof toolRunner>;

beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-symbols-')));
  tools = toolRunner({ workspace });
});
afterEach(() => {
  tools.servers[Symbol.dispose]();
  rmSync(workspace, { recursive: true, force: true });
});

function write(files: Record<string, string>): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(workspace, path)), { recursive: true });
    writeFileSync(join(workspace, path), text);
  }
}

const find = (input: Record<string, unknown>, signal?: AbortSignal) =>
  tools.run<SymbolData>('workspace_search_symbol', input, signal);
const refer = (input: Record<string, unknown>, signal?: AbortSignal) =>
  tools.run<ReferenceData>('workspace_find_references', input, signal);
const placesOf = ({ references }: ReferenceData) => references.map((it) => `${it.file}:${it.line}:${it.column}`);
const namesOf = ({ symbols }: SymbolData) => symbols.map((it) => `${it.type} ${it.name} ${it.file}:${it.line}`);

const SHAPES = {
  'tsconfig.json': '{ "include": ["src"] }',
  'src/shape.ts':
    'export interface Shape { area(): number }\nexport type Alias = Shape;\nexport enum Color { Red }\n' +
    'export class Circle implements Shape {\n  constructor(readonly radius: number) {}\n  area() { return this.radius ** 2; }\n}\n' +
    'export function total(shapes: Shape[]) {\n  const sum = 0;\n  return shapes.reduce((it, one) => it + one.area(), sum);\n}\n',
  'src/use.ts':
    "import { Circle, total } from './shape.ts';\n/* é😀 */ total([new Circle(1)]);\nconst area = 'area';\n",
};

describe('symbols of TypeScript', () => {
  test('symbols are found by name or a part of it, with what they are', async () => {
    write(SHAPES);
    expect(await find({ query: 'circle' })).toEqual({
      symbols: [
        {
          name: 'Circle',
          type: 'class',
          file: 'src/shape.ts',
          line: 4,
          preview: 'export class Circle implements Shape {',
        },
      ],
      totalResults: 1,
      precision: 'semantic',
      truncated: false,
    });
    expect(namesOf(await find({ query: 'Shape' }))).toContain('interface Shape src/shape.ts:1');
    expect(namesOf(await find({ query: 'Alias' }))).toEqual(['type Alias src/shape.ts:2']);
    expect(namesOf(await find({ query: 'Color', type: 'type' }))).toEqual(['type Color src/shape.ts:3']);
    expect(namesOf(await find({ query: 'area', type: 'function' }))).toEqual([
      'function area src/shape.ts:1',
      'function area src/shape.ts:6',
    ]);
    expect(await find({ query: 'nowhere' })).toMatchObject({ symbols: [], totalResults: 0, truncated: false });
  });

  test('references are those of the symbol, not of its name, and columns count UTF-16 units', async () => {
    write(SHAPES);
    expect(await refer({ symbol: 'total' })).toMatchObject({
      references: [
        { file: 'src/shape.ts', line: 8, column: 17, context: 'export function total(shapes: Shape[]) {' },
        { file: 'src/use.ts', line: 1, column: 18 },
        { file: 'src/use.ts', line: 2, column: 11, context: '/* é😀 */ total([new Circle(1)]);' },
      ],
      definitions: [{ name: 'total', type: 'function', file: 'src/shape.ts', line: 8 }],
      totalReferences: 3,
      precision: 'semantic',
      truncated: false,
    });
    const area = placesOf(await refer({ symbol: 'area', file: 'src/shape.ts', line: 6 }));
    expect(area).toContain('src/shape.ts:10:46');
    expect(area.filter((it) => it.startsWith('src/use.ts'))).toEqual([]);
    expect(placesOf(await refer({ symbol: 'area', file: './src/use.ts', line: 3 }))).toEqual(['src/use.ts:3:7']);
    // A parameter, which no symbol search finds.
    expect(placesOf(await refer({ symbol: 'one', file: 'src/shape.ts' }))).toEqual([
      'src/shape.ts:10:29',
      'src/shape.ts:10:42',
    ]);
  });

  test('without a file all symbols of a name are followed, and told', async () => {
    write({ 'a.ts': 'export const same = 1;\n', 'b.ts': 'export const same = 2;\nsame.toFixed();\n' });
    const found = await refer({ symbol: 'same' });
    expect(found.definitions.map((it) => it.file)).toEqual(['a.ts', 'b.ts']);
    expect(placesOf(found)).toEqual(['a.ts:1:14', 'b.ts:1:14', 'b.ts:2:1']);
    expect(placesOf(await refer({ symbol: 'same', file: 'a.ts' }))).toEqual(['a.ts:1:14']);
    expect(await refer({ symbol: 'same', maxResults: 2 })).toMatchObject({ totalReferences: 3, truncated: true });
  });

  test('files that their project leaves out, and projects beside each other, are looked into', async () => {
    write({
      ...SHAPES,
      'test/total.test.ts': "import { total } from '../src/shape.ts';\ntotal([]);\nfunction checkTotals() {}\n",
      'other/tsconfig.json': '{}',
      'other/deep/more.js': "import { total } from '../../src/shape.ts';\nexport class Elsewhere {}\n",
    });
    expect(placesOf(await refer({ symbol: 'total' }))).toEqual([
      ...['other/deep/more.js:1:10', 'src/shape.ts:8:17', 'src/use.ts:1:18', 'src/use.ts:2:11'],
      ...['test/total.test.ts:1:10', 'test/total.test.ts:2:1'],
    ]);
    expect(namesOf(await find({ query: 'Elsewhere' }))).toEqual(['class Elsewhere other/deep/more.js:2']);
    expect(namesOf(await find({ query: 'totals' }))).toEqual(['function checkTotals test/total.test.ts:3']);
  });

  test('an answer is that of the files as they are now', async () => {
    write(SHAPES);
    expect((await refer({ symbol: 'Circle' })).totalReferences).toBe(3);
    write({
      'src/use.ts': '// nothing\n',
      'src/new é#.ts': "\uFEFFimport { Circle } from './shape.ts';\r\nnew Circle(2);\r\n",
    });
    expect(placesOf(await refer({ symbol: 'Circle' }))).toEqual([
      ...['src/new é#.ts:1:10', 'src/new é#.ts:2:5', 'src/shape.ts:4:14'],
    ]);
    write({ 'src/shape.ts': 'export const gone = 1;\n\nexport class Circle {}\n' });
    expect(placesOf(await refer({ symbol: 'Circle' }))).toContain('src/shape.ts:3:14');
    rmSync(join(workspace, 'src/new é#.ts'));
    expect(placesOf(await refer({ symbol: 'Circle' }))).toEqual(['src/shape.ts:3:14']);
    write({ 'tsconfig.json': '{ "include": ["lib"] }', 'lib/x.ts': 'export const inLib = 1;\n' });
    expect(namesOf(await find({ query: 'inLib' }))).toEqual(['variable inLib lib/x.ts:1']);
  });

  test('symbols of ignored, hidden or refused files are not shown', async () => {
    write({
      ...SHAPES,
      '.gitignore': 'dist/\n',
      'dist/shape.ts': 'export function total() {}\n',
      'node_modules/x/index.ts': 'export function total() {}\n',
      'src/private.ts': "import { total } from './shape.ts';\ntotal([]);\nexport const privately = 1;\n",
    });
    const rule = {
      id: 'private',
      reason: 'No.',
      decision: 'deny',
      source: 'test',
      match: { path: '**/private*' },
    };
    tools.servers[Symbol.dispose]();
    tools = toolRunner({ workspace, rules: [rule as never] });
    expect(placesOf(await refer({ symbol: 'total' }))).toEqual([
      'src/shape.ts:8:17',
      'src/use.ts:1:18',
      'src/use.ts:2:11',
    ]);
    expect(await find({ query: 'privately' })).toMatchObject({ symbols: [], totalResults: 0 });
    await expect(refer({ symbol: 'privatel' })).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.not.stringContaining('privately'),
    });
    await expect(refer({ symbol: 'total', file: 'src/private.ts' })).rejects.toMatchObject({ code: 'POLICY_DENIED' });
    await expect(refer({ symbol: 'total', file: 'dist/shape.ts' })).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  });

  test('an unknown symbol is answered with similar names', async () => {
    write(SHAPES);
    await expect(refer({ symbol: 'Circl' })).rejects.toMatchObject({
      code: 'NOT_FOUND',
      extras: { suggestion: 'There are `Circle`.' },
    });
    await expect(refer({ symbol: 'total', file: 'src/use.ts', line: 3 })).rejects.toMatchObject({
      code: 'NOT_FOUND',
      extras: { suggestion: 'It occurs in line 1, 2.' },
    });
    await expect(refer({ symbol: 'x', file: 'src/none.ts' })).rejects.toMatchObject({ code: 'NOT_FOUND' });
    await expect(refer({ symbol: 'total', line: 3 })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  });
});

describe('symbols of Python, Rust and Go', () => {
  const SOURCES = {
    'app/model.py':
      'LIMIT, other = 1, 2\nclass Model:\n    size = 1\n    def save(self):\n        local = LIMIT\n# LIMIT\n',
    'app/use.py': "from model import Model as M, LIMIT\nx = 'é😀', LIMIT\nprint('LIMIT')\n",
    'src/lib.rs':
      'pub struct Store<T> { items: T }\ntrait Keep { fn keep(&self); }\nenum Kind { One }\nimpl Keep for Store<u8> { fn keep(&self) {} }\n',
    'main.go':
      'package main\n\ntype Server struct{ Port int }\ntype Doer interface{ Do() }\n\nfunc (s *Server) Start() int { return s.Port }\nvar server = Server{}\n',
  };

  test('symbols are found by their syntax', async () => {
    write(SOURCES);
    expect(await find({ query: 'model' })).toMatchObject({
      symbols: [{ name: 'Model', type: 'class', file: 'app/model.py', line: 2, preview: 'class Model:' }],
      precision: 'syntactic',
    });
    expect(namesOf(await find({ query: 'limit' }))).toEqual(['variable LIMIT app/model.py:1']);
    expect(namesOf(await find({ query: 'save' }))).toEqual(['function save app/model.py:4']);
    expect(namesOf(await find({ query: 'local' }))).toEqual([]);
    expect(namesOf(await find({ query: 'keep' }))).toEqual([
      ...['function keep src/lib.rs:2', 'function keep src/lib.rs:4', 'interface Keep src/lib.rs:2'],
    ]);
    expect(namesOf(await find({ query: 'kind' }))).toEqual(['type Kind src/lib.rs:3']);
    expect(namesOf(await find({ query: 'server' }))).toEqual(['variable server main.go:7', 'class Server main.go:3']);
    expect(namesOf(await find({ query: 'do', type: 'interface' }))).toEqual(['interface Doer main.go:4']);
  });

  test('references are all identifiers of that name, and no texts or comments', async () => {
    write(SOURCES);
    expect(await refer({ symbol: 'LIMIT' })).toMatchObject({ precision: 'syntactic', totalReferences: 4 });
    expect(placesOf(await refer({ symbol: 'LIMIT' }))).toEqual([
      ...['app/model.py:1:1', 'app/model.py:5:17', 'app/use.py:1:31', 'app/use.py:2:12'],
    ]);
    expect(placesOf(await refer({ symbol: 'Store' }))).toEqual(['src/lib.rs:1:12', 'src/lib.rs:4:15']);
    expect(placesOf(await refer({ symbol: 'Port', file: 'main.go', line: 3 }))).toEqual([
      'main.go:3:21',
      'main.go:6:41',
    ]);
  });

  test('a name of several languages is found in all of them', async () => {
    write({ ...SOURCES, 'web/model.ts': 'export class Model {}\n' });
    expect(await find({ query: 'Model' })).toMatchObject({ totalResults: 2, precision: 'mixed' });
    const found = await refer({ symbol: 'Model' });
    expect(found).toMatchObject({
      precision: 'mixed',
      definitions: [{ file: 'app/model.py' }, { file: 'web/model.ts' }],
    });
    expect(placesOf(found)).toEqual(['app/model.py:2:7', 'app/use.py:1:19', 'web/model.ts:1:14']);
  });
});
