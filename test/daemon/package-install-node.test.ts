/** package_install by pnpm through a real daemon: real managers, and a registry made in the test. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { type OpenDaemon, openDaemon, temporaryDir } from '../support/daemon.ts';
import { type FakeRegistry, startRegistry } from '../support/npm-registry.ts';
import { addToolchain } from '../support/toolchains.ts';

const CANARY = 'echo ran > "$INIT_CWD/canary"; echo ran > canary; touch /tmp/canary';
const MS = 120_000;

type Result =
  | { success: true; data: Record<string, unknown> & { lockfileDiff: string; lockfileHash: string } }
  | { success: false; error: { code: string; message: string; details?: Record<string, unknown> } };

describe
  .skipIf(!findProgram('node'))
  .each([{ manager: 'pnpm', lockfile: 'pnpm-lock.yaml', settings: 'pnpm-workspace.yaml' }] as const)(
  '$manager',
  ({ manager, lockfile, settings }) => {
    let registry: FakeRegistry;
    let daemon: OpenDaemon;
    let client: Client;
    let stateDir: string;

    const install = (input: object) =>
      client.call('package_install', { manager, ...input } as never) as unknown as Promise<Result>;
    const at = (path: string) => join(daemon.workspace, path);
    const read = (path: string) => readFileSync(at(path), 'utf8');
    const write = (path: string, value: unknown) =>
      writeFileSync(at(path), typeof value === 'string' ? value : JSON.stringify(value));
    const has = (name: string) => existsSync(at(`node_modules/${name}/package.json`));
    const expectUntouched = (manifest: unknown) => {
      expect(JSON.parse(read('package.json'))).toEqual(manifest);
      expect(readdirSync(daemon.workspace).filter((it) => it !== 'package.json')).toEqual([]);
    };
    async function refused(input: object, code: string, message: RegExp): Promise<Record<string, unknown>> {
      const result = await install(input);
      if (result.success) throw new Error(`installed: ${result.data.lockfileDiff}`);
      expect(result.error).toMatchObject({ code, message });
      return result.error.details ?? {};
    }

    beforeAll(async () => {
      registry = await startRegistry();
      stateDir = temporaryDir('state');
      await addToolchain(stateDir, manager);
      daemon = await openDaemon({
        stateDir,
        policy: `tiers:\n  execute: { decision: allow, network: { allow: ["${registry.host}"] } }\n  write: { decision: allow, approve: [] }\n`,
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
      registry.publish('by-git', {
        version: '1.0.0',
        ageDays: 50,
        manifest: { dependencies: { x: 'git+https://git.example/x.git' } },
      });
      registry.publish('by-folder', {
        version: '1.0.0',
        ageDays: 50,
        manifest: { dependencies: { x: 'file:../../x' } },
      });
      registry.publish('by-code', {
        version: '1.0.0',
        ageDays: 50,
        manifest: { dependencies: { x: 'exec:./x.js' } },
        files: { 'x.js': 'require("fs").writeFileSync("/tmp/canary", "")' },
      });
    }, MS);
    afterAll(async () => {
      await client[Symbol.asyncDispose]();
      await daemon[Symbol.asyncDispose]();
      await registry[Symbol.asyncDispose]();
      rmSync(stateDir, { recursive: true, force: true });
    });
    const begin = () => {
      for (const it of readdirSync(daemon.workspace)) rmSync(at(it), { recursive: true });
      write('package.json', { name: 'project' });
      registry.seen.length = 0;
    };
    beforeEach(begin);

    test('adds, updates, removes and installs from the lockfile', { timeout: MS }, async () => {
      registry.advisories = {
        inner: [
          { id: 1, title: 'Bad', severity: 'high', vulnerable_versions: '<1.0.1' },
          { id: 2, title: 'Other', severity: 'low', vulnerable_versions: '>3' },
        ],
      };
      const result = await install({ packages: [{ name: 'plain' }], dev: true });
      expect(result).toMatchObject({
        data: {
          added: [
            { name: 'inner', version: '1.0.0', direct: false, hasScript: false },
            { name: 'plain', version: '1.1.0', direct: true, publishedAt: expect.stringMatching(/^\d{4}-/) },
          ],
          removed: [],
          changed: [],
          advisories: [{ package: 'inner', title: 'Bad', severity: 'high' }],
          lockfileHash: expect.stringMatching(/^sha256:/),
        },
      });
      expect(has('plain')).toBe(true);
      expect(JSON.parse(read('package.json'))).toMatchObject({ devDependencies: { plain: '^1.1.0' } });
      registry.advisories = undefined;
      // The manager is known by its lockfile.
      const back = await install({ manager: 'auto', packages: [{ name: 'plain', version: '1.0.0' }], dev: true });
      expect(back).toMatchObject({
        data: {
          added: [],
          changed: [{ name: 'plain', from: '1.1.0', version: '1.0.0', license: 'MIT' }],
          removed: [{ name: 'inner', version: '1.0.0' }],
          advisories: 'not checked',
        },
      });
      rmSync(at('node_modules'), { recursive: true });
      expect(await install({})).toMatchObject({ data: { added: [], changed: [], removed: [], lockfileDiff: '' } });
      expect(has('plain')).toBe(true);
      registry.advisories = {};
    });

    test('works in a folder of the workspace, and links programs', { timeout: MS }, async () => {
      mkdirSync(at('app'));
      write('app/package.json', { name: 'app', dependencies: { '@scope/tool': '1.0.0' } });
      expect(await install({ projectPath: 'app' })).toMatchObject({ data: { added: [{ name: '@scope/tool' }] } });
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

    test('takes no version in its cool-down that was not accepted by name', { timeout: MS }, async () => {
      expect(await install({ packages: [{ name: 'inner' }] })).toMatchObject({
        data: { added: [{ version: '1.0.0' }] },
      });
      begin();
      await refused({ packages: [{ name: 'young' }] }, 'NOT_FOUND', /old enough/);
      expectUntouched({ name: 'project' });
    });

    test('a name like that of a popular package is refused, and named for accepting', { timeout: MS }, async () => {
      const details = await refused({ packages: [{ name: 'lodahs' }] }, 'POLICY_DENIED', /lodahs@1.0.0 is not lodash/);
      expect(details.findings).toMatchObject([{ id: 'similar:lodahs' }]);
      expectUntouched({ name: 'project' });
    });

    test('a package from a repository, another host, a folder or code is refused, and its code does not run', {
      timeout: MS,
    }, async () => {
      let asked = 0;
      const other = createServer((_, response) => {
        asked += 1;
        response.end('{}');
      });
      await new Promise<void>((done) => void other.listen(0, '127.0.0.1', done));
      const foreign = `http://127.0.0.1:${(other.address() as AddressInfo).port}/evil-1.0.0.tgz`;
      registry.publish('elsewhere', { version: '1.0.0', ageDays: 50, tarball: foreign });
      try {
        for (const name of ['elsewhere', 'by-git', 'by-folder', 'by-code']) {
          const result = await install({ packages: [{ name }] });
          expect(result.success, name).toBe(false);
          expectUntouched({ name: 'project' });
        }
        for (const spec of [
          'git+https://git.example/x.git',
          'github:some/one',
          'some/one',
          foreign,
          'file:../x',
          'link:../x',
          'portal:../x',
          'exec:./x.js',
          'patch:plain@npm%3A1.0.0#./x.patch',
        ]) {
          write('package.json', { name: 'project', dependencies: { x: spec } });
          await refused({}, 'POLICY_DENIED', /nothing was planned: x is asked for from/);
          expectUntouched({ name: 'project', dependencies: { x: spec } });
        }
        expect(asked).toBe(0);
      } finally {
        other.close();
      }
    });

    test('a lockfile that was made to lead elsewhere is not installed', { timeout: MS }, async () => {
      await install({ packages: [{ name: 'plain', version: '1.0.0' }] });
      const good = read(lockfile);
      const bad =
        manager === 'pnpm'
          ? [
              good.replace('{integrity:', '{tarball: http://127.0.0.1:1/plain-1.0.0.tgz, integrity:'),
              good.replace('{integrity:', `{tarball: ${registry.url}/scripted/-/scripted-2.0.0.tgz, integrity:`),
              good.replace(
                /\{integrity:[^}]*\}/,
                '{type: git, repo: "https://git.example/x.git", commit: "0123456789012345678901234567890123456789"}',
              ),
              good.replace(/\{integrity:[^}]*\}/, '{type: directory, directory: ../x}'),
            ]
          : [
              good.replace(
                '"plain@npm:1.0.0"\n  checksum',
                '"plain@npm:1.0.0::__archiveUrl=http%3A%2F%2F127.0.0.1%3A1%2Fx.tgz"\n  checksum',
              ),
              good.replace(
                '"plain@npm:1.0.0"\n  checksum',
                '"plain@https://git.example/x.git#commit=0123"\n  checksum',
              ),
              good.replace('"plain@npm:1.0.0"\n  checksum', '"plain@file:../x"\n  checksum'),
              good.replace('"plain@npm:1.0.0"\n  checksum', '"scripted@npm:2.0.0"\n  checksum'),
            ];
      for (const text of bad) {
        expect(text).not.toBe(good);
        write(lockfile, text);
        rmSync(at('node_modules'), { recursive: true, force: true });
        const result = await install({});
        // A manager may also repair such an entry, as the person would then see.
        if (result.success) expect(read(lockfile)).toBe(good);
        else expect(has('plain')).toBe(false);
      }
    });

    test('another content than the lockfile says is not installed', { timeout: MS }, async () => {
      registry.publish('swapped', { version: '1.0.0', ageDays: 50 });
      await install({ packages: [{ name: 'swapped' }] });
      const before = read(lockfile);
      rmSync(at('node_modules'), { recursive: true });
      registry.publish('swapped', { version: '1.0.0', ageDays: 50, files: { 'evil.js': 'evil' } });
      expect(await install({})).toMatchObject({ success: false });
      expect(existsSync(at('node_modules/swapped/evil.js'))).toBe(false);
      expect(read(lockfile)).toBe(before);
    });

    test.each([
      ['.npmrc', 'registry', 'registry=http://127.0.0.1:1/'],
      ['.npmrc', 'global-pnpmfile', 'global-pnpmfile=./evil.cjs'],
      [settings, 'pnpmfile', 'pnpmfile: ./evil.cjs'],
      [settings, 'configDependencies', 'configDependencies: { evil: "1.0.0+sha512-x" }'],
      [settings, 'scriptShell', 'scriptShell: ./evil.sh'],
      [settings, 'registries', 'registries: { default: "http://127.0.0.1:1/" }'],
      [settings, 'patchedDependencies', 'patchedDependencies: { plain: ./x.patch }'],
      ['package.json', 'pnpm.configDependencies', '{"name":"project","pnpm":{"configDependencies":{}}}'],
    ])('%s with %s is refused by that name, before anything runs', { timeout: MS }, async (file, key, text) => {
      write(file, text);
      const details = await refused(
        { packages: [{ name: 'plain' }] },
        'POLICY_DENIED',
        /may run code or move the registry/,
      );
      expect(details.keys).toEqual([key]);
      expect(registry.seen).toEqual([]);
    });

    test('code of the project that the manager would load when it starts does not run', { timeout: MS }, async () => {
      const evil = 'require("fs").writeFileSync(__dirname + "/canary", ""); module.exports = {};';
      for (const name of ['.pnpmfile.cjs', 'pnpmfile.js', 'yarn.config.cjs', '.pnp.cjs']) write(name, evil);
      write('package.json', { name: 'project', packageManager: 'pnpm@9.0.0' });
      await install({ packages: [{ name: 'plain', version: '1.0.0' }] });
      expect(existsSync(at('canary'))).toBe(false);
    });

    test('a project that is part of a larger one is UNSUPPORTED, and a missing package NOT_FOUND', {
      timeout: MS,
    }, async () => {
      mkdirSync(at('app'));
      write('app/package.json', { name: 'app' });
      write(settings, 'packages: [app]');
      await refused({ projectPath: 'app' }, 'UNSUPPORTED', /app/);
      begin();
      await refused({ packages: [{ name: 'no-such-package' }] }, 'NOT_FOUND', /no such package/);
      expectUntouched({ name: 'project' });
    });
  },
);

test.each(['yarn', 'cargo', 'go', 'uv'])('%s is UNSUPPORTED, with the way that installs by it', async (manager) => {
  await using daemon = await openDaemon();
  await using client = await daemon.connect();
  expect(await client.call('package_install', { manager } as never)).toMatchObject({
    error: { code: 'UNSUPPORTED', suggestion: expect.stringContaining(`Run ${manager} by terminal_execute`) },
  });
});
