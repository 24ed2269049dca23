/** `ringfence plugin|connector install` from a registry that lies, and packages that would do harm. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Run, runCli } from '../support/cli.ts';
import { removeTree, temporaryDir } from '../support/daemon.ts';
import { type FakeRegistry, type FakeVersion, startRegistry, tarOf } from '../support/npm-registry.ts';
import { manifestOf } from '../support/plugin.ts';

let registry: FakeRegistry;
let folder: string;
let place: { stateDir: string; socket: string; workspace: string };

beforeEach(async () => {
  registry = await startRegistry();
  folder = temporaryDir('market');
  place = { stateDir: join(folder, 'state'), socket: join(folder, 'd.sock'), workspace: folder };
  configure();
});
afterEach(async () => {
  await registry[Symbol.asyncDispose]();
  removeTree(folder);
});

const config = () => join(folder, 'config.yaml');
const configure = (more: object = {}) =>
  writeFileSync(config(), JSON.stringify({ packages: { registry: registry.url, ...more } }));
const cli = (...args: string[]): Promise<Run> => runCli(place, args, { env: { RINGFENCE_CONFIG: config() } });

const KEYWORDS = { keywords: ['ringfence-plugin'], description: 'Probes' };
const FILES = {
  'plugin/ringfence.plugin.yaml': JSON.stringify(manifestOf({})),
  'plugin/main.js': 'export function run() { return { value: 1 }; }\n',
};
const NAME = 'ringfence-plugin-probe';

function publish(version: Partial<FakeVersion> = {}): void {
  registry.publish(NAME, { version: '1.0.0', ageDays: 30, manifest: KEYWORDS, files: FILES, ...version });
}

const pinned = (kind = 'plugins') => {
  const at = join(place.stateDir, kind);
  return existsSync(at) ? readdirSync(at).filter((it) => it.endsWith('.json')) : [];
};

/** The hash that a person copies from what was shown. */
const hashOf = ({ stdout }: Run): string => /sha256:([0-9a-f]{64})/.exec(stdout)?.[1] ?? '';

test('a plugin is found, shown with its files, and installed by the hash that was shown', async () => {
  publish({ manifest: { ...KEYWORDS, scripts: { postinstall: `touch ${join(folder, 'canary')}` } } });
  registry.publish('left-pad', { version: '1.0.0', ageDays: 30, manifest: { keywords: ['pad'] } });
  const searched = await cli('plugin', 'search', 'probe');
  expect(searched).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^ringfence-plugin-probe@1\.0\.0 +Probes\n$/),
  });
  const shown = await cli('plugin', 'install', NAME);
  expect(shown.code).toBe(1);
  expect(shown.stdout).toMatch(/main\.js {2}\d+ bytes/);
  expect(shown.stdout).toContain('its scripts were not run, and never are: postinstall');
  expect(shown.stderr).toContain(`ringfence plugin install ${NAME}@1.0.0 --yes --sha256 ${hashOf(shown)}`);
  expect(pinned()).toEqual([]);
  const installed = await cli('plugin', 'install', `${NAME}@1.0.0`, '--yes', '--sha256', hashOf(shown));
  expect(installed).toMatchObject({ code: 0, stdout: expect.stringContaining('probe__run') });
  expect(pinned()).toEqual(['probe.json']);
  expect(existsSync(join(folder, 'canary'))).toBe(false);
  expect(JSON.parse(readFileSync(join(place.stateDir, 'plugins/probe.json'), 'utf8'))).toMatchObject({
    sha256: hashOf(shown),
    files: { 'main.js': FILES['plugin/main.js'] },
  });
});

test('a connector is installed in the same way, and its secret is bound', async () => {
  const text = `connector: tickets
title: Tickets
base: https://tickets.example.org
auth: { kind: bearer, secret: tickets_key }
operations:
  get: { description: Get it., request: { method: GET, path: /it }, output: { id: $.id } }
`;
  const manifest = { keywords: ['ringfence-connector'] };
  registry.publish('@acme/tickets', { version: '2.0.0', ageDays: 30, manifest, files: { 'connector.yaml': text } });
  expect((await cli('plugin', 'install', '@acme/tickets')).stderr).toContain('has no keyword ringfence-plugin');
  const shown = await cli('connector', 'install', '@acme/tickets');
  const installed = await cli('connector', 'install', '@acme/tickets', '--yes', '--sha256', hashOf(shown));
  expect(installed).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('tickets_key goes to tickets.example.org'),
  });
  expect(pinned('connectors')).toEqual(['tickets.json']);
});

test('without a person, only what has the given hash is installed', async () => {
  publish();
  expect(await cli('plugin', 'install', NAME, '--yes')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--yes needs --sha256'),
  });
  const wrong = await cli('plugin', 'install', NAME, '--yes', '--sha256', 'a'.repeat(64));
  expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('nothing was installed') });
  expect(pinned()).toEqual([]);
});

const bomb = gzipSync(Buffer.alloc(20 * 1024 * 1024));
const withEntry = (path: string, more: object = {}) => tarOf([{ path, content: 'x', ...more }]);

test.each<[string, Partial<FakeVersion>, string | RegExp]>([
  ['another hash than the registry tells', { integrity: `sha512-${'A'.repeat(86)}==` }, 'as the registry says'],
  ['no hash', { integrity: 'sha1-abc' }, 'tells no sha512 integrity'],
  ['an archive elsewhere', { tarball: 'http://127.0.0.1:1/x.tgz' }, 'which is not http://127.0.0.1'],
  ['no date', { ageDays: undefined as never }, 'has no date of publication'],
  ['a date of yesterday', { ageDays: 1 }, 'less than 3 days ago'],
  ['another keyword', { manifest: { keywords: ['plugin'] } }, 'has no keyword ringfence-plugin'],
  ['no manifest', { files: { 'a.js': '' } }, 'has no ringfence.plugin.yaml'],
  ['a path that leads out', { archive: withEntry('package/../../../evil.js') }, 'is no path below its folder'],
  ['a link', { archive: withEntry('package/plugin', { type: '2', link: '/etc' }) }, 'is no regular file'],
  ['a bomb', { archive: bomb }, 'bytes unpacked'],
  ['an archive too large', { archive: Buffer.alloc(5 * 1024 * 1024) }, 'has more than 4194304 bytes'],
  [
    'a file that is no text',
    { archive: tarOf([{ path: 'package/ringfence.plugin.yaml', content: '\x80' }]) },
    /refuses|no text|not valid/,
  ],
  [
    'code that does not parse',
    { files: { ...FILES, 'plugin/main.js': 'export function (' } },
    'check refuses the package',
  ],
  [
    'too many files',
    { files: { ...FILES, ...Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`plugin/${i}.js`, ''])) } },
    'at most 64',
  ],
])('a package with %s is not installed', async (_, version, message) => {
  publish(version);
  const before = new Set(readdirSync(tmpdir()).filter((it) => it.startsWith('ringfence-market-')));
  const { code, stderr } = await cli('plugin', 'install', NAME, '--yes', '--sha256', 'a'.repeat(64));
  expect(code).toBe(1);
  expect(stderr).toMatch(message);
  expect(pinned()).toEqual([]);
  expect(readdirSync(tmpdir()).filter((it) => it.startsWith('ringfence-market-') && !before.has(it))).toEqual([]);
});

test('the newest version that is old enough is taken, and one that the operator excepted', async () => {
  publish({ version: '1.0.0' });
  publish({ version: '1.2.0', ageDays: 10 });
  publish({ version: '2.0.0-beta.1', ageDays: 10 });
  publish({ version: '1.3.0', ageDays: 1 });
  expect((await cli('plugin', 'install', NAME)).stdout).toMatch(/^ringfence-plugin-probe@1\.2\.0/);
  expect((await cli('plugin', 'install', `${NAME}@1.3.0`)).stderr).toContain('less than 3 days ago');
  configure({ coolDownExcept: [NAME] });
  expect((await cli('plugin', 'install', NAME)).stdout).toMatch(/^ringfence-plugin-probe@1\.3\.0/);
});

test.each(['../evil', 'git+https://x/y', 'UPPER', 'a@latest', '--', 'https://x.org/a.tgz', 'a/../b'])(
  'the name %s is refused before anything is asked',
  async (name) => {
    const { code } = await cli('plugin', 'install', '--', name);
    expect(code).toBe(1);
    expect(registry.seen).toEqual([]);
  },
);

test('the text of a registry can not steer a terminal', async () => {
  publish({ manifest: { ...KEYWORDS, description: '\u001b[2Jgone' } });
  for (const args of [['search'], ['install', NAME]] as const)
    expect((await cli('plugin', ...args)).stdout).not.toContain('\u001b');
});
