/** Bounds of commands: what one may use, write, keep open and print. */
import * as z from 'zod';
import { bytes, count, KiB, MiB, ms } from './units.ts';

export const commandLimits = {
  /** Output of a command that reaches its caller, per stream: half of it from the start, half from the end. */
  commandOutputBytes: bytes().default(32 * KiB),
  /** Output of a command, both streams together, after which it is killed; reading costs the daemon's core time. */
  commandOutputBytesMax: bytes().default(256 * MiB),
  /** What a command and all that it starts may use, unless its policy says less; docs/policy.md, `tiers.execute`. */
  commandMax: z
    .strictObject({
      /** CPU time of all its processes together, so that a busy loop on every core ends before its time does. */
      cpuMs: ms().default(120_000),
      /**
       * Memory of all its processes together, in MiB, its scratch space included where control groups count it (else commandTmpBytes on top);
       * pages of files don't count. Where the config says nothing, half of the machine's, at most 8192.
       */
      memoryMb: count().default(1024),
      /** Processes at once, so that a fork bomb can't take the machine's pids; threads: commandThreadsMax for each of them. */
      processes: count().default(128),
      /** Largest file that it may write, in MiB, so that one runaway log can't fill the disk. */
      fileMb: count().default(1024),
    })
    .prefault({}),
  /**
   * Memory of all commands of one host together, in MiB, so that many large ones can't take all of the machine's. Where the config says
   * nothing, three quarters of that.
   */
  hostCommandsMemoryMb: count().default(16 * 1024),
  /** Threads of a command for each process that it may have, all together: Node starts 11, and more for each core. */
  commandThreadsMax: count().default(8),
  /** Processes and threads of all commands of a root-owned workspace together; the kernel holds it, a fork bomb that is ended fills it. */
  hostTasksMax: z.int().min(512).default(2048),
  /** How long a command may go on whose memory is so full that it reads its files again and again, which never ends. */
  commandStarvedMs: ms().default(10_000),
  /** From one look at what running commands use to the next; a process can fill about 100 MiB in between. */
  watchdogMs: ms().default(50),
  /**
   * Address space of one process of a command, in MiB, where no control group counts what it really uses: between two looks of the
   * watchdog it may take that much. V8 reserves 10 GiB for each WebAssembly memory, of which a test runner has dozens.
   */
  commandAddressMb: count().default(4 * 1024 * 1024),
  /** From the SIGTERM of a command that is out of time, or cancelled, to its SIGKILL; with it, it answers within its limit + 1 s. */
  commandTermGraceMs: z.int().min(0).default(700),
  /** How long the pipes of a command are read after its exit; a grandchild may hold them for ever. */
  commandDrainMs: ms().default(100),
  /** Scratch space (/tmp) of a command, in memory. */
  commandTmpBytes: bytes().default(256 * MiB),
  /** Unix sockets of others in a workspace that are kept from a command; with more, it may make none itself. */
  socketMasksMax: count().default(64),
  /** Open files of each process of a command, where the machine allows as many: watchers and databases hold thousands. */
  commandOpenFilesMax: count().default(65_536),
};
