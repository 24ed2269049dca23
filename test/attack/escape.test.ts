/** Escapes from the sandbox: to the kernel, to other processes, to the system's files, and through files left for others to run. */
import { spawn } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Attack, attempts, contentOf, eachIdentity, namesOf } from '../support/arena.ts';

interface Control {
  /** The attempts that succeed without a sandbox, for any user and for the real root; the machine itself refuses the rest. */
  readonly anybody?: readonly string[];
  readonly root: readonly string[];
}
const PROGRAMS: readonly [string, Control][] = [
  ['write-core-pattern.sh', { root: ['core_pattern'] }],
  ['device-make.sh', { root: ['character', 'block', 'kmsg'] }],
  [
    'kernel-doors.pl',
    { anybody: ['memfd_create'], root: ['memfd_create', 'keyctl', 'bpf', 'mount', 'setns', 'syslog'] },
  ],
  ['hold-files.pl', { anybody: ['write-lease', 'notify'], root: ['read-lease', 'write-lease', 'notify'] }],
  ['change-modes.pl', { root: ['/dev/null', '/dev/zero', '/dev/full', '/proc/version'] }],
  ['write-system.sh', { root: ['/', '/usr', '/etc', '/dev'] }],
  ['nested-userns.pl', { anybody: ['unshare-user'], root: ['unshare-user', 'unshare-network', 'clone', 'clone3'] }],
  ['suid-plant.sh', { anybody: ['a', 'b', 'c', 'd', 'e', 'f'], root: ['a', 'b', 'c', 'd', 'e', 'f'] }],
];

eachIdentity({}, (arena) => {
  test.each(PROGRAMS)('%s gets nothing through, and without the sandbox it does', async (program, control) => {
    const told = await arena.told({ program });
    const tried = attempts(told);
    expect(Object.values(tried).length).toBeGreaterThan(3);
    // Memory files are allowed if a control group counts them.
    const isCounted = arena.daemon.confinement.cgroup !== 'none';
    const open = isCounted ? ['memfd_create'] : [];
    const passed = namesOf(told, 'through');
    expect(passed.filter((it) => !open.includes(it))).toEqual([]);
    const through = namesOf(await arena.control({ program }), 'through');
    expect(through).toEqual(
      expect.arrayContaining([...((arena.identity.isRoot ? control.root : control.anybody) ?? [])]),
    );
  });

  test('no file of the workspace has a set-user-id bit or is a device afterwards', () => {
    const { workspace } = arena.daemon;
    const odd = readdirSync(workspace, { recursive: true, encoding: 'utf8' }).filter((it) => {
      const stat = statSync(join(workspace, it));
      return (stat.mode & 0o6000) !== 0 || stat.isBlockDevice() || stat.isCharacterDevice();
    });
    expect(odd).toEqual([]);
  });

  test('ptrace-host.pl reads nothing of the daemon, and without the sandbox it does of a process', async () => {
    const program = 'ptrace-host.pl';
    const { pid } = arena.daemon;
    expect(namesOf(await arena.told({ program, args: [pid] }), 'through')).toEqual([]);
    const { daemon, workspace } = arena.identity;
    const victim = spawn('sleep', ['20'], { ...(daemon ?? workspace), stdio: 'ignore' });
    try {
      const through = namesOf(await arena.control({ program, args: [victim.pid as number] }), 'through');
      expect(through).toEqual(expect.arrayContaining(['memory', 'descriptors', 'root']));
    } finally {
      victim.kill('SIGKILL');
    }
  });

  test('ptrace-host.pl traces a child of a command, and not the first process of its sandbox', async () => {
    const program = 'ptrace-host.pl';
    const tracing = ['seize', 'process_vm_readv', 'pidfd_getfd'];
    const tracedBy = async (pid: number | string) =>
      namesOf(await arena.told({ program, args: [pid] }), 'through').filter((it) => tracing.includes(it));
    expect(await tracedBy('child')).toEqual(['seize', 'process_vm_readv']);
    expect(await tracedBy(1)).toEqual([]);
  });

  test('signal-daemon.pl does not reach the daemon, and without the sandbox it does', async () => {
    const attack: Attack = { program: 'signal-daemon.pl', args: [arena.daemon.pid] };
    expect(namesOf(await arena.told(attack), 'through')).toEqual([]);
    // Another user can't reach a daemon of root anyway.
    const isOwn = arena.identity.isRoot || arena.identity.daemon !== undefined || process.getuid?.() !== 0;
    if (isOwn) expect(namesOf(await arena.control(attack), 'through')).toEqual(expect.arrayContaining(['kill']));
  });

  test('kill-everyone.sh kills itself: daemon, hosts and the next command are as before', async () => {
    const hostPid = async () => (await arena.client.call('terminal_execute', { command: 'true' })).metadata.hostPid;
    const before = await hostPid();
    const result = await arena.run({ program: 'kill-everyone.sh', args: ['inside-a-sandbox'] });
    expect(result).toMatchObject({ success: true, data: { signal: expect.stringMatching(/SIG(KILL|TERM)/) } });
    expect(await hostPid()).toBe(before);
    expect(arena.daemon.process.exitCode).toBeNull();
  });

  test('write-outside.sh changes nothing beside the workspace, and without the sandbox it does', async () => {
    const attack: Attack = { program: 'write-outside.sh', args: [arena.outside, '.'] };
    const before = contentOf(arena.outside);
    expect(namesOf(await arena.told(attack), 'through')).toEqual([]);
    expect(contentOf(arena.outside)).toEqual(before);
    const through = namesOf(await arena.control(attack), 'through');
    expect(through).toEqual(expect.arrayContaining(['overwrite', 'remove', 'by-a-link', 'hard-link']));
    expect(contentOf(arena.outside)).not.toEqual(before);
  });
});
