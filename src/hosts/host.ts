/**
 * One host: a confined child process, its frames, its running jobs. The process may be killed at any time; its jobs then
 * end as crashed. It can't stop the gateway: its frames are bounded and checked like a stranger's.
 */
import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import type { HostTier } from '../base/call.ts';
import { ToolError } from '../base/errors.ts';
import { signalQuietly } from '../base/quiet/signals.ts';
import { HOST_FRAMES_FD } from '../sandbox/bubblewrap.ts';
import type { ConfinedProcess } from '../sandbox/confined-process.ts';
import { decode } from '../wire/protocol/codec.ts';
import { BatchedWrites, FrameReader, toFrame } from '../wire/protocol/frame.ts';
import { adviceOn, type HostOptions, leafOf, logEnd, prefer } from './host-process.ts';
import type { FromHost, JobRequest, ThreadEnded, ToHost } from './job.ts';
import { parseFromHost } from './parse-from-host.ts';
import { type JobEnd, RunningJob, type RunOptions } from './running-job.ts';
import { ShadowLine } from './shadow/shadow-line.ts';
import { aborted, graceOf, overMemory, overTime } from './shutdown.ts';
import { StderrLog } from './stderr-log.ts';
import { type OverTime, ThreadClocks } from './thread-clocks.ts';
import { type HostThread, Threads } from './threads.ts';

export type { HostOptions } from './host-process.ts';
export type { JobEnd, RunOptions } from './running-job.ts';

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
  readonly #options: HostOptions;
  readonly #process: ConfinedProcess;
  readonly #child: ChildProcess;
  readonly #line: Socket;
  readonly #writer: BatchedWrites;
  readonly #firstFd: number;
  readonly shadow: ShadowLine | undefined;
  readonly #threads: Threads;
  readonly #clocks: ThreadClocks;
  readonly #jobs = new Map<number, RunningJob>();
  readonly #stderr: StderrLog;
  #nextId = 1;
  #pid = 0;
  #alive = true;
  #onReady: () => void = () => {};
  #isSetUp = false;
  /** Why the setup was refused. */
  #refusal: Error | undefined;

  /** Starts the process. Throws what `start` throws. */
  constructor(options: HostOptions) {
    const { tier, workspace, powers, limits, egress, threads, spool } = options;
    this.#options = options;
    this.tier = tier;
    this.workspace = workspace;
    this.startedAt = powers.monotonicMs();
    this.idleSince = this.startedAt;
    if (egress?.destroyed) throw new ToolError('SANDBOX_UNAVAILABLE', 'the egress proxy ended before the command');
    const stdio = ['ignore', 'ignore', 'pipe', 'pipe', ...(egress ? [egress] : [])] as const;
    const starts = threads?.starts ?? 0;
    const length = starts + (spool === undefined ? 0 : 1);
    this.#process = options.start([...stdio, ...Array.from({ length }, () => 'pipe' as const)]);
    this.#child = this.#process.child;
    this.#line = this.#child.stdio[HOST_FRAMES_FD] as Socket;
    this.#writer = new BatchedWrites(this.#line);
    const logTarget = { log: powers.log, about: { tier }, message: 'tier host complains' };
    this.#stderr = new StderrLog(this.#child.stderr, logTarget, limits);
    this.gone = new Promise((resolve) => {
      for (const it of ['exit', 'error']) this.#child.once(it, resolve);
    }).then(() => this.#end());
    logEnd(this.#child, powers.log, { child: 'tier host', tier });
    const reader = new FrameReader(limits.frameBytesMax, PIECE_FRAME_BYTES);
    this.#line.on('data', (chunk: Buffer) => this.#receive(reader, chunk));
    this.#line.on('error', () => this.kill());
    this.#line.on('close', () => this.kill());
    this.#firstFd = stdio.length;
    this.#threads = this.#createThreads(this.#child.stdio.slice(this.#firstFd, this.#firstFd + starts) as Socket[]);
    this.shadow = this.#createShadow(this.#child.stdio[this.#firstFd + starts] as Socket);
    this.#clocks = this.#createClocks();
    this.ready = this.#start();
    this.ready.catch(() => {}); // Avoids an unhandled rejection when nobody awaits `ready`.
  }

  /** The pid outside the sandbox's namespace; the launcher's until the host is ready. */
  get pid(): number {
    return this.#pid || (this.#child.pid ?? 0);
  }

  get jobs(): number {
    return [...this.#jobs.values()].filter(({ options }) => !options.isWait).length;
  }

  /** Jobs that run at the same moment. */
  get threads(): number {
    return this.#options.threads?.max ?? 1;
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Whether `ready` has resolved and the host lives. */
  get takesJobs(): boolean {
    return this.#alive && this.#pid !== 0;
  }

  /** Whether threads have ended that can't be started again, so that the host should be replaced. */
  get worn(): boolean {
    return this.#threads.worn;
  }

  /** How many things the host's tools keep between calls; a host with any is not idle. */
  get kept(): number {
    return this.#alive ? this.#threads.kept : 0;
  }

  /** Runs a job to its end; never rejects. Kills the host if an abort is not obeyed in time. */
  run(request: JobRequest, options: RunOptions): Promise<JobEnd> {
    if (!this.#alive) return Promise.resolve({ crashed: true });
    const id = this.#nextId++;
    return new Promise((resolve) => {
      const abort = () => this.#abort(id);
      const job = new RunningJob(options, this.#options.limits, (end) => {
        if (!this.#jobs.delete(id)) return;
        options.signal.removeEventListener('abort', abort);
        job.stopTimers();
        this.#clocks.end(id);
        this.idleSince = this.#options.powers.monotonicMs();
        this.#guard(() => this.#threads.finish(id));
        resolve(end);
      });
      this.#jobs.set(id, job);
      options.signal.addEventListener('abort', abort);
      if (request.cpuMs !== undefined) this.#clocks.begin(id, request.cpuMs);
      const message = { id, ...request };
      if (this.#options.threads) this.#guard(() => this.#threads.run(message));
      else this.#send({ run: message });
      if (options.signal.aborted) abort();
    });
  }

  /** Releases everything that the host keeps for a session. */
  endSession(session: string): void {
    if (this.#alive) this.#guard(() => this.#threads.tellAll({ endSession: session }));
  }

  /** Ends threads that have long been idle. */
  reapThreads(): void {
    if (this.#alive) this.#threads.reap(this.#options.limits.hostIdleMs);
  }

  /** Resolves when the host's process answers; never if it hangs. */
  answers = (): Promise<void> => this.#clocks.answers();

  kill(): void {
    // Kill the innermost process: a launcher that dies before its child set its parent-death signal would leave the child running.
    const { pid, exitCode, signalCode } = this.#child;
    const leaf = this.#pid || (pid === undefined || exitCode !== null || signalCode !== null ? 0 : leafOf(pid));
    if (this.#alive && leaf !== 0 && leaf !== pid) signalQuietly(leaf, 'SIGKILL');
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
      powers.log.error({ tier, stderr, error: this.#refusal }, 'tier host did not start');
      if (this.#refusal) throw this.#refusal;
      throw new ToolError('SANDBOX_UNAVAILABLE', `the ${tier} host could not be started: ${last}`, adviceOn(last));
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
    const { setup, threads, spool } = this.#options;
    const own = threads && { threads: { ...threads, firstFd: this.#firstFd } };
    const fd = this.#firstFd + (threads?.starts ?? 0);
    const shadow = spool !== undefined && { shadow: { fd, folder: spool } };
    this.#send({ setup: { ...setup, ...own, ...shadow, groups: this.#process.groups } });
  }

  #createThreads(sockets: Socket[]): Threads {
    const { limits, powers, threads = { max: 1, jobsPerThread: 1 } } = this.#options;
    const { frameBytesMax, threadPollMs, terminateGraceMs } = limits;
    return new Threads({
      sockets,
      powers,
      frameBytesMax,
      max: threads.max,
      jobsPerThread: threads.jobsPerThread,
      // Only reads are short enough to wait for; only commands send much output.
      pollMs: this.tier === 'read_only' ? threadPollMs : 0,
      ...(this.tier === 'execute' && { roomBytes: PIECE_FRAME_BYTES }),
      start: (thread) => this.#send({ startThread: thread }),
      end: (thread) => this.#send({ endThread: thread }),
      onBytes: (thread, reader, chunk) => this.#receive(reader, chunk, thread),
      // The thread has ended, which the host reports next; a host that does not is no longer trusted.
      onLost: (thread) => powers.after(terminateGraceMs, () => thread.jobs.size > 0 && this.kill()),
    });
  }

  #createShadow(socket: Socket): ShadowLine | undefined {
    const { follower } = this.#options;
    if (!follower) return undefined;
    return new ShadowLine(socket, {
      ...this.#options,
      follower,
      start: () => void this.ready.then(() => this.#send({ startShadow: true })).catch(() => {}),
      onUse: () => (this.idleSince = this.#options.powers.monotonicMs()),
      onInvalid: (error) => this.#distrust(error),
    });
  }

  #createClocks(): ThreadClocks {
    const { limits, powers } = this.#options;
    return new ThreadClocks({
      everyMs: limits.watchdogMs,
      powers,
      look: (jobs) => {
        const threads = new Set([...jobs].flatMap((it) => this.#threads.of(it)?.number ?? []));
        this.#send({ look: [...threads] });
      },
      onOver: (id, over) => this.#endOver(id, over),
      onSharedOver: (thread) => this.#send({ endThread: thread }),
    });
  }

  #abort(id: number): void {
    const { powers, limits } = this.#options;
    const job = this.#jobs.get(id);
    if (!job) return;
    const thread = this.#threads.of(id);
    // Nothing of it has begun.
    if (this.#options.threads && !thread) return job.end({ result: aborted() });
    const graceMs = graceOf(job.options.signal.reason, limits);
    this.#sendAbort(id, graceMs);
    job.stopTimers();
    // Commands share a thread that is never busy for long; a slow machine must not cost the others their lives.
    if (thread && this.tier !== 'execute')
      job.deaf = powers.after(limits.abortGraceMs, () => this.#send({ endThread: thread.number }));
    // The job and its thread are ended first; this kill is for a host that can't end them.
    const ownSteps = limits.abortGraceMs + limits.terminateGraceMs;
    const patienceMs = this.tier === 'execute' ? graceMs + limits.commandAbortMs : ownSteps + limits.abortGraceMs;
    const killMs = this.tier === 'isolate' ? limits.isolateGraceMs : patienceMs;
    job.timers = [powers.after(killMs, () => this.kill())];
  }

  /** Ends a job that exceeded its CPU time: aborts it, then ends its thread, which it has alone, then this host. */
  #endOver(id: number, over: OverTime): void {
    const { powers, limits } = this.#options;
    const { abortGraceMs, terminateGraceMs } = limits;
    const job = this.#jobs.get(id);
    const thread = this.#threads.of(id);
    if (!job || !thread) return;
    job.over = over;
    job.stopTimers();
    this.#sendAbort(id, 0);
    const last = () => {
      job.end({ result: overTime(over) });
      this.kill();
    };
    job.timers = [
      powers.after(abortGraceMs, () => this.#send({ endThread: thread.number })),
      // Every aborted job gets this time: the host reports a thread's end to the gateway, and a busy machine delays that.
      powers.after(2 * abortGraceMs + terminateGraceMs, last),
    ];
  }

  #sendAbort(id: number, graceMs: number): void {
    const thread = this.#threads.of(id);
    if (thread) this.#guard(() => thread.send({ abort: { id, graceMs } }));
    else this.#send({ abort: { id, graceMs } });
  }

  #send(message: ToHost): void {
    if (this.#alive) this.#guard(() => this.#writer.write(toFrame(message, this.#options.limits.frameBytesMax)));
  }

  /** Sends something; a message that can't be sent ends the host. */
  #guard(send: () => void): void {
    try {
      send();
    } catch (error) {
      this.#options.powers.log.error({ error, tier: this.tier }, 'a job could not be sent to its host');
      this.kill();
    }
  }

  #receive(reader: FrameReader, chunk: Buffer, thread?: HostThread): void {
    try {
      for (const payload of reader.push(chunk)) {
        const message = parseFromHost(decode(payload, this.#options.limits));
        if (!message) throw new Error('not a message of a host');
        this.#take(message, thread);
        if ('output' in message) reader.giveBack(payload);
      }
    } catch (error) {
      this.#distrust(error);
    }
  }

  #distrust(error: unknown): void {
    this.#options.powers.log.error({ error, tier: this.tier }, 'tier host sent an invalid message; ending it');
    this.kill();
  }

  #take(message: FromHost, thread: HostThread | undefined): void {
    if ('done' in message) this.#takeDone(message.done);
    else if ('output' in message) {
      const { id } = message.output;
      this.#jobs.get(id)?.takeOutput(message.output, (bytes) => this.#acknowledge(id, bytes));
    } else if ('heard' in message) this.#jobs.get(message.heard)?.deaf?.cancel();
    else if ('up' in message) this.#setUp();
    else if ('ready' in message) this.#takeReady(thread);
    else if ('ask' in message) {
      const { id, call } = message.ask;
      const answer = (it: object) => this.#jobs.has(id) && this.#send({ answer: { id, call, ...it } });
      this.#jobs.get(id)?.takeAsk(message.ask, answer);
    } else if ('log' in message) this.#jobs.get(message.log.id)?.takeLog(message.log);
    else if ('kept' in message) {
      if (thread) thread.kept = message.kept;
      this.idleSince = this.#options.powers.monotonicMs();
    } else if ('progress' in message) {
      const { id, ...progress } = message.progress;
      this.#jobs.get(id)?.options.onProgress?.(progress);
    } else if ('told' in message) this.#options.onTold?.(message.told);
    else if ('clocks' in message) this.#clocks.takeAll(message.clocks, (it) => this.#threads.jobsIn(it));
    else this.#threadEnded(message.threadEnded);
  }

  #takeReady(thread: HostThread | undefined): void {
    // The main thread of a host with threads has nothing to be ready for.
    if (thread) this.#threads.opened(thread);
    else if (this.#options.threads) return;
    this.#onReady();
  }

  #takeDone({ id, result }: Extract<FromHost, { done: unknown }>['done']): void {
    const job = this.#jobs.get(id);
    // A success stands, even if it came at the moment in which the job was found to be over its limit.
    job?.end({ result: job.over && !result.ok ? overTime(job.over, result.usage) : result });
  }

  #acknowledge(id: number, bytes: number): void {
    const thread = this.#threads.of(id);
    if (thread && this.#jobs.has(id)) this.#guard(() => thread.send({ taken: { id, bytes } }));
  }

  /** Ends the jobs that a thread took with it. If there were several, nobody knows which one filled the heap. */
  #threadEnded({ thread, begun, outOfMemory }: ThreadEnded): void {
    const { threadHeapMb } = this.#options.setup.limits;
    const lost = this.#threads.ended(thread, begun);
    // Results that the thread sent before may be read only now.
    setImmediate(() => {
      const cut = lost.begun.flatMap((id) => this.#jobs.get(id) ?? []);
      const crash: JobEnd = { crashed: true };
      const end: JobEnd = outOfMemory && cut.length === 1 ? { result: overMemory(threadHeapMb) } : crash;
      for (const job of cut) job.end(job.over ? { result: overTime(job.over) } : end);
      for (const id of lost.stranded) this.#jobs.get(id)?.end(crash);
    });
  }

  #end(): void {
    if (!this.#alive) return;
    this.#alive = false;
    this.#line.destroy();
    this.#clocks[Symbol.dispose]();
    this.#threads[Symbol.dispose]();
    this.shadow?.[Symbol.dispose]();
    for (const { end } of [...this.#jobs.values()]) end({ crashed: true });
  }
}
