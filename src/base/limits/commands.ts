/** Bounds of commands: what one may use, write, keep open and print. */
import { KiB, MiB } from './units.ts';

export const commandLimits = {
  /** Bytes of output of a command that reach its caller, for each stream: half from the start, half from the end. */
  commandOutputBytes: 32 * KiB,
  /** Bytes of output of both streams after which a command is killed; reading them costs the daemon CPU time. */
  commandOutputBytesMax: 256 * MiB,
  /** Bytes of a report that a tool reads of its command, such as the results of tests. */
  commandReportBytes: 16 * MiB,
  /** Resources of a command with all its processes, unless its policy says less; docs/policy.md, `tiers.execute`. */
  commandMax: {
    /** CPU time of all processes of a command together, so that a busy loop on every core ends before its time limit. */
    cpuMs: 120_000,
    /**
     * Memory of all processes of a command together, in MiB, including its scratch space if control groups count it (otherwise
     * commandTmpBytes come on top); pages of files don't count. Without a setting in the config, half of the machine's memory, at most
     * 8192.
     */
    memoryMb: 1024,
    /**
     * Processes of a command at once, so that a fork bomb can't use up the machine's pids; threads: commandThreadsMax for each of them.
     */
    processes: 128,
    /** Largest file that a command may write, in MiB, so that one runaway log can't fill the disk. */
    fileMb: 1024,
  },
  /**
   * Memory of all commands of one host together, in MiB, so that many large ones can't use up the machine's memory. Without a setting in
   * the config, three quarters of that memory.
   */
  hostCommandsMemoryMb: 16 * 1024,
  /** Threads of a command for each process that it may have, all together: Node starts 11, and more for each core. */
  commandThreadsMax: 8,
  /**
   * Processes and threads of all commands of a root-owned workspace together, enforced by the kernel; a fork bomb that is being ended may
   * fill it.
   */
  hostTasksMax: 2048,
  /** Time for which a command may continue whose memory is so full that it rereads its files endlessly. */
  commandStarvedMs: 10_000,
  /** Interval at which the resource use of running commands is measured; a process can fill about 100 MiB in between. */
  watchdogMs: 50,
  /**
   * Address space of one process of a command, in MiB, where no control group counts its actual use: it may take that much between two
   * measurements of the watchdog. V8 reserves 10 GiB for each WebAssembly memory, and a test runner has dozens.
   */
  commandAddressMb: 4 * 1024 * 1024,
  /**
   * Time between the SIGTERM and the SIGKILL of a command that is out of time or cancelled; with it, the call answers within its limit + 1
   * s.
   */
  commandTermGraceMs: 700,
  /** Time for which the pipes of a command are read after its exit; a grandchild may hold them forever. */
  commandDrainMs: 100,
  /**
   * Bytes that commands must leave free on each disk that they write to, which the person's programs and the daemon's records need; a
   * quarter of a small disk. Below it, commands that wrote much are ended.
   */
  diskFreeBytesMin: 512 * MiB,
  /**
   * Scratch space (/tmp) in memory, of a command that outlives its session or is previewed; others share one on disk for their session.
   * Where a workspace lies in /var/tmp, also what its commands write to /var/tmp outside of it, which is otherwise /tmp.
   */
  commandTmpBytes: 256 * MiB,
  /** Unix sockets of other programs in a workspace that are hidden from a command; with more, the command may create none itself. */
  socketMasksMax: 64,
  /**
   * Open files of each process of a command, if the machine allows as many, and at most 253 less than the soft limit of the person's
   * programs: descriptors on their way count for all of a user's processes.
   */
  commandOpenFilesMax: 65_536,
};
