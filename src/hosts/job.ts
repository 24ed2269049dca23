/** The messages between the gateway and a tier host: plain data in frames of the protocol's codec, on fd 3. */

import type { Denial, FileChange, HostTier, Verdict, WithheldPaths } from '../base/call.ts';
import type { WireError } from '../base/errors.ts';
import type { CommandBounds, Limits } from '../base/limits.ts';
import type { PluginCode } from '../base/plugin-code.ts';
import type { PreviewReport } from '../base/preview.ts';
import type { Rule } from '../policy/schema.ts';
import type { CommandGroupParent } from '../sandbox/cgroup/cgroup.ts';
import type { HomeNames } from '../sandbox/command/homes.ts';
import type { Identity } from '../sandbox/git/commit-author.ts';
import type { TakenOver } from '../sandbox/git/config/take-over.ts';
import type { Masks } from '../sandbox/masks.ts';
import type { CommandParts } from '../sandbox/sandbox.ts';
import type { FetchedPage } from '../tools/context/page.ts';
import type { BackgroundJob } from './background/background-job.ts';
import type { JournalReport, MissingPath } from './shadow/journal-report.ts';
import type { ShadowSetup } from './shadow/shadow-messages.ts';

/** A function of a tool that runs before its `run`, or in place of it. */
export type Step = 'preview' | 'resolve' | 'plan' | 'prepare';

/** A call of a tool. */
export interface ToolJob {
  readonly tool: string;
  /** Already checked against the tool's schema by the gateway; the host trusts it. */
  readonly input: unknown;
  /** The step that is wanted; `run` if absent. */
  readonly step?: Step;
  /** The tool's plan for this call, or the answers to its requests. */
  readonly planned?: unknown;
  /** Hashes of the files as a person saw them, which the call may replace; absent if nobody was asked. Null: no such file. */
  readonly preImages?: readonly { readonly path: string; readonly hash: string | null }[] | undefined;
  /** The tool's state for the workspace. */
  readonly state?: unknown;
  /** Id of the preview whose overlay its command changes instead of the workspace. */
  readonly overlay?: string;
  /** Id of the preview that the job is about. */
  readonly kept?: string | undefined;
}

/** A tool reads a page, in a host without workspace and network. */
export interface PageJob extends Pick<ToolJob, 'tool' | 'input'> {
  readonly page: FetchedPage;
}

/** A program runs in an isolate host; a plugin instead of the tool, in a plugin host. */
export interface ProgramJob extends Pick<ToolJob, 'tool' | 'input'> {
  readonly isolate: IsolateBounds;
  readonly plugin?: PluginCode;
}

/** The calls that were cut off are rolled back, by their names in the spool. */
export interface RollBackJob {
  readonly rollBack: { readonly folder: string; readonly keys: readonly string[] };
}

/** Something about commands in the background. */
export interface BackgroundWork {
  readonly background: BackgroundJob;
}

/** The health checks of these tools are run. */
export interface HealthJob {
  readonly health: readonly string[];
}

/** What a host is to do. */
export type Work = ToolJob | PageJob | ProgramJob | RollBackJob | BackgroundWork | HealthJob;

/** The terms on which a host does its work. */
export interface JobTerms {
  /** Targets that a person approved for this call: rules that ask, and protected names, do not hold them from it. */
  readonly lifted?: readonly string[];
  /** Whether the job is read-only: its programs see the workspace read-only. */
  readonly readOnly?: boolean;
  /** CPU time in ms that the job may use of its thread, if a policy bounds it; not for execute hosts. */
  readonly cpuMs?: number;
  /** The undo journal of the job's changes: the workspace's spool, and the journal's name in it. */
  readonly journal?: { readonly folder: string; readonly key: string };
  /** The session, for tools that keep something between calls, and how many things the host may keep. */
  readonly keeper?: { readonly session: string; readonly keptMax: number } | undefined;
  /** What a command must not see or change; this and the next ones are for execute hosts. */
  readonly masks?: Masks;
  /** What a command may use. */
  readonly bounds?: CommandBounds;
  /** Unix sockets of the workspace that the command must not reach; absent if the command can't make any itself. */
  readonly sockets?: readonly string[] | undefined;
  /** The command's HOME and /tmp. */
  readonly home?: HomeNames | undefined;
  /** Identifies the command to the egress proxy, if it may connect. */
  readonly egressToken?: string;
  /** Whether the person signs commits, and the program at `sign` of the proxy may sign one. */
  readonly signs?: true;
  /** Ports of the command's loopback that lead to services of the machine. */
  readonly services?: readonly number[] | undefined;
}

export type JobRequest<Kind extends Work = Work> = JobTerms & Kind;

/** `id` is the number of the job in its host. */
export type Job<Kind extends Work = Work> = { readonly id: number } & JobRequest<Kind>;

/** What a program in an isolate may use and call. */
export interface IsolateBounds {
  readonly memoryMb: number;
  readonly cpuMs: number;
  /** The most bytes of the program's value as JSON. */
  readonly resultBytes: number;
  /** Names of the tools that the program may call. */
  readonly tools: readonly string[];
}

/** A call that a program makes. */
export interface ChildAsk {
  /** Id of the job. */
  readonly id: number;
  /** Number of the call in the program. */
  readonly call: number;
  readonly tool: string;
  readonly input: unknown;
}

const LOG_LEVELS = ['log', 'info', 'warn', 'error'] as const;

/** A line that a program writes to its console. */
export interface LogLine {
  readonly level: (typeof LOG_LEVELS)[number];
  readonly text: string;
}

export const isLogLevel = (it: unknown): it is LogLine['level'] => LOG_LEVELS.includes(it as LogLine['level']);

/** The data or the error of a program's call. */
export interface ChildAnswer {
  readonly id: number;
  readonly call: number;
  readonly data?: unknown;
  readonly error?: WireError;
}

/** The path rules of a session's policy for hosts and commands. Plain data. */
export interface PathView {
  /** Equal for equal rules; '' for none. */
  readonly key: string;
  readonly rules: readonly Rule[];
  /** Home directory that `~/` in a rule means; absolute, or '' if there are no rules. */
  readonly home: string;
  /** Folders outside of the workspace that commands see read-only, beside the toolchains; absolute. */
  readonly folders?: readonly string[] | undefined;
  /** The configured workspace, if the host's workspace lies in it; rules are relative to it, whichever part of it a session works in. */
  readonly root?: string;
}

/** The state of a file or directory when a job read it. */
export interface Witness {
  /** Relative to the workspace, as named by the job. */
  readonly path: string;
  /** Device, inode, size, mtime and ctime in nanoseconds. */
  readonly mark: string;
  /** Whether the path is a link that was not followed. */
  readonly isLink?: boolean;
}

/** Why changes are unknown: more than could be followed, no watch possible, or the watch was busy. */
export type FilesUnknown = 'flood' | 'unwatched' | 'late';

/** The files that changed while a command ran. */
export type FilesChanged =
  | { readonly files: readonly FileChange[]; readonly total: number }
  | { readonly unknown: FilesUnknown };

/** What commands of a job met in their sandboxes; the receiver checks it. */
export interface CommandFacts {
  /** Accesses that were denied to them. */
  denied?: Denial[];
  /** Ports of their loopback that they connected to and at which nothing listened. */
  refusedPorts?: number[];
  /** Paths that a failed command could not see or change. */
  withheld?: WithheldPaths;
  /** Files that git tracks and that were hidden from the command: how many, and the first of them. */
  trackedHidden?: { readonly count: number; readonly first: readonly string[] };
  /** Whether git in the command failed to write a repository's config, which commands see read-only. */
  gitConfigHeld?: boolean;
  /** Whether a program in the command reported that a file would have become too large. */
  fileLimitMet?: boolean;
  /** A path of another user that a failed command was not allowed to change. */
  foreignPath?: string;
  /** The outcome of the commands' changes to configs of repositories. */
  gitConfigs?: readonly TakenOver[];
  /** Whether a command came close to its memory limit. */
  memoryNear?: boolean;
  /** Whether the command's scratch space was full at some time. */
  scratchFull?: boolean;
  /** Parts of the command's HOME that were removed before it started. */
  homeRemoved?: readonly string[];
}

export interface JobUsage {
  cpuMs: number;
  outputBytes: number;
  peakBytes?: number;
  processes?: number;
  verdict: Verdict;
  enforcedBy: string;
  truncatedBytes?: number | undefined;
  /** Real cost in US dollars, if the tool knows it. */
  costUsd?: number;
  filesChanged?: readonly FileChange[] | undefined;
  /** Number of changed files, if not all are listed. */
  filesChangedTotal?: number | undefined;
  /** Why the changed files of a command are unknown. */
  filesUnknown?: FilesUnknown;
  /** What its commands met; absent for a job without them. */
  command?: CommandFacts;
  /** The host's report. */
  journal?: JournalReport | undefined;
  /** What its command did in an overlay, as the host reports it; the receiver checks it. */
  preview?: PreviewReport | undefined;
  /** Whether the call can be undone, by what the undo journal's store accepted. */
  undo?: JournalReport['undo'] | undefined;
  /** What can't be undone of a command, and why: the first paths, and how many there are if not all are listed. */
  undoMissing?: readonly MissingPath[];
  undoMissingTotal?: number;
  /** Everything that the job read, if known. */
  witnesses?: Witness[] | undefined;
}

export type JobResult =
  | { readonly ok: true; readonly data: unknown; readonly usage: JobUsage; readonly state?: unknown }
  | { readonly ok: false; readonly error: WireError; readonly usage: JobUsage };

/** The sandbox of a command in an execute host. */
export interface CommandSandbox extends Omit<CommandParts, 'imageArgs'> {
  readonly environment: Record<string, string>;
}

export interface ThreadsSetup {
  /** Threads that run at once. */
  readonly max: number;
  /** Jobs that one thread runs at once; 1 unless its tools mostly wait. */
  readonly jobsPerThread: number;
  /** Threads that can be started over the life of the host: each takes a socket of its own with it. */
  readonly starts: number;
  /** Descriptor of the first thread's socket in the host; those of the others follow. */
  readonly firstFd: number;
}

/** The first frame that a host gets: everything that it may know. */
export interface HostSetup {
  readonly tier: HostTier;
  /** Absolute path; absent if the tier sees no workspace. */
  readonly workspace?: string;
  readonly view: PathView;
  readonly limits: Limits;
  readonly command?: CommandSandbox;
  /** The parent of the commands' control groups; absent if a watchdog bounds commands instead. */
  readonly groups?: CommandGroupParent | undefined;
  /** The person's git identity, for execute hosts. */
  readonly identity?: Identity | undefined;
  /** The threads of a tier host; absent for other hosts, whose jobs come on their only socket. */
  readonly threads?: ThreadsSetup;
  /** For write hosts that keep what commands change. */
  readonly shadow?: ShadowSetup;
  /** The server of a provider host, and how to reach it. */
  readonly provider?: object;
  /** The browser of a browser host, and how it reaches the egress proxy. */
  readonly browser?: object;
}

/** Messages to the main thread of a host; hosts without threads get those of a thread there, too. */
export type ToHost =
  | { readonly setup: HostSetup }
  | { readonly answer: ChildAnswer }
  /** Starts the thread that knows what the workspace held before a command. */
  | { readonly startShadow: true }
  /** Starts a thread, by its number. */
  | { readonly startThread: number }
  /** Ends a thread that does not end its jobs, or that is not needed. */
  | { readonly endThread: number }
  /** Asks for the clocks of these threads. */
  | { readonly look: readonly number[] }
  | ToThread;

/** Messages to a thread of a host, on its own socket. */
export type ToThread =
  | { readonly run: Job }
  | { readonly abort: Abort }
  | { readonly taken: OutputTaken }
  /** Releases everything kept for a session. */
  | { readonly endSession: string };

/** Acknowledges bytes of a job's output, so that the host may send as many more. */
export interface OutputTaken {
  readonly id: number;
  readonly bytes: number;
}

/** Aborts a job. */
export interface Abort {
  readonly id: number;
  /** Milliseconds that a command gets to end after SIGTERM before it is killed. */
  readonly graceMs: number;
}

export interface HostOutput {
  readonly id: number;
  readonly stream: 'stdout' | 'stderr';
  readonly data: Uint8Array;
}

export type FromHost =
  /** The first message: the host runs in its sandbox and waits for its setup. */
  | { readonly up: true }
  /** A thread, or a host without threads, takes jobs. */
  | { readonly ready: true }
  | { readonly done: { readonly id: number; readonly result: JobResult } }
  | { readonly output: HostOutput }
  | { readonly ask: ChildAsk }
  | { readonly log: LogLine & { readonly id: number } }
  /** How many things the host keeps between calls. */
  | { readonly kept: number }
  /** Progress of a job, as the provider reports it. */
  | { readonly progress: JobProgress }
  /** A thread acknowledges the abort of this job: it is not stuck. */
  | { readonly heard: number }
  | { readonly threadEnded: ThreadEnded }
  /** Answers `look`; threads that have ended are left out. */
  | { readonly clocks: readonly ThreadClock[] }
  /** A provider host's report of its server; the receiver checks its shape. */
  | { readonly told: unknown };

/** The first message, sent before the host knows any limit. */
export const UP: FromHost = { up: true };
export const UP_FRAME_BYTES = 16;

export interface ThreadEnded {
  readonly thread: number;
  /** How many of the jobs that it was sent it had begun. */
  readonly begun: number;
  /** Whether its heap was full. */
  readonly outOfMemory: boolean;
}

/** What the kernel and the thread itself say about its CPU time. */
export interface ThreadClock {
  readonly thread: number;
  readonly cpuMs: number;
  readonly begun: number;
  /** The CPU time of the thread in ms when it began its newest job. */
  readonly begunMs: number;
}

export interface JobProgress {
  readonly id: number;
  readonly done: number;
  readonly total?: number | undefined;
  readonly message?: string;
}
