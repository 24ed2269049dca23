/** package_install by pip through a real daemon: real pip, and an index made in the test. */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon } from '../support/daemon.ts';
import { type FakeIndex, hasPip, startIndex } from '../support/python-index.ts';

const MS = 120_000;
const CANARY = 'open("/tmp/canary", "w"); open("canary", "w")\n';

type Result =
  | { success: true; data: Record<string, unknown> & { lockfileDiff: string; lockfileHash: string } }
  | { success: false; error: { code: string; message: string; details?: Record<string, unknown> } };

describe.skipIf(!hasPip())('pip', () => {
  let index: FakeIndex;
  let daemon: OpenDaemon;
  let client: Client;

  const install = (input: object) =>
    client.call('package_install', { manager: 'pip', ...input } as never) as unknown as Promise<Result>;
  const at = (path: string) => join(daemon.workspace, path);
  const read = (path: string) => readFileSync(at(path), 'utf8');
  const write = (path: string, text: string) => writeFileSync(at(path), text);
  const installed = (name: string) => {
    const lib = existsSync(at('.venv/lib')) ? readdirSync(at('.venv/lib')) : [];
    return lib
      .flatMap((it) => readdirSync(at(`.venv/lib/${it}/site-packages`)))
      .filter((it) => it.startsWith(`${name}-`));
  };
  async function refused(input: object, code: string, message: RegExp): Promise<Record<string, unknown>> {
    const result = await install(input);
    if (result.success) throw new Error(`installed: ${result.data.lockfileDiff}`);
    expect(result.error).toMatchObject({ code, message });
    return result.error.details ?? {};
  }

  beforeAll(async () => {
    index = await startIndex();
    daemon = await openDaemon({
      policy: `tiers:\n  execute: { decision: allow, network: { allow: ["${index.host}"] } }\n  write: { decision: allow, approve: [] }\n`,
      config: { packages: { pythonIndex: index.url } },
    });
    client = await daemon.connect();
    index.publish('plain', { version: '1.0.0', ageDays: 300 });
    index.publish('plain', { version: '1.1.0', ageDays: 30, requires: ['inner>=1'] });
    index.publish('inner', { version: '1.0.0', ageDays: 300 });
    index.publish('inner', { version: '1.0.1', ageDays: 1 });
    index.publish('young', { version: '1.0.0', ageDays: 1 });
    index.publish('ageless', { version: '1.0.0' });
    index.publish('reqeusts', { version: '1.0.0', ageDays: 50 });
    index.publish('by-git', { version: '1.0.0', ageDays: 50, requires: ['x @ git+https://git.example/x.git'] });
    const folder = mkdtempSync(join(tmpdir(), 'ringfence-sdist-'));
    mkdirSync(join(folder, 'sourced-1.0.0'));
    writeFileSync(
      join(folder, 'sourced-1.0.0/setup.py'),
      `${CANARY}from setuptools import setup; setup(name="sourced")\n`,
    );
    const source = execFileSync('tar', ['-czf', '-', '-C', folder, 'sourced-1.0.0']);
    rmSync(folder, { recursive: true });
    index.publish('sourced', { version: '1.0.0', ageDays: 50, source });
  }, MS);
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    await index[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    for (const it of readdirSync(daemon.workspace)) rmSync(at(it), { recursive: true });
    index.seen.length = 0;
  });

  test('adds with what is needed, keeps to the lockfile, and updates', { timeout: MS * 2 }, async () => {
    write('requirements.txt', '# ours\nplain>=1  # the best\n');
    expect(await install({ manager: 'auto' })).toMatchObject({
      data: {
        added: [
          {
            name: 'plain',
            version: '1.1.0',
            direct: true,
            license: 'MIT',
            publishedAt: expect.stringMatching(/^\d{4}-/),
          },
          { name: 'inner', version: '1.0.0', direct: false, integrity: expect.stringMatching(/^sha256:[0-9a-f]{64}$/) },
        ],
        advisories: 'not checked',
      },
    });
    expect(installed('inner')).toEqual(['inner-1.0.0.dist-info']);
    expect(read('requirements.txt')).toBe('# ours\nplain>=1  # the best\n');
    expect(read('requirements.lock')).toMatch(/\ninner==1\.0\.0 \\\n {4}--hash=sha256:[0-9a-f]{64}\n/);
    // A newer version that is old enough is not taken while the lockfile has one.
    index.publish('inner', { version: '1.0.2', ageDays: 10 });
    expect(await install({})).toMatchObject({ data: { lockfileDiff: '' } });
    expect(await install({ packages: [{ name: 'Inner' }] })).toMatchObject({
      data: { changed: [{ name: 'inner', from: '1.0.0', version: '1.0.2', direct: true }] },
    });
    expect(installed('inner')).toEqual(['inner-1.0.2.dist-info']);
    expect(read('requirements.txt')).toBe('# ours\nplain>=1  # the best\nInner\n');
    await install({ packages: [{ name: 'plain', version: '1.0.0' }], dev: true });
    expect(read('requirements-dev.txt')).toBe('plain==1.0.0\n');
    const ran = await client.call('terminal_execute', {
      command: '.venv/bin/python -c "import plain; print(plain.version)"',
    });
    expect(ran).toMatchObject({ data: { stdout: '1.0.0\n' } });
    index.publish('inner', { version: '1.0.2', ageDays: 1 });
  });

  test('takes no version in its cool-down, and none of unknown age', { timeout: MS }, async () => {
    await refused({ packages: [{ name: 'young' }] }, 'NOT_FOUND', /old enough/);
    const details = await refused({ packages: [{ name: 'ageless' }] }, 'POLICY_DENIED', /no known time/);
    expect(details.findings).toMatchObject([{ id: 'fresh:ageless@1.0.0' }]);
    expect(readdirSync(daemon.workspace)).toEqual([]);
  });

  test('a name like that of a popular package is refused, and named for accepting', { timeout: MS }, async () => {
    const details = await refused({ packages: [{ name: 'reqeusts' }] }, 'POLICY_DENIED', /is not requests/);
    expect(details.findings).toMatchObject([{ id: 'similar:reqeusts' }]);
    expect(readdirSync(daemon.workspace)).toEqual([]);
  });

  test('source archives, repositories and other hosts: refused, and nothing of them runs', {
    timeout: MS,
  }, async () => {
    let asked = 0;
    const other = createServer((_, response) => {
      asked += 1;
      response.end();
    });
    await new Promise<void>((done) => void other.listen(0, '127.0.0.1', done));
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}/elsewhere-1.0.0-py3-none-any.whl`;
    index.publish('elsewhere', { version: '1.0.0', ageDays: 50, url });
    try {
      for (const name of ['sourced', 'by-git', 'elsewhere']) {
        expect((await install({ packages: [{ name }] })).success, name).toBe(false);
        expect(readdirSync(daemon.workspace)).toEqual([]);
      }
      expect(asked).toBe(0);
    } finally {
      other.close();
    }
  });

  test.each([
    ['--extra-index-url', '--extra-index-url http://127.0.0.1:1/simple'],
    ['--index-url', '--index-url=http://127.0.0.1:1/simple'],
    ['-e', '-e ./own'],
    ['-r', '-r other.txt'],
    ['./own', './own'],
    ['git+https://git.example/x.git', 'git+https://git.example/x.git'],
    ['x', 'x @ https://127.0.0.1:1/x.whl'],
    ['x', 'x ; python_version > "3" @ file:///x.whl'],
    ['plain', 'plain \\\n    --hash=sha256:00'],
  ])('a requirement with %s is refused by that name, before pip runs', { timeout: MS }, async (key, line) => {
    write('requirements.txt', `plain\n${line}\n`);
    const details = await refused({}, 'POLICY_DENIED', /requirements\.txt sets/);
    expect((details.keys as string[])[0]).toBe(key);
    expect(index.seen).toEqual([]);
  });

  test('settings of pip in the workspace move nothing', { timeout: MS }, async () => {
    const evil = '[global]\nindex-url = http://127.0.0.1:1/simple\nno-binary = :all:\n';
    for (const name of ['pip.conf', 'setup.cfg', 'pyproject.toml']) write(name, evil);
    write('pip.py', CANARY);
    expect(await install({ packages: [{ name: 'plain', version: '1.0.0' }] })).toMatchObject({ success: true });
    writeFileSync(at('.venv/pip.conf'), evil);
    expect(await install({ packages: [{ name: 'inner', version: '1.0.0' }] })).toMatchObject({ success: true });
    expect(existsSync(at('canary'))).toBe(false);
  });

  test('another content than the lockfile says is not installed', { timeout: MS }, async () => {
    index.publish('swapped', { version: '1.0.0', ageDays: 50 });
    await install({ packages: [{ name: 'swapped' }] });
    rmSync(at('.venv'), { recursive: true });
    index.publish('swapped', { version: '1.0.0', ageDays: 50, files: { 'swapped/evil.py': '' } });
    await refused({}, 'POLICY_DENIED', /another content/);
    expect(existsSync(at('.venv'))).toBe(false);
  });

  test.each([
    ['bin/python', (it: string) => `#!/bin/sh\ntouch canary; exec ${it} "$@"\n`],
    ['bin/python3', (it: string) => `#!/bin/sh\ntouch canary; exec ${it} "$@"\n`],
    ['pyvenv.cfg', () => `home = ${at('evil')}\n`],
    ['SITE/pip/__main__.py', () => CANARY],
    ['SITE/pip/__init__.py', () => CANARY],
    ['SITE/sitecustomize.py', () => CANARY],
    ['SITE/starting.pth', () => `import os; ${CANARY.replaceAll('\n', '')}`],
    ['SITE/brotli.py', () => CANARY],
  ])('.venv/%s that the workspace wrote does not run while installing', { timeout: MS }, async (file, evil) => {
    execFileSync('/usr/bin/python3', ['-m', 'venv', '--without-pip', at('.venv')]);
    const [version = ''] = readdirSync(at('.venv/lib'));
    mkdirSync(at('evil/bin'), { recursive: true });
    writeFileSync(at('evil/bin/python3'), '#!/bin/sh\ntouch canary\n', { mode: 0o755 });
    const path = at(join('.venv', file.replace('SITE', `lib/${version}/site-packages`)));
    mkdirSync(join(path, '..'), { recursive: true });
    const python = realpathSync('/usr/bin/python3');
    rmSync(path, { force: true });
    writeFileSync(path, evil(python), { mode: 0o755 });
    expect(await install({ packages: [{ name: 'plain', version: '1.0.0' }] })).toMatchObject({ success: true });
    expect(installed('plain')).toEqual(['plain-1.0.0.dist-info']);
    expect(existsSync(at('canary'))).toBe(false);
  });

  test('packages that run code when Python starts, or are named pip, do not run while others are installed', {
    timeout: MS,
  }, async () => {
    index.publish('starting', { version: '1.0.0', ageDays: 50, files: { 'starting.pth': `import os; ${CANARY}` } });
    index.publish('pip', { version: '99.0.0', ageDays: 50, files: { 'pip/__main__.py': CANARY } });
    await install({ packages: [{ name: 'starting' }, { name: 'pip' }] });
    expect(installed('pip')).toEqual(['pip-99.0.0.dist-info']);
    expect(await install({ packages: [{ name: 'plain', version: '1.0.0' }] })).toMatchObject({ success: true });
    expect(existsSync(at('canary'))).toBe(false);
  });

  test('programs of a package start by the Python of .venv, and those of its last version go', {
    timeout: MS,
  }, async () => {
    const entry = (name: string, version: string) => ({
      [`tool-${version}.dist-info/entry_points.txt`]: `[console_scripts]\n${name} = tool:main\n`,
      'tool/__init__.py': 'import sys\ndef main(): print(sys.prefix)\n',
    });
    index.publish('tool', { version: '1.0.0', ageDays: 50, files: { ...entry('old', '1.0.0'), 'tool/gone.py': '' } });
    index.publish('tool', { version: '2.0.0', ageDays: 50, files: entry('new', '2.0.0') });
    expect(await install({ packages: [{ name: 'tool', version: '1.0.0' }] })).toMatchObject({ success: true });
    expect(existsSync(at('.venv/bin/old'))).toBe(true);
    expect(await install({ packages: [{ name: 'tool', version: '2.0.0' }] })).toMatchObject({ success: true });
    expect(
      await client.call('terminal_execute', { command: '.venv/bin/new && .venv/bin/pip --version' }),
    ).toMatchObject({
      data: { stdout: expect.stringMatching(/^\S+\/\.venv\npip /) },
    });
    expect(existsSync(at('.venv/bin/old'))).toBe(false);
    const [version = ''] = readdirSync(at('.venv/lib'));
    expect(readdirSync(at(`.venv/lib/${version}/site-packages/tool`)).filter((it) => it.endsWith('.py'))).toEqual([
      '__init__.py',
    ]);
  });

  test('a .venv that is a link, or is of another Python, is refused', { timeout: MS }, async () => {
    mkdirSync(at('elsewhere'));
    symlinkSync('elsewhere', at('.venv'));
    await refused({ packages: [{ name: 'plain', version: '1.0.0' }] }, 'UNSUPPORTED', /symbolic link/);
    expect(readdirSync(at('elsewhere'))).toEqual([]);
    rmSync(at('.venv'));
    mkdirSync(at('.venv/lib/python2.7/site-packages'), { recursive: true });
    await refused({ packages: [{ name: 'plain', version: '1.0.0' }] }, 'CONFLICT', /is not of Python 3\.\d+/);
  });

  test('a folder of .venv that leads out of it is not written to, and the requirements stay as they were', {
    timeout: MS,
  }, async () => {
    execFileSync('/usr/bin/python3', ['-m', 'venv', '--without-pip', at('.venv')]);
    const [version = ''] = readdirSync(at('.venv/lib'));
    mkdirSync(at('elsewhere'));
    symlinkSync(at('elsewhere'), at(`.venv/lib/${version}/site-packages/plain`));
    await refused({ packages: [{ name: 'plain', version: '1.0.0' }] }, 'CODE_ERROR', /as before/);
    expect(readdirSync(at('elsewhere'))).toEqual([]);
    expect(existsSync(at('requirements.txt'))).toBe(false);
  });

  test('names and versions that pip does not know are refused', { timeout: MS }, async () => {
    await refused({ packages: [{ name: '@scope/x' }] }, 'INPUT_INVALID', /no name of a package for pip/);
    await refused({ packages: [{ name: 'plain', version: '^1.0' }] }, 'INPUT_INVALID', /no version or range of pip/);
    await refused({ packages: [{ name: 'no-such-package' }] }, 'NOT_FOUND', /no such package/);
    await refused({}, 'NOT_FOUND', /no requirements\.txt/);
  });
});
