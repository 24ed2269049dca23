/**
 * The groups of a daemon that systemd started, as systemd lays them out and delegates them, simulated by a plain folder.
 * test/fault/cgroup.test.ts uses real groups where root's tree of version 2 has the controllers.
 */
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { systemPowers } from '../../../../src/base/powers.ts';
import { serviceUnit } from '../../../../src/cli/service/units.ts';
import { openCgroups, parseOwnGroups } from '../../../../src/sandbox/cgroup/cgroup.ts';
import { temporaryDir } from '../../../support/daemon.ts';

const USER_UNIT = '/user.slice/user-1000.slice/user@1000.service/app.slice/ringfence.service';
const SYSTEM_UNIT = '/system.slice/system-ringfence.slice/ringfence@ada\\x2db.service';
const SESSION = '/user.slice/user-1000.slice/session-3.scope';
const NOBODY = 65_534;

const powers = systemPowers();
const limits = defaultLimits;
let root: string;
let stateDir: string;
beforeEach(() => {
  root = temporaryDir('systemd-cgroup');
  stateDir = temporaryDir('state');
});
afterEach(() => {
  for (const it of [root, stateDir]) rmSync(it, { recursive: true, force: true });
});

/** Makes the folders down to a group with the files that systemd and the kernel leave there, and opens it as the daemon does. */
function openIn(path: string, { controllers = 'cpu memory pids', spoil = (_: string) => {} } = {}) {
  const group = join(root, path);
  mkdirSync(group, { recursive: true });
  for (let folder = group; folder !== dirname(root); folder = dirname(folder)) {
    writeFileSync(join(folder, 'cgroup.controllers'), `${controllers}\n`);
    writeFileSync(join(folder, 'cgroup.subtree_control'), folder === group ? '' : `${controllers}\n`);
  }
  writeFileSync(join(group, 'cgroup.procs'), `${process.pid}\n`);
  spoil(group);
  const own = parseOwnGroups(
    `0::${path}\n`,
    `31 23 0:28 / ${root} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n`,
  );
  return { group, cgroups: openCgroups({ stateDir, limits, own }, powers) };
}

const oursIn = (group: string): string[] => readdirSync(group).filter((it) => it.startsWith('ringfence-'));

describe('a unit that systemd delegated', () => {
  test.each([USER_UNIT, SYSTEM_UNIT])('%s: the daemon moves below it and limits its hosts there', (path) => {
    const { group, cgroups } = openIn(path);
    const host = cgroups?.open({ runsCommands: true });
    const [name = ''] = oursIn(group);
    expect(cgroups?.base.memory).toBe(group);
    expect(readFileSync(join(group, name, 'daemon/cgroup.procs'), 'utf8')).toBe(`${process.pid}`);
    expect(readFileSync(join(group, 'cgroup.subtree_control'), 'utf8')).toBe('+memory +pids');
    expect(host?.join).toEqual([join(group, name, 'host-1/own/cgroup.procs')]);
    expect(existsSync(join(group, name, 'host-1/commands/cgroup.subtree_control'))).toBe(true);
  });

  test('nothing above the unit is written, which is what systemd manages itself', () => {
    const { group } = openIn(USER_UNIT);
    for (let folder = dirname(group); folder !== dirname(root); folder = dirname(folder)) {
      expect(readFileSync(join(folder, 'cgroup.subtree_control'), 'utf8')).toBe('cpu memory pids\n');
      expect(oursIn(folder)).toEqual([]);
    }
  });

  test('the group in which systemd runs ExecReload stays', () => {
    const { group } = openIn(USER_UNIT, { spoil: (it) => mkdirSync(join(it, '.control')) });
    expect(readdirSync(group)).toContain('.control');
  });

  test('our units ask for the controllers that a daemon needs', () => {
    for (const scope of ['user', 'system'] as const) {
      const unit = serviceUnit({ scope, node: '/usr/bin/node', program: '/p.js' });
      expect(/^Delegate=(.*)$/m.exec(unit)?.[1]?.split(' ')).toEqual(expect.arrayContaining(['memory', 'pids']));
    }
  });
});

describe('a place without groups of version 2', () => {
  test.runIf(process.getuid?.() === 0)(
    'the scope of a login, which belongs to root, gives no groups of version 2',
    () => {
      chmodSync(root, 0o755);
      chownSync(stateDir, NOBODY, NOBODY);
      const asOwner = process.geteuid?.() as number;
      let opened: ReturnType<typeof openIn>;
      try {
        opened = openIn(SESSION, { spoil: () => process.seteuid?.(NOBODY) });
      } finally {
        process.seteuid?.(asOwner);
      }
      expect(opened.cgroups).toBeUndefined();
      expect(oursIn(opened.group)).toEqual([]);
      expect(readFileSync(join(opened.group, 'cgroup.subtree_control'), 'utf8')).toBe('');
    },
  );

  test('a user manager with tasks only, and no memory, gives no groups of version 2', () => {
    const { group, cgroups } = openIn(USER_UNIT, { controllers: 'pids' });
    expect(cgroups).toBeUndefined();
    expect(oursIn(group)).toEqual([]);
  });

  test('a daemon in a unit with other processes goes back to where systemd put it', () => {
    // The kernel refuses the controllers with EBUSY; a folder in the place of the file refuses them, too.
    const { group, cgroups } = openIn(USER_UNIT, {
      spoil: (it) => {
        rmSync(join(it, 'cgroup.subtree_control'));
        mkdirSync(join(it, 'cgroup.subtree_control'));
      },
    });
    expect(cgroups).toBeUndefined();
    expect(readFileSync(join(group, 'cgroup.procs'), 'utf8')).toBe(`${process.pid}`);
  });
});
