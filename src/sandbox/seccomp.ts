/**
 * The seccomp filter of every sandbox: classic BPF, assembled here and handed to `bwrap --seccomp FD`.
 * Namespaces hide the system; the filter closes what they leave open and the kernel code that they would expose.
 *
 * A program is blocks one after the other. A block tests the accumulator and either ends in a verdict or falls through
 * to the next block, so every jump is a short one forwards. Only instructions that the kernel's own analysis understands
 * are used (load, and, jeq, jge, jset, ret): since 5.11 it determines at load which calls are allowed whatever their
 * arguments, and those never run the filter.
 */
import { ToolError } from '../base/errors.ts';
import { type Arch, type CallName, callNumbers, isSupported } from './syscalls.ts';

export interface SeccompOptions {
  /** Architecture as in `process.arch`. */
  arch: string;
  /**
   * What `socket()` may make. `interfaces` is NETLINK_ROUTE, by which programs list their network's interfaces: only for a
   * network namespace of its own, without capabilities.
   */
  sockets: readonly ('inet' | 'unix' | 'interfaces')[];
  /**
   * Leave open what a program needs to build sandboxes of its own. For bubblewrap this includes IPv4 datagrams and
   * NETLINK_ROUTE whatever `sockets` says, so the host needs a network namespace of its own.
   */
  allowNamespaces?: 'bubblewrap' | 'chromium';
  /** Leave memfd_create open; for commands whose memory a control group counts. */
  allowMemfd?: boolean;
  /**
   * Leave open the tracing of all processes but the first, for debuggers and sanitizers; only for a pid namespace of its own.
   * The first process is bubblewrap's init, which must die with its parent.
   */
  allowTracing?: boolean;
}

/**
 * The last number of Linux 6.18, the newest kernel whose calls were reviewed. A later call may be another way to
 * mount (as open_tree_attr was in 6.15); it fails as on an older kernel, and programs fall back.
 * Also above it: 512 to 547, which kernels before 5.4 took as the x32 ioctl, ptrace and so on even without the x32 bit,
 * and with that bit (0x40000000) every call a second time.
 */
const LAST_REVIEWED = 469;

/** A call that fails as if the kernel had none: its flags lie in memory, which a filter can't read. libc falls back. */
const UNINSPECTABLE: readonly CallName[] = ['clone3'];

/**
 * The same, for modes with set-id bits. bubblewrap 0.11 and later makes folders by it and does not fall back, so it stays open to hosts that
 * run bubblewrap: what that starts has a filter of its own besides.
 */
const UNINSPECTABLE_OPEN: readonly CallName[] = ['openat2'];

/**
 * Makes memory that belongs to no process and no file system, which only a cgroup counts. Programs fall back to
 * /dev/shm, which is bounded.
 */
const UNCOUNTED: readonly CallName[] = ['memfd_create'];

/**
 * Takes blocks of a disk without writing them, gigabytes in a millisecond and past the bound of file sizes. It fails as on a file system
 * that has no such thing: then programs write, which PostgreSQL would not after EPERM, nor Go's linker after ENOSYS.
 */
const UNWRITTEN: readonly CallName[] = ['fallocate'];

/** Makes memory that not even the kernel can read. */
const SECRET_MEMORY: readonly CallName[] = ['memfd_secret'];

/**
 * Calls that bubblewrap makes inside its new namespaces (0.8.0, --hostname and --disable-userns included), and with which `nsenter`
 * enters them (git/config/copies.ts): a host has power only over namespaces that it made.
 */
const BUILD_NAMESPACES: readonly CallName[] = ['pivot_root', 'mount', 'umount2', 'sethostname', 'unshare', 'setns'];

/** Calls of these by which Chromium makes the namespaces of its renderers; with `chroot` it takes their file system from them. */
const CHROMIUM_SANDBOX: readonly CallName[] = ['unshare', 'chroot'];

const REFUSED = [
  // Reading and controlling other processes of the same uid, and taking their open files; `traceRule` comes first.
  ['ptrace', 'process_vm_readv', 'process_vm_writev', 'kcmp', 'pidfd_getfd'],

  // Leaving the mount namespace, and the mount code itself: fsconfig alone gave root from a user namespace
  // (CVE-2022-0185). Handles name files by inode, past every masked path.
  ['chroot', 'name_to_handle_at', 'open_by_handle_at'],
  ['open_tree', 'move_mount', 'fsopen', 'fsconfig', 'fsmount', 'fspick', 'mount_setattr', 'open_tree_attr'],

  // Keyrings have no namespace of their own: processes inherit the session keyring of the user who started the daemon.
  ['add_key', 'request_key', 'keyctl'],

  // Common ways to exploit kernel bugs. io_uring also opens files, connects and makes sockets without passing this filter.
  ['perf_event_open', 'bpf', 'userfaultfd', 'io_uring_setup', 'io_uring_enter', 'io_uring_register'],

  // The machine: its kernel, swap, accounting, log, names and consoles. Root only, so this is a second barrier.
  ['reboot', 'kexec_load', 'kexec_file_load', 'init_module', 'delete_module', 'finit_module'],
  ['swapon', 'swapoff', 'acct', 'quotactl', 'quotactl_fd', 'nfsservctl'],
  ['syslog', 'lookup_dcookie', 'setdomainname', 'vhangup', 'iopl', 'ioperm'],

  // The clock, which has no namespace; time limits and audit entries depend on it.
  ['adjtimex', 'settimeofday', 'clock_settime', 'clock_adjtime'],

  // Switches off address randomisation for the programs that follow.
  ['personality'],
] as const satisfies readonly (readonly CallName[])[];

/**
 * Commands of fcntl by which a process that may only read a file keeps all others waiting, for 45 s a time, or is told what they do:
 * F_SETLEASE, F_NOTIFY, and F_SETDELEG of Linux 6.19.
 */
const LEASES = [1024, 1026, 1040];

/** Number of the first process in each pid namespace. */
const INIT = 1;

const EPERM = 1;
const ENOSYS = 38;
const EOPNOTSUPP = 95;
const EAFNOSUPPORT = 97;

const AF_UNIX = 1;
const AF_INET = 2;
const AF_INET6 = 10;
const AF_NETLINK = 16;
const NETLINK_ROUTE = 0;
const FAMILIES = { unix: [AF_UNIX], inet: [AF_INET, AF_INET6], interfaces: [] };
/** The rest of the type argument is flags: SOCK_NONBLOCK, SOCK_CLOEXEC. */
const SOCK_TYPE_MASK = 0xf;
const SOCK_STREAM = 1;
const SOCK_DGRAM = 2;
const SOCK_SEQPACKET = 5;

/** NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. NEWTIME works in clone3 only: here it is part of the signal. */
const CLONE_NEW = 0x7e020000;
/** O_CREAT and the bit of O_TMPFILE that is not O_DIRECTORY: without either the mode argument is whatever was there. */
const OPEN_CREATES = 0x40 | 0x400000;
const SET_ID_BITS = 0o6000;
/** For mknod also the bit that only S_IFCHR and S_IFBLK share among its types; CAP_MKNOD is the first barrier. */
const NODE_BITS = SET_ID_BITS | 0o020000;

const TIOCSTI = 0x5412;
const TIOCLINUX = 0x541c;

// The assembler: a block is its instructions, a jump counts the instructions that it skips.

interface BpfInstruction {
  code: number;
  k: number;
  /** Instructions skipped if the test holds. */
  jt: number;
  /** Instructions skipped if it does not. */
  jf: number;
}
type BpfBlock = readonly BpfInstruction[];

const LOAD_WORD = 0x20;
const AND = 0x54;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const JUMP_ANY_BIT = 0x45;
const RETURN = 0x06;

/** AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64. */
const AUDIT_ARCH: Record<Arch, number> = { x64: 0xc000003e, arm64: 0xc00000b7 };
const NUMBER_OFFSET = 0;
const ARCH_OFFSET = 4;
const ARGS_OFFSET = 16;

const load = (offset: number): BpfBlock => [{ code: LOAD_WORD, k: offset, jt: 0, jf: 0 }];
/**
 * Loads the low half only. The kernel reads int or less from every argument checked here, and the caller may set the
 * high half at will.
 */
const loadArg = (index: number): BpfBlock => load(ARGS_OFFSET + 8 * index);
const keepBits = (mask: number): BpfBlock => [{ code: AND, k: mask, jt: 0, jf: 0 }];

const verdict = (k: number): BpfBlock => [{ code: RETURN, k, jt: 0, jf: 0 }];
const ALLOW = verdict(0x7fff0000);
const KILL_PROCESS = verdict(0x80000000);
const fail = (errno: number): BpfBlock => verdict(0x00050000 | errno);

const ifAtLeast = (bound: number, body: BpfBlock): BpfBlock => [
  { code: JUMP_AT_LEAST, k: bound, jt: 0, jf: body.length },
  ...body,
];
const ifAnyBit = (mask: number, body: BpfBlock): BpfBlock => [
  { code: JUMP_ANY_BIT, k: mask, jt: 0, jf: body.length },
  ...body,
];
const unlessEqual = (value: number, body: BpfBlock): BpfBlock => [
  { code: JUMP_EQUAL, k: value, jt: body.length, jf: 0 },
  ...body,
];
/** Makes one test per value; each but the last jumps over the remaining tests to the body. */
const ifOneOf = (values: readonly number[], body: BpfBlock): BpfBlock => {
  const last = values.length - 1;
  const tests = values.map((k, i) => ({ code: JUMP_EQUAL, k, jt: last - i, jf: i === last ? body.length : 0 }));
  return values.length === 0 ? [] : [...tests, ...body];
};

/** Encodes the program for the kernel; a jump over more than 255 instructions does not fit a u8 and throws a RangeError. */
function assemble(program: BpfBlock): Buffer {
  const bytes = Buffer.alloc(8 * program.length);
  for (const [i, { code, jt, jf, k }] of program.entries()) {
    bytes.writeUInt16LE(code, 8 * i);
    bytes.writeUInt8(jt, 8 * i + 2);
    bytes.writeUInt8(jf, 8 * i + 3);
    bytes.writeUInt32LE(k, 8 * i + 4);
  }
  return bytes;
}

// The rules. Each expects the call's number in the accumulator and leaves it there if it falls through.

/** Applies `body` to those calls that the architecture has. */
type CallCondition = (calls: readonly CallName[], body: BpfBlock) => BpfBlock;

const refuseMode = (argument: number, mask = SET_ID_BITS): BpfBlock => [
  ...loadArg(argument),
  ...ifAnyBit(mask, fail(EPERM)),
  ...ALLOW,
];
const refuseOpenMode = (flags: number): BpfBlock => [
  ...loadArg(flags),
  ...ifAnyBit(OPEN_CREATES, refuseMode(flags + 1)),
  ...ALLOW,
];

/**
 * A setuid file left in the workspace runs as its owner for every other user of the machine: the sandbox's
 * nosuid mounts apply only inside. openat comes first, being the only frequent call whose arguments matter. mkdir is left
 * alone: the kernel itself drops these bits from its mode, and `cp -r` hands it those of a setgid directory.
 */
const setIdRules = (when: CallCondition): BpfBlock => [
  ...when(['openat'], refuseOpenMode(2)),
  ...when(['open'], refuseOpenMode(1)),
  ...when(['creat', 'chmod', 'fchmod'], refuseMode(1)),
  ...when(['fchmodat', 'fchmodat2'], refuseMode(2)),
  ...when(['mknod'], refuseMode(1, NODE_BITS)),
  ...when(['mknodat'], refuseMode(2, NODE_BITS)),
];

/** Both requests insert input into a terminal: a command could leave a line for the shell that started the daemon. */
const terminalRule = (when: CallCondition): BpfBlock =>
  when(['ioctl'], [...loadArg(1), ...ifOneOf([TIOCSTI, TIOCLINUX], fail(EPERM)), ...ALLOW]);

const leaseRule = (when: CallCondition): BpfBlock =>
  when(['fcntl'], [...loadArg(1), ...ifOneOf(LEASES, fail(EPERM)), ...ALLOW]);

const traceRule = (when: CallCondition): BpfBlock => [
  ...when(['ptrace'], [...loadArg(1), ...ifOneOf([INIT], fail(EPERM)), ...ALLOW]),
  ...when(['process_vm_readv', 'process_vm_writev'], [...loadArg(0), ...ifOneOf([INIT], fail(EPERM)), ...ALLOW]),
];

const cloneRule = (when: CallCondition): BpfBlock =>
  when(['clone'], [...loadArg(0), ...ifAnyBit(CLONE_NEW, fail(EPERM)), ...ALLOW]);

const allowSocketTypes = (types: readonly number[]): BpfBlock => [
  ...loadArg(1),
  ...keepBits(SOCK_TYPE_MASK),
  ...ifOneOf(types, ALLOW),
  ...fail(EAFNOSUPPORT),
];

/** The other netlink protocols, netfilter above all, are not needed, and reach poorly maintained code of the kernel. */
const routeSockets: BpfBlock = ifOneOf(
  [AF_NETLINK],
  [...loadArg(2), ...ifOneOf([NETLINK_ROUTE], ALLOW), ...fail(EAFNOSUPPORT)],
);

/** bubblewrap finds `lo` through a datagram socket, AF_INET if AF_UNIX is refused, and brings it up over NETLINK_ROUTE. */
const loopbackSockets: BpfBlock = [...ifOneOf([AF_INET], allowSocketTypes([SOCK_DGRAM])), ...routeSockets];

/**
 * A network namespace does not confine AF_VSOCK (the hypervisor), AF_UNIX (sockets in bound directories) or the rarer
 * families, which are poorly maintained and whose modules are loaded on demand.
 */
const socketRule = (when: CallCondition, { sockets, allowNamespaces }: SeccompOptions): BpfBlock =>
  when(
    ['socket'],
    [
      ...loadArg(0),
      ...ifOneOf(
        sockets.flatMap((name) => FAMILIES[name]),
        ALLOW,
      ),
      ...(allowNamespaces === 'bubblewrap' ? loopbackSockets : sockets.includes('interfaces') ? routeSockets : []),
      ...fail(EAFNOSUPPORT),
    ],
  );

/**
 * Node's child_process talks to its children over a socketpair, so AF_UNIX pairs are always allowed. A connected stream
 * stays with its two ends. A datagram pair does not: either end may send to any path, so it counts as an AF_UNIX
 * socket, and so does SOCK_RAW, which the kernel turns into one.
 */
const socketpairRule = (when: CallCondition, { sockets }: SeccompOptions): BpfBlock =>
  when(
    ['socketpair'],
    [
      ...loadArg(0),
      ...ifOneOf([AF_UNIX], sockets.includes('unix') ? ALLOW : allowSocketTypes([SOCK_STREAM, SOCK_SEQPACKET])),
      ...fail(EAFNOSUPPORT),
    ],
  );

function refusedCalls(allowNamespaces: SeccompOptions['allowNamespaces']): CallName[] {
  const all = [...REFUSED.flat(), ...(allowNamespaces === 'bubblewrap' ? [] : BUILD_NAMESPACES)];
  return allowNamespaces === 'chromium' ? all.filter((it) => !CHROMIUM_SANDBOX.includes(it)) : all;
}

/**
 * The filter as `struct sock_filter[]`, 8 bytes each, for `bwrap --seccomp FD`.
 * Throws SANDBOX_UNAVAILABLE if there is no table of call numbers for `arch`.
 */
export function seccompFilter(options: SeccompOptions): Buffer {
  const { arch, allowNamespaces, allowMemfd = false, allowTracing = false } = options;
  if (!isSupported(arch)) {
    throw new ToolError('SANDBOX_UNAVAILABLE', `the seccomp filter has no table of system calls for ${arch}`, {
      suggestion: 'Run the daemon on x86_64 or arm64 Linux; another architecture needs its call numbers in a table.',
      details: { arch },
    });
  }
  const when: CallCondition = (calls, body) => ifOneOf(callNumbers(calls, arch), body);
  return assemble([
    ...load(ARCH_OFFSET),
    // The 32-bit calls (int 0x80 on x86_64, AArch32 on arm64) have other numbers, so none of the rules below would mean
    // anything. No honest 64-bit program makes them.
    ...unlessEqual(AUDIT_ARCH[arch], KILL_PROCESS),
    ...load(NUMBER_OFFSET),
    ...ifAtLeast(LAST_REVIEWED + 1, fail(ENOSYS)),
    ...setIdRules(when),
    ...terminalRule(when),
    ...leaseRule(when),
    ...(allowTracing ? traceRule(when) : []),
    ...(allowNamespaces ? [] : cloneRule(when)),
    ...socketRule(when, options),
    ...socketpairRule(when, options),
    ...(allowNamespaces === 'bubblewrap' ? [] : when(UNINSPECTABLE_OPEN, fail(ENOSYS))),
    ...when([...UNINSPECTABLE, ...SECRET_MEMORY, ...(allowMemfd ? [] : UNCOUNTED)], fail(ENOSYS)),
    ...when(UNWRITTEN, fail(EOPNOTSUPP)),
    ...when(refusedCalls(allowNamespaces), fail(EPERM)),
    ...ALLOW,
  ]);
}
