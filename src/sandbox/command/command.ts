/**
 * Runs one command in a sandbox of its own: starts it, feeds it, reads its output up to its bounds, ends it. Runs in an execute host.
 * Everything that a command starts lives in its pid namespace and dies with it, `setsid` or not.
 */
import type { ChildProcess } from 'node:child_process';
import type { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import type { Denial } from '../../call.ts';
import { ToolError } from '../../errors.ts';
import type { CommandBounds, Limits } from '../../limits.ts';
import { type Powers, settlesWithin, type Timer } from '../../powers.ts';
import type { GitIdentity } from '../git/commit-author.ts';
import type { TakenOver } from '../git/config/take-over.ts';
import type { GitView } from '../git/view.ts';
import type { Masks } from '../masks.ts';
import type { Exceeded, Seen, Watch, Watchdog } from '../watchdog.ts';
import type { CommandGroups } from './group.ts';
import { HeadAndTail } from './head-and-tail.ts';
import type { HomeStay, Homes } from './homes.ts';
import { type NetworkEvidence, openNetworkEvidence } from './network-evidence.ts';
import { type OnPiece, OutputPieces } from './output-pieces.ts';
import { FLOOD_PIPE_BYTES } from './output-pipe.ts';
import type { Rlimits } from './prologue.ts';
import { ScratchWatch } from './scratch.ts';
import { type Begun, begin, shapeOf } from './start.ts';
import type { Status } from './status.ts';
import type { WaitingSandbox } from './waiting-sandbox.ts';

/** Why a command must end; it may get SIGTERM first. */
export class Aborted extends ToolError {
  /** Time from SIGTERM to SIGKILL; 0 sends SIGKILL at once. */
  readonly graceMs: number;

  constructor(graceMs: number) {
    super('CANCELLED', 'aborted');
    this.graceMs = graceMs;
  }
}

export interface CommandRequest {
  readonly command: string;
  /** A program and its arguments, run instead of the command line. */
  readonly argv?: readonly string[];
  /** Absolute, inside the workspace. */
  readonly cwd: string;
  readonly env: Record<string, string>;
  readonly stdin?: string;
  readonly workspace: string;
  /** Whether the command sees the workspace read-only. */
  readonly readOnly?: boolean;
  /** Whether the command is shown as root when root owns the workspace: git compares its user with the owner of files written outside. */
  readonly asOwner?: boolean;
  /** Bytes of standard output to return unchanged, from the start; the command is ended if both streams together exceed this. */
  readonly captureBytes?: number;
  /** What this command may not see or change, as the policy stands now. */
  readonly masks: Masks;
  /**
   * Called with each chunk, up to what a log may hold. If it returns a promise, nothing more is read until that
   * settles, and the command blocks in its write.
   */
  readonly onOutput?: OnPiece;
  readonly bounds: CommandBounds;
  /** Unix sockets of other processes that it may not reach, relative to the workspace; absent if it may not create any itself. */
  readonly sockets?: readonly string[];
  /** Name of its home on disk; if absent, the command gets its own home in memory. */
  readonly home?: string;
  /** Token that identifies the command to the egress proxy; absent for a command that may not connect. */
  readonly egressToken?: string;
  /** Ends the command; the reason may be an `Aborted`. */
  readonly signal: AbortSignal;
}

export interface CommandSetup {
  readonly bwrap: string;
  /** bwrap arguments from bubblewrap.ts, without directory and environment. */
  readonly args: readonly string[];
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
  /** If present, the kernel counts and limits what commands use, and the watchdog need not. */
  readonly groups?: CommandGroups;
  /** What git sees of masked files. */
  readonly git?: GitView;
  /** Default author of commits; absent if the person's name is not known. */
  readonly gitIdentity?: GitIdentity;
  /** Homes on disk; absent if each command has one in memory. */
  readonly homes?: Homes;
  /** Builds a sandbox ahead for the next command; absent if no more commands will come. */
  readonly waiting?: WaitingSandbox;
}

export interface CommandOutcome {
  /** 128 + n if signal n ended it; undefined if we killed it. */
  readonly exitCode: number | undefined;
  readonly signal?: string;
  readonly stdout: string;
  /** Standard output unchanged, if `captureBytes` was set. */
  readonly captured?: Buffer;
  readonly stderr: string;
  readonly durationMs: number;
  /** What its processes used, as far as observed; at least what its waited-for processes used. */
  readonly used: Seen;
  /** Accesses that the kernel reports as denied. */
  readonly denied: readonly Denial[];
  /** What its sandbox hid or made read-only. */
  readonly withheld: Masks;
  /** Number of hidden files that git tracks. */
  readonly tracked: number;
  /** Which of its changes of repository configs were taken over. */
  readonly gitConfigs: readonly TakenOver[];
  /** Whether its scratch space was ever full. */
  readonly scratchFull: boolean;
  /** Parts of its home that were removed before it began. */
  readonly homeRemoved: readonly string[];
  readonly outputBytes: number;
  readonly truncated: boolean;
  /** Why the command was killed, if it was; for `exceeded`, `used` tells the limit. */
  readonly ended: 'exit' | 'aborted' | 'output' | 'exceeded';
}

const SIGNALS = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]));

/** Runs a command to its end; also resolves if it was killed. Throws SANDBOX_UNAVAILABLE if its sandbox could not be built. */
export async function runCommand(
  request: CommandRequest,
  setup: CommandSetup,
  powers: Powers,
): Promise<CommandOutcome> {
  const startedAt = powers.monotonicMs();
  const taken = takeOrBegin(request, setup, powers);
  using begun = taken instanceof Promise ? await taken : taken;
  setup.waiting?.prepareIn(SHORT_MS);
  const { child, group, status } = begun;
  const output = collect(begun, request, { limits: setup.limits, powers });
  feed(child, request.stdin);
  const kill = () => status.kill(child);
  using home = enterHome(request, setup, kill);
  using scratch = new ScratchWatch(setup.limits, powers);
  let watch: Watch | undefined;
  let network: NetworkEvidence | undefined;
  let notAdmitted: Error | undefined;
  group?.watch(kill);
  status.onInit((init) => {
    network = openNetworkEvidence(init);
    if (!request.readOnly) scratch.begin(init);
    if (!group) watch = setup.watchdog.watch({ init, bounds: request.bounds, onExceeded: kill });
  });
  begun.admitted.catch((error: Error) => {
    notAdmitted = error;
    kill();
  });
  output.onOverflow = kill;
  using _ = stopOnAbort(request.signal, { status, kill, powers });
  try {
    const closed = Promise.all([child, ...output.pipes].map((it) => closeOf(it)));
    const failure = await ended(child);
    const cpuMs = group ? 0 : cpuSinceLastMs();
    output.release();
    // A process that bwrap has not killed yet may hold the pipes.
    await settlesWithin(closed, setup.limits.commandDrainMs, powers);
    output.flush();
    if (failure) throw new ToolError('SANDBOX_UNAVAILABLE', `bubblewrap could not be started: ${failure.message}`);

    // bwrap's own report may take 100 ms on a slow machine; no other process can hold that pipe.
    await settlesWithin(status.ended, STATUS_WAIT_MS, powers);
    const { exitCode } = status;
    const gitConfigs = await begun.copies.takeOver();
    const signal = signalOf(exitCode);
    const used = usedOf((group ?? watch)?.seen, { cpuMs, signal, bounds: request.bounds, home });
    const overflowed = output.overflowed ? 'output' : undefined;
    const killed = request.signal.aborted ? 'aborted' : used.exceeded ? 'exceeded' : overflowed;
    if (notAdmitted && !killed) throw notAdmitted;
    if (exitCode === undefined && killed === undefined) throw notBuilt(output.stderr.text());
    return {
      exitCode: killed ? undefined : exitCode,
      ...(signal !== undefined && { signal }),
      ...toTold(output, request),
      durationMs: Math.round(powers.monotonicMs() - startedAt),
      used,
      ...{ denied: network?.denied() ?? [], withheld: begun.shape.withheld, tracked: begun.shape.tracked },
      ...{ gitConfigs, scratchFull: scratch.wasFull, homeRemoved: home?.removed ?? [] },
      ended: killed ?? 'exit',
    };
  } finally {
    watch?.[Symbol.dispose]();
    network?.[Symbol.dispose]();
    for (const stream of [...child.stdio, ...output.pipes]) stream?.destroy();
    // After the result has been sent.
    setup.waiting?.prepareIn(0);
  }
}

/** Ends a command when its caller aborts; sends SIGTERM first if there is a grace period. */
function stopOnAbort(
  signal: AbortSignal,
  { status, kill, powers }: { status: Status; kill: () => void; powers: Powers },
): Disposable {
  let grace: Timer | undefined;
  const stop = () => {
    const graceMs = signal.reason instanceof Aborted ? signal.reason.graceMs : 0;
    if (graceMs > 0 && status.ask()) grace = powers.after(graceMs, kill);
    else kill();
  };
  signal.addEventListener('abort', stop);
  if (signal.aborted) stop();
  return {
    [Symbol.dispose]() {
      signal.removeEventListener('abort', stop);
      grace?.cancel();
    },
  };
}

/** Enters the command's home; undefined if the home is in memory, or if the command is read-only and has none. */
export function enterHome(
  { home, readOnly = false }: Pick<CommandRequest, 'home' | 'readOnly'>,
  { homes }: Pick<CommandSetup, 'homes'>,
  onExceeded: () => void,
): HomeStay | undefined {
  return home === undefined || readOnly ? undefined : homes?.enter(home, onExceeded);
}

/** Most commands take less time, and would compete with the build of the next sandbox; a longer command suffers little from it. */
const SHORT_MS = 15;

const signalOf = (exitCode = 0): string | undefined =>
  exitCode > 128 ? SIGNALS.get((exitCode - 128) as never) : undefined;

/** Returns synchronously if git's index needs no settling. */
function takeOrBegin(request: CommandRequest, setup: CommandSetup, powers: Powers): Begun | Promise<Begun> {
  const settling = setup.git?.settle(request.masks);
  return settling
    ? settling.then(() => takeOrBeginNow(request, setup, powers))
    : takeOrBeginNow(request, setup, powers);
}

function takeOrBeginNow(request: CommandRequest, setup: CommandSetup, powers: Powers): Begun | Promise<Begun> {
  const shape = shapeOf(request, setup);
  const taken = setup.waiting?.take(request, shape);
  if (!(taken instanceof Promise)) return taken ?? begin(shape, request, setup, powers);
  // The masks may have changed meanwhile.
  return taken.then((it) => it ?? begin(shapeOf(request, setup), request, setup, powers));
}

function toTold({ stdout, stderr }: Output, { captureBytes }: CommandRequest) {
  return {
    stdout: captureBytes === undefined ? stdout.text() : '',
    ...(captureBytes !== undefined && { captured: stdout.head() }),
    stderr: stderr.text(),
    outputBytes: stdout.bytesTotal + stderr.bytesTotal,
    truncated: stdout.truncated || stderr.truncated,
  };
}

/** The watchdog reports the exceeded limit; for a limit that the kernel enforces, a signal that only that limit sends reveals it. */
function usedOf(
  seen: Seen | undefined,
  of: { cpuMs: number; signal: string | undefined; bounds: CommandBounds; home: HomeStay | undefined },
): Seen {
  const { cpuMs, signal, bounds, home } = of;
  const used = { ...seen, cpuMs: Math.max(cpuMs, seen?.cpuMs ?? 0) };
  const byRlimit = (kind: Exceeded['kind'], limit: number, amount: number): Seen => ({
    ...used,
    exceeded: { kind, limit, used: amount, enforcedBy: 'rlimit' },
  });
  if (used.exceeded) return used;
  if (home?.exceeded) return { ...used, exceeded: home.exceeded };
  const fileBytes = bounds.fileMb * 1024 * 1024;
  if (signal === 'SIGXFSZ') return byRlimit('file', fileBytes, fileBytes);
  if (signal === 'SIGXCPU') return byRlimit('cpu', bounds.cpuMs, used.cpuMs);
  return used;
}

interface Output {
  readonly stdout: HeadAndTail;
  readonly stderr: HeadAndTail;
  readonly pipes: readonly Readable[];
  overflowed: boolean;
  onOverflow: () => void;
  /** From now on reads everything at once: the command has ended, and its pipes hold little. More comes if it is being killed. */
  release(): void;
  /** Passes on what was read so far. */
  flush(): void;
}

function collect(
  begun: Begun,
  request: CommandRequest,
  { limits, powers }: { limits: Limits; powers: Powers },
): Output {
  const { onOutput, bounds, captureBytes } = request;
  const keptBytes = Math.ceil(bounds.outputBytes / 2);
  const bytesMax = captureBytes ?? limits.commandOutputBytesMax;
  const pipes: Readable[] = [];
  const output: Output = {
    pipes,
    stdout: new HeadAndTail(captureBytes === undefined ? keptBytes : 2 * captureBytes),
    stderr: new HeadAndTail(keptBytes),
    overflowed: false,
    onOverflow() {},
    flush() {
      pieces?.flush();
    },
    release() {
      // The contents of the pipes, and what was just read.
      ahead = limits.outputWindowBytes + pipes.length * FLOOD_PIPE_BYTES;
      resume();
    },
  };
  /** Bytes that may be sent without waiting for room after the command has ended. */
  let ahead: number | undefined;
  const resume = () => {
    for (const pipe of pipes) pipe.resume();
  };
  const pauseUntil = (room: Promise<void>) => {
    if (ahead !== undefined) return;
    for (const pipe of pipes) pipe.pause();
    void room.then(resume);
  };
  const pieces = onOutput && new OutputPieces({ onPiece: onOutput, onFull: pauseUntil }, powers);
  const total = () => output.stdout.bytesTotal + output.stderr.bytesTotal;
  for (const stream of ['stdout', 'stderr'] as const) {
    const kept = output[stream];
    const take = (chunk: Buffer) => {
      if (total() < limits.resultLogBytesMax && (ahead === undefined || ahead > 0)) {
        if (ahead !== undefined) ahead -= chunk.length;
        pieces?.push(stream, chunk);
      }
      kept.push(chunk);
      if (output.overflowed || total() <= bytesMax) return;
      output.overflowed = true;
      output.onOverflow();
    };
    const pipe = begun[stream].read(begun.child[stream], take);
    if (pipe) pipes.push(pipe);
  }
  return output;
}

function feed(child: ChildProcess, stdin: string | undefined): void {
  if (stdin === undefined) return;
  // EPIPE: the command ended without reading all of it, as `head -1` does.
  (child.stdin as Writable).on('error', () => {}).end(stdin);
}

function ended(child: ChildProcess): Promise<Error | undefined> {
  return new Promise((resolve) => {
    child.once('error', resolve);
    child.once('exit', () => resolve(undefined));
  });
}

const closeOf = (it: EventEmitter): Promise<void> => new Promise((resolve) => it.once('close', () => resolve()));

function notBuilt(stderr: string): ToolError {
  const complaint = stderr.trim().split('\n').at(-1) ?? '';
  return new ToolError('SANDBOX_UNAVAILABLE', `the sandbox of this command could not be built: ${complaint}`, {
    suggestion: 'Run `ringfence status`; bubblewrap may have been removed or changed since the daemon started.',
  });
}

/** Wait for a bwrap that was killed while its init lived on for a moment. */
const STATUS_WAIT_MS = 1000;

const TICKS_PER_SECOND = 100;
let accountedTicks = 0;

/**
 * Gives the CPU time of the commands that ended since the last call: the host's total of waited-for children, which includes a command
 * and its descendants once it is reaped. Two that end in the same turn of the event loop may be mixed up. Ticks are 10 ms.
 */
function cpuSinceLastMs(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]?.split(' ') ?? [];
  const ticks = Number(fields[13]) + Number(fields[14]);
  const since = ticks - accountedTicks;
  accountedTicks = ticks;
  return (since * 1000) / TICKS_PER_SECOND;
}
