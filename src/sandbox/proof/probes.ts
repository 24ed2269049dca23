/**
 * What a sandbox must prevent: for each, an attempt from inside and what its outcome shows. A barrier counts as proven
 * only by the error that a working barrier gives: anything else that is no leak is unknown, and unknown does not count as holding.
 */
import type { ProbeReport, ProbeStep, ProbeSyscall } from './probe-program.ts';

export type Outcome = 'ok' | 'leaks' | 'unknown';

/** Targets of the attempts; all lie outside the sandbox. */
export interface ProbeTargets {
  /** A file of the daemon. */
  readonly canary: string;
  readonly daemonPid: number;
  /** The daemon's pid namespace, as in `/proc/self/ns/pid`: in another namespace its pid belongs to another process. */
  readonly pidNamespace: string;
  /** A port of 127.0.0.1 on which the daemon listens. */
  readonly port: number;
  /** Names of all environment variables that a launcher gets. */
  readonly variables: readonly string[];
}

/** Observations from outside. */
export interface OutsideObservations {
  /** Whether a process of the sandbox remained after it had ended. */
  readonly survived: boolean;
  /** Whether the sandbox is in its own cgroup with a memory limit; undefined if that can't be read. */
  readonly memoryLimited: boolean | undefined;
}

export interface Probe {
  /** What the probe shows, as a sentence that is true if the barrier holds. */
  readonly shows: string;
  readonly layer: string;
  /** What to do if the barrier does not hold. */
  readonly fix: string;
  /** The level that requires it. */
  readonly level: 'A' | 'B';
  readonly steps: (aims: ProbeTargets) => readonly ProbeStep[];
  readonly judge: (report: ProbeReport, aims: ProbeTargets, outside: OutsideObservations) => Outcome;
}

const [EPERM, ENOENT, ESRCH, EACCES, ENOTDIR, ENOSPC, EROFS] = [1, 2, 3, 13, 20, 28, 30];
const [EAFNOSUPPORT, ENETUNREACH, ECONNREFUSED] = [97, 101, 111];
const ABSENT = [ENOENT, EACCES, ENOTDIR];
const READ_ONLY = [EROFS, EACCES, EPERM];
const [O_RDONLY, O_WRONLY, W_OK] = [0, 1, 2];
const [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_VSOCK] = [1, 2, 10, 16, 40];
const NETLINK_NETFILTER = 12;
const [SOCK_STREAM, SOCK_DGRAM, SOCK_RAW] = [1, 2, 3];
/** Folder for relative paths: the program's current one. All paths here are absolute. */
const AT_FDCWD = -100;
const INIT = 1;
const TIOCSTI = 0x5412;
const NEW_NAMESPACES = 0x10000000 | 0x00020000;
const SET_UID = 0o4755;

/** Lifetime of the process that should not survive: longer than the wait for it, short enough to leave nothing behind. */
const SURVIVOR_SECONDS = 4;
const FILE_BYTES = 8192;

const REINSTALL = 'Put bubblewrap 0.8 or newer in its place (apt-get install --reinstall bubblewrap).';
const SECCOMP = 'Run a kernel with CONFIG_SECCOMP_FILTER, and bubblewrap 0.8 or newer.';
const ALIEN = 'Report it, with the output of `ringfence doctor --json`: this machine does what Linux should not.';

const path = (text: string) => ({ data: Buffer.from(`${text}\0`) });
const reported = (as: string, call: ProbeSyscall['call'], ...args: ProbeSyscall['args']): ProbeSyscall => ({
  as,
  call,
  args,
});
/** arm64 has only the calls that take a folder. */
const open = (as: string, file: string, flags: number): ProbeSyscall =>
  reported(as, 'openat', AT_FDCWD, path(file), flags);
const chmod = (as: string, file: string, mode: number): ProbeSyscall =>
  reported(as, 'fchmodat', AT_FDCWD, path(file), mode);

/** Judges that the kernel refused the call, with one of the errors of a working barrier. */
const refused =
  (as: string, ...errnos: readonly number[]) =>
  (report: ProbeReport): Outcome => {
    const result = report.result(as);
    if (result >= 0) return 'leaks';
    return errnos.includes(-result) ? 'ok' : 'unknown';
  };

const judgeAll =
  (...judges: readonly ((report: ProbeReport) => Outcome)[]) =>
  (report: ProbeReport): Outcome => {
    const outcomes = judges.map((it) => it(report));
    return (['leaks', 'unknown'] as const).find((it) => outcomes.includes(it)) ?? 'ok';
  };

const readFile = (as: string, file: string): ProbeStep[] => [
  open(`${as}-open`, file, O_RDONLY),
  reported(as, 'read', { resultOf: `${as}-open` }, { roomBytes: FILE_BYTES }, FILE_BYTES),
];

const socketFamily = (
  name: string,
  [family, type, protocol = 0]: readonly [number, number, number?],
  shows: string,
): Probe => ({
  shows,
  layer: 'seccomp',
  fix: SECCOMP,
  level: 'B',
  steps: () => [reported(name, 'socket', family, type, protocol)],
  judge: refused(name, EAFNOSUPPORT, EPERM),
});

/** A probe that checks a line of /proc/self/status. */
const status = (what: Omit<Probe, 'steps' | 'judge' | 'level'>, holds: (text: string) => boolean): Probe => ({
  ...what,
  level: 'B',
  steps: () => [],
  judge: (report) => {
    const text = report.text('status');
    if (!text.startsWith('Name:')) return 'unknown';
    return holds(text) ? 'ok' : 'leaks';
  },
});

/** Documentation addresses (RFC 5737, 3849): a datagram socket that connects to one sends nothing, but needs a route. */
const address4 = (port: number, ...bytes: number[]) => {
  const it = Buffer.alloc(16);
  it.writeUInt16LE(AF_INET);
  it.writeUInt16BE(port, 2);
  it.set(bytes, 4);
  return { data: it };
};
const address6 = (...bytes: number[]) => {
  const it = Buffer.alloc(28);
  it.writeUInt16LE(AF_INET6);
  it.writeUInt16BE(9, 2);
  it.set(bytes, 8);
  return { data: it };
};

/** Judges a connection attempt; without a socket there is nothing to connect. */
const notConnected = (as: string) => (report: ProbeReport) =>
  report.result(`${as}-socket`) < 0
    ? refused(`${as}-socket`, EAFNOSUPPORT, EPERM)(report)
    : refused(as, ECONNREFUSED, ENETUNREACH)(report);

const connectTo = (as: string, family: number, type: number, to: { data: Buffer }): ProbeStep[] => [
  reported(`${as}-socket`, 'socket', family, type, 0),
  reported(as, 'connect', { resultOf: `${as}-socket` }, to, to.data.length),
];

const sameNamespace = (report: ProbeReport, { pidNamespace }: ProbeTargets): boolean =>
  report.text('pid-ns') === pidNamespace;

/** Steps that every run reports: who and where the program is. */
export const COMMON_STEPS: readonly ProbeStep[] = [
  ...readFile('status', '/proc/self/status'),
  reported('pid-ns', 'readlinkat', AT_FDCWD, path('/proc/self/ns/pid'), { roomBytes: 64 }, 64),
];

const FILES = {
  'read-outside': {
    shows: 'files outside of the workspace are not there',
    layer: 'mounts',
    fix: REINSTALL,
    level: 'B',
    steps: ({ canary }) => [open('read-outside', canary, O_RDONLY)],
    judge: refused('read-outside', ...ABSENT),
  },
  'write-outside': {
    shows: 'files outside of the workspace can not be written',
    layer: 'mounts',
    fix: REINSTALL,
    level: 'B',
    steps: ({ canary }) => [open('write-outside', canary, O_WRONLY)],
    judge: refused('write-outside', ...ABSENT, EROFS),
  },
  'write-system': {
    shows: 'the system is read-only',
    layer: 'read-only mounts',
    fix: REINSTALL,
    level: 'B',
    // Only asks for access: a write that succeeded would stay.
    steps: () =>
      ['/', '/usr', '/etc', '/dev'].map((it) => reported(`write${it}`, 'faccessat', AT_FDCWD, path(it), W_OK)),
    judge: judgeAll(...['/', '/usr', '/etc', '/dev'].map((it) => refused(`write${it}`, ...READ_ONLY))),
  },
  'core-pattern': {
    shows: 'the program that the kernel runs for a crash can not be set',
    layer: 'read-only /proc',
    fix: REINSTALL,
    level: 'B',
    steps: () => [open('core-pattern', '/proc/sys/kernel/core_pattern', O_WRONLY)],
    judge: refused('core-pattern', ...READ_ONLY, ENOENT),
  },
  'shared-nodes': {
    shows: 'the modes of what /dev and /proc share with the machine can not be changed',
    layer: 'read-only mounts',
    fix: 'Run the daemon as a user who is not root, or let it make mounts (CAP_SYS_ADMIN).',
    level: 'A',
    // Sets the present modes: nothing changes if it succeeds.
    steps: () => [chmod('shared-dev', '/dev/full', 0o666), chmod('shared-proc', '/proc/version', 0o444)],
    judge: judgeAll(refused('shared-dev', EROFS, EPERM), refused('shared-proc', EROFS, EPERM)),
  },
  suid: {
    shows: 'a file can not be made to run as its owner for others',
    layer: 'seccomp',
    fix: SECCOMP,
    level: 'B',
    // A file in no folder: nothing is left if it succeeds.
    steps: () => [
      reported('suid-file', 'memfd_create', path('probe'), 0),
      reported('suid', 'fchmod', { resultOf: 'suid-file' }, SET_UID),
    ],
    judge: refused('suid', EPERM),
  },
} as const satisfies Record<string, Probe>;

const NETWORK = {
  network: {
    shows: "neither the network nor the machine's own loopback is reached",
    layer: 'network namespace',
    fix: REINSTALL,
    level: 'B',
    steps: ({ port }) => [
      ...connectTo('loopback', AF_INET, SOCK_STREAM, address4(port, 127, 0, 0, 1)),
      ...connectTo('out4', AF_INET, SOCK_DGRAM, address4(9, 192, 0, 2, 1)),
      ...connectTo('out6', AF_INET6, SOCK_DGRAM, address6(0x20, 0x01, 0x0d, 0xb8)),
    ],
    judge: judgeAll(notConnected('loopback'), notConnected('out4'), notConnected('out6')),
  },
  vsock: socketFamily('vsock', [AF_VSOCK, SOCK_STREAM], 'the hypervisor is not reached (AF_VSOCK)'),
  netlink: socketFamily(
    'netlink',
    [AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER],
    "the kernel's packet filter is not reached (NETLINK_NETFILTER)",
  ),
  'unix-socket': socketFamily(
    'unix-socket',
    [AF_UNIX, SOCK_STREAM],
    'sockets of other programs are not reached (AF_UNIX)',
  ),
} as const satisfies Record<string, Probe>;

const PROCESSES = {
  'signal-daemon': {
    shows: "the daemon's process is out of reach",
    layer: 'pid namespace',
    fix: REINSTALL,
    level: 'B',
    steps: ({ daemonPid }) => [reported('signal-daemon', 'kill', daemonPid, 0)],
    judge: (report, aims) => {
      if (report.result('pid-ns') <= 0) return 'unknown';
      return sameNamespace(report, aims) ? refused('signal-daemon', ESRCH)(report) : 'ok';
    },
  },
  environment: {
    shows: "the daemon's environment can not be read, nor more than was meant in that of the first process",
    layer: 'pid namespace, explicit environment',
    fix: ALIEN,
    level: 'B',
    steps: ({ daemonPid }) => [
      ...readFile('environ-1', '/proc/1/environ'),
      ...readFile('environ-daemon', `/proc/${daemonPid}/environ`),
    ],
    judge: (report, aims) => {
      if (sameNamespace(report, aims)) return refused('environ-daemon-open', ...ABSENT)(report);
      if (report.result('environ-1-open') < 0) return refused('environ-1-open', ...ABSENT)(report);
      const names = report
        .text('environ-1')
        .split('\0')
        .filter(Boolean)
        .map((it) => it.split('=')[0] as string);
      if (names.length === 0) return 'unknown';
      return names.every((it) => aims.variables.includes(it)) ? 'ok' : 'leaks';
    },
  },
  survivor: {
    shows: 'nothing that a command starts outlives it',
    layer: 'pid namespace',
    fix: REINSTALL,
    level: 'B',
    steps: () => {
      const time = Buffer.alloc(16);
      time.writeBigInt64LE(BigInt(SURVIVOR_SECONDS));
      const child = [
        reported('survivor-session', 'setsid'),
        reported('survivor-sleep', 'nanosleep', { data: time }, 0),
      ];
      return [{ as: 'survivor', child }];
    },
    judge: (report, _, { survived }) => {
      if (report.result('survivor') <= 0) return 'unknown';
      return survived ? 'leaks' : 'ok';
    },
  },
  ptrace: {
    shows: 'the first process of a sandbox can not be traced',
    layer: 'seccomp',
    fix: SECCOMP,
    level: 'B',
    // Reads nothing, which the kernel allows whatever the process.
    steps: () => [reported('ptrace', 'process_vm_readv', INIT, 0, 0, 0, 0, 0)],
    judge: refused('ptrace', EPERM),
  },
  tiocsti: {
    shows: 'nothing can be typed into a terminal for its shell (TIOCSTI)',
    layer: 'seccomp',
    fix: SECCOMP,
    level: 'B',
    steps: () => [reported('tiocsti', 'ioctl', 0, TIOCSTI, path('x'))],
    // Any other error came from the driver of descriptor 0, which is no terminal here: the request got past the barrier.
    judge: (report) => (report.result('tiocsti') === -EPERM ? 'ok' : 'leaks'),
  },
  memory: {
    shows: 'memory is limited for all processes of a command together',
    layer: 'cgroup',
    fix: 'Give the daemon a cgroup of its own: Delegate=yes in its systemd unit, or systemd-run --user --scope -p Delegate=yes ringfence serve.',
    level: 'A',
    steps: () => [],
    judge: (_, __, { memoryLimited }) => (memoryLimited === undefined ? 'unknown' : memoryLimited ? 'ok' : 'leaks'),
  },
} as const satisfies Record<string, Probe>;

const RIGHTS = {
  capabilities: status(
    { shows: 'there are no capabilities, and none can come back', layer: '--cap-drop ALL', fix: REINSTALL },
    (text) => {
      const sets = [...text.matchAll(/^Cap(?:Inh|Prm|Eff|Bnd|Amb):\t(\w+)$/gm)].map((it) => it[1] as string);
      return sets.length === 5 && sets.every((it) => /^0+$/.test(it));
    },
  ),
  'new-privileges': status(
    { shows: 'a setuid program gives no rights', layer: 'no_new_privs', fix: REINSTALL },
    (text) => /^NoNewPrivs:\t1$/m.test(text),
  ),
  seccomp: status({ shows: 'system calls are filtered', layer: 'seccomp', fix: SECCOMP }, (text) =>
    /^Seccomp:\t2$/m.test(text),
  ),
  namespaces: {
    shows: 'no namespaces, and no capabilities in them, can be made within',
    layer: 'seccomp, --disable-userns',
    fix: REINSTALL,
    level: 'B',
    steps: () => [reported('namespaces', 'unshare', NEW_NAMESPACES)],
    judge: refused('namespaces', EPERM, ENOSPC),
  },
} as const satisfies Record<string, Probe>;

/** Every probe by its id, in the order of the attempts: those that change the program itself come last. */
export const PROBES = { ...FILES, ...NETWORK, ...PROCESSES, ...RIGHTS } as const;
export type ProbeId = keyof typeof PROBES;
export const PROBE_IDS = Object.keys(PROBES) as ProbeId[];

export type ProbeOutcomes = Readonly<Record<ProbeId, Outcome>>;

/** The same outcome for all. */
export const allProbes = (outcome: Outcome): ProbeOutcomes =>
  Object.fromEntries(PROBE_IDS.map((id) => [id, outcome])) as ProbeOutcomes;

/** The probes that level B requires and that did not hold. */
export const notHeld = (outcomes: ProbeOutcomes): ProbeId[] =>
  PROBE_IDS.filter((id) => PROBES[id].level === 'B' && outcomes[id] !== 'ok');

/** A barrier that does not hold, or of which nobody knows whether it does. */
export interface Gap {
  readonly id: ProbeId;
  /** The sentence that is not shown to be true. */
  readonly shows: string;
  /** What to do. */
  readonly fix: string;
}

/** What does not hold on this machine, and how to mend it. */
export const gapsOf = (outcomes: ProbeOutcomes): Gap[] =>
  PROBE_IDS.filter((id) => outcomes[id] !== 'ok').map((id) => ({ id, shows: PROBES[id].shows, fix: PROBES[id].fix }));
