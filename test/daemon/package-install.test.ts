/** package_install through a real daemon, real npm and the egress process: a registry made in the test plays the public one. */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { type OpenDaemon, openDaemon } from '../support/daemon.ts';
import { type FakeRegistry, startRegistry } from '../support/npm-registry.ts';

const CANARY = 'echo ran > "$INIT_CWD/canary"; echo ran > canary; touch /tmp/canary';
const MS = 120_000;

let registry: FakeRegistry;
let daemon: OpenDaemon;
let client: Client;

const policyOf = (decision: string, host: string) =>
  `tiers:\n  execute: { decision: ${decision}, network: { allow: ["${host}"] } }\n  write: { decision: allow, approve: [] }\n`;

interface Data {
  added: { name: string; version: string; direct: boolean; publishedAt?: string; hasScript: boolean }[];
  removed: { name: string; version: string }[];
  changed: { name: string; version: string; from: string }[];
  scriptsSkipped: string[];
  lockfileDiff: string;
  advisories: unknown;
  lockfileHash: string;
}
type Result =
  | { success: true; data: Data }
  | { success: false; error: { code: string; message: string; details?: Record<string, unknown> } };

const install = (input: object, by = client) =>
  by.call('package_install', input as never) as unknown as Promise<Result>;
const at = (path: string) => join(daemon.workspace, path);
const has = (name: string) => existsSync(at(`node_modules/${name}/package.json`));
const write = (path: string, value: unknown) =>
  writeFileSync(at(path), typeof value === 'string' ? value : JSON.stringify(value));
const read = (path: string) => readFileSync(at(path), 'utf8');
const lock = () => JSON.parse(read('package-lock.json')) as { packages: Record<string, Record<string, unknown>> };

/** Nothing of the project has changed, and nothing is installed. */
function expectUntouched(manifest: unknown): void {
  expect(JSON.parse(read('package.json'))).toEqual(manifest);
  expect(readdirSync(daemon.workspace).filter((it) => !['package.json', '.npmrc'].includes(it))).toEqual([]);
  expect(registry.seen.filter((it) => it.endsWith('.tgz'))).toEqual([]);
}

async function refused(input: object, code: string, message: RegExp): Promise<Record<string, unknown>> {
  const result = await install(input);
  if (result.success) throw new Error(`installed: ${result.data.lockfileDiff}`);
  expect(result.error).toMatchObject({ code, message });
  return result.error.details ?? {};
}

describe.skipIf(!findProgram('npm'))('npm', () => {
  beforeAll(async () => {
    registry = await startRegistry();
    daemon = await openDaemon({
      policy: policyOf('allow', registry.host),
      config: { packages: { registry: registry.url } },
    });
    client = await daemon.connect();
    registry.publish('plain', { version: '1.0.0', ageDays: 300, manifest: { license: 'MIT' } });
    registry.publish('plain', { version: '1.1.0', ageDays: 30, manifest: { dependencies: { inner: '^1.0.0' } } });
    registry.publish('inner', { version: '1.0.0', ageDays: 300 });
    registry.publish('inner', { version: '1.0.1', ageDays: 1 });
    registry.publish('scripted', {
      version: '2.0.0',
      ageDays: 50,
      manifest: { scripts: { preinstall: CANARY, install: CANARY, postinstall: CANARY } },
    });
    registry.publish('@scope/tool', { version: '1.0.0', ageDays: 50, manifest: { bin: { tool: 'index.js' } } });
    registry.publish('lodahs', { version: '1.0.0', ageDays: 50 });
    registry.publish('young', { version: '1.0.0', ageDays: 1 });
    registry.publish('ageless', { version: '1.0.0' });
    registry.publish('by-git', {
      version: '1.0.0',
      ageDays: 50,
      manifest: { dependencies: { x: 'git+https://git.example/x.git' } },
    });
  }, MS);
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    await registry[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    for (const it of readdirSync(daemon.workspace)) rmSync(at(it), { recursive: true });
    write('package.json', { name: 'project' });
    registry.seen.length = 0;
    registry.advisories = {};
    registry.onTarball = () => {};
  });

  test('adds a package with its dependencies, and tells what it added', { timeout: MS }, async () => {
    const result = await install({ packages: [{ name: 'plain' }] });
    expect(result).toMatchObject({
      success: true,
      data: {
        added: [
          { name: 'inner', version: '1.0.0', direct: false, hasScript: false },
          { name: 'plain', version: '1.1.0', direct: true, hasScript: false },
        ],
        removed: [],
        changed: [],
        scriptsSkipped: [],
        advisories: [],
      },
    });
    const { data } = result as Result & { success: true };
    expect(data.added.every((it) => /^\d{4}-\d\d-\d\dT/.test(it.publishedAt ?? ''))).toBe(true);
    expect(data.lockfileDiff).toMatch(/^\+ plain 1\.1\.0 \(direct, published .*\)\n\+ inner 1\.0\.0 \(published .*\)$/);
    expect(data.lockfileHash).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(has('plain') && has('inner')).toBe(true);
    expect(JSON.parse(read('package.json'))).toMatchObject({ dependencies: { plain: '^1.1.0' } });
  });

  test('updates, removes what nobody needs any more, and installs for development', { timeout: MS }, async () => {
    await install({ packages: [{ name: 'plain', version: '1.1.0' }], dev: true });
    expect(JSON.parse(read('package.json'))).toMatchObject({ devDependencies: { plain: '^1.1.0' } });
    const back = await install({ packages: [{ name: 'plain', version: '1.0.0' }], dev: true });
    expect(back).toMatchObject({
      data: {
        added: [],
        changed: [{ name: 'plain', from: '1.1.0', version: '1.0.0', license: 'MIT' }],
        removed: [{ name: 'inner', version: '1.0.0' }],
      },
    });
    expect(has('inner')).toBe(false);
  });

  test('without packages, what the lockfile says, in a folder of the workspace', { timeout: MS }, async () => {
    mkdirSync(at('app'));
    write('app/package.json', { name: 'app', dependencies: { '@scope/tool': '1.0.0' } });
    expect(await install({ projectPath: 'app' })).toMatchObject({ data: { added: [{ name: '@scope/tool' }] } });
    rmSync(at('app/node_modules'), { recursive: true });
    expect(await install({ projectPath: 'app' })).toMatchObject({ data: { added: [], changed: [], removed: [] } });
    expect(existsSync(at('app/node_modules/.bin/tool'))).toBe(true);
    expect(existsSync(at('node_modules'))).toBe(false);
  });

  test('no script of a package or of the project runs, and the result names those left out', {
    timeout: MS,
  }, async () => {
    write('package.json', { name: 'project', scripts: { preinstall: CANARY, prepare: CANARY, postinstall: CANARY } });
    const result = await install({ packages: [{ name: 'scripted' }] });
    expect(result).toMatchObject({ data: { scriptsSkipped: ['scripted@2.0.0'], added: [{ hasScript: true }] } });
    expect(has('scripted')).toBe(true);
    expect(existsSync(at('canary')) || existsSync(at('node_modules/scripted/canary'))).toBe(false);
  });

  test('takes no version in its cool-down: an older one, or none', { timeout: MS }, async () => {
    // 1.0.1 of inner is a day old.
    expect(await install({ packages: [{ name: 'inner' }] })).toMatchObject({ data: { added: [{ version: '1.0.0' }] } });
    beforeEachAgain();
    await refused({ packages: [{ name: 'young' }] }, 'NOT_FOUND', /old enough/);
    await refused({ packages: [{ name: 'inner', version: '1.0.1' }] }, 'NOT_FOUND', /old enough/);
    expectUntouched({ name: 'project' });
  });

  test('a version whose age the registry does not tell has none', { timeout: MS }, async () => {
    const result = await install({ packages: [{ name: 'ageless' }] });
    expect(result.success).toBe(false);
    expectUntouched({ name: 'project' });
  });

  test('a name like that of a popular package is refused, and named for accepting', { timeout: MS }, async () => {
    const details = await refused({ packages: [{ name: 'lodahs' }] }, 'POLICY_DENIED', /lodahs@1.0.0 is not lodash/);
    expect(details.findings).toMatchObject([{ id: 'similar:lodahs' }]);
    expectUntouched({ name: 'project' });
  });

  test('a git repository, another host, a folder, an archive: refused, and not accepted', { timeout: MS }, async () => {
    let asked = 0;
    const other = createServer((_, response) => {
      asked += 1;
      response.end('{}');
    });
    await new Promise<void>((done) => void other.listen(0, '127.0.0.1', done));
    const foreign = `http://127.0.0.1:${(other.address() as AddressInfo).port}/evil-1.0.0.tgz`;
    registry.publish('elsewhere', { version: '1.0.0', ageDays: 50, tarball: foreign });
    try {
      await refused(
        { packages: [{ name: 'elsewhere' }] },
        'POLICY_DENIED',
        /elsewhere@1.0.0 comes from .* not the registry/,
      );
      expectUntouched({ name: 'project' });
      expect((await install({ packages: [{ name: 'by-git' }] })).success).toBe(false);
      expectUntouched({ name: 'project' });
      for (const spec of ['git+https://git.example/x.git', 'github:some/one', foreign, 'file:../x', 'file:x.tgz']) {
        write('package.json', { name: 'project', dependencies: { x: spec } });
        expect((await install({})).success, spec).toBe(false);
        expectUntouched({ name: 'project', dependencies: { x: spec } });
      }
      expect(asked).toBe(0);
    } finally {
      other.close();
    }
  });

  test('a lockfile that was made to lead elsewhere is not installed', { timeout: MS }, async () => {
    await install({ packages: [{ name: 'plain', version: '1.0.0' }] });
    const good = lock();
    const entry = good.packages['node_modules/plain'] as Record<string, unknown>;
    await install({ packages: [{ name: 'scripted' }] });
    const scripted = lock().packages['node_modules/scripted'] as Record<string, unknown>;
    write('package.json', { name: 'project', dependencies: { plain: '^1.0.0' } });
    for (const [bad, message] of [
      [{ ...entry, resolved: 'http://127.0.0.1:1/plain-1.0.0.tgz' }, /not the registry/],
      [
        { ...entry, resolved: 'git+ssh://git@git.example/x.git#0123456789012345678901234567890123456789' },
        /git repository|git/,
      ],
      [{ version: '1.0.0', resolved: '../outside', link: true }, /folder|EMISSINGTARGET/],
      [{ ...scripted, version: '1.0.0' }, /archive of another package/],
      [{ version: '1.0.0', inBundle: true }, /where it comes from|archive|hash/],
      [{ ...entry, integrity: undefined }, /no hash/],
    ] as const) {
      write('package-lock.json', { ...good, packages: { ...good.packages, 'node_modules/plain': bad } });
      rmSync(at('node_modules'), { recursive: true, force: true });
      const result = await install({});
      if (result.success) expect(lock().packages['node_modules/plain']?.resolved).toBe(entry.resolved);
      else expect(result.error.message).toMatch(message);
    }
  });

  test('another content than the lockfile says is not installed', { timeout: MS }, async () => {
    registry.publish('swapped', { version: '1.0.0', ageDays: 50 });
    await install({ packages: [{ name: 'swapped' }] });
    const before = read('package-lock.json');
    const { integrity } = lock().packages['node_modules/swapped'] as { integrity: string };
    rmSync(at('node_modules'), { recursive: true });
    // The registry sends other bytes under the hash that it told before.
    registry.publish('swapped', { version: '1.0.0', ageDays: 50, integrity, files: { 'evil.js': 'evil' } });
    const result = await install({ packages: [{ name: 'plain', version: '1.0.0' }] });
    expect(existsSync(at('node_modules/swapped/evil.js'))).toBe(false);
    if (!result.success) expect(read('package-lock.json')).toBe(before);
  });

  test.each([
    ['registry', 'registry=http://127.0.0.1:1/'],
    ['@scope:registry', '@scope:registry=http://127.0.0.1:1/'],
    ['script-shell', 'script-shell=./evil.sh'],
    ['node-options', 'node-options=--require ./evil.js'],
    ['git', 'git=./evil.sh'],
    ['https-proxy', 'https-proxy=http://127.0.0.1:1'],
    ['cache', 'cache = ../elsewhere'],
    ['prefix', '; a comment\n  prefix  =  /usr'],
  ])('.npmrc with %s is refused by that name, before npm runs', { timeout: MS }, async (key, line) => {
    write('.npmrc', `save-exact=true\n${line}\n`);
    const result = await install({ packages: [{ name: 'plain' }] });
    if (result.success) throw new Error('installed');
    expect(result.error).toMatchObject({ code: 'POLICY_DENIED', details: { keys: [key] } });
    expect(registry.seen).toEqual([]);
  });

  test('.npmrc with a credential is hidden by the policy, from npm as well', { timeout: MS }, async () => {
    write('.npmrc', 'registry=http://127.0.0.1:1/\n//127.0.0.1:1/:_authToken=npm_0123456789012345678901234567890123\n');
    const result = await install({ packages: [{ name: 'plain', version: '1.0.0' }] });
    expect(result).toMatchObject({ data: { added: [{ name: 'plain' }] } });
    expect(lock().packages['node_modules/plain']?.resolved).toBe(`${registry.url}/plain/-/plain-1.0.0.tgz`);
  });

  test('harmless settings hold: save-exact', { timeout: MS }, async () => {
    write('.npmrc', `save-exact=true\nregistry="${registry.url}/"\n`);
    await install({ packages: [{ name: 'plain' }] });
    expect(JSON.parse(read('package.json'))).toMatchObject({ dependencies: { plain: '1.1.0' } });
  });

  test('known vulnerabilities are told; where the registry does not answer, they are not checked', {
    timeout: MS,
  }, async () => {
    registry.advisories = {
      inner: [{ id: 1, title: 'Bad', severity: 'high', vulnerable_versions: '<1.0.1', url: 'https://x.example/1' }],
    };
    expect(await install({ packages: [{ name: 'inner', version: '1.0.0' }] })).toMatchObject({
      data: { advisories: [{ package: 'inner', severity: 'high', title: 'Bad', url: 'https://x.example/1' }] },
    });
    registry.advisories = undefined;
    expect(await install({})).toMatchObject({ data: { advisories: 'not checked' } });
  });

  test('a package or manifest that npm can not find or read is an error, and nothing has changed', {
    timeout: MS,
  }, async () => {
    await refused({ packages: [{ name: 'no-such-package' }] }, 'NOT_FOUND', /no such package/);
    expectUntouched({ name: 'project' });
    write('package.json', '{ "name": ');
    await refused({ packages: [{ name: 'plain' }] }, 'INPUT_INVALID', /package\.json/);
    write('package.json', { name: 'project', workspaces: ['packages/*'] });
    await refused({}, 'UNSUPPORTED', /workspaces/);
  });

  test.each([['uv', 'uv.lock']])(
    '%s is not supported, and the answer says why',
    { timeout: MS },
    async (manager, file) => {
      await refused({ manager }, 'UNSUPPORTED', new RegExp(`^${manager} is not supported: `));
      write(file, '');
      await refused({}, 'INPUT_INVALID', new RegExp(`package.json and ${file}: .* npm or ${manager}`));
      rmSync(at('package.json'));
      await refused({}, 'UNSUPPORTED', new RegExp(`^${manager} is not supported: `));
    },
  );

  test('node_modules that leads elsewhere is left alone', { timeout: MS }, async () => {
    mkdirSync(at('precious'));
    write('precious/file', 'keep');
    symlinkSync('precious', at('node_modules'));
    await refused({ packages: [{ name: 'plain' }] }, 'UNSUPPORTED', /symbolic link/);
    expect(read('precious/file')).toBe('keep');
    expect(lstatSync(at('node_modules')).isSymbolicLink()).toBe(true);
    expect(existsSync(at('package-lock.json'))).toBe(false);
  });

  test('manifest and lockfile stay unchanged if npm fails to install', { timeout: MS }, async () => {
    await install({ packages: [{ name: 'plain', version: '1.0.0' }] });
    const before = [read('package.json'), read('package-lock.json')];
    registry.publish('gone', { version: '1.0.0', ageDays: 50, integrity: `sha512-${'A'.repeat(86)}==` });
    await refused({ packages: [{ name: 'gone' }] }, 'CODE_ERROR', /npm ci failed/);
    expect([read('package.json'), read('package-lock.json')]).toEqual(before);
  });

  test('the policy must list the registry, and no other host is reached', { timeout: MS }, async () => {
    await using closed = await openDaemon({
      policy: 'tiers:\n  execute: { decision: allow }\n',
      config: { packages: { registry: registry.url } },
    });
    await using its = await closed.connect();
    writeFileSync(join(closed.workspace, 'package.json'), '{}');
    expect(await install({ packages: [{ name: 'plain' }] }, its)).toMatchObject({
      error: { code: 'POLICY_DENIED', message: expect.stringContaining(new URL(registry.url).host) },
    });
    expect(registry.seen).toEqual([]);
  });

  function beforeEachAgain(): void {
    for (const it of readdirSync(daemon.workspace)) rmSync(at(it), { recursive: true });
    write('package.json', { name: 'project' });
    registry.seen.length = 0;
  }
});
