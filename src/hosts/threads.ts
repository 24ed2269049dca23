/**
 * The threads of a tier host, as the gateway uses them. Each has a socket of its own, which brings it jobs and takes
 * their results away, so that no other thread handles them in between.
 */
import type { Socket } from 'node:net';
import { Polling } from '../base/polling.ts';
import type { Powers } from '../base/powers.ts';
import { BatchedWrites, FrameReader, toFrame } from '../wire/protocol/frame.ts';
import type { Job, ThreadsSetup, ToThread } from './job.ts';

export interface ThreadsOptions extends Pick<ThreadsSetup, 'max' | 'jobsPerThread'> {
  /** One for each thread that can be started over the life of the host. */
  readonly sockets: readonly Socket[];
  readonly frameBytesMax: number;
  /** Bytes that a reader allocates for a frame in pieces. */
  readonly roomBytes?: number;
  readonly pollMs: number;
  readonly powers: Pick<Powers, 'monotonicMs'>;
  /** Asks the host to start a thread. */
  start(thread: number): void;
  /** Asks the host to end a thread. */
  end(thread: number): void;
  onBytes(thread: HostThread, reader: FrameReader, chunk: Buffer): void;
  /** Called when the socket of a thread failed and the host has not reported the thread's end yet. */
  onLost(thread: HostThread): void;
}

/** A job older than this holds up its thread; most reads take a hundredth of it. */
const SLOW_MS = 10;

interface SentJob {
  readonly message: Job;
  readonly sentMs: number;
  /** How many jobs were sent to the thread before. */
  readonly index: number;
}

type State = 'unused' | 'starting' | 'open' | 'ended';

export class HostThread {
  readonly number: number;
  /** Jobs in progress, the oldest first. */
  readonly jobs = new Map<number, SentJob>();
  state: State = 'unused';
  idleSince = 0;
  /** How many things its tools keep between calls, as it reports. */
  kept = 0;
  #sent = 0;
  readonly #writer: BatchedWrites;
  readonly #options: ThreadsOptions;
  readonly #polling: Polling;

  constructor(number: number, socket: Socket, options: ThreadsOptions) {
    this.number = number;
    this.#options = options;
    this.#polling = new Polling(options.pollMs, options.powers);
    this.#writer = new BatchedWrites(socket);
  }

  get isLive(): boolean {
    return this.state === 'starting' || this.state === 'open';
  }

  run(message: Job): void {
    this.jobs.set(message.id, { message, sentMs: this.#options.powers.monotonicMs(), index: this.#sent++ });
    this.send({ run: message });
  }

  /** Sends a message; throws what `toFrame` throws. */
  send(message: ToThread): void {
    this.#writer.write(toFrame(message, this.#options.frameBytesMax));
    this.poll();
  }

  /** Polls for the result of a job that is alone: with several jobs, polling would take the processor from the threads. */
  poll(): void {
    if (this.jobs.size === 1) this.#polling.begin();
  }

  received(): void {
    this.#polling.end();
  }
}

export class Threads {
  readonly #options: ThreadsOptions;
  /** All that can be started, in the order of their numbers. */
  readonly all: readonly HostThread[];
  readonly #threadOfJob = new Map<number, HostThread>();
  /** Jobs that no thread has room for. There are no more than the gateway sends: the places of the tier's queue. */
  readonly #waiting: Job[] = [];

  /** The host starts the first thread by itself. */
  constructor(options: ThreadsOptions) {
    const { sockets, frameBytesMax, roomBytes, onBytes, onLost } = options;
    this.#options = options;
    this.all = sockets.map((socket, number) => {
      const reader = new FrameReader(frameBytesMax, roomBytes);
      const thread = new HostThread(number, socket, options);
      const lose = () => {
        thread.state = 'ended';
      };
      socket
        .on('data', (chunk: Buffer) => {
          thread.received();
          onBytes(thread, reader, chunk);
          thread.poll();
        })
        .on('error', () => {
          lose();
          onLost(thread);
        })
        // The thread has ended, which the host reports in its time; on a busy machine that may take a while.
        .on('close', lose);
      return thread;
    });
    if (this.all[0]) this.all[0].state = 'starting';
  }

  /** Whether fewer threads than there should be can run, so that the host should be replaced. */
  get worn(): boolean {
    return this.#next === undefined && this.#live.length < this.#options.max;
  }

  get kept(): number {
    return this.#live.reduce((sum, it) => sum + it.kept, 0);
  }

  /** The thread that a job was sent to; undefined while the job waits for one. */
  of(job: number): HostThread | undefined {
    return this.#threadOfJob.get(job);
  }

  /** The jobs in progress in a thread, in the order in which they were sent. */
  jobsIn(thread: number): { readonly id: number; readonly index: number }[] {
    return [...(this.all[thread]?.jobs ?? [])].map(([id, { index }]) => ({ id, index }));
  }

  /** Sends a job to a thread, or keeps it until one has room. Throws what `toFrame` throws. */
  run(message: Job): void {
    const thread = this.#choose();
    if (!thread) {
      this.#waiting.push(message);
      return;
    }
    this.#threadOfJob.set(message.id, thread);
    thread.run(message);
  }

  /** Forgets a job that has ended or is not wanted any more, and sends those that waited for its room. */
  finish(job: number): void {
    const thread = this.#threadOfJob.get(job);
    this.#threadOfJob.delete(job);
    if (thread) {
      thread.jobs.delete(job);
      thread.idleSince = this.#options.powers.monotonicMs();
    } else {
      const at = this.#waiting.findIndex((it) => it.id === job);
      if (at >= 0) this.#waiting.splice(at, 1);
    }
    if (this.#waiting.length > 0) this.#fill();
  }

  /** Sends a message to all threads. */
  tellAll(message: ToThread): void {
    for (const it of this.all) if (it.state === 'open') it.send(message);
  }

  /** A thread takes jobs. */
  opened(thread: HostThread): void {
    if (thread.state !== 'starting') return;
    thread.state = 'open';
    thread.idleSince = this.#options.powers.monotonicMs();
    this.#fill();
  }

  /**
   * A thread has ended. Gives the jobs that it had begun. The others go on in another thread; `stranded` are those for
   * which there is none any more.
   */
  ended(number: number, begun: number): { readonly begun: readonly number[]; readonly stranded: readonly number[] } {
    const thread = this.all[number];
    if (!thread) return { begun: [], stranded: [] };
    thread.state = 'ended';
    const jobs = [...thread.jobs.values()];
    thread.jobs.clear();
    for (const { message } of jobs) this.#threadOfJob.delete(message.id);
    this.#waiting.unshift(...jobs.filter((it) => it.index >= begun).map((it) => it.message));
    if (this.#live.length === 0) this.#startNext();
    const stranded = this.#live.length === 0 ? this.#waiting.splice(0) : [];
    this.#fill();
    const idsOf = (all: readonly Job[]) => all.map((it) => it.id);
    return { begun: idsOf(jobs.filter((it) => it.index < begun).map((it) => it.message)), stranded: idsOf(stranded) };
  }

  /** Ends threads that were idle for that long, except one, and only those that can be started again. */
  reap(idleMs: number): void {
    const before = this.#options.powers.monotonicMs() - idleMs;
    const idle = this.#live.filter((it) => it.state === 'open' && it.jobs.size === 0 && it.kept === 0);
    const old = idle.filter((it) => it.idleSince < before).at(-1);
    if (!old || this.#live.length === 1 || this.#next === undefined) return;
    old.state = 'ended';
    this.#options.end(old.number);
  }

  [Symbol.dispose](): void {
    for (const socket of this.#options.sockets) socket.destroy();
  }

  get #live(): readonly HostThread[] {
    return this.all.filter((it) => it.isLive);
  }

  get #next(): HostThread | undefined {
    return this.all.find((it) => it.state === 'unused');
  }

  /**
   * The first thread that no slow job holds up, since many short jobs cost less in one thread than in two; if all are
   * held up, the one held up for the shortest time. Undefined if none has room.
   */
  #choose(): HostThread | undefined {
    const { powers, jobsPerThread } = this.#options;
    const nowMs = powers.monotonicMs();
    const heldMs = (it: HostThread) => nowMs - (it.jobs.values().next().value?.sentMs ?? nowMs);
    const hasRoom = (it: HostThread) => it.state === 'open' && it.jobs.size < jobsPerThread;
    for (const it of this.all) if (hasRoom(it) && heldMs(it) < SLOW_MS) return it;
    this.#startNext();
    return this.all.filter(hasRoom).toSorted((a, b) => heldMs(a) - heldMs(b))[0];
  }

  #fill(): void {
    for (let next = this.#waiting.shift(); next; next = this.#waiting.shift()) {
      const thread = this.#choose();
      if (!thread) {
        this.#waiting.unshift(next);
        return;
      }
      this.#threadOfJob.set(next.id, thread);
      thread.run(next);
    }
  }

  /** Starts another thread, unless one is starting or as many run as may. */
  #startNext(): void {
    const live = this.#live;
    const next = this.#next;
    if (!next || live.length >= this.#options.max || live.some((it) => it.state === 'starting')) return;
    next.state = 'starting';
    this.#options.start(next.number);
  }
}
