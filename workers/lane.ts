/** A thread's own line to the gateway: jobs come by it and their results leave by it, past the host's main thread. */
import { Socket } from 'node:net';
import type { FromHost, Job, JobResult, ToLane } from '../src/hosts/job.ts';
import type { Limits } from '../src/limits.ts';
import { Polling } from '../src/polling.ts';
import type { Powers } from '../src/powers.ts';
import { decode } from '../src/protocol/codec.ts';
import { FrameReader, FrameWriter, toFrame } from '../src/protocol/frame.ts';
import { Aborted } from '../src/sandbox/command.ts';
import { toResultFrame } from './result-frame.ts';

/** What has a thread serve a lane for as long as it lives. */
export interface LaneTask {
  readonly lane: number;
  /** Of its socket. */
  readonly fd: number;
}

/** Never settles: the lane ends with its thread, and the gateway's end of it with this process. */
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
  /** The last job. Many at once wait for processors, which polling would take from the gateway. */
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
  // A few at a time: the gateway goes on with their results while the next ones run.
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
  // The gateway is gone; the main thread, which hears of that too, ends the process.
  socket.on('error', () => {});
  tell({ laneOpen: lane });
  return new Promise(() => {});
}
