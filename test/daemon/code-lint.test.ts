/** code_lint and code_format through a real daemon: what they find and write, and that code of the workspace runs only as a command. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { FIXABLE_RULES, LINT_CONFIG } from '../../workers/code/lint-rules.ts';
import { type OpenDaemon, openDaemon, repository } from '../support/daemon.ts';
import { makeWorkspace } from '../support/workspace.ts';

/** Asks about commands, as the default policy does; allows what reads and writes. */
const ASKS = 'tiers:\n  write: { decision: allow, approve: [] }\n  execute: { decision: ask }\n';

let careful: OpenDaemon;
let trusting: OpenDaemon;
let client: Client;
beforeAll(async () => {
  careful = await openDaemon({ policy: ASKS });
  trusting = await openDaemon({ workspace: careful.workspace });
  client = await careful.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await trusting[Symbol.asyncDispose]();
  await careful[Symbol.asyncDispose]();
});
beforeEach(() => {
  for (const it of [
    'src',
    'node_modules',
    '.oxlintrc.json',
    'oxlint.config.ts',
    'evil.js',
    'eslint.config.js',
    'ran',
    '.prettierrc',
    'prettier.config.js',
    'pyproject.toml',
  ])
    rmSync(join(careful.workspace, it), { recursive: true, force: true });
});

const at = (path: string) => join(careful.workspace, path);
function put(tree: Record<string, string>): void {
  for (const [path, text] of Object.entries(tree)) {
    mkdirSync(dirname(at(path)), { recursive: true });
    writeFileSync(at(path), text);
  }
}
interface Data {
  issues: { file: string; line: number; column: number; rule: string; fixable: boolean; severity: string }[];
  totalIssues: number;
  fixed: number;
  diff?: string;
  engine: { name: string; version: string; config: string };
  skipped: { path: string; code: string }[];
}
async function lint(input: object, by = client): Promise<Data> {
  const result = await by.call('code_lint' as string, { paths: ['src'], ...input });
  expect(result).toMatchObject({ success: true });
  return (result as unknown as { data: Data }).data;
}

describe('the built-in linter', () => {
  test.each([{}, { fix: true }, { engine: 'builtin' }])(
    'refuses a folder with nothing that it reads, which would seem to have no faults: %j',
    async (more) => {
      put({ 'src/main.rs': 'fn main() { let x = 1; }\n' });
      const result = await client.call('code_lint' as string, { paths: ['src'], ...more });
      expect(result).toMatchObject({
        error: { code: 'UNSUPPORTED', message: expect.stringContaining('`src`') },
      });
    },
  );

  test('tells each issue with its position in UTF-16 units, its rule and its severity', async () => {
    put({
      'src/a.ts': "const a = 'é😀'; debugger;\nexport const b = a;\n",
      'src/deep/b.js': 'export default [1,,2];\n',
    });
    const { issues, totalIssues, engine } = await lint({});
    expect(issues).toMatchObject([
      { file: 'src/a.ts', line: 1, column: 18, rule: 'eslint(no-debugger)', severity: 'error' },
      { file: 'src/deep/b.js', line: 1, column: 19, rule: 'eslint(no-sparse-arrays)', severity: 'error' },
    ]);
    expect(totalIssues).toBe(2);
    expect(engine).toMatchObject({ name: 'oxlint', config: 'built in', version: expect.stringMatching(/^\d+\./) });
  });

  test('mends what it can, through the journal: one undo takes all files back', async () => {
    const before = {
      'src/a.ts': 'export const a = (b: number) => b == NaN;\r\n',
      'src/b.ts': 'export const c = (d: number) => d === NaN;\n',
    };
    put(before);
    const result = await client.call('code_lint' as string, { paths: ['src/a.ts', './src'], fix: true });
    expect(result).toMatchObject({ success: true, data: { fixed: 2, totalIssues: 0 }, metadata: { undo: 'full' } });
    expect(readFileSync(at('src/a.ts'), 'utf8')).toBe('export const a = (b: number) => isNaN(b);\r\n');
    expect((result as unknown as { data: Data }).data.diff).toContain('+export const c = (d: number) => isNaN(d);');
    await client.request('calls.undo', { callId: result.callId });
    for (const [path, text] of Object.entries(before)) expect(readFileSync(at(path), 'utf8')).toBe(text);
  });

  test('leaves protected files alone and says so', async () => {
    put({ 'src/a.ts': 'debugger;\n', 'src/secrets.json': '{}', 'src/.env.ts': 'debugger;\n', 'src/bin.ts': 'a\0' });
    const { totalIssues, skipped } = await lint({ paths: ['src', 'src/.env.ts'].slice(0, 1) });
    expect(totalIssues).toBe(1);
    expect(skipped).toEqual([{ path: 'src/bin.ts', code: 'UNSUPPORTED' }]);
    expect(await client.call('code_lint' as string, { paths: ['.env'] })).toMatchObject({ success: false });
  });

  test.each(['auto', 'builtin'])('runs no code of the workspace: engine %s', async (engine) => {
    const evil = `import { writeFileSync } from 'node:fs';\nwriteFileSync(${JSON.stringify(at('ran'))}, '');\nexport default { meta: { name: 'evil' }, rules: {} };\n`;
    const config = JSON.stringify({ jsPlugins: ['./evil.js'], rules: {} });
    put({
      'evil.js': evil,
      '.oxlintrc.json': config,
      'src/.oxlintrc.json': config.replace('./evil', '../evil'),
      'oxlint.config.ts': evil,
      'src/oxlint.config.ts': evil,
      'src/eslint.config.js': evil,
      'eslint.config.js': evil,
      'src/a.ts': 'debugger;\n',
    });
    copyLinter();
    for (const fix of [false, true]) expect((await lint({ engine, fix })).engine.config).toBe('built in');
    expect(existsSync(at('ran'))).toBe(false);
  });
});

/** Installs oxlint in the workspace. */
function copyLinter(): void {
  for (const it of ['oxlint', '@oxlint'])
    cpSync(join(repository, 'node_modules', it), at(`node_modules/${it}`), { recursive: true });
  mkdirSync(at('node_modules/.bin'));
  symlinkSync('../oxlint/bin/oxlint', at('node_modules/.bin/oxlint'));
}

describe("the workspace's own linter", () => {
  beforeEach(() => {
    copyLinter();
    put({ '.oxlintrc.json': '{ "rules": { "no-console": "error" } }', 'src/a.ts': 'console.log(1);\ndebugger;\n' });
  });

  test("the workspace's linter is chosen if it is configured, installed, and the policy allows its command", async () => {
    await using by = await trusting.connect();
    const { issues, engine } = await lint({}, by);
    expect(issues.map((it) => it.rule).sort()).toEqual(['eslint(no-console)', 'eslint(no-debugger)']);
    expect(engine).toMatchObject({ name: 'oxlint', config: '.oxlintrc.json' });
    expect((await lint({ engine: 'builtin' }, by)).engine.config).toBe('built in');
  });

  test("the workspace's linter is a command: without permission a person is asked, with its command line", async () => {
    const result = await client.call(
      'code_lint' as string,
      { paths: ['src', "it's"], engine: 'workspace' },
      { timeoutMs: 2_000 },
    );
    expect(result).toMatchObject({ success: false, error: { code: expect.stringMatching(/APPROVAL|TIMEOUT/) } });
    await using operator = await careful.connect({ role: 'operator' });
    const { entries } = (await operator.request('audit.query', { limit: 20 })) as { entries: { tool?: string }[] };
    const asked = entries.filter((it) => it.tool === 'code_lint').map((it) => JSON.stringify(it));
    expect(asked.join()).toContain("node_modules/.bin/oxlint -f json -- src 'it'\\\\''s'");
  });

  test('linters runs each one that the workspace has, and names those that it lacks', async () => {
    await using by = await trusting.connect();
    const { issues, engine, skipped } = await lint(
      { path: 'src', paths: undefined, linters: ['oxlint', 'prettier'] },
      by,
    );
    expect(issues).toHaveLength(2);
    expect(engine.name).toBe('oxlint');
    expect(skipped).toEqual([{ path: 'prettier', code: 'UNSUPPORTED' }]);
    expect(await by.call('code_lint' as string, { path: 'src', linters: ['black', 'clippy'] })).toMatchObject({
      error: { code: 'UNSUPPORTED', message: expect.stringContaining('(black, clippy)') },
    });
  });

  test('a linter of the workspace that gives no report ends with CODE_ERROR and its output', async () => {
    put({ '.oxlintrc.json': 'no json' });
    await using by = await trusting.connect();
    const result = await by.call('code_lint' as string, { paths: ['src'] });
    expect(result).toMatchObject({
      success: false,
      error: { code: 'CODE_ERROR', message: expect.stringMatching(/oxlint ended with [1-9]/) },
    });
  });
});

describe('Python', () => {
  const PYTHON = {
    'src/a.py': 'import os, sys\nprint("é😀", missing, sys.path)\nname = f"plain"\n',
    'src/__init__.py': 'import os\n',
    'src/b.ts': 'debugger;\n',
  };

  test('ruff lints Python beside the rest, with columns in UTF-16 units, by path and in directories', async () => {
    put(PYTHON);
    const named = await lint({ paths: ['src/a.py'], engine: 'builtin' });
    expect(named.engine).toMatchObject({
      name: 'ruff',
      config: 'built in',
      version: expect.stringMatching(/^0\.17\./),
    });
    expect(named.issues).toMatchObject([
      { file: 'src/a.py', line: 1, column: 8, rule: 'F401', severity: 'error', fixable: true },
      { file: 'src/a.py', line: 2, column: 14, rule: 'F821', fixable: false },
      { file: 'src/a.py', line: 3, column: 8, rule: 'F541', fixable: true },
    ]);
    const { issues, engine } = await lint({ engine: 'builtin' });
    expect(engine.name).toBe('oxlint, ruff');
    expect(issues.map((it) => `${it.file} ${it.rule}`)).toEqual([
      'src/__init__.py F401',
      'src/a.py F401',
      'src/a.py F821',
      'src/a.py F541',
      'src/b.ts eslint(no-debugger)',
    ]);
  });

  test('ruff mends Python where that can not change what the code does, with one undo', async () => {
    put(PYTHON);
    const result = await client.call('code_lint' as string, { paths: ['src'], fix: true, engine: 'builtin' });
    expect(result).toMatchObject({ success: true, data: { fixed: 2 } });
    expect(readFileSync(at('src/a.py'), 'utf8')).toBe('import sys\nprint("é😀", missing, sys.path)\nname = "plain"\n');
    // What __init__.py imports may be meant for others.
    expect(readFileSync(at('src/__init__.py'), 'utf8')).toBe('import os\n');
    await client.request('calls.undo', { callId: result.callId });
    expect(readFileSync(at('src/a.py'), 'utf8')).toBe(PYTHON['src/a.py']);
  });

  test('a Python file that nests too deep for ruff costs only itself', async () => {
    put({ ...PYTHON, 'src/deep.py': `x = ${'['.repeat(100_000)}${']'.repeat(100_000)}\n`, 'src/z.py': 'import os\n' });
    const { issues } = await lint({ paths: ['src'], engine: 'builtin' });
    expect(issues).toContainEqual(expect.objectContaining({ file: 'src/z.py', rule: 'F401' }));
    expect(issues.filter((it) => it.file === 'src/deep.py').length).toBeGreaterThan(0);
  });

  test('ruff formats Python, unless the workspace has settings of its own for that', async () => {
    put({ 'src/a.py': "x = {  'a':1 }\n", 'src/bad.py': 'def f(:\n', 'src/b.ts': 'const a={b:1}\n' });
    const format = (input: object) => client.call('code_format' as string, { paths: ['src'], ...input });
    expect(await format({})).toMatchObject({
      success: true,
      data: {
        files: [{ path: 'src/a.py' }, { path: 'src/b.ts' }],
        refused: [{ path: 'src/bad.py' }],
        engine: { name: 'oxfmt, ruff' },
      },
    });
    expect(readFileSync(at('src/a.py'), 'utf8')).toBe('x = {"a": 1}\n');
    put({ 'pyproject.toml': '[tool.black]\nline-length = 79\n', 'src/a.py': "x = {  'a':1 }\n" });
    expect(await format({ paths: ['src/a.py'] })).toMatchObject({
      error: { code: 'UNSUPPORTED', message: expect.stringContaining('pyproject.toml') },
    });
    expect(await format({ paths: ['src/a.py'], engine: 'builtin' })).toMatchObject({
      success: true,
      data: { files: [{ path: 'src/a.py' }] },
    });
  });
});

test('a named file, or a folder, that no linter reads is refused, since it would seem to have no faults', async () => {
  put({ 'src/a.rb': 'puts 1\n' });
  const refused = await client.call('code_lint' as string, { paths: ['src/a.rb'], engine: 'builtin' });
  expect(refused).toMatchObject({ error: { code: 'UNSUPPORTED', message: expect.stringContaining('src/a.rb') } });
  expect(await client.call('code_lint' as string, { paths: ['src'], engine: 'builtin' })).toMatchObject({
    error: { code: 'UNSUPPORTED' },
  });
});

test('no linter, formatter or parser runs where files can be written', async () => {
  using workspace = makeWorkspace();
  const context = workspace.context();
  for (const reach of ['checkers', 'syntax', 'typescript', 'symbols', 'code'] as const)
    expect(() => context[reach], reach).toThrow(expect.objectContaining({ code: 'SANDBOX_DENIED' }));
});

describe('code_format', () => {
  interface Formatted {
    files: { path: string; diff?: string }[];
    engine: { name: string; config: string };
    refused: { path: string; reason: string }[];
  }
  const format = async (input: object): Promise<Formatted> => {
    const result = await client.call('code_format' as string, { paths: ['src'], ...input });
    expect(result).toMatchObject({ success: true });
    return (result as unknown as { data: Formatted }).data;
  };

  test('shows with check what it would change, writes the same without, and leaves files with syntax errors', async () => {
    put({
      'src/a.ts': 'const a={b:1}\n',
      'src/bad.ts': 'const a=(\n',
      'src/good.ts': 'const a = 1;\n',
      'src/c.json': '{"a":1}',
    });
    const checked = await format({ check: true });
    expect(checked.files.map((it) => it.path)).toEqual(['src/a.ts', 'src/c.json']);
    expect(checked.files[0]?.diff).toContain('+const a = { b: 1 };');
    expect(checked.refused).toEqual([{ path: 'src/bad.ts', reason: expect.stringMatching(/Expected.*line 2/) }]);
    expect(readFileSync(at('src/a.ts'), 'utf8')).toBe('const a={b:1}\n');
    expect(await format({})).toEqual(checked);
    expect(readFileSync(at('src/a.ts'), 'utf8')).toBe('const a = { b: 1 };\n');
    expect(readFileSync(at('src/bad.ts'), 'utf8')).toBe('const a=(\n');
    expect((await format({})).files).toEqual([]);
  });

  test('takes layout options of the workspace as data, and runs none of its code', async () => {
    const evil = `require('node:fs').writeFileSync(${JSON.stringify(at('ran'))}, '');`;
    put({ 'src/a.ts': 'const a={b:"1"}\n', 'evil.js': evil, 'src/.oxfmtrc.js': evil, 'src/prettier.config.js': evil });
    put({ '.prettierrc': JSON.stringify({ semi: false, singleQuote: true, plugins: ['./evil.js'] }) });
    const { engine } = await format({ paths: ['src/a.ts'] });
    expect(engine).toMatchObject({ name: 'oxfmt', config: '.prettierrc' });
    expect(readFileSync(at('src/a.ts'), 'utf8')).toBe("const a = { b: '1' }\n");
    expect(existsSync(at('ran'))).toBe(false);
  });

  test('refuses to lay out otherwise than a workspace with a program of its own, by name', async () => {
    put({ 'src/a.ts': 'const a={b:1}\n', 'prettier.config.js': 'export default {};' });
    const refused = await client.call('code_format' as string, { paths: ['src'] });
    expect(refused).toMatchObject({
      success: false,
      error: { code: 'UNSUPPORTED', message: expect.stringContaining('prettier.config.js') },
    });
    expect((await format({ engine: 'builtin', check: true })).files.map((it) => it.path)).toEqual(['src/a.ts']);
  });
});

test('the rules that are told as fixable are those of the linter that mend safely', () => {
  const script = join(repository, 'node_modules/oxlint/bin/oxlint');
  const printed = execFileSync(process.execPath, [script, '--rules', '-f', 'json'], { encoding: 'utf8' });
  const rules = JSON.parse(printed) as { scope: string; value: string; category: string; fix: string }[];
  const scopes = ['eslint', ...LINT_CONFIG.plugins];
  const ours = rules.filter((it) => Object.hasOwn(LINT_CONFIG.categories, it.category) && scopes.includes(it.scope));
  const fixable = ours.filter((it) => /^(fixable|conditional)(_safe)?_fix(_or_suggestion)?$/.test(it.fix));
  expect([...FIXABLE_RULES].sort()).toEqual(fixable.map((it) => it.value).sort());
});
