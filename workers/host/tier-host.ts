/**
 * The main thread of a tier host. It starts and ends threads as the gateway asks, tells it of threads that have ended,
 * and reads their clocks. Jobs pass it by: each thread has a socket of its own to the gateway.
 */
import { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { FromHost, HostSetup, ThreadsSetup, ToHost } from '../../src/hosts/job.ts';
import { GatewayLine } from '../gateway-line.ts';
import { ThreadTable } from './thread-table.ts';

/** Worker data of a thread. */
export interface ThreadSetup extends HostSetup {
  readonly table: SharedArrayBuffer;
}

/** What a thread is given to do for its whole life: to serve a socket. */
export interface ThreadTask {
  readonly thread: number;
  readonly fd: number;
}

export class TierHost {
  readonly #worker: URL;
  readonly #shadowThread: URL;
  readonly #gateway = new GatewayLine<ToHost, FromHost>((message) => this.#receive(message));
  /** The setup, from the first frame. zod and the default limits are not loaded here, which saves 12 MiB per host. */
  #setup: HostSetup | undefined;
  #threads: HostThreads | undefined;

  /** `worker` is the module of the threads, `shadowThread` that of a write host's own thread. */
  constructor(worker: URL, shadowThread: URL) {
    this.#worker = worker;
    this.#shadowThread = shadowThread;
    this.#gateway.sayUp();
  }

  #receive(message: ToHost): void {
    if ('setup' in message) {
      this.#setup = message.setup;
      this.#gateway.limits = message.setup.limits;
      this.#threads = new HostThreads(message.setup, this.#worker, (it) => this.#gateway.send(it));
      this.#threads.start(0);
    } else if ('startShadow' in message) this.#startShadow();
    else if ('startThread' in message) this.#threads?.start(message.startThread);
    else if ('endThread' in message) this.#threads?.end(message.endThread);
    else if ('look' in message) this.#gateway.send({ clocks: this.#threads?.clocksOf(message.look) ?? [] });
  }

  /** Starts the thread that keeps what commands change. If it ends, commands run on without undo. */
  #startShadow(): void {
    const setup = this.#setup as HostSetup;
    const resourceLimits = { maxOldGenerationSizeMb: setup.limits.shadowHeapMb };
    new Worker(this.#shadowThread, { workerData: setup, resourceLimits }).on('error', (error) => console.error(error));
  }
}

/** The threads of a host, as Piscina runs them: each has one task, which does not end. */
class HostThreads {
  readonly #setup: ThreadsSetup;
  readonly #pool: Piscina;
  readonly #table: ThreadTable;
  readonly #send: (message: FromHost) => void;

  constructor(given: HostSetup, worker: URL, send: (message: FromHost) => void) {
    const { limits, command, threads } = given;
    this.#setup = threads as ThreadsSetup;
    this.#send = send;
    this.#table = new ThreadTable(this.#setup.starts);
    this.#pool = new Piscina({
      filename: worker.href,
      workerData: { ...given, table: this.#table.buffer } satisfies ThreadSetup,
      minThreads: 0,
      maxThreads: this.#setup.max,
      maxQueue: this.#setup.starts,
      // A library opens the descriptors of terminals, and we close them.
      trackUnmanagedFds: command === undefined,
      // A task that does not end gets its work from its socket, for which it must not sleep in Atomics.wait.
      atomics: 'disabled',
      resourceLimits: { maxOldGenerationSizeMb: limits.threadHeapMb },
    });
    this.#pool.on('error', (error) => {
      console.error(error);
      process.exit(1);
    });
  }

  /** Starts a thread, and reports its end. */
  start(thread: number): void {
    const task: ThreadTask = { thread, fd: this.#setup.firstFd + thread };
    this.#pool.run(task).catch((error: NodeJS.ErrnoException) => {
      const outOfMemory = error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      this.#send({ threadEnded: { thread, begun: this.#table.begun(thread), outOfMemory } });
    });
  }

  end(thread: number): void {
    const workerId = this.#table.workerOf(thread);
    void this.#pool.threads.find((it) => it.threadId === workerId)?.terminate();
  }

  clocksOf(threads: readonly number[]) {
    return threads.flatMap((it) => this.#table.clockOf(it) ?? []);
  }
}
