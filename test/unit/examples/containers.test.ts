/** The examples for containers and CI: what they allow, and that the verbs, files and scripts they name are there. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { headerNumbers } from '../../support/kernel-headers.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

interface Profile {
  readonly defaultAction: string;
  readonly defaultErrnoRet: number;
  readonly syscalls: readonly { readonly names: readonly string[]; readonly action: string }[];
}

describe('the seccomp profile of containers', () => {
  const profile = JSON.parse(read('examples/docker/seccomp.json')) as Profile;
  const allowed = profile.syscalls.filter((it) => it.action === 'SCMP_ACT_ALLOW').flatMap((it) => it.names);
  const ENOSYS = 38;

  test('refuses what it does not name, as a kernel without that call does', () => {
    expect(profile).toMatchObject({ defaultAction: 'SCMP_ACT_ERRNO', defaultErrnoRet: ENOSYS });
    expect(profile.syscalls.every((it) => it.action === 'SCMP_ACT_ALLOW')).toBe(true);
    expect(new Set(allowed).size).toBe(allowed.length);
  });

  test.each([
    ...[
      'clone',
      'clone3',
      'unshare',
      'mount',
      'umount2',
      'pivot_root',
      'sethostname',
      'setns',
      'capset',
      'prctl',
      'seccomp',
    ],
    ...['memfd_create', 'pidfd_open', 'pidfd_send_signal', 'setgroups', 'setresuid', 'inotify_add_watch', 'ptrace'],
  ])('allows %s, which sandboxes need', (name) => {
    expect(allowed).toContain(name);
  });

  test.each([
    ...['bpf', 'init_module', 'finit_module', 'delete_module', 'kexec_load', 'kexec_file_load', 'perf_event_open'],
    ...['open_by_handle_at', 'keyctl', 'add_key', 'request_key', 'reboot', 'swapon', 'io_uring_setup'],
    ...[
      'userfaultfd',
      'settimeofday',
      'clock_settime',
      'clock_settime64',
      'iopl',
      'ioperm',
      'acct',
      'syslog',
      'quotactl',
    ],
  ])('does not allow %s', (name) => {
    expect(allowed).not.toContain(name);
  });

  test('names only calls that a kernel of x86_64 or arm64 has', () => {
    const known = [headerNumbers('x64'), headerNumbers('arm64')].filter((it) => it !== undefined);
    // Without headers there is nothing to compare with, but names are names all the same.
    const isKnown = (name: string) => known.length < 2 || known.some((it) => it.has(name));
    const only32Bit = /64$|^(umask|mmap2|llseek)$/;
    expect(allowed.filter((it) => !/^[a-z0-9_]+$/.test(it) || !(isKnown(it) || only32Bit.test(it)))).toEqual([]);
  });
});

test('compose and the pod have every switch, and none that gives the machine away', () => {
  const { services } = parse(read('examples/docker/compose.yaml'));
  expect(services.ringfence.security_opt).toEqual([
    'seccomp=./seccomp.json',
    'systempaths=unconfined',
    'apparmor=unconfined',
  ]);
  const { context, dockerfile } = services.ringfence.build;
  expect(existsSync(join(root, 'examples/docker', context, dockerfile))).toBe(true);
  const { spec } = parse(read('examples/kubernetes/pod.yaml'));
  expect(spec).toMatchObject({
    hostUsers: false,
    automountServiceAccountToken: false,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'Localhost' } },
  });
  expect(spec.containers[0].securityContext).toEqual({
    procMount: 'Unmasked',
    privileged: false,
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
  });
  for (const it of ['docker/compose.yaml', 'kubernetes/pod.yaml', 'docker/Dockerfile', 'ci/gitlab-ci.yaml'])
    expect(read(`examples/${it}`)).not.toMatch(/privileged: true|--privileged|SYS_ADMIN|docker\.sock/);
});

test('the image is built by steps that this repository has', () => {
  const text = read('examples/docker/Dockerfile');
  for (const [path = ''] of text.matchAll(/script\/\w+/g)) expect(existsSync(join(root, path)), path).toBe(true);
  const manifest = JSON.parse(read('package.json'));
  expect(manifest.bin).toHaveProperty('ringfence');
  expect(manifest.files).toEqual(expect.arrayContaining(['bin', 'dist', 'etc', 'examples']));
  const [major] = /(?<=node:)\d+/.exec(text) ?? [];
  expect(Number(major)).toBeGreaterThanOrEqual(Number(/\d+/.exec(manifest.engines.node)?.[0]));
  // The daemon is no root: the last USER of the image.
  expect([...text.matchAll(/^USER (\w+)$/gm)].at(-1)?.[1]).toBe('node');
});

test('pipelines and images use verbs that the program has', () => {
  const known = new Set([...read('docs/verbs.md').matchAll(/ringfence ([a-z]+)/g)].map(([, verb]) => verb));
  expect(known).toContain('doctor');
  const used = ['ci/github-actions.yaml', 'ci/gitlab-ci.yaml', 'docker/compose.yaml', 'docker/Dockerfile'].flatMap(
    (it) =>
      [...read(`examples/${it}`).matchAll(/(?<=^(?:[^#\n]*[ -])?)ringfence ([a-z]+)(?=[ \n])/gm)].map(
        ([, verb]) => verb,
      ),
  );
  expect(used).toEqual(expect.arrayContaining(['doctor', 'ci', 'call']));
  expect(used.filter((it) => !known.has(it))).toEqual([]);
  const { jobs } = parse(read('examples/ci/github-actions.yaml'));
  const steps = jobs.checks.steps as { run?: string }[];
  const profile = steps.find((it) => it.run?.includes('apparmor.d'))?.run ?? '';
  const [path = ''] = /etc\/apparmor\.d\/bwrap/.exec(profile) ?? [];
  expect(existsSync(join(root, path))).toBe(true);
  expect(parse(read('examples/ci/gitlab-ci.yaml')).checks.script).toEqual([
    'ringfence doctor',
    expect.stringMatching(/^ringfence ci /),
  ]);
});
