/**
 * One tier host: a confined child process, its frames, its running calls. The process may be killed at any time; its
 * calls then end as crashed. It can't stop the gateway: its frames are bounded and checked like a stranger's.
 */
import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import type { HostTier } from '../call.ts';
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers, Timer } from '../powers.ts';
import { decode } from '../protocol/codec.ts';
import { FrameReader, FrameWriter, toFrame } from '../protocol/frame.ts';
import { HOST_FRAMES_FD } from '../sandbox/bubblewrap.ts';
import { FLOOD_PIPE_BYTES } from '../sandbox/command/output-pipe.ts';
import type { Stdio } from '../sandbox/launcher.ts';
import type { ConfinedProcess } from '../sandbox/sandbox.ts';
import { killQuietly, leafOf, prefer } from './host-process.ts';
import {
  type ChildAnswer,
  type ChildAsk,
  type FromHost,
  type HostOutput,
  type HostSetup,
  type Job,
  type JobProgress,
  type JobResult,
  type LaneEnded,
  type LogLine,
  parseFromHost,
  type ToHost,
  type ToLane,
} from './job.ts';
import { type Lane, Lanes } from './lanes.ts';
import { graceOf, toEnd } from './shutdown.ts';
import { StderrLog } from './stderr-log.ts';

export type JobRequest = Omit<Job, 'id'>;

export interface RunOptions {
  readonly signal: AbortSignal;
  /**
   * Receives output; copies what it keeps of `data`, since the memory is reused. A returned promise delays the
   * acknowledgement to the host until it settles; it never rejects.
   */
  readonly onOutput?: (stream: 'stdout' | 'stderr', data: Uint8Array) => Promise<void> | undefined;
  /** Receives the progress that the host reports. */
  readonly onProgress?: (progress: Omit<JobProgress, 'id'>) => void;
  /** Answers a call that a program makes; never rejects. */
  readonly onAsk?: (ask: ChildAsk) => Promise<Omit<ChildAnswer, 'id' | 'call'>>;
  /** Receives each line that a program writes to its console. */
  readonly onLog?: (line: LogLine) => void;
}

/** The end of a job: a result, or the death of its host. */
export type JobEnd = { readonly result: JobResult } | { readonly crashed: true };

export interface HostOptions {
  readonly tier: HostTier;
  /** Absolute path. */
  readonly workspace: string;
  readonly setup: HostSetup;
  /** Starts the process with these descriptors. Throws SANDBOX_UNAVAILABLE if this machine can't confine it. */
  start(stdio: Stdio): ConfinedProcess;
  /** The connection to the egress proxy, for an execute host whose commands may connect. */
  readonly egress?: Socket;
  /** Receives what a provider host reports of its server; if it throws, the host is ended. */
  readonly onTold?: (told: unknown) => void;
  readonly limits: Limits;
  readonly powers: Powers;
}

interface Pending {
  readonly options: RunOptions;
  readonly end: (end: JobEnd) => void;
  /** The lane that carried the job; undefined for the host's main thread. */
  readonly lane: Lane | undefined;
  kill?: Timer;
  /** Ends the thread of the lane if it does not acknowledge an abort. */
  deaf?: Timer;
  /** Bytes of output received but not processed, and bytes processed but not acknowledged to the host. */
  untaken: number;
  untold: number;
  /** Calls that the program has made, and those in progress. */
  asked: number;
  asking: number;
  /** Console lines that the program has written, and their characters. */
  logs: number;
  logChars: number;
}

/** How many windows of output a host may be ahead, and bytes that a command's two pipes may hold when it ends. */
const WINDOWS_AHEAD_MAX = 4;
const PIPES_BYTES_MAX = 2 * FLOOD_PIPE_BYTES;

/** Bytes of a frame with a piece of output; the buffer is allocated once at this size. */
const PIECE_FRAME_BYTES = 129 * 1024;

export class Host {
  readonly tier: HostTier;
  readonly workspace: string;
  readonly startedAt: number;
  /** Resolves when the host takes jobs; rejects with SANDBOX_UNAVAILABLE if it never will. */
  readonly ready: Promise<void>;
  /** Resolves when the process has ended. */
  readonly gone: Promise<void>;
  /** Monotonic time in ms of the last job's end, for reaping. */
  idleSince: number;
  /** How many things the host's tools keep between calls, as it reports; a host with any is not idle. */
  kept = 0;
  readonly #options: HostOptions;
  readonly #process: ConfinedProcess;
  readonly #child: ChildProcess;
  readonly #line: Socket;
  readonly #writer: FrameWriter;
  readonly #lanes: Lanes;
  readonly #pending = new Map<number, Pending>();
  #nextId = 1;
  #pid = 0;
  #alive = true;
  readonly #stderr: StderrLog;
  #onReady: () => void = () => {};
  #isSetUp = false;
  /** Why the setup was refused. */
  #refusal: Error | undefined;

  /** Starts the process. Throws what `start` throws. */
  constructor(options: HostOptions) {
    const { tier, workspace, powers, limits, egress } = options;
    this.#options = options;
    this.tier = tier;
    this.workspace = workspace;
    this.startedAt = powers.monotonicMs();
    this.idleSince = this.startedAt;
    if (egress?.destroyed) throw new ToolError('SANDBOX_UNAVAILABLE', 'the egress proxy ended before the command');
    const lanes = Array.from({ length: options.setup.lanes ?? 0 }, () => 'pipe' as const);
    const stdio = ['ignore', 'ignore', 'pipe', 'pipe', ...(egress ? [egress] : lanes)] as const;
    this.#process = options.start([...stdio]);
    this.#child = this.#process.child;
    this.#line = this.#child.stdio[HOST_FRAMES_FD] as Socket;
    this.#writer = new FrameWriter(this.#line);
    const told = { log: powers.log, about: { tier }, message: 'tier host complains' };
    this.#stderr = new StderrLog(this.#child.stderr, told, limits);
    this.gone = new Promise((resolve) => {
      this.#child.once('exit', resolve);
      this.#child.once('error', resolve);
    }).then(() => this.#end());

    const reader = new FrameReader(limits.frameBytesMax, PIECE_FRAME_BYTES);
    this.#line.on('data', (chunk: Buffer) => this.#receive(reader, chunk));
    this.#line.on('error', () => this.kill());
    this.#lanes = this.#createLanes(lanes.length);
    this.#line.on('close', () => this.kill());
    this.ready = this.#start();
    this.ready.catch(() => {}); // Avoids an unhandled rejection when nobody awaits `ready`.
  }

  /** The pid outside the sandbox's namespace; the launcher's until the host is ready. */
  get pid(): number {
    return this.#pid || (this.#child.pid ?? 0);
  }

  get jobs(): number {
    return this.#pending.size;
  }

  get threads(): number {
    return this.#options.setup.threads;
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Whether `ready` has resolved and the host lives. */
  get takesJobs(): boolean {
    return this.#alive && this.#pid !== 0;
  }

  /** Whether a lane has ended, so that the host should be replaced. */
  get worn(): boolean {
    return this.#lanes.worn;
  }

  /** Runs a job to its end; never rejects. Kills the host if an abort is not obeyed in time. */
  run(request: JobRequest, options: RunOptions): Promise<JobEnd> {
    if (!this.#alive) return Promise.resolve({ crashed: true });
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const abort = () => this.#abort(id);
      const end = (how: JobEnd) => {
        options.signal.removeEventListener('abort', abort);
        const pending = this.#pending.get(id);
        pending?.kill?.cancel();
        pending?.deaf?.cancel();
        pending?.lane?.jobs.delete(id);
        this.#pending.delete(id);
        this.idleSince = this.#options.powers.monotonicMs();
        resolve(how);
      };
      // Only the host's main thread watches a thread's CPU time.
      const lane = request.cpuMs === undefined ? this.#lanes.take(id) : undefined;
      this.#pending.set(id, { options, end, lane, untaken: 0, untold: 0, asked: 0, asking: 0, logs: 0, logChars: 0 });
      options.signal.addEventListener('abort', abort);
      this.#send({ run: { id, ...request } }, lane);
      if (options.signal.aborted) abort();
    });
  }

  /** Releases everything that the host keeps for a session. */
  endSession(session: string): void {
    this.#send({ endSession: session });
  }

  kill(): void {
    // Kill the innermost process: a launcher that dies before its child set its parent-death signal would leave the child running.
    const { pid, exitCode, signalCode } = this.#child;
    const leaf = this.#pid || (pid === undefined || exitCode !== null || signalCode !== null ? 0 : leafOf(pid));
    if (this.#alive && leaf !== 0 && leaf !== pid) killQuietly(leaf);
    this.#child.kill('SIGKILL');
    this.#end();
  }

  async #start(): Promise<void> {
    const { powers, limits, tier } = this.#options;
    const answered = new Promise<boolean>((resolve) => {
      this.#onReady = () => resolve(true);
      void this.gone.then(() => resolve(false));
    });
    const timer = powers.after(limits.hostStartMs, () => this.kill());
    const came = await answered;
    timer.cancel();
    if (!came) {
      const { text: stderr, last } = this.#stderr;
      powers.log.error({ tier, stderr, ...(this.#refusal && { error: this.#refusal }) }, 'tier host did not start');
      if (this.#refusal) throw this.#refusal;
      throw new ToolError('SANDBOX_UNAVAILABLE', `the ${tier} host could not be started: ${last}`);
    }
    this.#pid = leafOf(this.#child.pid ?? 0);
    if (tier === 'execute') prefer(this.#pid, -10);
    if (tier === 'isolate') prefer(this.#pid, 5);
  }

  /** The host runs, and knows nothing yet: check its sandbox, then send its setup. */
  #setUp(): void {
    if (this.#isSetUp) return;
    this.#isSetUp = true;
    try {
      this.#process.assertInPlace(leafOf(this.#child.pid ?? 0));
    } catch (error) {
      this.#refusal = error as Error;
      return this.kill();
    }
    const { groups } = this.#process;
    this.#send({ setup: { ...this.#options.setup, ...(groups && { groups }) } });
  }

  #abort(id: number): void {
    const { powers, limits } = this.#options;
    const pending = this.#pending.get(id);
    if (!pending) return;
    const graceMs = graceOf(pending.options.signal.reason, limits);
    this.#send({ abort: { id, graceMs } }, pending.lane);
    const { lane } = pending;
    if (lane) pending.deaf = powers.after(limits.abortGraceMs, () => this.#send({ endLane: lane.number }));
    // The host first tries abort and terminate itself; this kill is for a host that can't.
    const ownSteps = limits.abortGraceMs + limits.terminateGraceMs;
    const patienceMs = this.tier === 'execute' ? graceMs + limits.commandAbortMs : ownSteps + limits.abortGraceMs;
    pending.kill = powers.after(this.tier === 'isolate' ? limits.isolateGraceMs : patienceMs, () => this.kill());
  }

  #createLanes(count: number): Lanes {
    const { limits, powers } = this.#options;
    const sockets = this.#child.stdio.slice(HOST_FRAMES_FD + 1, HOST_FRAMES_FD + 1 + count) as Socket[];
    return new Lanes({
      ...{ sockets, powers, frameBytesMax: limits.frameBytesMax, pollMs: limits.lanePollMs },
      open: (lane) => this.#send({ openLane: lane }),
      onBytes: (reader, chunk) => this.#receive(reader, chunk),
      // The lane's thread has ended, which the host reports next; a host that does not is no longer trusted.
      onLost: (lane) => powers.after(limits.terminateGraceMs, () => lane.jobs.size > 0 && this.kill()),
    });
  }

  #send(message: ToHost): void;
  #send(message: ToLane, lane: Lane | undefined): void;
  #send(message: ToHost | ToLane, lane?: Lane): void {
    if (!this.#alive) return;
    try {
      if (lane) lane.send(message as ToLane);
      else this.#writer.write(toFrame(message, this.#options.limits.frameBytesMax));
    } catch (error) {
      this.#options.powers.log.error({ error, tier: this.tier }, 'a job could not be sent to its host');
      this.kill();
    }
  }

  #receive(reader: FrameReader, chunk: Buffer): void {
    const { limits, powers } = this.#options;
    try {
      for (const payload of reader.push(chunk)) {
        const message = parseFromHost(decode(payload, limits));
        if (!message) throw new Error('not a message of a host');
        this.#take(message);
        if ('output' in message) reader.giveBack(payload);
      }
    } catch (error) {
      powers.log.error({ error, tier: this.tier }, 'tier host sent an invalid message; ending it');
      this.kill();
    }
  }

  #take(message: FromHost): void {
    if ('up' in message) this.#setUp();
    else if ('ready' in message) this.#onReady();
    else if ('ask' in message) this.#takeAsk(message.ask);
    else if ('log' in message) this.#takeLog(message.log);
    else if ('done' in message) this.#pending.get(message.done.id)?.end(toEnd(message.done.result));
    else if ('kept' in message) {
      this.kept = message.kept;
      this.idleSince = this.#options.powers.monotonicMs();
    } else if ('progress' in message) this.#takeProgress(message.progress);
    else if ('told' in message) this.#options.onTold?.(message.told);
    else if ('laneOpen' in message) this.#lanes.opened(message.laneOpen);
    else if ('heard' in message) this.#pending.get(message.heard)?.deaf?.cancel();
    else if ('laneEnded' in message) this.#laneEnded(message.laneEnded);
    else this.#takeOutput(message.output);
  }

  /** Takes output. Throws if the host sends more than its window: it would fill the gateway's memory. */
  #takeOutput({ id, stream, data }: HostOutput): void {
    const pending = this.#pending.get(id);
    if (!pending) return;
    pending.untaken += data.length;
    if (pending.untaken > WINDOWS_AHEAD_MAX * this.#options.limits.outputWindowBytes + PIPES_BYTES_MAX)
      throw new Error('more output than it may send ahead');
    const taken = pending.options.onOutput?.(stream, data);
    if (taken) void taken.then(() => this.#taken(id, pending, data.length));
    else this.#taken(id, pending, data.length);
  }

  #takeProgress({ id, ...progress }: JobProgress): void {
    this.#pending.get(id)?.options.onProgress?.(progress);
  }

  /** Takes a program's call. Throws if there are more than a program may make: the host was compromised. */
  #takeAsk(ask: ChildAsk): void {
    const { id, call } = ask;
    const pending = this.#pending.get(id);
    if (!pending) return;
    const { codeCallsMax, codeConcurrencyMax } = this.#options.limits;
    const { onAsk } = pending.options;
    if (!onAsk || pending.asked >= codeCallsMax || pending.asking >= codeConcurrencyMax)
      throw new Error('more calls than a program may make');
    pending.asked += 1;
    pending.asking += 1;
    void onAsk(ask).then((answer) => {
      pending.asking -= 1;
      if (this.#pending.has(id)) this.#send({ answer: { id, call, ...answer } });
    });
  }

  /** Takes a console line. Throws if there is more than a program may write: the host was compromised. */
  #takeLog({ id, level, text }: LogLine & { readonly id: number }): void {
    const pending = this.#pending.get(id);
    if (!pending) return;
    const { codeLogsMax, codeLogChars } = this.#options.limits;
    pending.logs += 1;
    pending.logChars += text.length;
    if (pending.logs > codeLogsMax || pending.logChars > codeLogChars) throw new Error('more than a program may log');
    pending.options.onLog?.({ level, text });
  }

  /** Ends the jobs of a lane whose thread died. If there were several, nobody knows which one killed it: each runs again alone. */
  #laneEnded({ lane, result }: LaneEnded): void {
    const jobs = this.#lanes.ended(lane);
    // Frames that the thread sent before may be read only now.
    setImmediate(() => {
      const end: JobEnd = result && jobs.length === 1 ? toEnd(result) : { crashed: true };
      for (const id of jobs) this.#pending.get(id)?.end(end);
    });
  }

  #taken(id: number, pending: Pending, bytes: number): void {
    pending.untaken -= bytes;
    pending.untold += bytes;
    // Batches acknowledgements: a host that waits has sent four times as much.
    if (pending.untold < this.#options.limits.outputWindowBytes / 4 || !this.#pending.has(id)) return;
    this.#send({ taken: { id, bytes: pending.untold } });
    pending.untold = 0;
  }

  #end(): void {
    if (!this.#alive) return;
    this.#alive = false;
    this.kept = 0;
    this.#line.destroy();
    this.#lanes[Symbol.dispose]();
    for (const { end } of [...this.#pending.values()]) end({ crashed: true });
  }
}
