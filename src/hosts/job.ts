/** Plain data between the gateway and a tier host: what crosses fd 3, in frames of docs/protocol.md's codec. */
import type { Denial, FileChange, HostTier, Verdict, WithheldPaths } from '../call.ts';
import { isCode, type WireError } from '../errors.ts';
import type { CommandBounds, Limits } from '../limits.ts';
import type { PluginCode } from '../plugin-code.ts';
import type { Rule } from '../policy/schema.ts';
import type { CommandPlace } from '../sandbox/cgroup.ts';
import type { TakenOver } from '../sandbox/git-config/take-over.ts';
import type { Masks } from '../sandbox/masks.ts';
import { isRecord } from '../values.ts';

/** One call for a worker. */
export interface Job {
  /** Number of the job in its host. */
  readonly id: number;
  readonly tool: string;
  /** Checked by the tool's schema in the gateway; the host trusts it. */
  readonly input: unknown;
  /** Whether only what it would do is wanted. */
  readonly preview?: boolean;
  /** What it may replace: files as a person saw them; absent where nobody was asked. A hash of null: no such file. */
  readonly preImages?: readonly { readonly path: string; readonly hash: string | null }[];
  /** Whether it may change nothing: its programs see the workspace read-only. */
  readonly readOnly?: boolean;
  /** What its tool keeps of the workspace. */
  readonly state?: unknown;
  /** What a command of it may not see or change; for execute hosts. */
  readonly masks?: Masks;
  /** What a command of it may use; for execute hosts. */
  readonly bounds?: CommandBounds;
  /** Unix sockets of the workspace that its command may not reach; absent where that may make none itself. */
  readonly sockets?: readonly string[];
  /** Name of its command's home. */
  readonly home?: string;
  /** CPU time that it may take of its thread, where a policy says so; for other hosts than execute. */
  readonly cpuMs?: number;
  /** Whose it is, for tools that keep something between calls, and how many things this host may then keep. */
  readonly keeper?: { readonly session: string; readonly keptMax: number };
  /** By which the egress proxy knows its command, where that may connect. */
  readonly egressToken?: string;
  /** Of a program for an isolate host. */
  readonly isolate?: IsolateBounds;
  /** What runs instead of a tool, in a plugin host. */
  readonly plugin?: PluginCode;
  /** Where it keeps what it changes: the spool of the workspace, which its host holds, and its own name there. */
  readonly journal?: { readonly folder: string; readonly key: string };
  /** Instead of a tool: calls that were cut off, by their names in the spool, are taken back. */
  readonly rollBack?: { readonly folder: string; readonly keys: readonly string[] };
  /** Instead of a call: these tools are asked whether they could work. */
  readonly health?: readonly string[];
}

/** What a program in an isolate may use and call. */
export interface IsolateBounds {
  readonly memoryMb: number;
  readonly cpuMs: number;
  /** Its value as JSON. */
  readonly resultBytes: number;
  /** Names of the tools that it may call. */
  readonly tools: readonly string[];
}

/** A call that a program makes. */
export interface ChildAsk {
  /** Of the job. */
  readonly id: number;
  /** Its number in the program. */
  readonly call: number;
  readonly tool: string;
  readonly input: unknown;
}

const LOG_LEVELS = ['log', 'info', 'warn', 'error'] as const;

/** What a program writes to its console. */
export interface LogLine {
  readonly level: (typeof LOG_LEVELS)[number];
  readonly text: string;
}

export const isLogLevel = (it: unknown): it is LogLine['level'] => LOG_LEVELS.includes(it as LogLine['level']);

/** What came of it: its data, or the error. */
export interface ChildAnswer {
  readonly id: number;
  readonly call: number;
  readonly data?: unknown;
  readonly error?: WireError;
}

/** What a job says of its journal. */
export interface JournalReport {
  readonly undo: 'full' | 'partial' | 'none';
  readonly bytes: number;
  /** All that it changed, relative to the workspace, without links. */
  readonly paths: readonly string[];
}

/** The rules on paths that a session's policy holds its hosts and commands to. Plain data. */
export interface PathView {
  /** The same for the same rules; '' for none. */
  readonly key: string;
  readonly rules: readonly Rule[];
  /** What `~/` in a rule stands for; absolute, or '' where there are no rules. */
  readonly home: string;
  /** The daemon's workspace, where the host's lies in it: rules count from there, whichever part of it a session works in. */
  readonly root?: string;
}

/** A file or directory as it was when a job read it. */
export interface Witness {
  /** Relative to the workspace, as the job named it. */
  readonly path: string;
  /** Device, inode, size, times of content and of change in nanoseconds. */
  readonly mark: string;
  /** Whether a link at its end was not followed. */
  readonly isLink?: boolean;
}

/** More changed than could be followed, the workspace can't be watched, or its watch is busy. */
export type FilesUnknown = 'flood' | 'unwatched' | 'late';

/** What changed while a command ran. */
export type FilesChanged =
  | { readonly files: readonly FileChange[]; readonly total: number }
  | { readonly unknown: FilesUnknown };

export interface JobUsage {
  cpuMs: number;
  outputBytes: number;
  peakBytes?: number;
  processes?: number;
  verdict: Verdict;
  enforcedBy: string;
  truncatedBytes?: number;
  /** What it really cost, where the tool knows. */
  costUsd?: number;
  filesChanged?: readonly FileChange[];
  /** How many those are, where not all are listed. */
  filesChangedTotal?: number;
  /** Why a command's are not known. */
  filesUnknown?: FilesUnknown;
  /** What its commands were kept from. */
  denied?: Denial[];
  /** Paths that a failed command could not see or change. */
  withheld?: WithheldPaths;
  /** How many of the files that git tracks were hidden from its command. */
  trackedHidden?: number;
  /** Whether git in its command failed to write the config of a repository, which commands see read-only. */
  gitConfigHeld?: boolean;
  /** What became of its commands' changes of repositories' configs. */
  gitConfigs?: readonly TakenOver[];
  /** Whether a command came near the end of its memory. */
  memoryNear?: boolean;
  /** Whether the scratch space of a command was full at some time. */
  scratchFull?: boolean;
  /** Parts of the home of its command that were removed before. */
  homeRemoved?: readonly string[];
  /** As the host says. */
  journal?: JournalReport;
  /** Whether it can be undone, as the journal's store took it. */
  undo?: JournalReport['undo'];
  /** All that a job has read, where that is known. */
  witnesses?: Witness[];
}

export type JobResult =
  | { readonly ok: true; readonly data: unknown; readonly usage: JobUsage; readonly state?: unknown }
  | { readonly ok: false; readonly error: WireError; readonly usage: JobUsage };

/** What a worker gives back, and how many HostOutputs it sent before: they come by another port, and may come later. */
export interface JobReturn {
  readonly result: JobResult;
  readonly outputs: number;
}

/** How a command of an execute host is put in its sandbox: all of bwrap's arguments but cwd, environment and command. */
export interface CommandSandbox {
  readonly bwrap: string;
  readonly args: readonly string[];
  /** Absolute paths, read-only whatever the policy says. */
  readonly guarded: readonly string[];
  /** Folder on disk that holds the homes of its commands; absolute. */
  readonly homesFolder?: string;
  /** Bytes of the seccomp program, and of that of commands which may have Unix sockets of their own. */
  readonly filter: Uint8Array;
  readonly ownSocketsFilter: Uint8Array;
  readonly environment: Record<string, string>;
}

/** Whom commits are by, unless the repository says so itself. */
export interface Identity {
  readonly name?: string;
  readonly email?: string;
}

/** The first frame that a host gets: all that it may know. */
export interface HostSetup {
  readonly tier: HostTier;
  /** Absolute; absent where the tier sees no workspace. */
  readonly workspace?: string;
  readonly view: PathView;
  readonly limits: Limits;
  readonly command?: CommandSandbox;
  /** Where its commands get control groups; absent where a watchdog looks at them. */
  readonly groups?: CommandPlace;
  /** The person's, for execute hosts. */
  readonly identity?: Identity;
  /** Whether its jobs tell which files their commands changed. */
  readonly watches?: boolean;
  /** Jobs that one thread runs at once: 1, unless its tools only wait. */
  readonly jobsPerThread: number;
  readonly threads: number;
  /** Ways past the host's main thread to one of its own each; their descriptors follow the line to the gateway. */
  readonly lanes?: number;
  /** Which server a provider host speaks with, and how. */
  readonly provider?: object;
}

export type ToHost =
  | { readonly setup: HostSetup }
  | { readonly run: Job }
  | { readonly abort: Abort }
  | { readonly answer: ChildAnswer }
  | { readonly taken: OutputTaken }
  /** Lets go of all that is kept for a session. */
  | { readonly endSession: string }
  /** Has a thread serve one more lane. */
  | { readonly openLane: number }
  /** Ends the thread of a lane, which did not hear of an abort. */
  | { readonly endLane: number };

/** What goes by a lane, straight to its thread; what comes back is `done`, `heard` and `laneOpen`. */
export type ToLane = Extract<ToHost, { run: unknown } | { abort: unknown }>;

/** So many bytes more of a job's output are dealt with, so that so many more may be sent. */
export interface OutputTaken {
  readonly id: number;
  readonly bytes: number;
}

/** The end of a job before its time. */
export interface Abort {
  readonly id: number;
  /** How long a command that is asked to end may take before it is killed. */
  readonly graceMs: number;
}

export interface HostOutput {
  readonly id: number;
  readonly stream: 'stdout' | 'stderr';
  readonly data: Uint8Array;
}

export type FromHost =
  /** The first one: it runs, in its sandbox, and waits for its setup. */
  | { readonly up: true }
  | { readonly ready: true }
  | { readonly done: { readonly id: number; readonly result: JobResult } }
  | { readonly output: HostOutput }
  | { readonly ask: ChildAsk }
  | { readonly log: LogLine & { readonly id: number } }
  /** How many things it keeps between calls. */
  | { readonly kept: number }
  /** How far a job is, by the provider's word. */
  | { readonly progress: JobProgress }
  /** From now on the thread of a lane takes jobs. */
  | { readonly laneOpen: number }
  /** The thread of a lane heard of the abort of this job: it is not stuck. */
  | { readonly heard: number }
  /** The thread of a lane is gone. */
  | { readonly laneEnded: LaneEnded }
  /** What a provider host has to say of its server; whoever asked for it looks at its shape. */
  | { readonly told: unknown };

/** A host says it before it knows any limit. */
export const UP: FromHost = { up: true };
export const UP_FRAME_BYTES = 16;

export interface LaneEnded {
  readonly lane: number;
  /** Of the job that ended it, where it had no other. */
  readonly result?: JobResult;
}

export interface JobProgress {
  readonly id: number;
  readonly done: number;
  readonly total?: number;
  readonly message?: string;
}

/**
 * What a host sent, believed only as far as its shape goes: a host that was taken over can lie about its own calls,
 * and about nothing else. Undefined for anything that is none of ours.
 */
export function parseFromHost(message: unknown): FromHost | undefined {
  if (!isRecord(message)) return undefined;
  const { up, ready, done, output, kept, ask, log, progress, laneOpen, heard, laneEnded, told } = message;
  if (up === true) return { up };
  if (ready === true) return { ready };
  if (isRecord(output) && isOutput(output)) return { output };
  if (typeof kept === 'number' && Number.isSafeInteger(kept) && kept >= 0) return { kept };
  if (typeof laneOpen === 'number') return { laneOpen };
  if (typeof heard === 'number') return { heard };
  if (isRecord(laneEnded) && isLaneEnded(laneEnded)) return { laneEnded };
  if (isRecord(ask) && isAsk(ask)) return { ask };
  if (isRecord(log) && isLog(log)) return { log };
  if (isRecord(progress) && isProgress(progress)) return { progress };
  if (told !== undefined) return { told };
  if (isRecord(done) && typeof done.id === 'number' && isResult(done.result))
    return { done: { id: done.id, result: done.result } };
  return undefined;
}

/** Whether what a host says of its reading is of the right shape. */
export function isWitnesses(it: unknown, max: number): it is Witness[] {
  return (
    Array.isArray(it) &&
    it.length > 0 &&
    it.length <= max &&
    it.every((one) => isRecord(one) && typeof one.path === 'string' && typeof one.mark === 'string')
  );
}

/** Whether what a host says of its journal is of the right shape. */
export function isJournalReport(it: unknown, pathsMax: number): it is JournalReport {
  return (
    isRecord(it) &&
    (it.undo === 'full' || it.undo === 'partial' || it.undo === 'none') &&
    Number.isSafeInteger(it.bytes) &&
    (it.bytes as number) >= 0 &&
    Array.isArray(it.paths) &&
    it.paths.length <= pathsMax &&
    it.paths.every((path) => typeof path === 'string' && path !== '' && path.length <= PATH_CHARS_MAX)
  );
}

const PATH_CHARS_MAX = 4096;

const isOutput = (it: Record<string, unknown>): it is Record<string, unknown> & HostOutput =>
  typeof it.id === 'number' && (it.stream === 'stdout' || it.stream === 'stderr') && it.data instanceof Uint8Array;

const isLaneEnded = (it: Record<string, unknown>): it is Record<string, unknown> & LaneEnded =>
  typeof it.lane === 'number' && (it.result === undefined || isResult(it.result));

const isAsk = (it: Record<string, unknown>): it is Record<string, unknown> & ChildAsk =>
  typeof it.id === 'number' && Number.isSafeInteger(it.call) && typeof it.tool === 'string';

const isLog = (it: Record<string, unknown>): it is Record<string, unknown> & LogLine & { id: number } =>
  typeof it.id === 'number' && isLogLevel(it.level) && typeof it.text === 'string';
const isProgress = (it: Record<string, unknown>): it is Record<string, unknown> & JobProgress =>
  typeof it.id === 'number' &&
  typeof it.done === 'number' &&
  ['number', 'undefined'].includes(typeof it.total) &&
  (it.message === undefined || (typeof it.message === 'string' && it.message.length <= PROGRESS_CHARS_MAX));

/** Of a word on how far a job is. */
export const PROGRESS_CHARS_MAX = 300;

function isResult(it: unknown): it is JobResult {
  if (!isRecord(it) || !isRecord(it.usage) || typeof it.usage.cpuMs !== 'number') return false;
  if (it.ok === true) return 'data' in it;
  return it.ok === false && isRecord(it.error) && isCode(it.error.code) && typeof it.error.message === 'string';
}
