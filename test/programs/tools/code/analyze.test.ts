/** code_analyze: complexity beside biome's rule, duplicates that were seeded, dependencies, hostile sources. */
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Analysis } from '../../../../src/tools/source/analysis.ts';
import { toolRunner } from '../../../support/search.ts';

const root = fileURLToPath(new URL('../../../..', import.meta.url));
let workspace: string;
let tools: ReturnType<typeof toolRunner>;
beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-analyze-')));
  tools = toolRunner({ workspace });
});
afterEach(() => {
  tools.servers[Symbol.dispose]();
  rmSync(workspace, { recursive: true, force: true });
});
const put = (path: string, text: string) => {
  mkdirSync(join(workspace, dirname(path)), { recursive: true });
  writeFileSync(join(workspace, path), text);
};
const analyze = (input: Record<string, unknown>) => tools.run<Analysis>('code_analyze', input);
const measured = async (path: string) =>
  (await analyze({ path, top: 500 })).complexity?.functions
    .sort((a, b) => a.line - b.line || a.column - b.column)
    .map((it) => [it.name, it.cyclomatic, it.cognitive]);

describe('maintainability', () => {
  test('maintainability is the index that its formula gives, of the function without its inner functions', async () => {
    // 11 tokens, 10 of them distinct, one line: 171 - 5.2 ln(11 log2 10) - 0.23 - 0 = 152.1 of 171.
    put('a.ts', 'function f(a, b) { return a; }\n// comments do not count: x y z\n');
    const complexity = async (path: string) => (await analyze({ path, top: 500 })).complexity;
    expect(await complexity('a.ts')).toMatchObject({ maintainability: 89, functions: [{ maintainability: 89 }] });
    put('b.ts', 'function f(a, b) { return () => { while (a) { a = b + 1; b = a * 2; } return b; }; }\n');
    const [outer, inner] = ((await complexity('b.ts'))?.functions ?? []).sort((a, b) => a.column - b.column);
    expect(outer?.maintainability).toBeGreaterThan(inner?.maintainability ?? 100);
  });

  test('falls with length, vocabulary and branches, and stays between 0 and 100', async () => {
    const body = Array.from({ length: 3000 }, (_, at) => `  if (a${at} > ${at}) { b${at} = "c${at}" + d${at}; }`).join(
      '\n',
    );
    put('long.ts', `function long() {\n${body}\n}\nfunction none() {}\n`);
    const { functions = [] } = (await analyze({ path: 'long.ts' })).complexity ?? {};
    expect(functions.map((it) => [it.name, it.maintainability])).toEqual([
      ['long', 0],
      ['none', expect.toSatisfy((it: number) => it > 90 && it <= 100)],
    ]);
  });

  test('takes time that grows with the text, however deep functions lie in each other', {
    timeout: 20_000,
  }, async () => {
    put('deep.ts', `${'const f = () => {'.repeat(300)}${'x+'.repeat(20_000)}x${'}'.repeat(300)}`);
    const { complexity, skipped } = await analyze({ path: 'deep.ts' });
    expect(skipped).toEqual([]);
    expect(complexity?.totalFunctions).toBe(300);
  });
});

describe('complexity', () => {
  test('each language counts branches, cases and operators; what is nested is harder to read', async () => {
    put(
      'a.ts',
      [
        'function chain(a) { if (a) {} else if (a.b) {} else { while (a) {} } }',
        'const arrow = (a) => (a && a && a) || a ? 1 : 2;',
        'class C { run(a) { switch (a) { case 1: if (a) {} break; case 2: default: } } get own() { return 1; } }',
        'function outer(a) { if (a) { return a.map((b) => { for (const c of b) { if (c) {} } }); } }',
        'function jump() { out: for (;;) { try { continue out; } catch {} } }',
      ].join('\n'),
    );
    expect(await measured('a.ts')).toEqual([
      ['chain', 4, 5],
      ['arrow', 5, 3],
      ['run', 4, 3],
      ['own', 1, 0],
      ['outer', 2, 1],
      ['(anonymous)', 3, 7],
      ['jump', 3, 4],
    ]);
    put(
      'a.py',
      'def f(a):\n  if a and a:\n    for b in a:\n      pass\n  elif a:\n    pass\n  else:\n    pass\nx = lambda b: 1 if b else 2\n',
    );
    expect(await measured('a.py')).toEqual([
      ['f', 5, 6],
      ['x', 2, 1],
    ]);
    put(
      'a.go',
      'package p\nfunc F(a int) int {\n if a > 1 && a < 3 {\n  for {\n  }\n } else if a > 4 {\n }\n switch a {\n case 1:\n case 2:\n }\n return 1\n}\n',
    );
    expect(await measured('a.go')).toEqual([['F', 7, 6]]);
    put('a.rs', 'fn f(a: i32) -> i32 { if a > 1 { loop { } } else if a > 2 { } match a { 1 => 2, _ => 3 } }\n');
    expect(await measured('a.rs')).toEqual([['f', 6, 5]]);
  });

  test('cognitive complexity is what biome counts, over the sources of this repository', async () => {
    for (const it of ['src', 'workers']) cpSync(join(root, it), join(workspace, it), { recursive: true });
    const rule = { level: 'warn', options: { maxAllowedComplexity: 1 } };
    const rules = { recommended: false, complexity: { noExcessiveCognitiveComplexity: rule } };
    put('biome.json', JSON.stringify({ root: true, linter: { rules } }));
    const args = ['lint', '--max-diagnostics=none', '--reporter=json', '.'];
    const output = execFileSync(join(root, 'node_modules/.bin/biome'), args, {
      cwd: workspace,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      maxBuffer: 1e9,
    });
    const { diagnostics } = JSON.parse(output) as {
      diagnostics: { message: string; location: { path: string; start: { line: number } } }[];
    };
    // Several functions may begin in one line: they are compared as a set of numbers.
    const theirs = new Map<string, number[]>();
    for (const { message, location } of diagnostics) {
      const key = `${location.path}:${location.start.line}`;
      theirs.set(key, [...(theirs.get(key) ?? []), Number(/complexity of (\d+)/.exec(message)?.[1])]);
    }
    tools.servers[Symbol.dispose]();
    tools = toolRunner({ workspace });
    const ours = new Map<string, number[]>();
    const { complexity } = await tools.run<Analysis>('code_analyze', { top: 500, threshold: 2 });
    // biome counts accessors for what holds them, nests what a `try` with `finally` holds, and no `else` without braces.
    const isTheirOwn = (file: string, line: number, lines: number) =>
      /\bfinally\b|\b[gs]et [#\w]+\(|\belse (?!if\b|\{)/.test(
        readFileSync(join(workspace, file), 'utf8')
          .split('\n')
          .slice(line - 1, line - 1 + lines)
          .join('\n'),
      );
    let compared = 0;
    const textOf = new Map<string, string>();
    for (const { file, line, lines, cognitive } of complexity?.functions ?? []) {
      if (cognitive < 2 || isTheirOwn(file, line, lines)) continue;
      ours.set(`${file}:${line}`, [...(ours.get(`${file}:${line}`) ?? []), cognitive]);
      compared += 1;
      const source = readFileSync(join(workspace, file), 'utf8').split('\n');
      textOf.set(`${file}:${line}`, source.slice(line - 1, line - 1 + lines).join('\n'));
    }
    // In a nested block, biome may miss a logical operator that an earlier statement of the function had, too.
    const repeatsAnOperator = (file: string, line: number) =>
      ['&&', '||', '??'].some((it) => (textOf.get(`${file}:${line}`) ?? '').split(it).length > 2);
    const differing = [...ours].filter(([key, numbers]) => {
      const [file = '', line = ''] = key.split(':');
      // A name may stand in a later line than the function begins.
      const mayMiss = repeatsAnOperator(file, Number(line));
      const near = [0, 1, 2].map((more) => theirs.get(`${file}:${Number(line) + more}`));
      return !near.some(
        (it) => it !== undefined && numbers.every((one) => it.includes(one) || (mayMiss && it.includes(one - 1))),
      );
    });
    expect(differing).toEqual([]);
    expect(compared).toBeGreaterThan(300);
  }, 120_000);
});

describe('duplicates', () => {
  const body = (name: string, other = 'total') =>
    [
      `export function ${name}(items) {`,
      `  let ${other} = 0;`,
      '  for (const item of items) {',
      '    if (item.price > 100 && item.count > 0) {',
      `      ${other} += item.price * item.count * (1 - item.discount);`,
      '    } else if (item.price > 10) {',
      `      ${other} += item.price * item.count;`,
      '    }',
      '  }',
      `  return Math.round(${other} * 100) / 100;`,
      '}',
    ].join('\n');

  test('a copy is found with its lines, with other layout, comments and some other names, too', async () => {
    put('a.ts', `const x = 1;\n${body('first')}\n`);
    put('b.ts', `// Another file.\n\n${body('second', 'sum').replaceAll('\n', '\n// A comment.\n')}\n`);
    put('c.ts', 'export const c = 1;\n');
    const { duplicates } = await analyze({ checks: ['duplicates'] });
    expect(duplicates).toMatchObject([{ file1: 'a.ts', line1: 2, file2: 'b.ts', line2: 3 }]);
    expect(duplicates?.[0]?.similarity).toBeGreaterThanOrEqual(0.8);
    expect(duplicates?.[0]?.similarity).toBeLessThan(1);
  });

  test('two copies in one file are found, and tables of the same shape are no copies', async () => {
    put('a.ts', `${body('first')}\n${body('second')}\n`);
    const table = Array.from({ length: 40 }, (_, at) => `  name${at}: { key${at}: 'value${at}', other: ${at} },`);
    put('b.ts', `export const table = {\n${table.join('\n')}\n};\n`);
    const { duplicates } = await analyze({ checks: ['duplicates'] });
    expect(duplicates).toMatchObject([{ file1: 'a.ts', line1: 1, file2: 'a.ts', line2: 12, lines: 11 }]);
  });
});

test('dependencies of a directory are what it imports from elsewhere, and what that imports', async () => {
  put('lib/a.ts', "import './b.ts';\nimport '../other/c.ts';\nimport 'zod';");
  put('lib/b.ts', "import './a.ts';");
  put('other/c.ts', "import './d.ts';");
  put('other/d.ts', '');
  expect(await analyze({ path: 'lib', checks: ['dependencies'] })).toMatchObject({
    dependencies: {
      direct: ['other/c.ts'],
      transitive: ['other/d.ts'],
      external: ['zod'],
      cycles: [['lib/a.ts', 'lib/b.ts']],
    },
  });
});

describe('hostile sources', () => {
  test('nesting, 200 000 tokens and texts that never end cost no more than their file', async () => {
    put('deep.ts', `function f() { ${'if (a) {'.repeat(20_000)} ${'}'.repeat(20_000)} }`);
    put('long.ts', `function g(a) { ${'if (a && a) a();\n'.repeat(20_000)} }`);
    put('open.ts', `const a = "${'\\'.repeat(100_001)}\n\`${'/*'.repeat(100_000)}`);
    put('bad.ts', `const a = ${'['.repeat(150_000)}${']'.repeat(150_000)};`);
    put('good.ts', 'function h() {}');
    const found = await analyze({ checks: ['complexity', 'duplicates', 'security'] });
    expect(found.complexity?.functions.map((it) => it.name)).toEqual(expect.arrayContaining(['g', 'h']));
    expect(found.files).toBe(5);
  }, 60_000);

  test('a link out of the workspace and a file without a parser are refused', async () => {
    symlinkSync('/etc/passwd', join(workspace, 'out.ts'));
    put('a.rb', '');
    await expect(analyze({ path: 'out.ts' })).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
    await expect(analyze({ path: 'a.rb' })).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  });
});
