/** package_install in folders whose programs and settings a package manager could run, through a real daemon. */
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import { installToolchain } from '../../src/services/toolchains/installed.ts';
import { type OpenDaemon, openDaemon, temporaryDir } from '../support/daemon.ts';
import { type FakeRegistry, startRegistry } from '../support/npm-registry.ts';
import { addToolchain } from '../support/toolchains.ts';

const MS = 120_000;
const COREPACK = '/usr/lib/node_modules/corepack';
const CANARY = 'require("fs").writeFileSync("canary", "");\n';
const SHELL_CANARY = '#!/bin/sh\ntouch canary\n';

let registry: FakeRegistry;
let stateDir: string;
let daemon: OpenDaemon;
let client: Client;

const at = (path: string) => join(daemon.workspace, path);
const install = (input: object) =>
  client.call('package_install', input as never) as unknown as Promise<{ success: boolean; error?: object }>;
async function start(): Promise<void> {
  daemon = await openDaemon({
    stateDir,
    policy: `tiers:\n  execute: { decision: allow, network: { allow: ["${registry.host}"] } }\n  write: { decision: allow, approve: [] }\n`,
    config: { packages: { registry: registry.url } },
  });
  client = await daemon.connect();
}

describe.skipIf(!findProgram('npm'))('package_install', () => {
  beforeEach(async () => {
    registry = await startRegistry();
    stateDir = temporaryDir('state');
    registry.publish('plain', { version: '1.0.0', ageDays: 300 });
    registry.publish('lodahs', { version: '1.0.0', ageDays: 300 });
    registry.publish('holds', { version: '1.0.0', ageDays: 300, manifest: { dependencies: { plain: '1' } } });
    registry.publish('needs', { version: '1.0.0', ageDays: 300, manifest: { dependencies: { lodahs: '1' } } });
  });
  afterEach(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    await registry[Symbol.asyncDispose]();
    rmSync(stateDir, { recursive: true, force: true });
  });

  test.each(['npm', 'pnpm'] as const)(
    '%s runs no program, and follows no setting, that the project brings',
    { timeout: MS },
    async (manager) => {
      if (manager === 'pnpm') await addToolchain(stateDir, 'pnpm');
      await start();
      mkdirSync(at('node_modules/.bin'), { recursive: true });
      for (const name of ['npm', 'pnpm', 'node', 'git', 'sh', 'env', 'python3'])
        writeFileSync(at(`node_modules/.bin/${name}`), SHELL_CANARY, { mode: 0o755 });
      for (const name of ['npm', 'pnpm', 'corepack']) {
        mkdirSync(at(`node_modules/${name}`));
        writeFileSync(at(`node_modules/${name}/index.js`), CANARY);
      }
      for (const name of ['.pnp.cjs', '.pnpmfile.cjs', '.yarn.cjs', 'yarn.config.cjs']) writeFileSync(at(name), CANARY);
      writeFileSync(at('.yarnrc.yml'), 'yarnPath: .yarn.cjs\n');
      writeFileSync(at('.env'), 'NODE_OPTIONS=--require ./.pnp.cjs\n');
      writeFileSync(at('node.config.json'), '{"nodeOptions":{"require":["./.pnp.cjs"]}}');
      writeFileSync(
        at('package.json'),
        JSON.stringify({
          packageManager: `${manager}@1.0.0`,
          devEngines: { packageManager: { name: manager, version: '*', onFail: 'download' } },
        }),
      );
      expect(await install({ manager, packages: [{ name: 'plain' }] })).toMatchObject({ success: true });
      expect(existsSync(at('canary'))).toBe(false);
    },
  );

  test.skipIf(!existsSync(COREPACK))(
    'a pnpm that corepack gives takes neither its version nor its registry from the project',
    { timeout: MS },
    async () => {
      const source = {
        'bin/pnpm.cjs': CANARY,
        'bin/pnpm.mjs': CANARY,
        'dist/pnpm.cjs': CANARY,
        'dist/pnpm.mjs': CANARY,
      };
      registry.publish('evil', { version: '9.0.0', ageDays: 300, files: source });
      await installToolchain(stateDir, { name: 'pnpm', version: '0.34.6', program: 'pnpm' }, async (folder) =>
        cpSync(COREPACK, folder, { recursive: true }),
      );
      await start();
      writeFileSync(at('.corepack.env'), 'COREPACK_ENABLE_UNSAFE_CUSTOM_URLS=1\nCOREPACK_INTEGRITY_KEYS=0\n');
      const packageManager = `pnpm@${registry.url}/evil/-/evil-9.0.0.tgz`;
      writeFileSync(at('package.json'), JSON.stringify({ packageManager }));
      const { error } = await install({ manager: 'pnpm', packages: [{ name: 'plain' }] });
      // It looks for its own version where no test reaches.
      expect(error).toMatchObject({ message: expect.stringContaining('does not list registry.npmjs.org:443') });
      expect(registry.seen.filter((it) => it.includes('/evil/'))).toEqual([]);
      expect(existsSync(at('canary'))).toBe(false);
    },
  );

  test.each([
    ['npm', { packages: [{ name: 'needs' }] }, {}],
    ['pnpm', { packages: [{ name: 'needs' }] }, {}],
    ['npm', {}, { dependencies: { lodash: 'npm:lodahs@1' } }],
    ['pnpm', {}, { dependencies: { lodash: 'npm:lodahs@1' } }],
    ['npm', {}, { dependencies: { holds: '1' }, overrides: { plain: 'npm:lodahs@1' } }],
  ] as const)(
    '%s with %j: a package that comes by another name, or with another one, is judged by its own name',
    { timeout: MS },
    async (manager, input, manifest) => {
      if (manager === 'pnpm') await addToolchain(stateDir, 'pnpm');
      await start();
      writeFileSync(at('package.json'), JSON.stringify(manifest));
      expect(await install({ manager, ...input })).toMatchObject({
        error: { code: 'POLICY_DENIED', details: { findings: [{ id: 'similar:lodahs' }] } },
      });
      expect(readdirSync(daemon.workspace)).toEqual(['package.json']);
    },
  );
});
