/** A thread's own socket to the gateway: jobs come on it; results, output and what else the thread has to tell leave on it. */
import { Socket } from 'node:net';
import type { Limits } from '../../src/base/limits.ts';
import { Polling } from '../../src/base/polling.ts';
import type { Powers } from '../../src/base/powers.ts';
import type { FromHost, HostOutput, Job, JobResult, ToThread } from '../../src/hosts/job.ts';
import { Aborted } from '../../src/sandbox/command/command.ts';
import type { CommandRequest } from '../../src/sandbox/command/request.ts';
import { decode } from '../../src/wire/protocol/codec.ts';
import { BatchedWrites, FrameReader, toFrame, toFrameBefore } from '../../src/wire/protocol/frame.ts';
import { OutputWindow } from './output-window.ts';
import { toResultFrame } from './result-frame.ts';

export interface JobSocketOptions {
  readonly fd: number;
  readonly limits: Limits;
  readonly powers: Powers;
  /** How long to poll for the next job. */
  readonly pollMs: number;
  /** Called when a job begins, in the order in which the gateway sent them. */
  onBegin(job: Job): void;
  run(job: Job, signal: AbortSignal, onOutput: CommandRequest['onOutput']): Promise<JobResult>;
  endSession(session: string): void;
}

interface Running {
  readonly controller: AbortController;
  readonly window: OutputWindow;
}

const NONE = Buffer.alloc(0);

export class JobSocket {
  readonly #options: JobSocketOptions;
  readonly #writer: BatchedWrites;
  readonly #polling: Polling;
  readonly #running = new Map<number, Running>();
  readonly #inbox: Buffer[] = [];
  /** Whether the last job was alone. With several jobs, polling would take the processor from the gateway. */
  #isAlone = false;

  /** Begins to take jobs. */
  constructor(options: JobSocketOptions) {
    const { fd, limits, powers, pollMs } = options;
    this.#options = options;
    this.#polling = new Polling(pollMs, powers);
    const socket = new Socket({ fd, readable: true, writable: true });
    this.#writer = new BatchedWrites(socket);
    const reader = new FrameReader(limits.frameBytesMax);
    socket.on('data', (chunk: Buffer) => {
      this.#polling.end();
      const isIdle = this.#inbox.length === 0;
      this.#inbox.push(...reader.push(chunk));
      this.#isAlone = this.#inbox.length === 1 && this.#running.size === 0;
      if (isIdle) this.#receiveSome();
    });
    // The gateway is gone; the main thread notices that, too, and ends the process.
    socket.on('error', () => {});
    this.tell({ ready: true });
  }

  tell(message: FromHost): void {
    this.#writer.write(toFrame(message, this.#options.limits.frameBytesMax));
  }

  /** Takes a few messages at a time: the gateway handles the results of their jobs while the next ones run. */
  readonly #receiveSome = (): void => {
    const { limits } = this.#options;
    for (let left = limits.threadJobsPerTurn; left > 0 && this.#inbox.length > 0; left--) {
      const message = decode(this.#inbox.shift() as Buffer, limits) as ToThread;
      this.#receive(message);
      // A job that may exceed its CPU time must not take those with it that it keeps from running.
      if ('run' in message && message.run.cpuMs !== undefined) break;
    }
    if (this.#inbox.length > 0) setImmediate(this.#receiveSome);
  };

  #receive(message: ToThread): void {
    if ('run' in message) void this.#run(message.run);
    else if ('abort' in message) {
      const { id, graceMs } = message.abort;
      this.tell({ heard: id });
      this.#running.get(id)?.controller.abort(new Aborted(graceMs));
    } else if ('taken' in message) this.#running.get(message.taken.id)?.window.acknowledge(message.taken.bytes);
    else this.#options.endSession(message.endSession);
  }

  async #run(job: Job): Promise<void> {
    const { limits, onBegin, run } = this.#options;
    const { id } = job;
    const controller = new AbortController();
    const window = new OutputWindow(limits.outputWindowBytes);
    this.#running.set(id, { controller, window });
    onBegin(job);
    const result = await run(job, controller.signal, (stream, data) => {
      this.#sendOutput({ id, stream, data });
      return window.addSent(data.length);
    });
    this.#running.delete(id);
    this.#writer.write(toResultFrame({ id, result }, limits));
    if (this.#isAlone) this.#polling.begin();
  }

  #sendOutput({ id, stream, data }: HostOutput): void {
    const { frameBytesMax } = this.#options.limits;
    this.#writer.write(toFrameBefore(data, { output: { id, stream, data: NONE } } satisfies FromHost, frameBytesMax));
    this.#writer.write(data);
  }
}
