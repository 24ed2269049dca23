/** code_dependencies on this repository's own lockfile, beside npm, and on lockfiles that lie. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { toolRunner } from '../../../support/search.ts';

interface Answer {
  dependencies?: {
    name: string;
    installed: string;
    wanted?: string;
    direct: boolean;
    dev: boolean;
    license?: string;
  }[];
  tree?: { name: string; version: string; depth: number; deduped: boolean }[];
  totalDeps: number;
  vulnerabilities: string;
  outdated: string;
  reason?: string;
  truncated: boolean;
}

let workspace: string;
let tools: ReturnType<typeof toolRunner>;
beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-dependencies-')));
  tools = toolRunner({ workspace });
});
afterEach(() => {
  tools.servers[Symbol.dispose]();
  rmSync(workspace, { recursive: true, force: true });
});
const put = (name: string, value: unknown) =>
  writeFileSync(join(workspace, name), typeof value === 'string' ? value : JSON.stringify(value));
const ask = (input: Record<string, unknown> = {}) => tools.run<Answer>('code_dependencies', input);

test('the list of this repository has the packages of its lockfile, and what is direct as package.json says', async () => {
  for (const it of ['package.json', 'package-lock.json']) copyFileSync(it, join(workspace, it));
  const { dependencies = [], totalDeps, truncated } = await ask();
  const manifest = JSON.parse(readFileSync('package.json', 'utf8')) as Record<string, Record<string, string>>;
  const direct = dependencies.filter((it) => it.direct);
  const wanted = { ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.devDependencies };
  expect(direct.map((it) => `${it.name} ${it.wanted}`).sort()).toEqual(
    Object.entries(wanted)
      .map(([name, range]) => `${name} ${range}`)
      .sort(),
  );
  const lock = JSON.parse(readFileSync('package-lock.json', 'utf8')) as { packages: Record<string, unknown> };
  expect(totalDeps).toBe(Object.keys(lock.packages).filter((it) => it.includes('node_modules/')).length);
  expect(truncated).toBe(false);
  expect(dependencies.find((it) => it.name === 'zod' && it.direct)).toMatchObject({ license: 'MIT', dev: false });
});

test('the tree has the edges that npm itself reads from the lockfile', async () => {
  for (const it of ['package.json', 'package-lock.json']) copyFileSync(it, join(workspace, it));
  const { tree = [] } = await ask({ action: 'tree', depth: 2 });
  const npm = execFileSync('npm', ['ls', '--package-lock-only', '--json', '--depth=1', '--omit=dev'], {
    cwd: workspace,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  type Node = { version?: string; dependencies?: Record<string, Node> };
  // npm also lists the packages of the workspace, on which the project does not depend.
  const { 'ringfence-client': _, ...dependencies } = (JSON.parse(npm) as Node).dependencies ?? {};
  const firsts = tree.filter((it) => it.depth === 1).map((it) => `${it.name} ${it.version}`);
  for (const [name, { version }] of Object.entries(dependencies)) expect(firsts).toContain(`${name} ${version}`);
  const childrenOf = (name: string) => {
    const from = tree.findIndex((it) => it.depth === 1 && it.name === name);
    const rest = tree.slice(from + 1);
    return rest
      .slice(
        0,
        rest.findIndex((it) => it.depth === 1),
      )
      .map((it) => it.name);
  };
  const pino = Object.keys(dependencies.pino?.dependencies ?? {});
  expect(pino.length).toBeGreaterThan(3);
  expect(childrenOf('pino')).toEqual(pino.sort());
});

test('nothing is called free of vulnerabilities: no registry was asked, and the answer says so', async () => {
  put('package.json', {});
  put('package-lock.json', { lockfileVersion: 3, packages: { '': {} } });
  for (const action of ['list', 'audit', 'outdated'])
    expect(await ask({ action })).toMatchObject({ vulnerabilities: 'not checked', outdated: 'not checked' });
  expect((await ask({ action: 'audit' })).reason).toContain('tiers.external_api');
});

test('circles, workspaces, aliases and values of the wrong type are gone through', async () => {
  put('package.json', {});
  put('package-lock.json', {
    lockfileVersion: 3,
    packages: {
      '': { dependencies: { a: '^1', own: '*', alias: 'npm:real@1', gone: '1' }, devDependencies: 5 },
      'node_modules/a': { version: '1.0.0', dependencies: { b: '*' } },
      'node_modules/b': { version: {}, dependencies: { a: '*' }, license: [] },
      'node_modules/own': { resolved: 'packages/own', link: true },
      'packages/own': { version: '2.0.0', dependencies: { b: '*' } },
      'node_modules/alias': { name: 'real', version: '1.0.0' },
      'node_modules/__proto__': 'no record',
    },
  });
  const { tree } = await ask({ action: 'tree', depth: 50 });
  expect(tree?.map((it) => `${it.depth} ${it.name} ${it.version}${it.deduped ? ' deduped' : ''}`)).toEqual([
    ...['1 a 1.0.0', '2 b ', '3 a 1.0.0 deduped', '1 real 1.0.0', '1 own 2.0.0', '2 b  deduped'],
  ]);
  expect((await ask()).dependencies?.map((it) => it.name)).toEqual(['a', 'b', 'own', 'real']);
});

const NPM = { dependencies: { chalk: '^4.1.0' }, devDependencies: { 'has-flag': '4.0.0' } };
const CARGO = `version = 4
[[package]]
name = "anyhow"
version = "1.0.80"
source = "registry+https://github.com/rust-lang/crates.io-index"
dependencies = ["backtrace 0.3.1"]
[[package]]
name = "backtrace"
version = "0.3.0"
source = "registry+https://github.com/rust-lang/crates.io-index"
[[package]]
name = "backtrace"
version = "0.3.1"
source = "registry+https://github.com/rust-lang/crates.io-index"
[[package]]
name = "x"
version = "0.1.0"
dependencies = ["anyhow", "backtrace 0.3.0"]
`;
const UV = `version = 1
[[package]]
name = "black"
version = "26.1.0"
source = { registry = "https://pypi.org/simple" }
dependencies = [{ name = "click" }]
[[package]]
name = "click"
version = "8.3.0"
source = { registry = "https://pypi.org/simple" }
[[package]]
name = "x"
version = "0.1.0"
source = { virtual = "." }
dependencies = [{ name = "black" }]
`;
const GO =
  'module example.com/x\n\ngo 1.24\n\nrequire github.com/a/b v1.2.3\n\nrequire (\n\tgolang.org/x/c v0.1.0 // indirect\n)\n';
const PIP = 'black==26.1.0\nclick[extra] == 8.3.0 ; python_version > "3"  # via black\nloose>=1\n-r other.txt\n';
const fixture = (name: string) => readFileSync(join('test/fixtures/lockfiles', name), 'utf8');
const CHALK = [
  '1 chalk',
  '2 ansi-styles',
  '3 color-convert',
  '4 color-name',
  '2 supports-color',
  '3 has-flag',
  '1 has-flag',
];

test.each([
  ['pnpm', 'pnpm-lock.yaml', fixture('pnpm-lock.yaml'), ['chalk ^4.1.0', 'has-flag 4.0.0'], CHALK],
  ['yarn', 'yarn.lock', fixture('yarn-1.lock'), ['chalk ^4.1.0', 'has-flag 4.0.0'], CHALK],
  ['yarn', 'yarn.lock', fixture('yarn-4.lock'), ['chalk ^4.1.0', 'has-flag 4.0.0'], CHALK],
  ['cargo', 'Cargo.lock', CARGO, ['anyhow', 'backtrace'], ['1 anyhow', '2 backtrace', '1 backtrace']],
  ['pip', 'uv.lock', UV, ['black'], ['1 black', '2 click']],
  ['go', 'go.mod', GO, ['github.com/a/b'], undefined],
  ['pip', 'requirements.txt', PIP, [], undefined],
] as const)('packages of %s are read from %s', async (manager, name, text, direct, tree) => {
  if (manager === 'pnpm' || manager === 'yarn') put('package.json', NPM);
  put(name, text);
  const { dependencies = [], ...rest } = await ask({ manager });
  expect(rest).toMatchObject({ manager, lockfile: name, vulnerabilities: 'not checked', outdated: 'not checked' });
  const shown = dependencies.filter((it) => it.direct).map((it) => [it.name, it.wanted].filter(Boolean).join(' '));
  expect(shown).toEqual(direct);
  expect((await ask()).totalDeps).toBe(dependencies.length);
  const asked = ask({ action: 'tree', depth: 5 });
  if (tree) expect((await asked).tree?.map((it) => `${it.depth} ${it.name}`)).toEqual(tree);
  else await expect(asked).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  if (manager === 'cargo') expect((await ask({ action: 'audit' })).reason).toContain('Only registries of npm');
});

test('versions of a package that lockfiles hold twice stay apart', async () => {
  put('Cargo.lock', CARGO);
  const { dependencies = [] } = await ask({ manager: 'cargo', manifest: 'Cargo.toml' });
  expect(dependencies.map((it) => `${it.name} ${it.installed} ${it.direct}`)).toEqual([
    'anyhow 1.0.80 true',
    'backtrace 0.3.0 true',
    'backtrace 0.3.1 false',
  ]);
});

test('versions that are not read, no lockfile, damaged ones and links out are each refused in words', async () => {
  put('package.json', {});
  await expect(ask()).rejects.toMatchObject({ code: 'NOT_FOUND' });
  put('pnpm-lock.yaml', 'packages: [');
  await expect(ask()).rejects.toMatchObject({
    code: 'INPUT_INVALID',
    message: expect.stringContaining('pnpm-lock.yaml'),
  });
  put('package-lock.json', { lockfileVersion: 1 });
  await expect(ask()).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('lockfileVersion 1'),
  });
  put('package-lock.json', '['.repeat(1_000_000));
  await expect(ask()).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  rmSync(join(workspace, 'package-lock.json'));
  symlinkSync('/etc/passwd', join(workspace, 'package-lock.json'));
  await expect(ask()).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
});
