/** Entry of a tier host: perimeter, setup from the gateway, a Piscina pool, frames over fd 3 until they end. */
import { Socket } from 'node:net';
import { extname } from 'node:path';
import { BroadcastChannel } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { FromHost, HostOutput, HostSetup, Job, JobResult, ToHost } from '../src/hosts/job.ts';
import { defaultLimits } from '../src/limits.ts';
import { decode, encode } from '../src/protocol/codec.ts';
import { encodeFrame, FrameReader } from '../src/protocol/frame.ts';
import { ABORTS } from './host-channel.ts';
import { establishPerimeter } from './perimeter.ts';

const GATEWAY_FD = 3;

establishPerimeter(GATEWAY_FD);
// New files get the modes that tools give them.
process.umask(0o022);

const gateway = new Socket({ fd: GATEWAY_FD, readable: true, writable: true });
const aborts = new BroadcastChannel(ABORTS);
let limits = defaultLimits;
let pool: Piscina | undefined;
const running = new Map<number, { kill: AbortController; stop: () => void }>();

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
  gateway.write(encodeFrame(encode(message), limits.frameBytesMax));
}

async function begin(setup: HostSetup): Promise<void> {
  limits = setup.limits;
  pool = new Piscina({
    filename: new URL(`./worker${extname(import.meta.url)}`, import.meta.url).href,
    workerData: setup,
    minThreads: 1,
    maxThreads: setup.threads,
    concurrentTasksPerWorker: setup.jobsPerThread,
    maxQueue: limits.hostJobsMax,
    idleTimeout: limits.hostIdleMs,
    // Waiting threads that still have to hear of output and aborts may not sleep in Atomics.wait.
    atomics: setup.command ? 'disabled' : 'sync',
    resourceLimits: { maxOldGenerationSizeMb: limits.threadHeapMb },
  });
  pool.on('message', (output: HostOutput) => send({ output }));
  pool.on('error', (error) => {
    console.error(error);
    process.exit(1);
  });
  send({ ready: true });
}

async function run(job: Job): Promise<void> {
  const kill = new AbortController();
  running.set(job.id, { kill, stop: () => {} });
  try {
    const result = (await pool?.run(job, { signal: kill.signal })) as JobResult;
    send({ done: { id: job.id, result } });
  } catch (error) {
    send({ done: { id: job.id, result: ended(error, kill.signal.aborted) } });
  } finally {
    running.get(job.id)?.stop();
    running.delete(job.id);
  }
}

/** A thread that ended under its job: by us, by its heap limit, or by a thread-mate's end. */
function ended(error: unknown, byUs: boolean): JobResult {
  const usage = { cpuMs: 0, outputBytes: 0, enforcedBy: 'worker thread' };
  const wire = { recoverable: false, details: {} };
  if (byUs) {
    const message = 'the job did not stop when asked, so its thread was ended';
    return {
      ok: false,
      error: { code: 'CANCELLED', category: 'CANCELLED', layer: 'daemon', message, ...wire },
      usage: { ...usage, verdict: 'cancelled' },
    };
  }
  if ((error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY') {
    const limit = limits.threadHeapMb * 1024 * 1024;
    const message = `the tool needed more than ${limits.threadHeapMb} MiB of memory`;
    return {
      ok: false,
      error: {
        code: 'MEMORY_LIMIT',
        category: 'RESOURCE',
        layer: 'limit',
        message,
        ...wire,
        details: { limit, enforcedBy: 'worker thread' },
      },
      usage: { ...usage, verdict: 'memory' },
    };
  }
  console.error(error);
  const message = 'the worker thread of this call ended under it';
  return {
    ok: false,
    error: { code: 'HOST_CRASHED', category: 'SYSTEM', layer: 'daemon', message, ...wire, recoverable: true },
    usage: { ...usage, verdict: 'crashed' },
  };
}

/** First the job is told; if it doesn't end, its thread is ended. If that doesn't return, the gateway ends this process. */
function abort(id: number): void {
  const job = running.get(id);
  if (!job) return;
  aborts.postMessage(id);
  const timer = setTimeout(() => job.kill.abort(), limits.abortGraceMs);
  job.stop = () => clearTimeout(timer);
}

function receive(message: ToHost): void {
  if ('setup' in message) void begin(message.setup);
  else if ('run' in message) void run(message.run);
  else abort(message.abort);
}

const reader = new FrameReader(defaultLimits.frameBytesMax);
gateway.on('data', (chunk: Buffer) => {
  for (const payload of reader.push(chunk)) receive(decode(payload, limits) as ToHost);
});
// The gateway is gone, and with it whoever wanted our work.
gateway.on('close', () => process.exit(0));
gateway.on('error', () => process.exit(0));
