/** The probe sees each wall that is taken away, and what it sees is refused. Real bubblewrap, in the very profile of commands. */
import { spawn } from 'node:child_process';
import { closeSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/limits.ts';
import { systemPowers } from '../../../src/powers.ts';
import { runtime } from '../../../src/runtime.ts';
import { commandProfile, type Profile, toBwrapArgs } from '../../../src/sandbox/bubblewrap.ts';
import { type ProbeResult, probeCommand, readProbe } from '../../../src/sandbox/probe.ts';
import { createSandbox } from '../../../src/sandbox/sandbox.ts';
import { seccompFilter } from '../../../src/sandbox/seccomp.ts';
import { temporaryDir } from '../../support/daemon.ts';

let stateDir: string;
let workspace: string;
let filter: string;
beforeAll(() => {
  stateDir = temporaryDir('state');
  workspace = temporaryDir('ws');
  filter = join(stateDir, 'filter');
  writeFileSync(filter, seccompFilter({ arch: 'x64', sockets: ['inet', 'unix'] }));
});
afterAll(() => {
  for (const it of [stateDir, workspace]) rmSync(it, { recursive: true });
});

const root = process.getuid?.() === 0 ? { shownId: 1000 } : {};

/** The probe in a profile that `change` has weakened; `args` rewrites the arguments themselves. */
async function probe(change: (profile: Profile) => Profile, args = (it: string[]) => it): Promise<ProbeResult> {
  const profile = change(commandProfile({ runtime, workspace, tmpBytes: 2 ** 20, ...root }));
  const script = probeCommand({ stateDir, daemonPid: process.pid });
  const fd = openSync(filter, 'r');
  const command = [...args(toBwrapArgs(profile)), '--', '/bin/bash', '--norc', '--noprofile', '-c', script];
  const child = spawn('/usr/bin/bwrap', command, {
    stdio: ['ignore', 'pipe', 'pipe', fd],
    env: { PATH: '/usr/bin:/bin' },
  });
  closeSync(fd);
  return readProbe(child, defaultLimits, systemPowers());
}

const without = (args: string[], ...words: string[]): string[] => {
  const at = args.findIndex((_, i) => words.every((word, j) => args[i + j] === word));
  return at < 0 ? args : [...args.slice(0, at), ...args.slice(at + words.length)];
};

test('nothing gets through the whole profile', async () => {
  expect(await probe((it) => it)).toEqual({ ok: true, leaks: [], reason: '' });
});

describe('a wall that is taken away shows as its own leak', () => {
  test('seccomp', async () => {
    const { leaks } = await probe(({ seccompFd: _, ...it }) => it);
    expect(leaks).toContain('seccomp');
  });
  test('the network namespace', async () => {
    expect((await probe((it) => ({ ...it, network: 'host' }))).leaks).toEqual(['network']);
  });
  test('the mounts', async () => {
    const { leaks } = await probe((it) => ({ ...it, mounts: [...it.mounts, { kind: 'ro', path: stateDir }] }));
    expect(leaks).toEqual(['read-outside']);
  });
  test('the read-only root', async () => {
    expect(
      (
        await probe(
          (it) => it,
          (args) => without(args, '--remount-ro', '/'),
        )
      ).leaks,
    ).toContain('write-system');
  });
  test('the pid namespace', async () => {
    const { leaks } = await probe(
      (it) => it,
      (args) => without(args, '--unshare-pid'),
    );
    expect(leaks).toContain('signal-daemon');
  });
  test('namespaces within, with neither seccomp nor --disable-userns', async () => {
    const { leaks } = await probe(
      ({ seccompFd: _, ...it }) => it,
      (args) => without(args, '--disable-userns'),
    );
    expect(leaks).toEqual(expect.arrayContaining(['seccomp', 'namespaces']));
  });
  test('capabilities', async () => {
    const { leaks } = await probe(
      (it) => it,
      (args) => without(args, '--cap-drop', 'ALL').concat('--cap-add', 'CAP_NET_RAW'),
    );
    expect(leaks).toContain('capabilities');
  });
});

test('a sandbox that can not be built is not a sandbox, and its complaint is told', async () => {
  const result = await probe((it) => ({ ...it, mounts: [{ kind: 'ro', path: '/no/such/folder' }] }));
  expect(result).toMatchObject({ ok: false, reason: expect.stringMatching(/no\/such\/folder/) });
});

test.each([
  ['darwin', 'arm64', /not available on darwin/],
  ['linux', 'arm64', /no table for arm64/],
])('on %s %s every tier is refused, and it says why', async (platform, arch, why) => {
  const options = { runtime, stateDir, workspaces: [workspace], limits: defaultLimits, platform, arch };
  const sandbox = await createSandbox(options, systemPowers());
  expect(sandbox.confinement.advice).toMatch(why);
  for (const tier of ['read_only', 'write', 'execute', 'external_api'] as const) {
    expect(() => sandbox.startHost(tier, workspace, ['/bin/true'], ['ignore', 'ignore', 'ignore', 'ignore'])).toThrow(
      /needs confinement level B/,
    );
  }
});

test('the whole sandbox, tried out here, holds level B', async () => {
  const options = { runtime, stateDir, workspaces: [workspace], limits: defaultLimits, platform: 'linux', arch: 'x64' };
  const { confinement } = await createSandbox(options, systemPowers());
  expect(confinement).toMatchObject({ level: 'B', backend: 'bubblewrap', nests: true, advice: '' });
});
