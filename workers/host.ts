/** Entry of a tier host: perimeter, setup from the gateway, a Piscina pool, frames on fd 3 until they end. */
import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import { extname } from 'node:path';
import { BroadcastChannel } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { ToolError } from '../src/errors.ts';
import {
  type Abort,
  type FromHost,
  type HostOutput,
  type HostSetup,
  type Job,
  type JobResult,
  type JobReturn,
  type ToHost,
  UP,
  UP_FRAME_BYTES,
} from '../src/hosts/job.ts';
import { decode } from '../src/protocol/codec.ts';
import { FrameReader, FrameWriter, toFrame, toFrameBefore } from '../src/protocol/frame.ts';
import { type Heard, HOST_CHANNEL, type Kept, type Loaded, type ToThreads } from './host/channel.ts';
import type { LaneTask } from './host/lane.ts';
import { toResultFrame } from './host/result-frame.ts';
import { type OverTime, ThreadWatch } from './host/thread-clock.ts';
import { JobPlaces, type PlacedJob, type ThreadSetup } from './host/thread-slots.ts';
import { establishPerimeter } from './perimeter.ts';

const GATEWAY_FD = 3;

/** The last descriptor from the gateway: its main socket, then one to the egress proxy if commands may connect, or the lanes. */
function lastGiven(): number {
  let fd = GATEWAY_FD;
  while (isSocket(fd + 1)) fd += 1;
  return fd;
}

function isSocket(fd: number): boolean {
  try {
    return fstatSync(fd).isSocket();
  } catch {
    return false; // EBADF.
  }
}

establishPerimeter(lastGiven());
// The umask leaves new files the modes that tools choose.
process.umask(0o022);

const gateway = new Socket({ fd: GATEWAY_FD, readable: true, writable: true });
/** Writes once per loop turn: messages of threads come one by one, many in a turn. */
const writer = new FrameWriter(gateway, setImmediate);
const threads = new BroadcastChannel(HOST_CHANNEL);
/** The setup, from the first frame. zod and the default limits are not loaded here, which saves 12 MiB per host. */
let setup: HostSetup | undefined;
let pool: Piscina | undefined;
let places: JobPlaces;
let watch: ThreadWatch;

interface Running {
  readonly place: number;
  /** Whether the job was aborted. */
  aborted?: boolean;
  /** Set if the job exceeded its CPU time; it is then ended. */
  over?: OverTime;
  /** Whether another job in its thread may have caused the thread's end. */
  hadMates?: boolean;
  /** Threads that acknowledged its abort. */
  readonly heard: Set<number>;
  /** Cancels the timers of an abort. */
  stop: () => void;
  /** Number of outputs passed on so far. */
  outputs: number;
  onOutput: () => void;
}
const running = new Map<number, Running>();

function send(message: FromHost): void {
  writer.write(frameOf(message));
}

const NONE = Buffer.alloc(0);

function sendOutput({ id, stream, data }: HostOutput): void {
  const { frameBytesMax } = (setup as HostSetup).limits;
  writer.write(toFrameBefore(data, { output: { id, stream, data: NONE } } satisfies FromHost, frameBytesMax));
  writer.write(data);
}

function frameOf(message: FromHost): Buffer {
  const { limits } = setup as HostSetup;
  return 'done' in message ? toResultFrame(message.done, limits) : toFrame(message, limits.frameBytesMax);
}

function begin(given: HostSetup): void {
  setup = given;
  const { limits } = given;
  // Room for the jobs in threads and those that wait for one.
  places = new JobPlaces(2 * given.threads * given.jobsPerThread);
  watch = new ThreadWatch({
    places,
    everyMs: limits.watchdogMs,
    onOver: endOver,
    onSharedOver: (it) => endThreads([it]),
  });
  pool = new Piscina({
    filename: new URL(`./worker${extname(import.meta.url)}`, import.meta.url).href,
    workerData: { ...given, places: places.buffer } satisfies ThreadSetup,
    minThreads: 1,
    // Lane threads take no other jobs; one more thread is started for jobs without a lane.
    maxThreads: given.threads + (given.lanes ? 1 : 0),
    concurrentTasksPerWorker: given.jobsPerThread,
    // The gateway sends no more jobs than there is room for; these wait for a thread to start.
    maxQueue: given.threads * given.jobsPerThread,
    idleTimeout: limits.hostIdleMs,
    // A library opens the descriptors of terminals, and we close them; if this thread dies, so does the process.
    trackUnmanagedFds: given.command === undefined,
    // Threads that wait for commands must still get messages, so they can't sleep in Atomics.wait.
    atomics: given.command ? 'disabled' : 'sync',
    resourceLimits: { maxOldGenerationSizeMb: limits.threadHeapMb },
  });
  let isReady = false;
  pool.on('message', (message: HostOutput | Heard | Kept | Loaded) => {
    // Ready once the first thread is: before, a job would only wait here, while the gateway starts other hosts.
    if ('loaded' in message) {
      if (isReady) return;
      isReady = true;
      send({ ready: true });
      return;
    }
    // Hosts that keep things between calls have one thread.
    if ('kept' in message) return send({ kept: message.kept });
    if ('heard' in message) return running.get(message.job)?.heard.add(message.heard);
    sendOutput(message);
    const job = running.get(message.id);
    if (job) job.outputs += 1;
    return job?.onOutput();
  });
  pool.on('error', (error) => {
    console.error(error);
    process.exit(1);
  });
  if (given.lanes) void openLane(0);
}

const lanes = new Map<number, AbortController>();

/** Starts a task that never ends, so that its thread serves only this lane. */
async function openLane(lane: number): Promise<void> {
  if (lanes.has(lane)) return;
  const controller = new AbortController();
  lanes.set(lane, controller);
  try {
    const task = { lane, fd: GATEWAY_FD + 1 + lane } satisfies LaneTask;
    await (pool as Piscina).run(task, { signal: controller.signal });
  } catch (error) {
    const result = isOutOfMemory(error) ? outOfMemory() : undefined;
    send({ laneEnded: { lane, ...(result && { result }) } });
  }
}

async function run(job: Job): Promise<void> {
  const place = places.take();
  running.set(job.id, { place, heard: new Set(), outputs: 0, onOutput() {}, stop() {} });
  watch.begin(job.id, place, job.cpuMs);
  try {
    const { result, outputs } = await inThread({ job, place });
    await outputsCame(job.id, outputs);
    send({ done: { id: job.id, result: heldTo(running.get(job.id)?.over, result) } });
  } catch (error) {
    const { over } = running.get(job.id) as Running;
    send({ done: { id: job.id, result: heldTo(over, ended(job.id, error)) } });
  } finally {
    running.get(job.id)?.stop();
    running.delete(job.id);
    watch.end(job.id);
    places.free(place);
  }
}

/** How many threads may end before a waiting job gives up on this host. */
const TRIES_MAX = 16;

/** Runs a job, and retries if the thread ended before it began the job, because of another job. Rejects if the thread ended during it. */
async function inThread(placed: PlacedJob): Promise<JobReturn> {
  for (let tries = 1; ; tries++) {
    try {
      // Without Piscina's abort signal, with which each job would get a thread of its own, at half as many jobs a second.
      return (await (pool as Piscina).run(placed)) as JobReturn;
    } catch (error) {
      if (places.seatOf(placed.place) || running.get(placed.job.id)?.aborted || tries === TRIES_MAX) throw error;
    }
  }
}

/** Waits until all outputs of the worker have arrived, so that none follows the result. */
function outputsCame(id: number, outputs: number): Promise<void> {
  const job = running.get(id);
  return new Promise((resolve) => {
    if (!job || job.outputs >= outputs) return resolve();
    job.onOutput = () => {
      if (job.outputs >= outputs) resolve();
    };
  });
}

/** The result of a job that exceeded its CPU time. A success stands, even if it came at the same moment. */
function heldTo(over: OverTime | undefined, result: JobResult): JobResult {
  if (!over || result.ok) return result;
  const cpu = new ToolError('CPU_LIMIT', `the tool took more than ${over.limit} ms of CPU time and was ended`, {
    suggestion: 'Do less at once, or ask the person to raise the limit in the policy.',
    details: { ...over, enforcedBy: 'thread clock' },
  });
  return {
    ok: false,
    error: cpu.toWire(),
    usage: { ...result.usage, cpuMs: over.used, verdict: 'cpu', enforcedBy: 'thread clock' },
  };
}

/** The result of a job whose thread ended: by its heap limit, or because a job in it had to be ended. */
function ended(id: number, error: unknown): JobResult {
  const job = running.get(id) as Running;
  // The first job of a thread that gets here still finds the others in their places.
  const mates = matesOf(job);
  for (const mate of mates) mate.hadMates = true;
  // If the thread ran several jobs, nobody knows which one filled the heap: each runs again alone.
  if (isOutOfMemory(error) && !job.hadMates && mates.length === 0) return outOfMemory();
  const crash = new ToolError('HOST_CRASHED', 'the worker thread of this call ended while the call ran');
  return { ok: false, error: crash.toWire(), usage: { ...NO_USAGE, verdict: 'crashed' } };
}

const NO_USAGE = { cpuMs: 0, outputBytes: 0, enforcedBy: 'worker thread' };

const isOutOfMemory = (error: unknown): boolean =>
  (error as NodeJS.ErrnoException | undefined)?.code === 'ERR_WORKER_OUT_OF_MEMORY';

function outOfMemory(): JobResult {
  const { threadHeapMb } = (setup as HostSetup).limits;
  const memory = new ToolError('MEMORY_LIMIT', `the tool needed more than ${threadHeapMb} MiB of memory`, {
    details: { limit: threadHeapMb * 1024 * 1024, enforcedBy: 'worker thread' },
  });
  return { ok: false, error: memory.toWire(), usage: { ...NO_USAGE, verdict: 'memory' } };
}

/** Other jobs in the thread of this one. */
function matesOf(job: Running): Running[] {
  const thread = places.seatOf(job.place)?.threadId;
  return [...running.values()].filter((it) => it !== job && thread && places.seatOf(it.place)?.threadId === thread);
}

/**
 * Aborts a job. If it has not ended in time, ends its thread if that did not acknowledge the abort; if no thread had
 * begun the job, ends all threads that did not, since one of them keeps the job waiting and idle ones are not missed.
 * A job that acknowledged but does not end is left to the gateway, which kills this process.
 */
function abort({ id, graceMs }: Abort): void {
  const job = running.get(id);
  if (!job) return;
  job.aborted = true;
  threads.postMessage({ abort: { id, graceMs } } satisfies ToThreads);
  // Many jobs share a thread that waits for commands, and it is never busy for long; a slow machine must not cost the
  // other jobs their lives.
  if (setup?.command) return;
  const timer = setTimeout(() => {
    const own = places.seatOf(job.place)?.threadId;
    const deaf = (pool?.threads ?? []).map((it) => it.threadId).filter((it) => !job.heard.has(it));
    endThreads(own === undefined ? deaf : deaf.filter((it) => it === own));
  }, setup?.limits.abortGraceMs);
  job.stop = () => clearTimeout(timer);
}

/** Ends a job that exceeded its CPU time: aborts it, then ends its thread, which it has alone, then this process. */
function endOver(id: number, over: OverTime): void {
  const job = running.get(id);
  if (!job || !setup) return;
  job.over = over;
  job.stop();
  const { abortGraceMs, terminateGraceMs } = setup.limits;
  threads.postMessage({ abort: { id, graceMs: 0 } } satisfies ToThreads);
  const first = setTimeout(() => endThreads([places.seatOf(job.place)?.threadId]), abortGraceMs);
  const last = setTimeout(() => {
    const crash = ended(id, undefined);
    gateway.write(frameOf({ done: { id, result: heldTo(over, crash) } }), () => process.kill(process.pid, 'SIGKILL'));
    gateway.uncork();
  }, abortGraceMs + terminateGraceMs);
  job.stop = () => {
    clearTimeout(first);
    clearTimeout(last);
  };
}

function endThreads(ids: readonly (number | undefined)[]): void {
  for (const thread of pool?.threads ?? []) if (ids.includes(thread.threadId)) void thread.terminate();
}

function receive(message: ToHost): void {
  if ('setup' in message) begin(message.setup);
  else if ('run' in message) void run(message.run);
  else if ('taken' in message) threads.postMessage({ taken: message.taken } satisfies ToThreads);
  else if ('endSession' in message) threads.postMessage({ endSession: message.endSession } satisfies ToThreads);
  else if ('abort' in message) abort(message.abort);
  else if ('openLane' in message) void openLane(message.openLane);
  else if ('endLane' in message) lanes.get(message.endLane)?.abort();
}

/** Bounds until the setup arrives; the gateway bounds the frames that it sends. */
const BEFORE_SETUP = { messageDepthMax: 64, messageElementsMax: 1_000_000 };
const reader = new FrameReader(2 ** 32 - 1);
gateway.on('data', (chunk: Buffer) => {
  for (const payload of reader.push(chunk)) receive(decode(payload, setup?.limits ?? BEFORE_SETUP) as ToHost);
});
// The gateway is gone, so this process has nothing left to do.
gateway.on('close', () => process.exit(0));
gateway.on('error', () => process.exit(0));
gateway.write(toFrame(UP, UP_FRAME_BYTES));
