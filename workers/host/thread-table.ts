/**
 * A table of the threads of a host, in memory that they share with the main thread. It also tells of a thread that is
 * too busy to answer, or has ended.
 */
import { readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import type { ThreadClock } from '../../src/hosts/job.ts';
import { statOf } from '../../src/sandbox/proc.ts';

/** In this order for each thread: worker's thread id, kernel's thread id, jobs begun, CPU time when the newest began. */
const FIELDS = { worker: 0, task: 1, begun: 2, begunMs: 3 };
const FIELD_COUNT = 4;

export class ThreadTable {
  readonly buffer: SharedArrayBuffer;
  readonly #fields: Int32Array;

  /** Creates a table for that many threads, or uses one that another thread made. */
  constructor(of: number | SharedArrayBuffer) {
    this.buffer = typeof of === 'number' ? new SharedArrayBuffer(of * FIELD_COUNT * 4) : of;
    this.#fields = new Int32Array(this.buffer);
  }

  /** Enters this thread under its number. `taskId` is the kernel's id; 0 if /proc does not tell. */
  enter(thread: number, workerId: number, taskId: number): void {
    this.#set(thread, 'worker', workerId);
    this.#set(thread, 'task', taskId);
  }

  /** Counts a job that this thread begins, at this CPU time of the thread in ms. */
  begin(thread: number, cpuMs: number): void {
    this.#set(thread, 'begunMs', Math.round(cpuMs));
    this.#set(thread, 'begun', this.begun(thread) + 1);
  }

  /** The worker's thread id; 0 if the thread has not started. */
  workerOf(thread: number): number {
    return this.#get(thread, 'worker');
  }

  begun(thread: number): number {
    return this.#get(thread, 'begun');
  }

  /** The clock of a thread; undefined if it has ended. */
  clockOf(thread: number): ThreadClock | undefined {
    const cpuMs = statOf(`self/task/${this.#get(thread, 'task')}`)?.ownCpuMs;
    if (cpuMs === undefined) return undefined;
    return { thread, cpuMs, begun: this.begun(thread), begunMs: this.#get(thread, 'begunMs') };
  }

  #get(thread: number, field: keyof typeof FIELDS): number {
    return Atomics.load(this.#fields, thread * FIELD_COUNT + FIELDS[field]);
  }

  #set(thread: number, field: keyof typeof FIELDS, value: number): void {
    Atomics.store(this.#fields, thread * FIELD_COUNT + FIELDS[field], value);
  }
}

/** The kernel's id of this thread; 0 if /proc does not tell. */
export function ownTaskId(): number {
  try {
    return Number(basename(readlinkSync('/proc/thread-self')));
  } catch {
    return 0; // No /proc.
  }
}
