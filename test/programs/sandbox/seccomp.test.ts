/** The seccomp filter: each rule evaluated by a small BPF interpreter, then by the kernel itself, with and without the filter. */
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ToolError } from '../../../src/base/errors.ts';
import { seccompFilter } from '../../../src/sandbox/seccomp.ts';
import { ARCH, type Call, decode, judge, RETURN } from '../../support/bpf.ts';

const plain = seccompFilter({ arch: 'x64', sockets: [] });
const inet = seccompFilter({ arch: 'x64', sockets: ['inet'] });
const unix = seccompFilter({ arch: 'x64', sockets: ['unix'] });
const nesting = seccompFilter({ arch: 'x64', sockets: [], allowNamespaces: 'bubblewrap' });
const tracing = seccompFilter({ arch: 'x64', sockets: [], allowTracing: true });
const everyFilter = { plain, inet, unix, nesting, tracing };

const ask = (nr: number, ...args: (number | bigint)[]) => judge(plain, { nr, args });
const HIGH = 0xdeadbeefn << 32n;

/** Refused with any arguments; numbers from <asm/unistd_64.h>. */
const REFUSED: Record<string, readonly number[]> = {
  'kcmp pidfd_getfd': [312, 438],
  'open_tree move_mount fsopen fsconfig fsmount fspick mount_setattr open_tree_attr': [
    428, 429, 430, 431, 432, 433, 442, 467,
  ],
  chroot: [161],
  'name_to_handle_at open_by_handle_at': [303, 304],
  'add_key request_key keyctl': [248, 249, 250],
  'bpf userfaultfd perf_event_open': [321, 323, 298],
  'io_uring_setup io_uring_enter io_uring_register': [425, 426, 427],
  'kexec_load kexec_file_load reboot': [246, 320, 169],
  'init_module finit_module delete_module': [175, 313, 176],
  'swapon swapoff acct quotactl quotactl_fd nfsservctl': [167, 168, 163, 179, 443, 180],
  'settimeofday clock_settime clock_adjtime adjtimex': [164, 227, 305, 159],
  'personality syslog lookup_dcookie vhangup setdomainname iopl ioperm': [135, 103, 212, 153, 171, 172, 173],
};
/** ptrace, process_vm_readv, process_vm_writev: refused with any arguments unless tracing is allowed. */
const TRACING = [101, 310, 311];
/** pivot_root, mount, umount2, sethostname, unshare. */
const BUILD_NAMESPACES = [155, 165, 166, 170, 272, 308];

test('a filter that allows tracing refuses it of the first process, whatever the high half of the number is', () => {
  const verdicts = (nr: number, at: number) =>
    [1n, HIGH | 1n, 2n, HIGH | 2n].map((pid) => judge(tracing, { nr, args: at === 0 ? [pid] : [0x4206, pid] }));
  for (const [nr, at] of [
    [101, 1],
    [310, 0],
    [311, 0],
  ] as const)
    expect(verdicts(nr, at)).toEqual(['EPERM', 'EPERM', 'allow', 'allow']);
  for (const filter of [plain, inet, unix, nesting])
    for (const nr of TRACING) expect(judge(filter, { nr, args: [2, 2] })).toBe('EPERM');
});

describe('the program', () => {
  test('every jump of the filter lands inside it, and its last instruction is a verdict', () => {
    for (const filter of Object.values(everyFilter)) {
      const steps = decode(filter);
      const reached = steps.map(({ code, jt, jf }, at) => (code === RETURN ? at : at + 1 + Math.max(jt, jf)));
      expect(Math.max(...reached)).toBe(steps.length - 1);
      expect(steps.at(-1)?.code).toBe(RETURN);
    }
  });

  test('reads only the low half of an argument, whatever the call', () => {
    const word = fc.bigInt({ min: 0n, max: 2n ** 32n - 1n });
    const args = fc.array(fc.tuple(word, word), { minLength: 6, maxLength: 6 });
    const oneOf = fc.constantFrom(...Object.values(everyFilter));
    const call = fc.oneof(fc.nat(500), fc.constantFrom(2, 16, 41, 53, 56, 83, 85, 90, 133, 257, 258, 259, 268, 452));
    fc.assert(
      fc.property(oneOf, call, args, (filter, nr, halves) => {
        const low = judge(filter, { nr, args: halves.map(([lo]) => lo) });
        expect(judge(filter, { nr, args: halves.map(([lo, hi]) => (hi << 32n) | lo) })).toBe(low);
      }),
      { numRuns: 2000 },
    );
  });

  test.each(['arm', 'ia32', 'riscv64'])(
    'no filter is made for the architecture "%s", which the error names',
    (arch) => {
      const make = () => seccompFilter({ arch, sockets: [] });
      expect(make).toThrow(ToolError);
      expect(make).toThrow(
        expect.objectContaining({ code: 'SANDBOX_UNAVAILABLE', message: expect.stringMatching(`${arch}$`) }),
      );
    },
  );
});

describe('every call of', () => {
  test.each([ARCH.i386, ARCH.aarch64, 0])(
    'the foreign architecture %i kills, also where the number is harmless',
    (arch) => {
      for (const filter of Object.values(everyFilter)) expect(judge(filter, { arch, nr: 0 })).toBe('kill');
    },
  );

  test('x32 is unknown, with its bit and by its numbers from 512', () => {
    for (const nr of [0x40000000, 0x40000000 + 101, 0x40000000 + 521, 512, 514, 521, 547, 0x7fffffff, -1])
      for (const filter of Object.values(everyFilter)) expect(judge(filter, { nr })).toBe('ENOSYS');
  });

  test('a kernel newer than 6.18 is unknown, and the last of 6.18 is not', () => {
    expect(ask(469)).toBe('allow');
    expect(ask(470)).toBe('ENOSYS');
  });

  test.each(Object.entries(REFUSED))('%s is refused, to a tier host too', (_names, numbers) => {
    for (const filter of Object.values(everyFilter))
      for (const nr of numbers) expect([nr, judge(filter, { nr })]).toEqual([nr, 'EPERM']);
  });

  test('no other number is refused, whatever Linux 6.18 makes of it', () => {
    const expected = [...Object.values(REFUSED).flat(), ...TRACING, ...BUILD_NAMESPACES];
    const numbers = [...Array(470).keys()];
    expect(numbers.filter((nr) => ask(nr) === 'EPERM')).toEqual(expected.toSorted((a, b) => a - b));
    const failed = numbers.filter((nr) => !['EPERM', 'allow'].includes(ask(nr)));
    expect(failed).toEqual([41, 53, 285, 319, 435, 437, 447]);
  });
});

test('fallocate is not supported, as by a file system without it, to a tier host too', () => {
  for (const filter of Object.values(everyFilter)) expect(judge(filter, { nr: 285, args: [3, 1] })).toBe('EOPNOTSUPP');
});

describe('fcntl', () => {
  test('takes no lease, no delegation and no notice of changes, to a tier host too, and does the rest', () => {
    for (const filter of Object.values(everyFilter)) {
      for (const command of [1024, 1026, 1040]) {
        expect(judge(filter, { nr: 72, args: [3, command, 0] })).toBe('EPERM');
        expect(judge(filter, { nr: 72, args: [3, HIGH | BigInt(command), 1] })).toBe('EPERM');
      }
      // F_DUPFD, F_SETFD, F_SETFL, F_SETLK, F_OFD_SETLK, F_GETLEASE, F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_ADD_SEALS.
      for (const command of [0, 2, 4, 6, 37, 1025, 1030, 1031, 1033])
        expect(judge(filter, { nr: 72, args: [3, command, 0] })).toBe('allow');
    }
  });
});

describe('clone', () => {
  test('makes threads and processes', () => {
    expect(ask(56, 0x3d0f00)).toBe('allow');
    expect(ask(56, 0x01200011)).toBe('allow');
  });

  test.each([0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])(
    'clone with the namespace flag %i is refused, also beside other bits',
    (flag) => {
      for (const flags of [flag, flag | 0x11, HIGH | BigInt(flag)]) expect(ask(56, flags)).toBe('EPERM');
    },
  );

  test('clone3, whose flags lie in memory, is unknown, and so is openat2 to all but a host that runs bubblewrap', () => {
    for (const [name, filter] of Object.entries(everyFilter)) {
      expect(judge(filter, { nr: 435 })).toBe('ENOSYS');
      expect([name, judge(filter, { nr: 437 })]).toEqual([name, name === 'nesting' ? 'allow' : 'ENOSYS']);
    }
  });
});

describe('a set-id bit', () => {
  const O_CREAT = 0x40;
  const O_TMPFILE = 0x410000;

  test.each<[string, (mode: number) => Call]>([
    ['chmod', (mode) => ({ nr: 90, args: [0, mode] })],
    ['fchmod', (mode) => ({ nr: 91, args: [3, mode] })],
    ['fchmodat', (mode) => ({ nr: 268, args: [3, 0, mode] })],
    ['fchmodat2', (mode) => ({ nr: 452, args: [3, 0, mode, 0] })],
    ['creat', (mode) => ({ nr: 85, args: [0, mode] })],
    ['open with O_CREAT', (mode) => ({ nr: 2, args: [0, O_CREAT | 1, mode] })],
    ['open with O_TMPFILE', (mode) => ({ nr: 2, args: [0, O_TMPFILE | 2, mode] })],
    ['openat with O_CREAT', (mode) => ({ nr: 257, args: [3, 0, O_CREAT, mode] })],
    ['openat with O_TMPFILE', (mode) => ({ nr: 257, args: [3, 0, O_TMPFILE, mode] })],
    ['openat with O_CREAT under high bits', (mode) => ({ nr: 257, args: [3, 0, HIGH | 0x40n, HIGH | BigInt(mode)] })],
    ['mknod', (mode) => ({ nr: 133, args: [0, 0o100000 | mode, 0] })],
    ['mknodat', (mode) => ({ nr: 259, args: [3, 0, 0o100000 | mode, 0] })],
  ])('comes into no file by %s, whose other modes pass', (_name, call) => {
    for (const filter of [plain, nesting]) {
      for (const mode of [0o4755, 0o2755, 0o6000, 0o7777]) expect(judge(filter, call(mode))).toBe('EPERM');
      for (const mode of [0, 0o644, 0o755, 0o1777]) expect(judge(filter, call(mode))).toBe('allow');
    }
  });

  test('a set-id bit in the mode of a new directory is left to the kernel, which drops it', () => {
    for (const filter of [plain, nesting]) {
      expect(judge(filter, { nr: 83, args: [0, 0o2755] })).toBe('allow');
      expect(judge(filter, { nr: 258, args: [3, 0, 0o6755] })).toBe('allow');
    }
  });

  test('a set-id bit in the unused mode of an open that creates nothing is ignored', () => {
    expect(ask(257, 3, 0, 0, 0o6777)).toBe('allow');
    expect(ask(2, 0, 0x210000, 0o6777)).toBe('allow');
  });

  test('mknod refuses only a set-id bit and a device node', () => {
    for (const type of [0o020000, 0o060000])
      expect([ask(133, 0, type | 0o644), ask(259, 3, 0, type)]).toEqual(['EPERM', 'EPERM']);
    for (const type of [0o010000, 0o100000, 0o140000, 0])
      expect([ask(133, 0, type | 0o644), ask(259, 3, 0, type)]).toEqual(['allow', 'allow']);
  });
});

test.each([0x5412n, 0x541cn])('ioctl %i is refused under any high bits, its neighbours are not', (request) => {
  for (const high of [0n, 1n << 32n, HIGH]) expect(ask(16, 0, high | request)).toBe('EPERM');
  for (const near of [request - 1n, request + 1n, 0x5401n, request << 32n]) expect(ask(16, 0, near)).toBe('allow');
});

describe('socket', () => {
  const families = Array.from({ length: 50 }, (_, family) => family);
  const made = (filter: Buffer, type = 1) =>
    families.filter((family) => judge(filter, { nr: 41, args: [family, type, 0] }) === 'allow');

  test('makes the listed families and no other', () => {
    expect(made(plain)).toEqual([]);
    expect(made(inet)).toEqual([2, 10]);
    expect(made(unix)).toEqual([1]);
    expect(made(seccompFilter({ arch: 'x64', sockets: ['inet', 'unix'] }))).toEqual([1, 2, 10]);
  });

  test('answers any other family, and high bits around a listed one change nothing', () => {
    expect(judge(inet, { nr: 41, args: [40, 1, 0] })).toBe('EAFNOSUPPORT');
    expect(judge(inet, { nr: 41, args: [HIGH | 40n, 1, 0] })).toBe('EAFNOSUPPORT');
    expect(judge(inet, { nr: 41, args: [HIGH | 2n, 1, 0] })).toBe('allow');
  });

  test('a tier host may open the sockets that find and raise `lo`: IPv4 datagrams and NETLINK_ROUTE, not netfilter', () => {
    const nested = (...args: number[]) => judge(nesting, { nr: 41, args });
    expect(made(nesting, 2)).toEqual([2, 16]);
    expect(nested(2, 0x80802, 0)).toBe('allow');
    for (const type of [1, 3]) expect(nested(2, type, 0)).toBe('EAFNOSUPPORT');
    for (const protocol of [4, 9, 12, 16]) expect(nested(16, 3, protocol)).toBe('EAFNOSUPPORT');
  });
});

describe('socketpair', () => {
  const pair = (filter: Buffer, family: number, type: number) => judge(filter, { nr: 53, args: [family, type, 0, 0] });

  test('socketpair always makes connected AF_UNIX sockets, close-on-exec or not', () => {
    for (const type of [1, 5, 0x80001, 0x80805]) expect(pair(plain, 1, type)).toBe('allow');
  });

  test('socketpair needs `unix` for AF_UNIX datagrams, which can be sent to any path', () => {
    for (const type of [2, 3, 0x80002, 0x803])
      expect([pair(plain, 1, type), pair(unix, 1, type)]).toEqual(['EAFNOSUPPORT', 'allow']);
  });

  test('socketpair never makes sockets of another family', () => {
    for (const family of [2, 10, 16, 30, 40]) expect(pair(unix, family, 1)).toBe('EAFNOSUPPORT');
  });
});

test('a tier host may clone into namespaces, mount and pivot; everyone else may not', () => {
  for (const nr of BUILD_NAMESPACES) expect([judge(plain, { nr }), judge(nesting, { nr })]).toEqual(['EPERM', 'allow']);
  expect(judge(nesting, { nr: 56, args: [0x7e020011] })).toBe('allow');
});

const BWRAP = '/usr/bin/bwrap';
const able = process.platform === 'linux' && process.arch === 'x64' && existsSync(BWRAP);
if (!able) console.warn(`seccomp.test.ts: real runs skipped: they need x86_64 Linux and ${BWRAP}`);

/** One instruction: allow. Failures under it are not caused by the filter. */
const allowAll = Buffer.from('06000000' + '0000ff7f', 'hex');

/** A static x86_64 program that calls getpid through the i386 entry, then exits with 0. */
const INT80 = Buffer.concat([
  // ELF header: executable, entry at 0x400078, one program header at 64
  Buffer.from(`7f454c46020101${'00'.repeat(9)}02003e00010000007800400000000000`, 'hex'),
  Buffer.from(`4000000000000000${'00'.repeat(12)}400038000100000000000000`, 'hex'),
  // the segment: 136 bytes of the file, readable and executable, at 0x400000
  Buffer.from(`0100000005000000${'00'.repeat(8)}${'0000400000000000'.repeat(2)}`, 'hex'),
  Buffer.from(`${'8800000000000000'.repeat(2)}0010000000000000`, 'hex'),
  // mov $20,%eax; int $0x80; mov $60,%eax; xor %edi,%edi; syscall
  Buffer.from('b814000000cd80b83c00000031ff0f05', 'hex'),
]);

describe.skipIf(!able)('under the kernel', () => {
  let dir: string;
  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'ringfence-seccomp-'));
    mkdirSync(join(dir, 'work'));
  });
  afterAll(() => rmSync(dir, { recursive: true }));

  const NESTABLE = '--unshare-all --unshare-user --uid 1000 --gid 1000 --die-with-parent'.split(' ');
  const BARE = [
    ...NESTABLE,
    ...'--ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64'.split(' '),
    ...'--proc /proc --dev /dev --tmpfs /tmp --chdir /tmp'.split(' '),
  ];

  /** Runs `command` in a minimal sandbox with the test's directory as /test and our Node in /node. */
  function run(filter: Buffer, ...command: string[]): { out: string; err: string; status: number | null } {
    const file = join(dir, 'filter');
    writeFileSync(file, filter);
    const fd = openSync(file, 'r');
    try {
      const args = [...BARE, '--ro-bind', dirname(process.execPath), '/node', '--bind', dir, '/test', '--seccomp', '3'];
      const { stdout, stderr, status } = spawnSync(BWRAP, [...args, '--', ...command], {
        stdio: ['ignore', 'pipe', 'pipe', fd],
        env: { PATH: '/usr/bin', HOME: '/tmp' },
        encoding: 'utf8',
      });
      return { out: stdout, err: stderr, status };
    } finally {
      closeSync(fd);
    }
  }
  const ok = (out: string) => ({ out, err: '', status: 0 });

  /** The errno of each named attempt, 0 for none; each line of the Perl script is `try 'name', whether it failed`. */
  function attempt(filter: Buffer, script: string): Record<string, number> {
    const head = 'sub try { my ($name, $failed) = @_; printf "%s %d\\n", $name, $failed ? $! : 0 } $| = 1;';
    const { out, err } = run(filter, '/usr/bin/perl', '-e', head + script);
    expect(err).toBe('');
    return Object.fromEntries(Array.from(out.matchAll(/^(\S+) (\d+)$/gm), ([, name, errno]) => [name, Number(errno)]));
  }

  test('a shell pipes and substitutes', () => {
    expect(run(plain, 'bash', '--norc', '-c', 'echo hi | cat; cat <(echo there)')).toEqual(ok('hi\nthere\n'));
  });

  test('git makes a repository, commits and shows its status', ({ skip }) => {
    skip(!existsSync('/usr/bin/git'), 'no /usr/bin/git');
    const commit = "git -c user.name=a -c user.email=a@b commit -qm 'a file'";
    const script = `git init -q . && echo a > a && git add a && ${commit} && echo b > b && git status --short && git log --format=%s`;
    expect(run(plain, 'bash', '--norc', '-c', script)).toEqual(ok('?? b\na file\n'));
  });

  test('Python starts threads and a subprocess', ({ skip }) => {
    skip(!existsSync('/usr/bin/python3'), 'no /usr/bin/python3');
    const script = `import subprocess as s, threading
thread = threading.Thread(target=lambda: print(s.check_output(["echo", "child"], text=True), end=""))
thread.start(); thread.join()`;
    expect(run(plain, '/usr/bin/python3', '-c', script)).toEqual(ok('child\n'));
  });

  test('Node starts a child over socketpairs and a worker thread', () => {
    const script = `
      const { spawn, execFileSync } = require('node:child_process');
      process.stdout.write(execFileSync('echo', ['sync']));
      spawn('cat', { stdio: ['pipe', 'inherit', 'inherit'] }).on('close', () =>
        new (require('node:worker_threads').Worker)('console.log("worker")', { eval: true })).stdin.end('child\\n');`;
    expect(run(plain, '/node/node', '-e', script)).toEqual(ok('sync\nchild\nworker\n'));
  });

  // Without the filter, the kernel would accept these arguments or refuse them in another way.
  const CALLS = `
    my $buf = "\\0" x 256;
    try 'keyctl', syscall(250, 0, -3, 0) < 0;
    try 'ptrace', syscall(101, 0, 0, 0, 0) < 0;
    try 'unshare', syscall(272, 0x200) < 0;
    try 'userfaultfd', syscall(323, 1) < 0;
    try 'io_uring_setup', syscall(425, 1, $buf) < 0;
    try 'TIOCSTI', syscall(16, 0, 0x5412, $buf) < 0;
    try 'TIOCSTI+high', syscall(16, 0, 0x5412 | 1 << 40, $buf) < 0;
    try 'personality', syscall(135, 0xffffffff) < 0;`;
  const FAMILIES = `
    try 'AF_UNIX', syscall(41, 1, 1, 0) < 0;
    try 'AF_INET', syscall(41, 2, 1, 0) < 0;
    try 'AF_NETLINK', syscall(41, 16, 3, 0) < 0;
    try 'AF_VSOCK', syscall(41, 40, 1, 0) < 0;
    try 'AF_UNIX+high', syscall(41, 1 << 32 | 1, 1, 0) < 0;
    try 'pair', syscall(53, 1, 1, 0, my $two = "\\0" x 8) < 0;
    try 'datagrams', syscall(53, 1, 2, 0, $two) < 0;`;
  const EPERM = 1;
  const EAFNOSUPPORT = 97;

  test('keyctl, ptrace, unshare, userfaultfd, io_uring, TIOCSTI and personality fail by the filter alone', () => {
    for (const errno of Object.values(attempt(plain, CALLS))) expect(errno).toBe(EPERM);
    for (const errno of Object.values(attempt(allowAll, CALLS))) expect(errno).not.toBe(EPERM);
  });

  test('only the listed families of socket can be made', () => {
    const none = { AF_UNIX: 97, AF_INET: 97, AF_NETLINK: 97, AF_VSOCK: 97, 'AF_UNIX+high': 97, pair: 0, datagrams: 97 };
    expect(attempt(plain, FAMILIES)).toEqual(none);
    expect(attempt(inet, FAMILIES)).toEqual({ ...none, AF_INET: 0 });
    expect(attempt(unix, FAMILIES)).toEqual({ ...none, AF_UNIX: 0, 'AF_UNIX+high': 0, datagrams: 0 });
    expect(attempt(allowAll, FAMILIES)).toMatchObject({ AF_UNIX: 0, AF_INET: 0, AF_NETLINK: 0, datagrams: 0 });
  });

  test('a datagram pair reaches a socket in a bound directory, so it is only made where AF_UNIX is listed', () => {
    const script = `
      use Socket;
      my $path = '/test/work/outside';
      unlink $path;
      my ($outside, $left, $right);
      bind $outside, sockaddr_un($path) if socket $outside, AF_UNIX, SOCK_DGRAM, 0;
      my $made = socketpair $left, $right, AF_UNIX, SOCK_DGRAM, 0;
      try 'made', !$made;
      try 'sent', !send($left, 'escaped', 0, sockaddr_un($path)) if $made;`;
    expect(attempt(unix, script)).toEqual({ made: 0, sent: 0 });
    expect(attempt(plain, script)).toEqual({ made: EAFNOSUPPORT });
  });

  test('no call leaves a set-id file or a whiteout device in a bound directory', () => {
    const script = `
      chdir '/test/work' or die; unlink glob '*';
      open my $file, '>', 'a' or die;
      my ($b, $c, $d, $e, $f, $dot) = ('b', 'c', 'd', 'e', 'f', '.');
      try 'chmod', chmod(04755, 'a') != 1;
      try 'fchmod', chmod(02755, $file) != 1;
      try 'open', syscall(2, $b, 0x41, 04755) < 0;
      try 'creat', syscall(85, $c, 04755) < 0;
      try 'tmpfile', syscall(2, $dot, 0x410002, 04755) < 0;
      try 'mknod', syscall(133, $d, 0104755, 0) < 0;
      try 'whiteout', syscall(133, $e, 020644, 0) < 0;
      try 'harmless', syscall(2, $f, 0x41, 0755) < 0;`;
    const { harmless, ...refused } = attempt(plain, script);
    expect(harmless).toBe(0);
    expect(new Set(Object.values(refused))).toEqual(new Set([EPERM]));
    const { whiteout: _, tmpfile: __, ...without } = attempt(allowAll, script);
    expect(new Set(Object.values(without))).toEqual(new Set([0]));
  });

  test('a 32-bit call ends its process', () => {
    writeFileSync(join(dir, 'int80'), INT80, { mode: 0o755 });
    const { status: unfiltered } = run(allowAll, '/test/int80');
    expect(unfiltered).not.toBe(128 + 31);
    // Some hypervisors refuse the interrupt with SIGSEGV, before the kernel asks a filter.
    const isRefusedByMachine = unfiltered === 128 + 11;
    expect(run(plain, '/test/int80').status).toBe(isRefusedByMachine ? 128 + 11 : 128 + 31);
  });

  test('a tier host starts bubblewrap in its sandbox, with a filter of its own; nobody else does', () => {
    writeFileSync(join(dir, 'inner'), plain);
    const inner = ['bwrap', ...NESTABLE, '--hostname', 'inner', '--ro-bind', '/', '/', '--seccomp', '9', '--'];
    const script = `exec 9< /test/inner; ${inner.join(' ')} bash -c 'hostname; unshare -U true'`;
    const nested = run(nesting, 'bash', '--norc', '-c', script);
    expect(nested.out).toBe('inner\n');
    expect(nested.err).toBe('unshare: unshare failed: Operation not permitted\n');

    const refused = run(plain, 'bash', '--norc', '-c', script);
    expect(refused).toMatchObject({ out: '', status: 1 });
    expect(refused.err).toContain('No permissions to create new namespace');
  });

  test('a tier host has only the calls of bubblewrap more', () => {
    const { unshare, ...others } = attempt(nesting, CALLS);
    expect(unshare).toBe(0);
    expect(new Set(Object.values(others))).toEqual(new Set([EPERM]));
  });
});
