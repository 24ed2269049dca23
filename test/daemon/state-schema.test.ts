/** The schema version of the state, with real daemons: refused if newer, and written if absent. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { beginCli, endOf, runCli } from '../support/cli.ts';
import { dataOf, openDaemon, startDaemon, temporaryDir, until } from '../support/daemon.ts';
import { writePlugin } from '../support/plugin.ts';

const NEWER = '{"version":99,"writtenBy":"9.9.9","inAFormOf":"that version"}';
const folder = temporaryDir('state-schema');
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const workspace = join(folder, 'workspace');
mkdirSync(workspace);
const schemaOf = (stateDir: string) => readFileSync(join(stateDir, 'schema.json'), 'utf8');
const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as {
  version: string;
};

/** Names and contents of the files right in a folder, but for those of the test and of the lock. */
const filesOf = (stateDir: string) =>
  Object.fromEntries(
    readdirSync(stateDir, { withFileTypes: true })
      .filter((it) => it.isFile() && !/^(daemon\.|policy|config|d\.)/.test(it.name))
      .map((it) => [it.name, readFileSync(join(stateDir, it.name), 'base64')]),
  );

/** A state in which a daemon has run a call. */
async function usedState(name: string): Promise<string> {
  const stateDir = join(folder, name);
  await using daemon = await openDaemon({ stateDir, workspace });
  await using client = await daemon.connect();
  await dataOf(client.call('file_write', { path: `${name}.txt`, content: '' }));
  return stateDir;
}

test('a daemon writes the version into a new state, and into one from before there was a version', async () => {
  const stateDir = await usedState('old');
  const first = schemaOf(stateDir);
  expect(JSON.parse(first)).toEqual({ version: 1, writtenBy: version });
  rmSync(join(stateDir, 'schema.json'));
  await using daemon = await openDaemon({ stateDir, workspace });
  expect(schemaOf(stateDir)).toBe(first);
  await using operator = await daemon.connect({ role: 'operator' });
  expect(await operator.request('audit.verify', {})).toMatchObject({ ok: true });
}, 60_000);

test('verbs that work without a daemon refuse a state of a newer version, and touch nothing', async () => {
  const stateDir = await usedState('newer-offline');
  writeFileSync(join(stateDir, 'schema.json'), NEWER);
  const before = filesOf(stateDir);
  const plugin = writePlugin({ files: { 'main.js': 'export const run = () => ({ value: 1 });' } });
  const place = { stateDir, workspace, socket: join(stateDir, 'd.sock') };
  const verbs = [
    ['token', 'rotate'],
    ['plugin', 'add', plugin, '--state', stateDir],
    ['plugin', 'list', '--state', stateDir],
    ['plugin', 'remove', 'probe', '--state', stateDir],
    ['audit', 'verify', '--no-autostart'],
    ['secret', 'set', 'key'],
    ['secret', 'remove', 'key'],
    ['connector', 'add', 'github'],
    ['connector', 'list'],
    ['connector', 'remove', 'github'],
  ];
  for (const verb of verbs) {
    const { code, stderr } = await runCli(place, verb, { stdin: 'a-secret-value' });
    expect([verb, code, stderr]).toEqual([verb, 2, expect.stringContaining('install Ringfence 9.9.9 or later')]);
  }
  expect(filesOf(stateDir)).toEqual(before);
  expect(existsSync(join(stateDir, 'secrets')) || readdirSync(join(stateDir, 'plugins')).length > 0).toBe(false);
  rmSync(plugin, { recursive: true });
}, 60_000);

test.each([
  ['a newer version', NEWER, ['schema version 99', 'knows up to 1', 'install Ringfence 9.9.9 or later']],
  ['a file that is not valid', '{"version":', ["can't be read", 'Nothing was changed', 'ringfence restore FILE']],
])(
  'a daemon refuses %s with exit code 2, touches nothing, and doctor reports it',
  async (name, text, words) => {
    const stateDir = await usedState(name.replaceAll(' ', '-'));
    writeFileSync(join(stateDir, 'schema.json'), text);
    const before = filesOf(stateDir);
    const place = { stateDir, workspace, socket: join(stateDir, 'd.sock') };
    const served = await runCli(place, ['serve']);
    expect(served.code).toBe(2);
    for (const it of words) expect(served.stderr).toContain(it);
    expect(filesOf(stateDir)).toEqual(before);
    const { code, stdout } = await runCli(place, ['doctor', '--json']);
    const { findings } = JSON.parse(stdout) as { findings: { id: string; status: string; found: string }[] };
    const [schema] = findings.filter((it) => it.id === 'schema');
    expect([code, schema]).toEqual([1, expect.objectContaining({ status: 'problem' })]);
    for (const it of words) expect(schema?.found).toContain(it);
  },
  60_000,
);

test('a newer state can be saved; restore refuses it and changes nothing', async () => {
  const stateDir = await usedState('saved');
  const place = { stateDir, workspace, socket: join(stateDir, 'd.sock') };
  const [older, newer] = [join(folder, 'older.tgz'), join(folder, 'newer.tgz')];
  expect((await runCli(place, ['backup', older])).code).toBe(0);
  writeFileSync(join(stateDir, 'schema.json'), NEWER);
  expect((await runCli(place, ['backup', newer])).code).toBe(0);
  expect(execFileSync('tar', ['-xzOf', newer, './schema.json'], { encoding: 'utf8' })).toBe(NEWER);
  const before = filesOf(stateDir);
  const refused = await runCli(place, ['restore', newer]);
  expect([refused.code, refused.stderr]).toEqual([
    2,
    expect.stringMatching(/newer.tgz can't be used here: .*version 99.*9.9.9 or later$/m),
  ]);
  expect(filesOf(stateDir)).toEqual(before);
  expect((await runCli(place, ['restore', older])).code).toBe(0);
  expect(JSON.parse(schemaOf(stateDir))).toEqual({ version: 1, writtenBy: version });
}, 60_000);

test('an upgrade to a version that does not know the state leaves the old daemon serving its calls', async () => {
  await using daemon = await startDaemon({ policy: 'tiers:\n  execute: { decision: allow }\n' });
  await using client = await daemon.connect();
  const command = 'touch begun; until [ -e go ]; do sleep 0.02; done; echo done';
  const running = client.call('terminal_execute', { command });
  await until(() => existsSync(join(daemon.workspace, 'begun')));
  writeFileSync(join(daemon.stateDir, 'schema.json'), NEWER);
  const upgrade = beginCli(daemon, ['upgrade']);
  let told = '';
  upgrade.stderr.on('data', (chunk) => (told += chunk));
  expect(await endOf(upgrade)).toBe(1);
  for (const it of ['this one goes on', 'schema version 99']) expect(told).toContain(it);
  writeFileSync(join(daemon.workspace, 'go'), '');
  expect((await dataOf(running)).stdout).toBe('done\n');
  await using operator = await daemon.connect({ role: 'operator' });
  expect(await operator.request('status', {})).toMatchObject({ pid: daemon.pid });
}, 60_000);
