/** What the kernel answers under our filter, asked by perl's `syscall` in a real bubblewrap. Numbers are x86_64's. */
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { seccompFilter } from '../../../src/sandbox/seccomp.ts';
import { temporaryDir } from '../../support/daemon.ts';

let folder: string;
beforeAll(() => {
  folder = temporaryDir('seccomp');
  const options = { arch: 'x64', sockets: ['inet'] as const };
  writeFileSync(join(folder, 'plain'), seccompFilter(options));
  writeFileSync(join(folder, 'nesting'), seccompFilter({ ...options, allowNamespaces: true }));
});
afterAll(() => rmSync(folder, { recursive: true }));

const BWRAP = [
  ...[
    '--unshare-all',
    '--unshare-user',
    '--uid',
    '1000',
    '--gid',
    '1000',
    '--die-with-parent',
    '--ro-bind',
    '/usr',
    '/usr',
  ],
  ...['--symlink', 'usr/bin', '/bin', '--symlink', 'usr/lib', '/lib', '--symlink', 'usr/lib64', '/lib64'],
  ...['--dev', '/dev', '--tmpfs', '/tmp', '--chdir', '/tmp'],
];

function run(
  filter: 'plain' | 'nesting',
  ...command: string[]
): { status: number | null; output: string; signal: string | null } {
  const fd = openSync(join(folder, filter), 'r');
  const args = [...BWRAP, '--proc', '/proc', '--seccomp', '3', '--', ...command];
  const { status, signal, stdout, stderr } = spawnSync('/usr/bin/bwrap', args, {
    stdio: ['ignore', 'pipe', 'pipe', fd],
    encoding: 'utf8',
  });
  closeSync(fd);
  return { status, signal, output: stdout + stderr };
}

/** The name of the error that a system call gives, or `ok`. */
function ask(call: string, filter: 'plain' | 'nesting' = 'plain'): string {
  const script = `$r = syscall(${call}); print $r == -1 ? (grep { $!{$_} } keys %!)[0] : "ok"`;
  return run(filter, '/usr/bin/perl', '-MErrno', '-e', script).output;
}

describe('refused', () => {
  test.each([
    ['a socket of AF_VSOCK', '41, 40, 1, 0', 'EAFNOSUPPORT'],
    ['a socket of AF_NETLINK', '41, 16, 3, 0', 'EAFNOSUPPORT'],
    ['a Unix socket, where it is not asked for', '41, 1, 1, 0', 'EAFNOSUPPORT'],
    ['a Unix socket whose family has high bits set', '41, 0x100000001, 1, 0', 'EAFNOSUPPORT'],
    ['ptrace', '101, 0, 0, 0, 0', 'EPERM'],
    ['reading the memory of another', '310, 1, 0, 0, 0, 0, 0', 'EPERM'],
    ['a new user namespace by unshare', '272, 0x10000000', 'EPERM'],
    ['a new user namespace by clone', '56, 0x10000011, 0, 0, 0, 0', 'EPERM'],
    ['clone3, whose flags a filter can not see', '435, 0, 0', 'ENOSYS'],
    ['openat2, whose mode a filter can not see', '437, 0, 0, 0, 0', 'ENOSYS'],
    ['mount', '165, 0, 0, 0, 0, 0', 'EPERM'],
    ['the new mount calls', '430, 0, 0', 'EPERM'],
    ['the keyring', '250, 0, 0, 0, 0, 0', 'EPERM'],
    ['bpf', '321, 0, 0, 0', 'EPERM'],
    ['userfaultfd', '323, 0', 'EPERM'],
    ['io_uring', '425, 1, 0', 'EPERM'],
    ['perf events', '298, 0, 0, 0, 0, 0', 'EPERM'],
    ['opening by handle', '304, 0, 0, 0', 'EPERM'],
    ['pushing characters into a terminal', '16, 0, 0x5412, 0', 'EPERM'],
    ['the same with high bits set', '16, 0, 0x100005412, 0', 'EPERM'],
    ['a file with the set-user-id bit by chmod', '90, ($p = "/tmp"), 04755', 'EPERM'],
    ['the same on creation', '2, ($p = "/tmp/x"), 0101, 04755', 'EPERM'],
    ['a directory with the set-group-id bit', '83, ($p = "/tmp/d"), 02755', 'EPERM'],
    ['an x32 call', '0x40000027', 'ENOSYS'],
  ])('%s', (_, call, error) => {
    expect(ask(call)).toBe(error);
  });
});

describe('allowed', () => {
  test.each([
    ['a socket of AF_INET', '41, 2, 1, 0'],
    ['an ordinary chmod', '90, ($p = "/tmp"), 0700'],
    ['an ordinary file', '2, ($p = "/tmp/x"), 0101, 0644'],
  ])('%s', (_, call) => {
    expect(ask(call)).toBe('ok');
  });

  test.each([
    ['a pipeline', 'echo hi | tr h H', 'Hi\n'],
    ['git', 'git init -q . && git status --short && echo fine', 'fine\n'],
    ['a child of perl', "perl -e 'print `echo child`'", 'child\n'],
  ])('%s works', (_, command, output) => {
    expect(run('plain', '/bin/bash', '-c', command)).toEqual({ status: 0, signal: null, output });
  });
});

describe('the variant for a host that starts sandboxes', () => {
  const nested = [
    '/usr/bin/bwrap',
    '--unshare-user',
    '--unshare-net',
    '--ro-bind',
    '/',
    '/',
    '--',
    '/bin/echo',
    'nested',
  ];
  test('lets bubblewrap run inside, which the plain one does not', () => {
    expect(run('nesting', ...nested)).toEqual({ status: 0, signal: null, output: 'nested\n' });
    expect(run('plain', ...nested).status).not.toBe(0);
  });
  test.each([
    ['the keyring', '250, 0, 0, 0, 0, 0'],
    ['bpf', '321, 0, 0, 0'],
    ['ptrace', '101, 0, 0, 0, 0'],
  ])('still refuses %s', (_, call) => {
    expect(ask(call, 'nesting')).toBe('EPERM');
  });
});

test('another architecture has no table yet, and says so', () => {
  expect(() => seccompFilter({ arch: 'arm64', sockets: [] })).toThrow(/arm64/);
});
