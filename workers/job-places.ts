/**
 * Which thread each job of a host is in: a table in memory that its threads and its main thread share, so that it also
 * tells of threads that are too busy to say so.
 */
import { readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { threadId } from 'node:worker_threads';
import type { HostSetup, Job } from '../src/hosts/job.ts';

/** What a thread is given at its start. */
export interface ThreadSetup extends HostSetup {
  readonly places: SharedArrayBuffer;
}

/** A job and its place in the table. */
export interface PlacedJob {
  readonly job: Job;
  readonly place: number;
}

/** Where a job is. */
export interface Seat {
  /** The worker's. */
  readonly threadId: number;
  /** The kernel's, 0 where /proc does not tell. */
  readonly taskId: number;
  /** CPU time of the thread when the job began. */
  readonly begunMs: number;
}

const FIELDS = 3;

export class JobPlaces {
  readonly buffer: SharedArrayBuffer;
  readonly #table: Int32Array;
  readonly #taken = new Set<number>();

  /** A new table of so many places, or one that another thread made. */
  constructor(of: number | SharedArrayBuffer) {
    this.buffer = typeof of === 'number' ? new SharedArrayBuffer(of * FIELDS * 4) : of;
    this.#table = new Int32Array(this.buffer);
  }

  /** For the main thread: a free place. Throws where there is none, which its queue does first. */
  take(): number {
    const places = this.#table.length / FIELDS;
    for (let place = 0; place < places; place++) {
      if (this.#taken.has(place)) continue;
      this.#taken.add(place);
      return place;
    }
    throw new Error('more jobs than places');
  }

  /** For the main thread: its job is over. */
  free(place: number): void {
    this.leave(place);
    this.#taken.delete(place);
  }

  /** Undefined for a job that no thread has begun. */
  seatOf(place: number): Seat | undefined {
    const [threadId = 0, taskId = 0, begunMs = 0] = [0, 1, 2].map((field) => this.#at(place, field));
    return threadId === 0 ? undefined : { threadId, taskId, begunMs };
  }

  /** For a worker thread: it begins the job of this place. */
  enter(place: number, { taskId, begunMs }: Pick<Seat, 'taskId' | 'begunMs'>): void {
    Atomics.store(this.#table, place * FIELDS + 1, taskId);
    Atomics.store(this.#table, place * FIELDS + 2, Math.round(begunMs));
    // Last, since it says that the rest is there.
    Atomics.store(this.#table, place * FIELDS, threadId);
  }

  /** For a worker thread: it is done with it. */
  leave(place: number): void {
    Atomics.store(this.#table, place * FIELDS, 0);
  }

  #at(place: number, field: number): number {
    return Atomics.load(this.#table, place * FIELDS + field);
  }
}

/** This thread as the kernel knows it; 0 where /proc does not tell. */
export function ownTaskId(): number {
  try {
    return Number(basename(readlinkSync('/proc/thread-self')));
  } catch {
    return 0; // No /proc.
  }
}
