/** Control groups simulated by a plain folder: what is written and read. test/fault/cgroup.test.ts uses real ones. */
import { existsSync, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { systemPowers } from '../../../../src/base/powers.ts';
import { commandProfile, toBwrapArgs } from '../../../../src/sandbox/bubblewrap.ts';
import { openCgroups, parseOwnGroups, trialArgs } from '../../../../src/sandbox/cgroup/cgroup.ts';
import { type CgroupFolders, clearGroup, groupBelow, useOf } from '../../../../src/sandbox/cgroup/files.ts';
import { runCommand } from '../../../../src/sandbox/command/command.ts';
import { DiskWatch } from '../../../../src/sandbox/command/disk-watch.ts';
import { CommandGroups } from '../../../../src/sandbox/command/group.ts';
import { NO_MASKS } from '../../../../src/sandbox/masks.ts';
import { seccompFilter } from '../../../../src/sandbox/seccomp.ts';
import { Watchdog } from '../../../../src/sandbox/watchdog.ts';
import { temporaryDir, until } from '../../../support/daemon.ts';

const powers = systemPowers();
const limits = { ...defaultLimits, watchdogMs: 1 };
const bounds = { cpuMs: 1000, memoryMb: 64, processes: 4, fileMb: 1, outputBytes: 1000 };
let root: string;
beforeEach(() => {
  root = temporaryDir('cgroup');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const v2 = (folder = root): CgroupFolders => ({ version: 'v2', memory: folder, pids: folder, cpu: folder });
const v1 = (): CgroupFolders => {
  const [memory = '', pids = '', cpu = ''] = ['memory', 'pids', 'cpuacct'].map((it) => join(root, it));
  for (const it of [memory, pids, cpu]) mkdirSync(it);
  return { version: 'v1', memory, pids, cpu };
};
/** All files below a folder with their content. */
function filesIn(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((it) => it.isFile());
  return Object.fromEntries(
    files.map((it) => {
      const path = join(it.parentPath, it.name);
      return [path.slice(folder.length + 1), readFileSync(path, 'utf8')];
    }),
  );
}

describe('the group of this process', () => {
  const V1 = [
    '32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct',
    '35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory',
    '39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids',
    '41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw',
    '42 31 0:39 / /tmp rw - tmpfs tmpfs rw',
  ].join('\n');

  test('the group is found in version 1, each controller by itself, and beside it that of version 2', () => {
    const own = parseOwnGroups('8:pids:/\n4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/d\n', V1);
    expect(own.v1).toEqual({
      version: 'v1',
      memory: '/sys/fs/cgroup/memory/a/b',
      pids: '/sys/fs/cgroup/pids',
      cpu: '/sys/fs/cgroup/cpu,cpuacct/c',
    });
    expect(own.v2?.memory).toBe('/sys/fs/cgroup/unified/d');
  });
  test('the group is found in version 2', () => {
    const own = parseOwnGroups(
      '0::/user.slice/a:b\n',
      '31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n',
    );
    expect(own).toEqual({ v2: v2('/sys/fs/cgroup/user.slice/a:b') });
  });
  test('the group is found in a container, which sees a part of the tree under a name from the top', () => {
    const mount = '31 23 0:28 /docker/x /sys/fs/cgroup\\040here rw - cgroup2 cgroup rw\n';
    expect(parseOwnGroups('0::/docker/x/y\n', mount).v2?.memory).toBe('/sys/fs/cgroup here/y');
    expect(parseOwnGroups('0::/docker/xy\n', mount).v2?.memory).toBe('/sys/fs/cgroup here');
  });
  test('the group is not found if a controller is missing', () => {
    expect(parseOwnGroups('8:pids:/\n0::/\n', V1).v1).toBeUndefined();
    expect(parseOwnGroups('', '')).toEqual({});
  });
});

describe('a daemon in version 2', () => {
  test('does not move where the kernel has given it nothing to limit with', () => {
    const stateDir = temporaryDir('state');
    writeFileSync(join(root, 'cgroup.controllers'), 'cpuset cpu hugetlb\n');
    expect(openCgroups({ stateDir, limits, own: { v2: v2() } }, powers)).toBeUndefined();
    expect(readdirSync(root)).toEqual(['cgroup.controllers']);
    rmSync(stateDir, { recursive: true });
  });
  test('moves out of the way, passes the controllers on and limits a host and all of it together', async () => {
    const stateDir = temporaryDir('state');
    const cgroups = openCgroups({ stateDir, limits, own: { v2: v2() } }, powers);
    const host = cgroups?.open({ runsCommands: true });
    const name = readdirSync(root).find((it) => it.startsWith('ringfence-')) ?? '';
    const files = filesIn(root);
    expect(files).toMatchObject({
      'cgroup.subtree_control': '+memory +pids',
      [`${name}/cgroup.subtree_control`]: '+memory +pids',
      [`${name}/daemon/cgroup.procs`]: `${process.pid}`,
      [`${name}/host-1/cgroup.subtree_control`]: '+memory +pids',
      [`${name}/host-1/own/memory.max`]: `${1024 * 2 ** 20}`,
      [`${name}/host-1/own/memory.oom.group`]: '1',
      [`${name}/host-1/memory.max`]: `${17 * 1024 * 2 ** 20}`,
      [`${name}/host-1/commands/cgroup.subtree_control`]: '+memory +pids',
    });
    expect(host?.join).toEqual([join(root, name, 'host-1/own/cgroup.procs')]);
    expect(host?.commands).toEqual({ group: v2(join(root, name, 'host-1/commands')), home: [] });
    expect(trialArgs(host).join(' ')).toContain('commands/trial/memory.max');
    expect(readFileSync(join(stateDir, 'cgroups'), 'utf8')).toBe(`${join(root, name)}\n`);
    rmSync(stateDir, { recursive: true });
  });

  test('a killed daemon has its groups removed, and groups of others stay', async () => {
    const stateDir = temporaryDir('state');
    const namespace = /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0];
    const [dead, other] = [`ringfence-${namespace}-${process.pid}-1.1`, `ringfence-1-${process.pid}-1.1`];
    for (const it of [dead, `${dead}/host-1`, `${dead}/host-1/own`, other, 'mine']) mkdirSync(join(root, it));
    const elsewhere = temporaryDir('cgroup');
    mkdirSync(join(elsewhere, dead));
    writeFileSync(join(stateDir, 'cgroups'), `${join(elsewhere, dead)}\n${elsewhere}\n`);
    openCgroups({ stateDir, limits, force: 'none', own: { v2: v2() } }, powers);
    expect(readdirSync(root).sort()).toEqual(['mine', other]);
    expect(readdirSync(elsewhere)).toEqual([]);
    for (const it of [stateDir, elsewhere]) rmSync(it, { recursive: true });
  });

  test('a daemon that may not make groups runs without them', () => {
    const stateDir = temporaryDir('state');
    expect(openCgroups({ stateDir, limits, own: { v2: v2('/proc') } }, powers)).toBeUndefined();
    expect(openCgroups({ stateDir, limits, own: {} }, powers)).toBeUndefined();
    rmSync(stateDir, { recursive: true });
  });
});

describe('a command', () => {
  const open = (group: CgroupFolders) => new CommandGroups({ group, home: [] }, limits, powers).open(bounds, false);

  test('a command gets its limits of version 2 before it enters its group', () => {
    open(v2());
    expect(filesIn(root)).toEqual({
      '1/pids.max': `${4 * limits.commandThreadsMax + 1}`,
      '1/memory.max': `${64 * 2 ** 20}`,
      '1/memory.oom.group': '1',
    });
  });
  test('a command gets its limits of version 1 before it enters its group', () => {
    const group = v1();
    open(group);
    expect(filesIn(root)).toEqual({
      'pids/1/pids.max': `${4 * limits.commandThreadsMax + 2}`,
      'memory/1/memory.limit_in_bytes': `${64 * 2 ** 20}`,
    });
  });
  test("a command whose group can't be made does not run", () => {
    expect(() => open(v2('/proc'))).toThrow(expect.objectContaining({ code: 'SANDBOX_UNAVAILABLE' }));
  });

  const EVIDENCE: [string, Record<string, string>, object][] = [
    ['nothing', {}, { cpuMs: 0 }],
    [
      'CPU time',
      { 'cpu.stat': 'usage_usec 1500000\nuser_usec 1\n' },
      { cpuMs: 1500, exceeded: { kind: 'cpu', limit: 1000 } },
    ],
    [
      'memory that ran out',
      { 'memory.peak': `${64 * 2 ** 20}\n`, 'memory.events': 'low 0\nmax 9\noom 1\noom_kill 2\noom_group_kill 1\n' },
      { peakBytes: 64 * 2 ** 20, exceeded: { kind: 'memory', limit: 64 * 2 ** 20, enforcedBy: 'cgroup v2' } },
    ],
    [
      'a process that was killed since the machine had no memory',
      { 'memory.peak': '4096\n', 'memory.events': 'oom_kill 1\n' },
      { peakBytes: 4096 },
    ],
    [
      'tasks that could not start',
      { 'pids.peak': `${4 * limits.commandThreadsMax + 1}\n`, 'pids.events': 'max 7\n' },
      { exceeded: { kind: 'processes', limit: 4 * limits.commandThreadsMax, enforcedBy: 'cgroup v2' } },
    ],
    ['threads, of which there may be more', { 'pids.peak': '20\n', 'pids.events': 'max 0\n' }, { processes: 19 }],
    [
      'too many processes',
      { 'pids.peak': '20\n', 'cgroup.procs': '1\n2\n3\n4\n5\n6\n' },
      { exceeded: { kind: 'processes', limit: 4, used: 5, enforcedBy: 'watchdog' } },
    ],
  ];
  test.each(EVIDENCE)('a group of version 2 shows %s', async (_, files, expected) => {
    const group = open(v2());
    let ends = 0;
    for (const [name, text] of Object.entries(files)) writeFileSync(join(root, '1', name), text);
    group.watch(() => (ends += 1));
    const { exceeded } = expected as { exceeded?: object };
    if (exceeded) await until(() => ends > 0);
    expect(group.measured).toMatchObject(expected);
    expect({ ends, has: group.measured.exceeded !== undefined }).toEqual({ ends: exceeded ? 1 : 0, has: !!exceeded });
    group[Symbol.dispose]();
  });

  test('a group of version 1 shows the same by other files', () => {
    const group = groupBelow(v1(), '');
    for (const [path, text] of [
      ['memory/memory.max_usage_in_bytes', '64\n'],
      ['memory/memory.oom_control', 'oom_kill_disable 0\nunder_oom 0\noom_kill 1\n'],
      ['cpuacct/cpuacct.usage', '2500000\n'],
      ['pids/pids.peak', '3\n'],
      ['pids/pids.events', 'max 1\n'],
    ] as const)
      writeFileSync(join(root, path), text);
    expect(useOf(group, { memoryBytes: 64, tasks: 3 })).toEqual({
      cpuMs: 3,
      peakBytes: 64,
      tasks: 3,
      outOfMemory: true,
      outOfTasks: true,
    });
  });

  describe('a command of version 2 that is held until it is in its group', () => {
    async function run(spoil: (folder: string) => void) {
      const [groups, workspace] = [join(root, 'groups'), join(root, 'ws')];
      for (const it of [groups, workspace]) mkdirSync(it);
      writeFileSync(join(root, 'filter'), seccompFilter({ arch: process.arch, sockets: [] }));
      const shownId = process.getuid?.() === 0 ? { shownId: 1000 } : {};
      const runtime = { etc: '/etc', needed: [], guarded: [] };
      const real = new CommandGroups({ group: v2(groups), home: [] }, limits, powers);
      const spoilt = {
        enforcedBy: real.enforcedBy,
        open: () => {
          const group = real.open(bounds, false);
          spoil(join(groups, '1'));
          return group;
        },
      } as unknown as CommandGroups;
      const setup = {
        bwrap: '/usr/bin/bwrap',
        guarded: [],
        filterFile: join(root, 'filter'),
        ownSocketsFilterFile: join(root, 'filter'),
        environment: {},
        limits,
        args: toBwrapArgs(commandProfile({ runtime, workspace, tmpBytes: 2 ** 20, ...shownId })),
        rlimits: { openFiles: 1024 },
        watchdog: new Watchdog(limits, powers),
        disks: new DiskWatch(limits, powers),
        groups: spoilt,
      };
      const request = {
        command: 'echo begun | tee begun',
        cwd: workspace,
        env: {},
        workspace,
        masks: NO_MASKS,
        bounds,
      };
      const signal = AbortSignal.timeout(10_000);
      return {
        outcome: await runCommand({ ...request, signal }, setup, powers).catch((error: unknown) => error),
        workspace,
      };
    }

    test('a held command runs when it was put into its group by the pid of its init', async () => {
      const { outcome } = await run(() => {});
      expect(outcome).toMatchObject({ exitCode: 0, stdout: 'begun\n' });
      expect(Number(readFileSync(join(root, 'groups/1/cgroup.procs'), 'utf8'))).toBeGreaterThan(1);
    });
    test('a held command that could not be put into its group never begins', async () => {
      const { outcome, workspace } = await run((folder) => rmSync(folder, { recursive: true }));
      expect(outcome).toMatchObject({
        code: 'SANDBOX_UNAVAILABLE',
        message: expect.stringMatching(/its control group/),
      });
      expect(existsSync(join(workspace, 'begun'))).toBe(false);
    });
  });
});

test('processes of a cleared group are killed at once if the kernel can', () => {
  mkdirSync(join(root, 'g/inner'), { recursive: true });
  writeFileSync(join(root, 'g/cgroup.kill'), '');
  expect(clearGroup(v2(join(root, 'g')))).toBe(false);
  expect(filesIn(root)).toEqual({ 'g/cgroup.kill': '1' });
  expect(existsSync(join(root, 'g/inner'))).toBe(false);
});
