/** What a command is started with, and what it is started in. */
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import type { CommandBounds, Limits } from '../../base/limits.ts';
import type { GitIdentity } from '../git/commit-author.ts';
import type { GitCopies, GivenConfig } from '../git/config/copies.ts';
import type { GitView } from '../git/view.ts';
import type { ImageRoot } from '../image-root.ts';
import type { Masks } from '../masks.ts';
import type { CoveringMount } from '../mount.ts';
import type { Watchdog } from '../watchdog.ts';
import type { DiskWatch } from './disk-watch.ts';
import type { CommandGroup, CommandGroups } from './group.ts';
import type { HomeNames, Homes } from './homes.ts';
import type { OnPiece } from './output-pieces.ts';
import type { OutputPipe } from './output-pipe.ts';
import type { Overlay } from './overlay.ts';
import type { Rlimits } from './prologue.ts';
import type { Status } from './status.ts';

export interface CommandRequest {
  readonly command: string;
  /** A program and its arguments, run instead of the command line. */
  readonly argv?: readonly string[];
  /** Absolute, inside the workspace. */
  readonly cwd: string;
  readonly env: Record<string, string>;
  readonly stdin?: string | Readable;
  readonly workspace: string;
  /** Whether the command sees the workspace read-only. */
  readonly readOnly?: boolean;
  /** Whether the command is shown as root when root owns the workspace: git compares its user with the owner of files written outside. */
  readonly asOwner?: boolean;
  /** Bytes of standard output to return unchanged, from the start; the command is ended if both streams together exceed this. */
  readonly captureBytes?: number;
  /** With `captureBytes`: called with each piece of standard output, in memory that is used again. */
  readonly onReport?: (piece: Buffer) => void;
  /** With `captureBytes`: the most bytes of both streams together, if more than that. */
  readonly outputBytesMax?: number;
  /** What this command may not see or change, as the policy stands now. */
  readonly masks: Masks;
  /**
   * Called with each chunk, up to what a log may hold. If it returns a promise, nothing more is read until that
   * settles, and the command blocks in its write.
   */
  readonly onOutput?: OnPiece;
  readonly bounds: CommandBounds;
  /** Unix sockets of other processes that it may not reach, relative to the workspace; absent if it may not create any itself. */
  readonly sockets?: readonly string[] | undefined;
  /** The command's home on disk; if absent, it gets one of its own in memory. */
  readonly home?: HomeNames | undefined;
  /** The command changes this instead of the workspace. */
  readonly overlay?: Overlay;
  /** The image whose program `argv` is; the machine's own programs run if absent. */
  readonly image?: ImageRoot | undefined;
  /** Token that identifies the command to the egress proxy; absent for a command without it. */
  readonly egressToken?: string;
  /** Ports of its loopback that lead to services of the machine, by the proxy. */
  readonly services?: readonly number[];
  /** Ends the command; the reason may be an `Aborted`. */
  readonly signal: AbortSignal;
}

/** A sandbox that waits for the next command. */
export interface Waiting {
  /** The sandbox, if it fits the command; undefined if none does. */
  take(request: CommandRequest, shape: Shape): PipedSandbox | Promise<PipedSandbox | undefined> | undefined;
  /** Prepares one for a command like this one after `delayMs` milliseconds, unless such a command begins before. */
  prepareIn(delayMs: number, like: CommandRequest): void;
}

export interface CommandSetup {
  readonly bwrap: string;
  /** bwrap arguments from bubblewrap.ts, without directory and environment. */
  readonly args: readonly string[];
  /** The same for programs of images; absent where none run. */
  readonly imageArgs?: readonly string[];
  /** Absolute paths, read-only whatever the masks say. */
  readonly guarded: readonly string[];
  /** File with the seccomp program: each bwrap reads its descriptor to the end. */
  readonly filterFile: string;
  /** The same for commands that may create Unix sockets. */
  readonly ownSocketsFilterFile: string;
  readonly environment: Record<string, string>;
  readonly limits: Limits;
  readonly rlimits: Rlimits;
  /** Watches all commands of this process. */
  readonly watchdog: Watchdog;
  /** Watches the disks of all commands of this process. */
  readonly disks: DiskWatch;
  /** If present, the kernel counts and limits what commands use, and the watchdog need not. */
  readonly groups?: CommandGroups | undefined;
  /** What git sees of masked files. */
  readonly git?: GitView | undefined;
  /** Default author of commits; absent if the person's name is not known. */
  readonly gitIdentity?: GitIdentity | undefined;
  /** Homes on disk; absent if each command has one in memory. */
  readonly homes?: Homes | undefined;
  /** Folder that holds previews, and copies of folders. */
  readonly previewsFolder?: string;
  /** Builds a sandbox ahead for the next command; absent if no more commands will come. */
  readonly waiting?: Waiting;
}

/** A sandbox that is being built, or has been. Disposing of it releases its group. */
export interface StartedSandbox extends Disposable {
  readonly shape: Shape;
  readonly child: ChildProcess;
  readonly status: Status;
  readonly group: CommandGroup | undefined;
  /** Settles when its init is in its group. Rejects with SANDBOX_UNAVAILABLE; never settles if the sandbox was not built. */
  readonly admitted: Promise<void>;
  /** Copies of repository configs in this sandbox. */
  readonly copies: GitCopies;
  /** Says to which call its connections belong; before that none is served. */
  give(egressToken: string): void;
  /** Ports of its loopback that it connected to and at which nothing listened, so far. */
  readonly refusedPorts: ReadonlySet<number>;
}

/** A sandbox whose program writes to pipes. Disposing of it releases the pipes that nobody reads, too. */
export interface PipedSandbox extends StartedSandbox {
  readonly stdout: OutputPipe;
  readonly stderr: OutputPipe;
}

/** What a sandbox is built from, as far as commands differ in it. */
export interface Shape {
  readonly bounds: CommandBounds;
  readonly cwd: string;
  /** Identity of that directory: a process stays in it whatever happens to its name. */
  readonly cwdIs: string;
  /** Whether it has the egress proxy. */
  readonly hasDoor: boolean;
  /** Ports that lead to services of the machine. */
  readonly services: readonly number[];
  readonly asOwner: boolean;
  readonly image?: ImageRoot | undefined;
  /** File that holds its seccomp program. */
  readonly filterFile: string;
  /** bubblewrap arguments that mount its home. */
  readonly home: readonly string[];
  /** Folder that is its /tmp, if that lasts longer than it. */
  readonly tmp?: string | undefined;
  /** Mounts over the workspace, in order. */
  readonly masks: readonly CoveringMount[];
  /** What those masks hide. */
  readonly withheld: Masks;
  /** Hidden files that git tracks. */
  readonly tracked: readonly string[];
  /** Repository configs that it has copies of. */
  readonly gitConfigs: readonly GivenConfig[];
  readonly workspace: string;
}
