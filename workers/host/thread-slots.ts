/**
 * A table of which thread each job of a host is in. The threads and the main thread share its memory, so that it also
 * shows threads that are too busy to answer.
 */
import { readlinkSync } from 'node:fs';
import { basename } from 'node:path';
import { threadId } from 'node:worker_threads';
import type { HostSetup, Job } from '../../src/hosts/job.ts';

/** Worker data of a thread. */
export interface ThreadSetup extends HostSetup {
  readonly places: SharedArrayBuffer;
}

/** A job and its place in the table. */
export interface PlacedJob {
  readonly job: Job;
  readonly place: number;
}

/** The thread that runs a job. */
export interface Seat {
  /** The worker's thread id. */
  readonly threadId: number;
  /** The kernel's thread id; 0 if /proc does not tell. */
  readonly taskId: number;
  /** CPU time of the thread when the job began. */
  readonly begunMs: number;
}

const FIELDS = 3;

export class JobPlaces {
  readonly buffer: SharedArrayBuffer;
  readonly #table: Int32Array;
  readonly #taken = new Set<number>();

  /** Creates a table with that many places, or uses one that another thread made. */
  constructor(of: number | SharedArrayBuffer) {
    this.buffer = typeof of === 'number' ? new SharedArrayBuffer(of * FIELDS * 4) : of;
    this.#table = new Int32Array(this.buffer);
  }

  /** Takes a free place; for the main thread. Throws if there is none, which the queue prevents. */
  take(): number {
    const places = this.#table.length / FIELDS;
    for (let place = 0; place < places; place++) {
      if (this.#taken.has(place)) continue;
      this.#taken.add(place);
      return place;
    }
    throw new Error('more jobs than places');
  }

  /** Frees a place after its job; for the main thread. */
  free(place: number): void {
    this.leave(place);
    this.#taken.delete(place);
  }

  /** The thread that runs the job of a place; undefined if none has begun it. */
  seatOf(place: number): Seat | undefined {
    const [threadId = 0, taskId = 0, begunMs = 0] = [0, 1, 2].map((field) => this.#at(place, field));
    return threadId === 0 ? undefined : { threadId, taskId, begunMs };
  }

  /** Marks the job of a place as begun; for a worker thread. */
  enter(place: number, { taskId, begunMs }: Pick<Seat, 'taskId' | 'begunMs'>): void {
    Atomics.store(this.#table, place * FIELDS + 1, taskId);
    Atomics.store(this.#table, place * FIELDS + 2, Math.round(begunMs));
    // Stored last: a thread id marks the entry as complete.
    Atomics.store(this.#table, place * FIELDS, threadId);
  }

  /** Marks the job of a place as done; for a worker thread. */
  leave(place: number): void {
    Atomics.store(this.#table, place * FIELDS, 0);
  }

  #at(place: number, field: number): number {
    return Atomics.load(this.#table, place * FIELDS + field);
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
