/** Entry of a tier host: perimeter, setup from the gateway, a Piscina pool, frames over fd 3 until they end. */
import { fstatSync } from 'node:fs';
import { Socket } from 'node:net';
import { extname } from 'node:path';
import { BroadcastChannel } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { ToolError } from '../src/errors.ts';
import type { Abort, FromHost, HostOutput, HostSetup, Job, JobResult, JobReturn, ToHost } from '../src/hosts/job.ts';
import { decode } from '../src/protocol/codec.ts';
import { FrameReader, toFrame } from '../src/protocol/frame.ts';
import { HOST_EGRESS_FD } from '../src/sandbox/bubblewrap.ts';
import { type Heard, HOST_CHANNEL, type Kept, type ToThreads } from './host-channel.ts';
import { establishPerimeter } from './perimeter.ts';

const GATEWAY_FD = 3;

/** Only a host whose commands may connect was given that one. */
function isSocket(fd: number): boolean {
  try {
    return fstatSync(fd).isSocket();
  } catch {
    return false; // EBADF.
  }
}

establishPerimeter(isSocket(HOST_EGRESS_FD) ? HOST_EGRESS_FD : GATEWAY_FD);
// New files get the modes that tools give them.
process.umask(0o022);

const gateway = new Socket({ fd: GATEWAY_FD, readable: true, writable: true });
const threads = new BroadcastChannel(HOST_CHANNEL);
/** The first frame. zod and the default limits are not loaded here: 12 MiB less in each host. */
let setup: HostSetup | undefined;
let pool: Piscina | undefined;

interface Running {
  /** Threads that heard of its abort. */
  readonly heard: Set<number>;
  /** Cancels what an abort has begun. */
  stop: () => void;
  /** Outputs passed on so far. */
  outputs: number;
  onOutput: () => void;
}
const running = new Map<number, Running>();

let corked = false;

/** What is sent in one turn of the loop is written in one call. */
function send(message: FromHost): void {
  if (!corked) {
    corked = true;
    gateway.cork();
    setImmediate(() => {
      corked = false;
      gateway.uncork();
    });
  }
  gateway.write(frameOf(message));
}

/** Levels and values that the gateway's own messages add around a result. */
const ENVELOPE = { depth: 8, elements: 1000 };

/** A result that no message can hold ends its call, not this process. */
function frameOf(message: FromHost): Buffer {
  const { frameBytesMax, messageDepthMax, messageElementsMax } = (setup as HostSetup).limits;
  const bounds = {
    messageDepthMax: messageDepthMax - ENVELOPE.depth,
    messageElementsMax: messageElementsMax - ENVELOPE.elements,
  };
  try {
    return toFrame(message, frameBytesMax, bounds);
  } catch (error) {
    if (!('done' in message)) throw error;
    const { id, result } = message.done;
    const limit = new ToolError('OUTPUT_LIMIT', `the result does not fit a message: ${(error as Error).message}`, {
      suggestion: 'Ask for a part of it.',
    });
    const usage = { ...result.usage, verdict: 'output' } as const;
    return toFrame({ done: { id, result: { ok: false, error: limit.toWire(), usage } } }, frameBytesMax);
  }
}

function begin(given: HostSetup): void {
  setup = given;
  const { limits } = given;
  pool = new Piscina({
    filename: new URL(`./worker${extname(import.meta.url)}`, import.meta.url).href,
    workerData: given,
    minThreads: 1,
    maxThreads: given.threads,
    concurrentTasksPerWorker: given.jobsPerThread,
    // The gateway sends no more than there are places; these wait for a thread to start.
    maxQueue: given.threads * given.jobsPerThread,
    idleTimeout: limits.hostIdleMs,
    // The ends of terminals are opened by a library, and closed by us; where this thread dies, so does the process.
    trackUnmanagedFds: given.command === undefined,
    // Waiting threads that still have to hear of output and aborts may not sleep in Atomics.wait.
    atomics: given.command ? 'disabled' : 'sync',
    resourceLimits: { maxOldGenerationSizeMb: limits.threadHeapMb },
  });
  pool.on('message', (message: HostOutput | Heard | Kept) => {
    // Hosts that keep things have one thread.
    if ('kept' in message) return send({ kept: message.kept });
    if ('heard' in message) return running.get(message.job)?.heard.add(message.heard);
    const output = message;
    send({ output });
    const job = running.get(output.id);
    if (job) job.outputs += 1;
    return job?.onOutput();
  });
  pool.on('error', (error) => {
    console.error(error);
    process.exit(1);
  });
  send({ ready: true });
}

async function run(job: Job): Promise<void> {
  running.set(job.id, { heard: new Set(), outputs: 0, onOutput() {}, stop() {} });
  try {
    // Without Piscina's abort signal, which would give each job a thread of its own: half as many jobs a second.
    const { result, outputs } = (await (pool as Piscina).run(job)) as JobReturn;
    await outputsCame(job.id, outputs);
    send({ done: { id: job.id, result } });
  } catch (error) {
    send({ done: { id: job.id, result: ended(error) } });
  } finally {
    running.get(job.id)?.stop();
    running.delete(job.id);
  }
}

/** Until the worker's outputs have come, so that no output follows its result. */
function outputsCame(id: number, outputs: number): Promise<void> {
  const job = running.get(id);
  return new Promise((resolve) => {
    if (!job || job.outputs >= outputs) return resolve();
    job.onOutput = () => {
      if (job.outputs >= outputs) resolve();
    };
  });
}

/** A thread that ended under its job: by its heap limit, or because a job in it had to be ended. */
function ended(error: unknown): JobResult {
  const usage = { cpuMs: 0, outputBytes: 0, enforcedBy: 'worker thread' };
  if ((error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY') {
    const { threadHeapMb } = (setup as HostSetup).limits;
    const limit = threadHeapMb * 1024 * 1024;
    const message = `the tool needed more than ${threadHeapMb} MiB of memory`;
    const memory = new ToolError('MEMORY_LIMIT', message, { details: { limit, enforcedBy: 'worker thread' } });
    return { ok: false, error: memory.toWire(), usage: { ...usage, verdict: 'memory' } };
  }
  const crash = new ToolError('HOST_CRASHED', 'the worker thread of this call ended under it');
  return { ok: false, error: crash.toWire(), usage: { ...usage, verdict: 'crashed' } };
}

/**
 * The job is told. If it has not ended by then, the threads that did not even hear of it are: the one it keeps busy, and
 * idle ones, which nobody misses. One that heard and does not end is for the gateway, which ends this process.
 */
function abort({ id, graceMs }: Abort): void {
  const job = running.get(id);
  if (!job) return;
  threads.postMessage({ abort: { id, graceMs } } satisfies ToThreads);
  // A thread that waits for commands is shared by many and never busy for long; a slow machine must not cost the others their lives.
  if (setup?.command) return;
  const timer = setTimeout(() => {
    for (const thread of pool?.threads ?? []) if (!job.heard.has(thread.threadId)) void thread.terminate();
  }, setup?.limits.abortGraceMs);
  job.stop = () => clearTimeout(timer);
}

function receive(message: ToHost): void {
  if ('setup' in message) begin(message.setup);
  else if ('run' in message) void run(message.run);
  else if ('taken' in message) threads.postMessage({ taken: message.taken } satisfies ToThreads);
  else if ('endSession' in message) threads.postMessage({ endSession: message.endSession } satisfies ToThreads);
  else abort(message.abort);
}

/** Until the setup says more; the gateway, which sends it, bounds its own frames. */
const BEFORE_SETUP = { messageDepthMax: 64, messageElementsMax: 1_000_000 };
const reader = new FrameReader(2 ** 32 - 1);
gateway.on('data', (chunk: Buffer) => {
  for (const payload of reader.push(chunk)) receive(decode(payload, setup?.limits ?? BEFORE_SETUP) as ToHost);
});
// The gateway is gone, and with it whoever wanted our work.
gateway.on('close', () => process.exit(0));
gateway.on('error', () => process.exit(0));
