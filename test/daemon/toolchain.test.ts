/** `ringfence toolchain`, with a registry on this machine and commands in real sandboxes. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { canServeOthers, dataOf, type OpenDaemon, openDaemon } from '../support/daemon.ts';

const NODE = `node-linux-${process.arch}`;
let folder: string;
let stateDir: string;
let workspace: string;
let daemon: OpenDaemon;
let server: Server;
let registry: string;
let answers: Map<string, Buffer>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ringfence-toolchain-'));
  stateDir = join(folder, 'state');
  workspace = join(folder, 'workspace');
  mkdirSync(workspace);
  daemon = await openDaemon({ stateDir, workspace });
  answers = new Map();
  server = createServer((request, response) => {
    const body = answers.get(request.url ?? '');
    response.writeHead(body ? 200 : 404).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  registry = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.close();
  await daemon[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/** Publishes versions of a package whose program prints its own version, and whose script would leave a file. */
function publish(name: string, versions: readonly string[], more: (version: string) => object = () => ({})): void {
  const all = versions.map((version) => {
    const at = join(folder, version, 'package');
    mkdirSync(join(at, 'bin'), { recursive: true });
    const scripts = { preinstall: `touch ${join(folder, 'canary')}` };
    const manifest = { name, version, bin: { node: 'bin/node' }, scripts, ...more(version) };
    writeFileSync(join(at, 'package.json'), JSON.stringify(manifest));
    writeFileSync(join(at, 'bin/node'), `#!/bin/sh\necho own ${version}\n`);
    const tarball = execFileSync('tar', ['-czf', '-', '-C', join(folder, version), 'package']);
    const path = `/${name}/-/${version}.tgz`;
    answers.set(path, tarball);
    const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
    return [version, { ...manifest, dist: { tarball: registry + path, integrity } }] as const;
  });
  const listing = { 'dist-tags': { latest: versions.at(-1) }, versions: Object.fromEntries(all) };
  answers.set(`/${name}`, Buffer.from(JSON.stringify(listing)));
}

const add = (name: string, ...more: string[]) =>
  runCli(daemon, ['toolchain', 'add', name, '--registry', registry, ...more]);
const installed = () => readdirSync(join(stateDir, 'toolchains'));

test('commands find the program of an installed toolchain first, and can not change it', async () => {
  publish(NODE, ['24.9.0', '24.15.1', '26.1.0']);
  const added = await add('node@24', '--json');
  expect([added.code, JSON.parse(added.stdout)]).toEqual([
    0,
    expect.objectContaining({ name: 'node', version: '24.15.1', programs: ['node'], package: NODE }),
  ]);
  expect(existsSync(join(folder, 'canary'))).toBe(false);
  await daemon[Symbol.asyncDispose]();
  daemon = await openDaemon({ stateDir, workspace });
  await using client = await daemon.connect();
  const command = 'node; cd "$(dirname "$(command -v node)")" && { touch x || rm node; } 2>&1; ls';
  const { stdout } = await dataOf(client.call('terminal_execute', { command }));
  expect(stdout).toMatch(/^own 24\.15\.1\n.*Read-only file system/s);
  expect(stdout).toMatch(/\nnode\n$/);
});

test('a session that is running finds what is added, what replaces it, and no longer what is removed', async () => {
  publish(NODE, ['24.9.0', '26.1.0']);
  await using client = await daemon.connect();
  const run = async (command: string) => (await dataOf(client.call('terminal_execute', { command }))).stdout;
  // The host and a sandbox that was built ahead are there by now.
  expect(await run('node')).not.toContain('own');
  for (const version of ['24.9.0', '26.1.0']) {
    expect(await add(`node@${version}`)).toMatchObject({ code: 0 });
    expect(await run('node')).toBe(`own ${version}\n`);
  }
  await runCli(daemon, ['toolchain', 'remove', 'node']);
  expect(await run('node || true')).not.toContain('own');
  expect(readdirSync(join(stateDir, 'toolchain-programs'))).toEqual([]);
});

test('a new version takes the place of the old one, and remove leaves nothing', async () => {
  publish(NODE, ['24.9.0', '26.1.0']);
  await add('node@24.9.0');
  expect(installed()).toEqual(['node@24.9.0']);
  expect((await add('node')).stderr).toContain('commands find it from now on');
  expect(installed()).toEqual(['node@26.1.0']);
  expect((await runCli(daemon, ['toolchain', 'list'])).stdout).toBe('node@26.1.0  node\n');
  expect((await runCli(daemon, ['toolchain', 'remove', 'node'])).code).toBe(0);
  expect(installed()).toEqual([]);
  expect((await runCli(daemon, ['toolchain', 'remove', 'node'])).stderr).toContain('no toolchain named node');
});

test.each([
  [
    'another hash than the registry says',
    () => answers.set(`/${NODE}/-/24.9.0.tgz`, Buffer.from('evil')),
    'has the hash',
  ],
  ['no such version', () => publish(NODE, ['22.0.0']), 'has no version 24'],
  [
    'other packages to install',
    () => publish(NODE, ['24.9.0'], () => ({ dependencies: { left: '1' } })),
    'needs other packages (left)',
  ],
  [
    'a program outside of the package',
    () => publish(NODE, ['24.9.0'], () => ({ bin: { node: '../../../x' } })),
    'names a program that it does not have',
  ],
  ['no answer at all', () => answers.clear(), 'answers with status 404'],
  ['an answer that is no listing', () => answers.set(`/${NODE}`, Buffer.from('<html>')), 'is no listing'],
])('a package with %s is refused, and nothing is left', async (_, spoil, words) => {
  publish(NODE, ['24.9.0']);
  spoil();
  const { code, stderr } = await add('node@24');
  expect([code, stderr]).toEqual([1, expect.stringContaining(words)]);
  expect(existsSync(join(stateDir, 'toolchains')) ? installed() : []).toEqual([]);
});

test('a name that no package stands for says what to run instead', async () => {
  const { code, stderr } = await add('pytest');
  expect([code, stderr]).toEqual([2, expect.stringContaining('apt-get install python3-pytest')]);
  const other = await runCli(daemon, ['toolchain', 'add', 'node', '--registry', 'http://example.com']);
  expect([other.code, other.stderr]).toEqual([2, expect.stringContaining('--registry takes an https URL')]);
});

test('links in an archive lead nowhere outside', async () => {
  publish(NODE, ['24.9.0']);
  const at = join(folder, '24.9.0/package');
  rmSync(join(at, 'bin'), { recursive: true });
  execFileSync('ln', ['-s', '/etc', join(at, 'bin')]);
  const tarball = execFileSync('tar', ['-czf', '-', '-C', join(folder, '24.9.0'), 'package']);
  const listing = JSON.parse(String(answers.get(`/${NODE}`)));
  listing.versions['24.9.0'].dist.integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  listing.versions['24.9.0'].bin = { node: 'bin/passwd' };
  answers.set(`/${NODE}/-/24.9.0.tgz`, tarball).set(`/${NODE}`, Buffer.from(JSON.stringify(listing)));
  chmodSync(folder, 0o755);
  const before = readFileSync('/etc/passwd', 'utf8');
  expect((await add('node@24')).code).toBe(1);
  expect(readFileSync('/etc/passwd', 'utf8')).toBe(before);
});

test.runIf(canServeOthers)(
  'commands in a workspace of another user, who may not see the toolchain, run without it',
  async () => {
    chmodSync(folder, 0o755);
    publish(NODE, ['24.9.0']);
    await add('node');
    await daemon[Symbol.asyncDispose]();
    chownSync(workspace, 1000, 1000);
    daemon = await openDaemon({ stateDir, workspace });
    await using client = await daemon.connect();
    const { stdout } = await dataOf(client.call('terminal_execute', { command: 'node || echo none' }));
    expect(stdout).not.toContain('own 24.9.0');
  },
);
