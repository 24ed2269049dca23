import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { CliError } from '../../../src/cli/output.ts';
import { writeUnits } from '../../../src/cli/service/installed.ts';
import { movingProgram } from '../../../src/cli/service/stable-node.ts';
import { type Scope, unitFiles } from '../../../src/cli/service/units.ts';
import { removeTree, repository, temporaryDir } from '../../support/daemon.ts';

const options = { node: '/usr/bin/node', program: '/usr/lib/node_modules/ringfence/bin/ringfenced.js' };
/**
 * Directives that break the sandbox or V8, and that no unit may have. Those about /proc mount something over a part of
 * it, and then the kernel refuses a fresh /proc in a sandbox ("Can't mount proc"); RestrictNamespaces and `~@mount`
 * forbid sandboxes altogether; MemoryDenyWriteExecute kills V8.
 */
const NEVER: readonly string[] = [
  'ProtectKernelTunables',
  'ProtectKernelLogs',
  'ProtectHostname',
  'ProtectProc',
  'ProtectControlGroups',
  'PrivateUsers',
  'RestrictNamespaces',
  'MemoryDenyWriteExecute',
  'PrivateTmp',
  'ProtectHome',
  'SystemCallFilter',
];

const golden = (name: string) => readFileSync(join(repository, 'test/fixtures/service', name), 'utf8');
const folders: string[] = [];
afterEach(() => {
  for (const it of folders.splice(0)) removeTree(it);
});

function folder(): string {
  const it = temporaryDir('units');
  folders.push(it);
  return it;
}

describe.each<Scope>(['user', 'system'])('the %s units', (scope) => {
  test('the units are as they were reviewed', () => {
    for (const [name, text] of unitFiles({ scope, ...options })) expect(text).toBe(golden(name));
  });

  test('set nothing that breaks the sandbox or V8', () => {
    const text = [...unitFiles({ scope, ...options }).values()].join('');
    for (const it of NEVER) expect(text).not.toContain(`${it}=`);
  });

  test.skipIf(!existsSync('/usr/bin/systemd-analyze'))(
    'the units are valid for systemd-analyze, and no less hardened',
    () => {
      const at = folder();
      const program = join(repository, 'bin/ringfenced.js');
      for (const [name, text] of unitFiles({ scope, node: process.execPath, program }))
        writeFileSync(join(at, name), text);
      const env = { PATH: process.env.PATH ?? '', XDG_RUNTIME_DIR: at, HOME: at, SYSTEMD_UNIT_PATH: `${at}:` };
      const files = readdirSync(at).map((it) => join(at, it));
      const verify = spawnSync('systemd-analyze', [`--${scope}`, 'verify', '--man=no', ...files], {
        env,
        encoding: 'utf8',
      });
      expect(verify.stderr.split('\n').filter((it) => it.includes('ringfence'))).toEqual([]);
      // Most of its score is for directives that would break the sandbox; RestrictSUIDSGID hides openat2 from bubblewrap.
      const threshold = scope === 'user' ? 92 : 56;
      const unit = files.find((it) => it.endsWith('.service')) as string;
      const security = ['security', '--offline=true', '--no-pager', `--threshold=${threshold}`, unit];
      const { status, stdout } = spawnSync('systemd-analyze', security, { env, encoding: 'utf8' });
      expect(status, stdout.slice(-200)).toBe(0);
    },
  );
});

test('words of the command line keep their spaces, percent and dollar signs', () => {
  const program = '/srv/a b/100%/$x/bin/ringfenced.js';
  const text = unitFiles({ scope: 'user', node: '/usr/bin/node', program }).get('ringfence.service');
  expect(text).toContain('ExecStart=/usr/bin/node "/srv/a b/100%%/$$x/bin/ringfenced.js" --socket %t/ringfence/');
});

test.each([
  ['/home/me/.nvm/versions/node/v26.1.0/bin/node', 'nvm'],
  ['/run/user/1000/fnm_multishells/1_2/bin/node', 'fnm'],
  ['/home/me/.local/share/fnm/node-versions/v26.1.0/installation/bin/node', 'fnm'],
  ['/home/me/.volta/tools/image/node/26.1.0/bin/node', 'volta'],
  ['/home/me/.asdf/installs/nodejs/26.1.0/bin/node', 'asdf'],
  ['/home/me/.local/share/mise/installs/node/26.1.0/bin/node', 'mise'],
])('%s is refused as one that moves', (node, manager) => {
  expect(movingProgram({ ...options, node })).toContain(`belongs to ${manager} and goes with the next upgrade`);
});

test("a program in npx's cache or in a version manager's Node is refused, too; others are not", () => {
  const npx = '/home/me/.npm/_npx/1a2b/node_modules/ringfence/bin/ringfence.js';
  expect(movingProgram({ ...options, program: npx })).toContain("npx's cache");
  const inNvm = '/home/me/.nvm/versions/node/v26.1.0/lib/node_modules/ringfence/bin/ringfence.js';
  expect(movingProgram({ ...options, program: inNvm })).toContain('a Node of nvm');
  expect(movingProgram(options)).toBeUndefined();
});

test('units that systemd does not take leave the folder as it was', () => {
  const at = join(folder(), 'systemd/user');
  mkdirSync(at, { recursive: true });
  writeFileSync(join(at, 'ringfence.service'), 'before');
  const control = () => {
    throw new CliError(1, 'systemctl daemon-reload failed');
  };
  const systemd = { isRunning: true, control, journal: async () => 0 };
  expect(() => writeUnits({ folder: at, systemd }, unitFiles({ scope: 'user', ...options }))).toThrow('daemon-reload');
  expect(readdirSync(at)).toEqual(['ringfence.service']);
  expect(readFileSync(join(at, 'ringfence.service'), 'utf8')).toBe('before');
});

/** Runs the program in an empty home. */
function run(home: string, ...args: string[]) {
  const env = { PATH: process.env.PATH ?? '', HOME: home };
  return spawnSync(process.execPath, [join(repository, 'bin/ringfence.js'), 'service', ...args], {
    env,
    encoding: 'utf8',
  });
}

test('install --print prints the units and writes nothing', () => {
  const home = folder();
  const { status, stdout } = run(home, 'install', '--print');
  expect(status).toBe(0);
  expect(stdout).toContain(`# ${home}/.config/systemd/user/ringfence.service\n[Unit]`);
  expect(stdout).toContain(join(repository, 'bin/ringfenced.js'));
  expect(readdirSync(home)).toEqual([]);
});

test.skipIf(existsSync('/run/systemd/system'))('without systemd, install says so and writes nothing', () => {
  const home = folder();
  const { status, stderr } = run(home, 'install', '--now');
  expect(status).toBe(3);
  expect(stderr).toContain('systemd is not running on this machine');
  expect(readdirSync(home)).toEqual([]);
  expect(run(home, 'status').stdout).toContain('is not installed');
  expect(run(home, 'restart').status).toBe(3);
});

test('logs are those of the state directory where there is no journal', () => {
  if (existsSync('/run/systemd/system')) return;
  const home = folder();
  const state = join(home, '.local/state/ringfence');
  expect(run(home, 'logs').stderr).toContain('neither a journal nor');
  mkdirSync(state, { recursive: true });
  writeFileSync(join(state, 'daemon.log'), 'one line\n');
  expect(run(home, 'logs').stdout).toBe('one line\n');
});

test('uninstall --purge removes the state of a daemon, and no other folder', () => {
  const home = folder();
  const state = join(home, '.local/state/ringfence');
  mkdirSync(state, { recursive: true, mode: 0o700 });
  writeFileSync(join(state, 'notes.txt'), 'mine');
  expect(run(home, 'uninstall', '--purge').stderr).toContain('is not the state directory of a daemon');
  expect(existsSync(join(state, 'notes.txt'))).toBe(true);
  writeFileSync(join(state, 'daemon.lock'), '');
  expect(run(home, 'uninstall', '--purge').status).toBe(0);
  expect(existsSync(state)).toBe(false);
});
