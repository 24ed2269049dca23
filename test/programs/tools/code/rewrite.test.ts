/** code_rewrite: what it matches, what it writes, and that a text that breaks the parser breaks nothing else. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { systemPowers } from '../../../../src/base/powers.ts';
import codeRewrite from '../../../../src/tools/code/rewrite.ts';
import { LanguageServers } from '../../../../workers/symbols/language-servers.ts';
import { ruleOf } from '../../../support/policy.ts';
import { makeWorkspace, type TestWorkspace } from '../../../support/workspace.ts';

const servers = new LanguageServers(defaultLimits, systemPowers());
afterAll(() => servers[Symbol.dispose]());
let ws: TestWorkspace;
beforeEach(() => {
  ws = makeWorkspace();
});
afterEach(() => ws[Symbol.dispose]());

const put = (name: string, text: string) => writeFileSync(join(ws.path, name), text);
const textOf = (name: string) => readFileSync(join(ws.path, name), 'utf8');
const rewrite = (input: object, its = ws) =>
  its.run(codeRewrite, { pattern: 'x()', rewrite: 'y()', language: 'typescript', ...input }, { servers });

describe('a match', () => {
  test.each([
    ['one node', 'f($A)', 'g($A, 1)', 'f(a);', 'g(a, 1);'],
    [
      'any number of nodes, with what stands between them',
      'f($$$A)',
      'g($$$A)',
      'f(a,  b, /* c */ 3);',
      'g(a,  b, /* c */ 3);',
    ],
    ['no node', 'f($$$A)', 'g($$$A)', 'f();', 'g();'],
    ['the same name twice', '$A == $A', 'true', 'if (a.b == a.b) c == d;', 'if (true) c == d;'],
    ['code in another layout', 'f(a, b)', 'g()', 'f(\n  a,\n  b,\n);', 'g();'],
    ['no text or comment', 'f(a)', 'g()', '"f(a)"; // f(a)\nf(a);', '"f(a)"; // f(a)\ng();'],
    ['the outermost of nested ones', 'f($A)', 'g($A)', 'f(f(1));', 'g(f(1));'],
    ['code after characters of two UTF-16 units', 'f($A)', 'g($A)', '"😀𝒳"; f("😀"); f(2);', '"😀𝒳"; g("😀"); g(2);'],
    ['a dollar in the code that is kept', 'f($A)', 'g($A)', 'f(`${a}$&$1`);', 'g(`${a}$&$1`);'],
  ])('takes %s', async (_, pattern, by, before, after) => {
    put('a.ts', before);
    await rewrite({ pattern, rewrite: by });
    expect(textOf('a.ts')).toBe(after);
  });

  test('keeps a BOM and the line endings of the file', async () => {
    put('a.ts', '\ufefff(1);\r\nf(\r\n  2,\r\n);\r\n');
    await rewrite({ pattern: 'f($A)', rewrite: 'g(\n  $A,\n)' });
    expect(textOf('a.ts')).toBe('\ufeffg(\r\n  1,\r\n);\r\ng(\r\n  2,\r\n);\r\n');
  });

  test.each([
    ['javascript', 'a.jsx', 'const a = <b c={x()} />;', 'const a = <b c={y()} />;'],
    ['typescript', 'a.tsx', 'const a = <b c={x()} />;', 'const a = <b c={y()} />;'],
    ['python', 'a.py', 'if a:\n    x()\n', 'if a:\n    y()\n'],
    ['rust', 'a.rs', 'fn a() { x() }\n', 'fn a() { y() }\n'],
    ['go', 'a.go', 'package a\n\nfunc b() {\n\tx()\n}\n', 'package a\n\nfunc b() {\n\ty()\n}\n'],
  ])('a match is found in %s', async (language, name, before, after) => {
    put(name, before);
    expect(await rewrite({ language })).toMatchObject({ totalReplacements: 1, files: [{ path: name }] });
    expect(textOf(name)).toBe(after);
  });
});

describe('a rewrite that changes nothing', () => {
  test('a preview changes nothing and shows the same diffs', async () => {
    put('a.ts', 'x();\n');
    const { files } = await rewrite({ preview: true });
    expect(files[0]?.diff).toContain('-x();\n+y();');
    expect(textOf('a.ts')).toBe('x();\n');
    expect((await rewrite({})).files).toEqual(files);
  });

  test.each([
    ['pattern is several pieces of code', { pattern: 'a; b' }, 'INPUT_INVALID'],
    ['rewrite names what pattern does not', { pattern: 'x()', rewrite: 'y($$$A)' }, 'INPUT_INVALID'],
    ['one of the files would no longer be valid code', { rewrite: 'y((' }, 'INPUT_INVALID'],
    ['more files would change than are allowed', { maxFiles: 1 }, 'FILE_LIMIT'],
  ])('a rewrite changes nothing if %s', async (_, input, code) => {
    put('a.ts', 'x();\n');
    put('b.ts', 'x();\n');
    await expect(rewrite(input)).rejects.toMatchObject({ code });
    expect(ws.tree()).toEqual({ 'a.ts': 'x();\n', 'b.ts': 'x();\n' });
  });

  test('a rewrite leaves files of other languages, hidden, ignored and protected files unchanged', async () => {
    using held = makeWorkspace({ rules: [ruleOf('deny', { path: ['**/key.ts'] }, { code: 'SENSITIVE_FILE' })] });
    for (const name of ['a.ts', 'key.ts', '.b.ts', 'c.py', 'gen.ts']) writeFileSync(join(held.path, name), 'x()');
    writeFileSync(join(held.path, '.gitignore'), 'gen.ts\n');
    const { files, skipped } = await rewrite({}, held);
    expect(files.map((it) => it.path)).toEqual(['a.ts']);
    expect(skipped).toEqual([{ path: 'key.ts', code: 'SENSITIVE_FILE' }]);
  });
});

test('a text that ends the parser is skipped, and the other files are changed', async () => {
  put('a.py', 'x()\n');
  put('deep.py', `x()\ntarget = ${'{a:'.repeat(400_000)}${'}'.repeat(400_000)}\n`);
  put('z.py', 'x()\n');
  const { files, skipped } = await rewrite({ language: 'python' });
  expect(files.map((it) => it.path)).toEqual(['a.py', 'z.py']);
  expect(skipped).toEqual([{ path: 'deep.py', code: 'HOST_CRASHED' }]);
});

describe('a plan of the read_only host', () => {
  const asked = () => codeRewrite.input.parse({ pattern: 'x()', rewrite: 'y()', language: 'typescript', path: 'src' });
  interface Plan {
    files: { path: string; declared: string; edits: string }[];
  }
  const planned = async (): Promise<Plan> => {
    mkdirSync(join(ws.path, 'src'));
    for (const it of ['src/a.ts', 'src/b.ts', 'c.ts']) put(it, 'x();\n');
    return (await codeRewrite.before?.plan?.(asked(), ws.context({ servers }))) as Plan;
  };
  const run = (plan: Plan) => codeRewrite.run?.(asked(), ws.context({ planned: plan }));

  test('a plan is not carried out if a file changed since, and no other file changes then', async () => {
    const plan = await planned();
    put('src/b.ts', 'x(); // newer\n');
    await expect(run(plan)).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(textOf('src/a.ts')).toBe('x();\n');
  });

  test.each<[string, (plan: Plan) => void]>([
    [
      'a file that the call does not name',
      ({ files: [it] }) => Object.assign(it as object, { path: 'c.ts', declared: '.' }),
    ],
    ['a file above', ({ files: [it] }) => Object.assign(it as object, { path: 'src/../c.ts' })],
    ['a file of another kind', ({ files: [it] }) => Object.assign(it as object, { path: 'src/a.sh' })],
    ['edits that overlap', ({ files: [it] }) => Object.assign(it as object, { edits: '[[2,3,"a"],[0,1,"b"]]' })],
    ['edits of another form', ({ files: [it] }) => Object.assign(it as object, { edits: '[["0",3]]' })],
  ])('a plan that holds %s changes nothing', async (_, forge) => {
    const plan = await planned();
    forge(plan);
    await expect(run(plan)).rejects.toThrow(/the plan changes|out of order|Too small/);
    for (const it of ['src/a.ts', 'src/b.ts', 'c.ts']) expect(textOf(it)).toBe('x();\n');
  });
});
