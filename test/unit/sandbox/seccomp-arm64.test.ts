/** The seccomp filter for arm64, evaluated by the BPF interpreter: the kernel here may have another architecture. */
import { describe, expect, test } from 'vitest';
import { seccompFilter } from '../../../src/sandbox/seccomp.ts';
import { ARCH, type Call, judge as judgeAny } from '../../support/bpf.ts';
import { headerNumbers } from '../../support/kernel-headers.ts';

const OPTIONS = {
  plain: { sockets: [] },
  inet: { sockets: ['inet'] },
  unix: { sockets: ['unix'] },
  counted: { sockets: ['inet'], allowMemfd: true },
  nesting: { sockets: [], allowNamespaces: 'bubblewrap' },
  tracing: { sockets: [], allowTracing: true },
} as const;
const filters = Object.entries(OPTIONS).map(([name, it]) => ({
  name,
  x64: seccompFilter({ arch: 'x64', ...it }),
  arm64: seccompFilter({ arch: 'arm64', ...it }),
}));
const [plain, inet, unix, , nesting] = filters.map((it) => it.arm64) as [Buffer, Buffer, Buffer, Buffer, Buffer];

const judge = (filter: Buffer, call: Call) => judgeAny(filter, { arch: ARCH.aarch64, ...call });
const ask = (nr: number, ...args: (number | bigint)[]) => judge(plain, { nr, args });
const HIGH = 0xdeadbeefn << 32n;

/** ptrace, process_vm_readv and process_vm_writev, with the argument that names the process. */
const TRACING = new Map([
  [117, 1],
  [270, 0],
  [271, 0],
]);
/** Refused with any arguments; numbers from <asm-generic/unistd.h>, in the order of seccomp.test.ts. */
const REFUSED: Record<string, readonly number[]> = {
  'kcmp pidfd_getfd': [272, 438],
  'open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr open_tree_attr': [
    428, 429, 430, 431, 432, 433, 442, 467,
  ],
  chroot: [51],
  'name_to_handle_at open_by_handle_at': [264, 265],
  'add_key request_key keyctl': [217, 218, 219],
  'bpf userfaultfd perf_event_open': [280, 282, 241],
  'io_uring_setup io_uring_enter io_uring_register': [425, 426, 427],
  'kexec_load kexec_file_load reboot': [104, 294, 142],
  'init_module finit_module delete_module': [105, 273, 106],
  'swapon swapoff acct quotactl quotactl_fd nfsservctl': [224, 225, 89, 60, 443, 42],
  'settimeofday clock_settime clock_adjtime adjtimex': [170, 112, 266, 171],
  'personality syslog lookup_dcookie vhangup setdomainname': [92, 116, 18, 58, 162],
};
/** umount2, mount, pivot_root, unshare, sethostname, setns. */
const BUILD_NAMESPACES = [39, 40, 41, 97, 161, 268];

test.each([ARCH.x86_64, ARCH.i386, 0x40000028, 0])('every call of the foreign architecture %i kills', (arch) => {
  for (const { arm64 } of filters) expect(judge(arm64, { arch, nr: 63 })).toBe('kill');
});

test('a kernel newer than 6.18 is unknown, and the last call of 6.18 is not', () => {
  expect(ask(469)).toBe('allow');
  for (const nr of [470, 512, 0x40000000, 0x7fffffff, -1]) expect(ask(nr)).toBe('ENOSYS');
});

test.each(Object.entries(REFUSED))('%s is refused, to a tier host too', (_names, numbers) => {
  for (const { arm64 } of filters) for (const nr of numbers) expect([nr, judge(arm64, { nr })]).toEqual([nr, 'EPERM']);
});

test('no other number is refused, and a tier host has only the calls of bubblewrap more', () => {
  const expected = [...Object.values(REFUSED).flat(), ...TRACING.keys(), ...BUILD_NAMESPACES].toSorted((a, b) => a - b);
  const numbers = [...Array(470).keys()];
  expect(numbers.filter((nr) => ask(nr) === 'EPERM')).toEqual(expected);
  // fallocate, socket, socketpair, memfd_create, clone3, openat2, memfd_secret.
  const failed = numbers.filter((nr) => !['EPERM', 'allow'].includes(ask(nr)));
  expect(failed).toEqual([47, 198, 199, 279, 435, 437, 447]);
  for (const nr of [437, ...BUILD_NAMESPACES]) expect(judge(nesting, { nr })).toBe('allow');
});

test('tracing is refused without allowTracing, and with it only of the first process', () => {
  for (const { name, arm64 } of filters)
    for (const [nr, at] of TRACING) {
      const of = (pid: number) => judge(arm64, { nr, args: at === 0 ? [pid] : [0x4206, pid] });
      expect([of(1), of(2)]).toEqual(['EPERM', name === 'tracing' ? 'allow' : 'EPERM']);
    }
});

describe('by their arguments', () => {
  test.each<[string, (mode: number) => Call]>([
    ['fchmod', (mode) => ({ nr: 52, args: [3, mode] })],
    ['fchmodat', (mode) => ({ nr: 53, args: [3, 0, mode] })],
    ['fchmodat2', (mode) => ({ nr: 452, args: [3, 0, mode, 0] })],
    ['openat with O_CREAT', (mode) => ({ nr: 56, args: [3, 0, 0x40, mode] })],
    // On arm64 O_DIRECTORY is a different bit than on x86_64; the relevant bit of O_TMPFILE is the same.
    ['openat with O_TMPFILE', (mode) => ({ nr: 56, args: [3, 0, 0x404002, mode] })],
    ['openat with O_CREAT under high bits', (mode) => ({ nr: 56, args: [3, 0, HIGH | 0x40n, HIGH | BigInt(mode)] })],
    ['mknodat', (mode) => ({ nr: 33, args: [3, 0, 0o100000 | mode, 0] })],
  ])('a set-id bit comes into no file by %s, whose other modes pass', (_name, call) => {
    for (const filter of [plain, nesting]) {
      for (const mode of [0o4755, 0o2755, 0o6000, 0o7777]) expect(judge(filter, call(mode))).toBe('EPERM');
      for (const mode of [0, 0o644, 0o755, 0o1777]) expect(judge(filter, call(mode))).toBe('allow');
    }
  });

  test('device nodes, terminal input and namespaces are refused, their neighbours are not', () => {
    for (const type of [0o020000, 0o060000]) expect(ask(33, 3, 0, type | 0o644)).toBe('EPERM');
    for (const type of [0o010000, 0o100000, 0o140000]) expect(ask(33, 3, 0, type | 0o644)).toBe('allow');
    for (const request of [0x5412, 0x541c]) expect(ask(29, 0, HIGH | BigInt(request))).toBe('EPERM');
    for (const request of [0x5411, 0x5413, 0x5401]) expect(ask(29, 0, request)).toBe('allow');
    for (const flag of [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
      expect([ask(220, flag | 0x11), judge(nesting, { nr: 220, args: [flag] })]).toEqual(['EPERM', 'allow']);
    expect(ask(220, 0x3d0f00)).toBe('allow');
  });

  test('only the listed families of socket are made', () => {
    const families = [...Array(50).keys()];
    const made = (filter: Buffer, type: number) =>
      families.filter((family) => judge(filter, { nr: 198, args: [family, type, 0] }) === 'allow');
    expect([plain, inet, unix].map((it) => made(it, 1))).toEqual([[], [2, 10], [1]]);
    expect([made(nesting, 1), made(nesting, 2)]).toEqual([[16], [2, 16]]);
    const pairs = [plain, unix].map((it) => [1, 2].map((type) => judge(it, { nr: 199, args: [1, type, 0, 0] })));
    expect(pairs).toEqual([
      ['allow', 'EAFNOSUPPORT'],
      ['allow', 'allow'],
    ]);
  });
});

test('a call that both architectures have is judged alike on both, whatever its arguments', ({ skip }) => {
  const [x64, arm64] = [headerNumbers('x64'), headerNumbers('arm64')];
  if (!x64 || !arm64) return skip('the kernel headers are not installed (linux-libc-dev)');
  const shared = [...x64].flatMap(([name, nr]) => (arm64.has(name) ? [{ name, x64: nr, arm64: arm64.get(name) }] : []));
  expect(shared.length).toBeGreaterThan(280);
  const WORDS = [0, 1, 2, 3, 10, 16, 40, 0x40, 0x404002, 0o4755, 0o644, 0o020644, 0x5412, 0x541c, 0x10000011, 0x3d0f00];
  for (const filter of filters)
    for (const it of shared)
      for (const [i, word] of WORDS.entries()) {
        const args = [word, WORDS[(i + 3) % WORDS.length] as number, WORDS[(i * 5) % WORDS.length] as number, 0o6755];
        const verdicts = (['x64', 'arm64'] as const).map((arch) =>
          judge(filter[arch], { arch: arch === 'x64' ? ARCH.x86_64 : ARCH.aarch64, nr: it[arch] as number, args }),
        );
        expect([it.name, filter.name, verdicts[1]]).toEqual([it.name, filter.name, verdicts[0]]);
      }
});
