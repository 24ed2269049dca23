/** A thread's own socket to the gateway: jobs and results pass through it, bypassing the host's main thread. */
import { Socket } from 'node:net';
import type { FromHost, Job, JobResult, ToLane } from '../../src/hosts/job.ts';
import type { Limits } from '../../src/limits.ts';
import { Polling } from '../../src/polling.ts';
import type { Powers } from '../../src/powers.ts';
import { decode } from '../../src/protocol/codec.ts';
import { FrameReader, FrameWriter, toFrame } from '../../src/protocol/frame.ts';
import { Aborted } from '../../src/sandbox/command/command.ts';
import { toResultFrame } from './result-frame.ts';

/** The task of serving a lane for the life of the thread. */
export interface LaneTask {
  readonly lane: number;
  /** Descriptor of the lane's socket. */
  readonly fd: number;
}

/** Serves a lane. Never settles: the lane ends with its thread, or with this process when the gateway closes it. */
export function serveLane(
  { lane, fd }: LaneTask,
  { limits, powers }: { readonly limits: Limits; readonly powers: Powers },
  run: (job: Job, signal: AbortSignal) => Promise<JobResult>,
): Promise<never> {
  const socket = new Socket({ fd, readable: true, writable: true });
  const writer = new FrameWriter(socket);
  const tell = (message: FromHost) => writer.write(toFrame(message, limits.frameBytesMax));
  const running = new Map<number, AbortController>();
  const polling = new Polling(limits.lanePollMs, powers);
  /** Whether the last job was alone. With several jobs, polling would take the processor from the gateway. */
  let isAlone = false;

  const start = async (job: Job) => {
    const controller = new AbortController();
    running.set(job.id, controller);
    const result = await run(job, controller.signal);
    running.delete(job.id);
    writer.write(toResultFrame({ id: job.id, result }, limits));
    if (isAlone) polling.begin();
  };
  const receive = (message: ToLane) => {
    if ('run' in message) return void start(message.run);
    const { id, graceMs } = message.abort;
    tell({ heard: id });
    running.get(id)?.abort(new Aborted(graceMs));
  };
  const reader = new FrameReader(limits.frameBytesMax);
  const inbox: Buffer[] = [];
  // Takes a few jobs at a time: the gateway handles their results while the next ones run.
  const receiveSome = () => {
    for (const payload of inbox.splice(0, limits.laneJobsPerTurn)) receive(decode(payload, limits) as ToLane);
    if (inbox.length > 0) setImmediate(receiveSome);
  };
  socket.on('data', (chunk: Buffer) => {
    polling.end();
    const isIdle = inbox.length === 0;
    inbox.push(...reader.push(chunk));
    isAlone = inbox.length === 1 && running.size === 0;
    if (isIdle) receiveSome();
  });
  // The gateway is gone; the main thread notices that, too, and ends the process.
  socket.on('error', () => {});
  tell({ laneOpen: lane });
  return new Promise(() => {});
}
