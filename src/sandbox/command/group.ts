/**
 * Control groups of commands, on the execute host's side: made before a command, entered before it runs, checked
 * while it runs, removed after it. The kernel's counts are exact and cover this command only.
 */
import type { ChildProcess } from 'node:child_process';
import { openSync, writeFileSync, writeSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { ToolError } from '../../base/errors.ts';
import type { CommandBounds, Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { type CommandGroupParent, TASKS_OF_SANDBOX } from '../cgroup/cgroup.ts';
import {
  type CgroupFolders,
  type CgroupVersion,
  type GroupLimits,
  type GroupUse,
  groupBelow,
  heldIn,
  joinFilesOf,
  limitGroup,
  makeGroup,
  processesOf,
  removeGroup,
  useOf,
} from '../cgroup/files.ts';
import type { CommandWatch, ExceededLimit, MeasuredUse } from '../watchdog.ts';

/** Groups that may await removal, for each command that may run at once; with more, something is wrong with the machine. */
const WAITING_PER_COMMAND = 4;

export class CommandGroups {
  readonly #place: CommandGroupParent;
  readonly #limits: Limits;
  readonly #powers: Powers;
  /** Kept open, since every command's start ends by writing to these. */
  readonly #home: readonly number[];
  readonly #watched = new Set<CommandGroup>();
  /** Groups of ended commands, to be removed; the kernel may still count an ended process. */
  readonly #waiting = new Set<CgroupFolders>();
  #next = 1;
  #looks = false;

  constructor(place: CommandGroupParent, limits: Limits, powers: Powers) {
    this.#place = place;
    this.#limits = limits;
    this.#powers = powers;
    this.#home = place.home.map((file) => openSync(file, 'w'));
  }

  get enforcedBy(): `cgroup ${CgroupVersion}` {
    return `cgroup ${this.#place.group.version}`;
  }

  /**
   * Makes a group with limits for one command, and for the one process more of a sandbox that has the egress proxy. Throws
   * SANDBOX_UNAVAILABLE: no command runs without one.
   */
  open(bounds: CommandBounds, hasDoor: boolean): CommandGroup {
    // In version 2 only bubblewrap's init is in the group; bubblewrap itself and the door stay outside.
    const sandboxTasks = this.#place.group.version === 'v1' ? TASKS_OF_SANDBOX + (hasDoor ? 1 : 0) : 1;
    const limits = this.#limitsOf(bounds, sandboxTasks);
    return new CommandGroup({
      group: this.#make(limits),
      limits,
      sandboxTasks,
      home: this.#home,
      bounds,
      enforcedBy: this.enforcedBy,
      looksMax: this.#limits.commandStarvedMs / this.#limits.watchdogMs,
      onWatch: (it) => {
        this.#watched.add(it);
        this.#lookLater();
      },
      onClose: (it, group) => {
        this.#watched.delete(it);
        this.#waiting.add(group);
        // After the result has been sent.
        this.#powers.after(0, () => this.#remove());
      },
    });
  }

  #limitsOf({ processes, memoryMb }: CommandBounds, sandboxTasks: number): Required<GroupLimits> {
    const tasks = processes * this.#limits.commandThreadsMax + sandboxTasks;
    return { memoryBytes: memoryMb * 1024 * 1024, tasks };
  }

  #make(limits: Required<GroupLimits>): CgroupFolders {
    if (this.#waiting.size > WAITING_PER_COMMAND * this.#limits.hostCommandsMax)
      throw none(`${this.#waiting.size} groups of ended commands can not be removed`);
    const group = groupBelow(this.#place.group, `${this.#next++}`);
    try {
      makeGroup(group);
      limitGroup(group, limits);
    } catch (error) {
      removeGroup(group);
      throw none((error as Error).message);
    }
    return group;
  }

  #remove(): void {
    for (const group of this.#waiting) if (removeGroup(group)) this.#waiting.delete(group);
    if (this.#waiting.size > 0) this.#lookLater();
  }

  #lookLater(): void {
    if (this.#looks) return;
    this.#looks = true;
    this.#powers.after(this.#limits.watchdogMs, () => {
      this.#looks = false;
      for (const it of this.#watched) it.look();
      if (this.#waiting.size > 0) this.#remove();
      if (this.#watched.size > 0) this.#lookLater();
    });
  }
}

const none = (why: string): ToolError =>
  new ToolError('SANDBOX_UNAVAILABLE', `can't create a control group for this command: ${why}`);

interface Options {
  readonly group: CgroupFolders;
  readonly limits: Required<GroupLimits>;
  /** Tasks in the group that are not the command's. */
  readonly sandboxTasks: number;
  /** Descriptors of the files to which a thread in a command's group writes 0 to return to the host's group. */
  readonly home: readonly number[];
  readonly bounds: CommandBounds;
  /** Consecutive checks that find the command starved of memory before it is killed. */
  readonly looksMax: number;
  readonly enforcedBy: `cgroup ${CgroupVersion}`;
  readonly onWatch: (it: CommandGroup) => void;
  readonly onClose: (it: CommandGroup, group: CgroupFolders) => void;
}

/** Share of the memory limit above which a command's result says that it came close. */
export const NEAR = 0.9;
/** Pages read again between two checks that count as starving: 20 MiB/s. */
const REFAULTS_PER_LOOK = 256;

/** Moves this thread into a group. Throws SANDBOX_UNAVAILABLE. */
function enter(group: CgroupFolders): void {
  try {
    for (const file of joinFilesOf(group)) writeFileSync(file, '0');
  } catch (error) {
    throw new ToolError(
      'SANDBOX_UNAVAILABLE',
      `can't enter the control group of this command: ${(error as Error).message}`,
    );
  }
}

export class CommandGroup implements CommandWatch {
  readonly #options: Options;
  readonly #sandboxTasks: number;
  #onExceeded: (() => void) | undefined;
  #exceeded: ExceededLimit | undefined;
  #heldBytes: number | undefined;
  #refaults = 0;
  #starvedLooks = 0;

  constructor(options: Options) {
    this.#options = options;
    this.#sandboxTasks = options.sandboxTasks;
  }

  /** Whether bubblewrap must hold its command, with its last descriptor, until `admit` has run. */
  get holds(): boolean {
    return this.#options.group.version !== 'v1';
  }

  /** bubblewrap's arguments for holding the command; `fd` is the descriptor's number. */
  holdArgs(fd: number): readonly string[] {
    return this.holds ? ['--block-fd', `${fd}`] : [];
  }

  /**
   * Starts bubblewrap. In version 1 bubblewrap is in the group from its first instruction, since this thread enters the group
   * meanwhile: a thread moves itself in 10 µs per controller; any other way waits some milliseconds for all processors.
   */
  spawn(start: () => ChildProcess): ChildProcess {
    const { group, home } = this.#options;
    if (home.length === 0) return start();
    try {
      enter(group);
      return start();
    } finally {
      for (const fd of home) writeSync(fd, '0', 0);
    }
  }

  /** Version 2: moves a sandbox's init into the group, and then releases the held command. Throws SANDBOX_UNAVAILABLE. */
  async admit(init: number, child: ChildProcess): Promise<void> {
    if (!this.holds) return;
    try {
      // Not synchronous: the kernel takes some milliseconds, during which bubblewrap builds the sandbox.
      await writeFile(join(this.#options.group.memory, 'cgroup.procs'), `${init}`);
    } catch (error) {
      throw new ToolError(
        'SANDBOX_UNAVAILABLE',
        `can't move the command into its control group: ${(error as Error).message}`,
      );
    }
    (child.stdio.at(-1) as Writable).on('error', () => {}).end('.');
  }

  /** Checks the group many times a second from now on; calls `onExceeded` at most once. */
  watch(onExceeded: () => void): void {
    this.#onExceeded = onExceeded;
    this.#options.onWatch(this);
  }

  look(): void {
    this.#judge(true);
  }

  /** Everything used so far. */
  get measured(): MeasuredUse {
    const { cpuMs, peakBytes: most, tasks } = this.#judge(false);
    const isOver = this.#exceeded?.kind === 'memory';
    // Cached file pages are not memory that the command needs.
    const peakBytes = isOver || !this.#isMuch(most) ? most : (this.#heldBytes ?? most);
    const processes = tasks - this.#sandboxTasks;
    return {
      cpuMs,
      peakBytes,
      ...(processes > 0 && { processes }),
      exceeded: this.#exceeded,
    };
  }

  [Symbol.dispose](): void {
    this.#options.onClose(this, this.#options.group);
  }

  #isMuch(bytes: number | undefined): boolean {
    return bytes !== undefined && bytes > this.#options.limits.memoryBytes / 2;
  }

  /**
   * Ends a command that starves: its own data leave so little room for the files that it reads, its programs among them, that it reads
   * them again and again. It has not run out of memory, and would never finish.
   */
  #judgeHeld(): void {
    const { group, limits, looksMax } = this.#options;
    const { memoryBytes } = limits;
    const { bytes, refaults } = heldIn(group);
    this.#heldBytes = Math.max(this.#heldBytes ?? 0, bytes);
    const isStarved = bytes > NEAR * memoryBytes && refaults - this.#refaults > REFAULTS_PER_LOOK;
    this.#refaults = refaults;
    this.#starvedLooks = isStarved ? this.#starvedLooks + 1 : 0;
    if (this.#starvedLooks > looksMax) this.#exceed('memory', memoryBytes, bytes, 'watchdog');
  }

  #judge(whileItRuns: boolean): GroupUse {
    const { group, bounds, limits, enforcedBy } = this.#options;
    const use = useOf(group, limits);
    if (this.#exceeded) return use;
    const { memoryBytes } = limits;
    if (whileItRuns && this.#isMuch(use.peakBytes)) this.#judgeHeld();
    if (use.outOfMemory) this.#exceed('memory', memoryBytes, Math.max(memoryBytes, use.peakBytes ?? 0), enforcedBy);
    // The kernel also counts threads, which have a higher bound.
    const many = use.tasks - this.#sandboxTasks > bounds.processes;
    const processes = whileItRuns && many ? processesOf(group).length - this.#sandboxTasks : 0;
    if (processes > bounds.processes)
      this.#exceed('processes', bounds.processes, processes, use.outOfTasks ? enforcedBy : 'watchdog');
    const tasksMax = limits.tasks - this.#sandboxTasks;
    if (use.outOfTasks) this.#exceed('processes', tasksMax, tasksMax + 1, enforcedBy);
    if (use.cpuMs > bounds.cpuMs) this.#exceed('cpu', bounds.cpuMs, use.cpuMs, 'watchdog');
    return use;
  }

  #exceed(kind: ExceededLimit['kind'], limit: number, used: number, enforcedBy: ExceededLimit['enforcedBy']): void {
    if (this.#exceeded) return;
    this.#exceeded = { kind, limit, used, enforcedBy };
    this.#onExceeded?.();
  }
}
