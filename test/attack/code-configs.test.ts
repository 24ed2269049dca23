/**
 * Configuration of a workspace that is code, or that names code: no code tool runs it, except as a command in its
 * sandbox. The tools run here without the mounts of a host, so that code that ran could leave its mark anywhere.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { type ToolFolder, toolFolder, writeFiles } from '../support/search.ts';

let folder: ToolFolder;
beforeAll(() => {
  folder = toolFolder();
});
afterAll(() => folder[Symbol.dispose]());
beforeEach(() => {
  execFileSync('find', [folder.workspace, '-mindepth', '1', '-delete']);
  for (const it of ran()) rmSync(join(folder.parent, it));
});

/** Code that leaves a file of this name, as a module of either kind. */
const commonJs = (name: string) =>
  `require('node:fs').writeFileSync(${JSON.stringify(join(folder.parent, `ran-${name}`))}, '');\nmodule.exports = {};\n`;
const esModule = (name: string) =>
  `import { writeFileSync } from 'node:fs';\nwriteFileSync(${JSON.stringify(join(folder.parent, `ran-${name}`))}, '');\nexport default {};\n`;
const opened = (name: string) => `open(${JSON.stringify(join(folder.parent, `ran-${name}`))}, "w")\n`;
const ran = () => readdirSync(folder.parent).filter((it) => it.startsWith('ran-'));

/** A package that leaves its mark when it is loaded in any way. */
const evilPackage = (name: string) => ({
  [`node_modules/${name}/package.json`]: JSON.stringify({ name, version: '1.0.0', main: 'index.js', bin: 'index.js' }),
  [`node_modules/${name}/index.js`]: commonJs(name),
  [`node_modules/${name}/tsconfig.json`]: '{ "compilerOptions": { "plugins": [{ "name": "evil" }] } }',
});

/** Hostile files that do not keep each other from being looked for. */
const CONFIGS: Record<string, () => Record<string, string>> = {
  'eslint.config.js, .eslintrc.js, .oxlintrc.json, biome.json and vitest.config.ts': () => ({
    'eslint.config.js': esModule('eslint'),
    'src/eslint.config.mjs': esModule('eslint'),
    '.eslintrc.js': commonJs('eslintrc'),
    'src/.eslintrc.cjs': commonJs('eslintrc'),
    '.oxlintrc.json': '{ "jsPlugins": ["./oxlint.mjs", "evil"], "extends": ["./more-oxlint.json"] }',
    'src/.oxlintrc.json': '{ "jsPlugins": ["../oxlint.mjs"] }',
    'more-oxlint.json': '{ "jsPlugins": ["./oxlint.mjs"] }',
    'oxlint.config.ts': esModule('oxlint'),
    'oxlint.mjs': esModule('oxlint'),
    'biome.json': '{ "extends": ["evil/biome.json", "./more-biome.json"], "plugins": ["./biome.grit", "./biome.mjs"] }',
    'more-biome.json': '{ "plugins": ["./biome.mjs"] }',
    'biome.mjs': esModule('biome'),
    'biome.grit': '`debugger` => `x`',
    ...Object.fromEntries(
      ['vitest.config.ts', 'vite.config.js', 'vitest.setup.ts', 'jest.config.js', 'rollup.config.mjs'].map((it) => [
        it,
        esModule('vitest'),
      ]),
    ),
    ...Object.fromEntries(
      ['.dependency-cruiser.js', 'knip.js', 'babel.config.js', 'webpack.config.js', '.pnpmfile.cjs'].map((it) => [
        it,
        commonJs('others'),
      ]),
    ),
  }),
  'tsconfig.json by extends and plugins, and settings of Python': () => ({
    'tsconfig.json': JSON.stringify({
      extends: ['evil/tsconfig.json', './base.json'],
      compilerOptions: { plugins: [{ name: 'evil' }, { transform: './evil.js' }], noEmit: true, types: ['evil'] },
    }),
    'base.json': '{ "compilerOptions": { "plugins": [{ "transform": "./evil.js" }] } }',
    'evil.js': commonJs('tsconfig'),
    'ruff.toml': 'extend = "/etc/passwd"\n[lint]\nexternal = ["X"]\n',
    'src/ruff.toml': 'extend = "../../outside.toml"\n',
    'pyproject.toml':
      '[build-system]\nrequires = []\nbuild-backend = "evil"\nbackend-path = ["."]\n[tool.ruff]\nextend = "/etc/passwd"\n',
    'evil.py': opened('pyproject'),
    'conftest.py': opened('pytest'),
    'setup.py': opened('pytest'),
    'sitecustomize.py': opened('python'),
  }),
  'prettier in package.json and in .prettierrc': () => ({
    'package.json': JSON.stringify({
      name: 'x',
      prettier: 'evil',
      eslintConfig: { parser: 'evil', plugins: ['evil'], extends: ['plugin:evil/all'] },
      scripts: { postinstall: 'node evil.js', test: 'node evil.js', lint: 'node evil.js' },
    }),
    '.prettierrc': '{ "plugins": ["./evil.js", "evil"], "semi": false }',
    'src/.prettierrc.js': commonJs('prettierrc'),
    'src/prettier.config.mjs': esModule('prettierrc'),
    'evil.js': commonJs('package'),
  }),
};

const SOURCES = {
  'src/a.ts': "import { b } from './b.ts';\nexport const a = (x: number) => x * b + eval('1');\ndebugger;\n",
  'src/b.ts': 'export const b=1;\n',
  'src/c.js': "const { d } = require('./d.js');\nexports.c = d;\n",
  'src/d.js': 'exports.d = 1;\n',
  'src/p.py': 'import os\nx = {  "a":1 }\n',
};

/** Each call of a code tool; what it answers does not matter here. */
const CALLS: [Parameters<ToolFolder['tools']['run']>[0], Record<string, unknown>][] = [
  ['code_parse', { path: 'src/a.ts', ast: true }],
  ['code_analyze', { path: '.', checks: ['complexity', 'duplicates', 'dependencies', 'security'] }],
  ['code_graph', { show: 'unused' }],
  ['code_dependencies', { action: 'list' }],
  ['code_type_check', { files: ['src/a.ts'] }],
  ['code_type_check', { project: '.' }],
  ['code_lint', { paths: ['src'], engine: 'builtin' }],
  ['code_lint', { paths: ['src'], engine: 'auto', fix: true }],
  ['code_format', { paths: ['src'], engine: 'auto', check: true }],
  ['code_format', { paths: ['src'], engine: 'builtin' }],
  ['code_rewrite', { pattern: 'debugger', rewrite: '', language: 'typescript', preview: true }],
  ['code_generate', { template: 'typescript-module', parameters: { name: 'made' }, to: 'src' }],
  ['code_refactor', { operation: 'rename', path: 'src/a.ts', symbol: 'b', newName: 'bee' }],
  ['code_refactor', { operation: 'organize_imports', path: 'src/a.ts' }],
  ['code_refactor', { operation: 'add_missing_imports', path: 'src/a.ts' }],
  ['code_refactor', { operation: 'move_file', path: 'src/b.ts', to: 'src/bee.ts' }],
  ['code_refactor', { operation: 'move_file', path: 'src', to: 'lib' }],
];

test('the code of these tests leaves a mark where it is run', () => {
  writeFiles(folder.workspace, { ...evilPackage('evil'), 'evil.mjs': esModule('module') });
  execFileSync(process.execPath, ['-e', "require('evil')"], { cwd: folder.workspace });
  execFileSync(process.execPath, ['evil.mjs'], { cwd: folder.workspace });
  expect(ran().sort()).toEqual(['ran-evil', 'ran-module']);
});

test.each(Object.keys(CONFIGS))('no code tool runs what %s brings', { timeout: 60_000 }, async (name) => {
  writeFiles(folder.workspace, { ...SOURCES, ...evilPackage('evil'), ...CONFIGS[name]?.() });
  const answered: string[] = [];
  for (const [tool, input] of CALLS) {
    const answer = await folder.tools.run(tool, input).then(
      () => 'done',
      (error: { code?: string; message: string }) => error.code ?? error.message,
    );
    answered.push(`${tool} ${answer}`);
    expect(ran(), `after ${tool} ${JSON.stringify(input)}`).toEqual([]);
  }
  // A tool that refused everything would have run nothing either.
  expect(answered.filter((it) => it.endsWith(' done')).length).toBeGreaterThan(CALLS.length / 2);
});

describe('what is code of the workspace and has to run', () => {
  /** A program that leaves marks inside of the workspace, and outside where a sandbox would not let it. */
  const program = (outside: string) => `#!/bin/bash\ntouch inside; touch ${outside}; touch ~/${NAME}; exit 3\n`;
  const NAME = 'ringfence-mark';
  const CALLED = [
    ['code_test', { runner: 'vitest' }],
    ['code_lint', { paths: ['src'], engine: 'workspace' }],
  ] as const;
  const setUp = (workspace: string, outside: string) => {
    writeFiles(workspace, {
      ...SOURCES,
      'eslint.config.js': 'export default [];\n',
      'node_modules/eslint/package.json': '{ "version": "9.0.0" }',
      'node_modules/vitest/package.json': '{ "version": "9.0.0" }',
      'node_modules/.bin/eslint': program(outside),
      'node_modules/.bin/vitest': program(outside),
    });
    for (const it of ['eslint', 'vitest']) chmodSync(join(workspace, `node_modules/.bin/${it}`), 0o755);
  };

  test('runs as a command that the policy must allow, and in its sandbox', { timeout: 60_000 }, async () => {
    const outside = join(tmpdir(), `${NAME}-${process.pid}`);
    await using denying = await startDaemon({ policy: 'tiers:\n  execute: { decision: deny }\n' });
    setUp(denying.workspace, outside);
    await using refused = await denying.connect();
    for (const [tool, input] of CALLED)
      expect(await refused.call(tool as string, input)).toMatchObject({ error: { code: 'POLICY_DENIED' } });
    expect(existsSync(join(denying.workspace, 'inside'))).toBe(false);
    await using allowing = await startDaemon();
    setUp(allowing.workspace, outside);
    await using by = await allowing.connect();
    for (const [tool, input] of CALLED) {
      await by.call(tool as string, input);
      expect(existsSync(join(allowing.workspace, 'inside')), tool).toBe(true);
      rmSync(join(allowing.workspace, 'inside'));
      expect(existsSync(outside), tool).toBe(false);
      expect(existsSync(join(process.env.HOME ?? '/root', NAME)), tool).toBe(false);
    }
  });
});
