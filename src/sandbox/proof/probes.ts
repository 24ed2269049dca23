/**
 * What a sandbox must prevent: for each, an attempt from inside and what its outcome shows. A barrier counts as proven
 * only by the error that a working barrier gives: anything else that is no leak is unknown, and unknown does not count as holding.
 */

/** What native/probe.c told of each attempt: the result of its call, or the bytes that it read as text. */
export class ProbeReport {
  readonly #told: ReadonlyMap<string, string>;

  constructor(lines: string) {
    this.#told = new Map(lines.split('\n').map((it) => it.split(' ') as [string, string]));
  }

  /** A negative number is an errno, as in the kernel; of what was read, the number of bytes. */
  result(name: string): number {
    const told = this.#told.get(name);
    return told?.startsWith('x') ? (told.length - 1) / 2 : Number(told);
  }

  text(name: string): string {
    const told = this.#told.get(name) ?? '';
    return told.startsWith('x') ? Buffer.from(told.slice(1), 'hex').toString('utf8') : '';
  }
}

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
  readonly judge: (report: ProbeReport, aims: ProbeTargets, outside: OutsideObservations) => Outcome;
}

const [EPERM, ENOENT, ESRCH, EACCES, ENOTDIR, ENOSPC, EROFS] = [1, 2, 3, 13, 20, 28, 30];
const [EAFNOSUPPORT, ENETUNREACH, ECONNREFUSED] = [97, 101, 111];
const ABSENT = [ENOENT, EACCES, ENOTDIR];
const READ_ONLY = [EROFS, EACCES, EPERM];
const REINSTALL = 'Put bubblewrap 0.8 or newer in its place (apt-get install --reinstall bubblewrap).';
const SECCOMP = 'Run a kernel with CONFIG_SECCOMP_FILTER, and bubblewrap 0.8 or newer.';
const ALIEN = 'Report it, with the output of `ringfence doctor --json`: this machine does what Linux should not.';

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

const socketFamily = (name: string, shows: string): Probe => ({
  shows,
  layer: 'seccomp',
  fix: SECCOMP,
  level: 'B',
  judge: refused(name, EAFNOSUPPORT, EPERM),
});

/** A probe that checks a line of /proc/self/status. */
const status = (what: Omit<Probe, 'judge' | 'level'>, holds: (text: string) => boolean): Probe => ({
  ...what,
  level: 'B',
  judge: (report) => {
    const text = report.text('status');
    if (!text.startsWith('Name:')) return 'unknown';
    return holds(text) ? 'ok' : 'leaks';
  },
});

/** Judges a connection attempt; without a socket there is nothing to connect. */
const notConnected = (as: string) => (report: ProbeReport) =>
  report.result(`${as}-socket`) < 0
    ? refused(`${as}-socket`, EAFNOSUPPORT, EPERM)(report)
    : refused(as, ECONNREFUSED, ENETUNREACH)(report);

const sameNamespace = (report: ProbeReport, { pidNamespace }: ProbeTargets): boolean =>
  report.text('pid-ns') === pidNamespace;

const FILES = {
  'read-outside': {
    shows: 'files outside of the workspace are not there',
    layer: 'mounts',
    fix: REINSTALL,
    level: 'B',
    judge: refused('read-outside', ...ABSENT),
  },
  'write-outside': {
    shows: 'files outside of the workspace can not be written',
    layer: 'mounts',
    fix: REINSTALL,
    level: 'B',
    judge: refused('write-outside', ...ABSENT, EROFS),
  },
  'write-system': {
    shows: 'the system is read-only',
    layer: 'read-only mounts',
    fix: REINSTALL,
    level: 'B',
    judge: judgeAll(...['/', '/usr', '/etc', '/dev'].map((it) => refused(`write${it}`, ...READ_ONLY))),
  },
  'core-pattern': {
    shows: 'the program that the kernel runs for a crash can not be set',
    layer: 'read-only /proc',
    fix: REINSTALL,
    level: 'B',
    judge: refused('core-pattern', ...READ_ONLY, ENOENT),
  },
  'shared-nodes': {
    shows: 'the modes of what /dev and /proc share with the machine can not be changed',
    layer: 'read-only mounts',
    fix: 'Run the daemon as a user who is not root, or let it make mounts (CAP_SYS_ADMIN).',
    level: 'A',
    judge: judgeAll(refused('shared-dev', EROFS, EPERM), refused('shared-proc', EROFS, EPERM)),
  },
  suid: {
    shows: 'a file can not be made to run as its owner for others',
    layer: 'seccomp',
    fix: SECCOMP,
    level: 'B',
    judge: refused('suid', EPERM),
  },
} as const satisfies Record<string, Probe>;

const NETWORK = {
  network: {
    shows: "neither the network nor the machine's own loopback is reached",
    layer: 'network namespace',
    fix: REINSTALL,
    level: 'B',
    judge: judgeAll(notConnected('loopback'), notConnected('out4'), notConnected('out6')),
  },
  vsock: socketFamily('vsock', 'the hypervisor is not reached (AF_VSOCK)'),
  netlink: socketFamily('netlink', "the kernel's packet filter is not reached (NETLINK_NETFILTER)"),
  'unix-socket': socketFamily('unix-socket', 'sockets of other programs are not reached (AF_UNIX)'),
} as const satisfies Record<string, Probe>;

const PROCESSES = {
  'signal-daemon': {
    shows: "the daemon's process is out of reach",
    layer: 'pid namespace',
    fix: REINSTALL,
    level: 'B',
    judge: (report, aims) => {
      if (report.text('pid-ns') === '') return 'unknown';
      return sameNamespace(report, aims) ? refused('signal-daemon', ESRCH)(report) : 'ok';
    },
  },
  environment: {
    shows: "the daemon's environment can not be read, nor more than was meant in that of the first process",
    layer: 'pid namespace, explicit environment',
    fix: ALIEN,
    level: 'B',
    judge: (report, aims) => {
      if (sameNamespace(report, aims)) return refused('environ-daemon', ...ABSENT)(report);
      if (report.result('environ-1') < 0) return refused('environ-1', ...ABSENT)(report);
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
    judge: (report, _, { survived }) => {
      if (!(report.result('survivor') > 0)) return 'unknown';
      return survived ? 'leaks' : 'ok';
    },
  },
  ptrace: {
    shows: 'the first process of a sandbox can not be traced',
    layer: 'seccomp',
    fix: SECCOMP,
    level: 'B',
    judge: refused('ptrace', EPERM),
  },
  tiocsti: {
    shows: 'nothing can be typed into a terminal for its shell (TIOCSTI)',
    layer: 'seccomp',
    fix: SECCOMP,
    level: 'B',
    judge: (report) => (report.result('tiocsti') === -EPERM ? 'ok' : 'leaks'),
  },
  memory: {
    shows: 'memory is limited for all processes of a command together',
    layer: 'cgroup',
    fix: 'Give the daemon a cgroup of its own: Delegate=yes in its systemd unit, or systemd-run --user --scope -p Delegate=yes ringfence serve.',
    level: 'A',
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
