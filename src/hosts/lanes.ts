/**
 * Lanes: sockets from the gateway directly to single threads of a host. Passing a job through the host's main thread,
 * with another decode and encode and a change of threads, costs more than most reads. Jobs that a lane can't carry go
 * through the main thread.
 */
import type { Socket } from 'node:net';
import { Polling } from '../polling.ts';
import type { Powers } from '../powers.ts';
import { FrameReader, FrameWriter, toFrame } from '../protocol/frame.ts';
import type { ToLane } from './job.ts';

export interface LanesOptions {
  readonly sockets: readonly Socket[];
  readonly frameBytesMax: number;
  readonly pollMs: number;
  readonly powers: Pick<Powers, 'monotonicMs'>;
  /** Asks the host to start the thread of a lane. */
  open(lane: number): void;
  onBytes(reader: FrameReader, chunk: Buffer): void;
  /** Called when the lane has closed and the host has not reported it yet. */
  onLost(lane: Lane): void;
}

/** A job older than this holds up its lane; most reads take a hundredth of it. */
const SLOW_MS = 10;

/** `shut`: the thread was not asked for yet; `over`: the thread has ended and is not started again. */
type State = 'shut' | 'opening' | 'open' | 'over';

export class Lane {
  readonly number: number;
  /** Maps a job's number to when it was sent; the oldest job first. */
  readonly jobs = new Map<number, number>();
  state: State = 'shut';
  readonly #writer: FrameWriter;
  readonly #frameBytesMax: number;
  readonly #polling: Polling;

  constructor(number: number, socket: Socket, { frameBytesMax, pollMs, powers }: LanesOptions) {
    this.number = number;
    this.#polling = new Polling(pollMs, powers);
    this.#writer = new FrameWriter(socket);
    this.#frameBytesMax = frameBytesMax;
  }

  /** Sends a message; throws what `toFrame` throws. */
  send(message: ToLane): void {
    this.#writer.write(toFrame(message, this.#frameBytesMax));
    this.poll();
  }

  /** Polls for the result of a job that is alone: with several jobs, polling would take the processor from the threads. */
  poll(): void {
    if (this.jobs.size === 1) this.#polling.begin();
  }

  heard(): void {
    this.#polling.end();
  }
}

export class Lanes {
  readonly #options: LanesOptions;
  readonly #lanes: readonly Lane[];

  /** The first lane takes jobs from the start. */
  constructor(options: LanesOptions) {
    const { sockets, frameBytesMax, onBytes, onLost } = options;
    this.#options = options;
    this.#lanes = sockets.map((socket, number) => {
      const reader = new FrameReader(frameBytesMax);
      const lane = new Lane(number, socket, options);
      const lost = () => {
        lane.state = 'over';
        onLost(lane);
      };
      socket
        .on('data', (chunk: Buffer) => {
          lane.heard();
          onBytes(reader, chunk);
          lane.poll();
        })
        .on('error', lost);
      return lane;
    });
    if (this.#lanes[0]) this.#lanes[0].state = 'open';
  }

  /** Whether a lane has ended; the host then finishes its jobs and should be replaced. */
  get worn(): boolean {
    return this.#lanes.some((it) => it.state === 'over');
  }

  /**
   * Picks a lane for a job: the first that no slow job holds up, since many short jobs cost less in one thread than
   * in two; if all are held up, the one held up for the shortest time. Undefined if none is open.
   */
  take(job: number): Lane | undefined {
    const nowMs = this.#options.powers.monotonicMs();
    const open = this.#lanes.filter((it) => it.state === 'open');
    const heldMs = (it: Lane) => nowMs - (it.jobs.values().next().value ?? nowMs);
    let lane = open.find((it) => heldMs(it) < SLOW_MS);
    if (!lane) {
      this.#openNext();
      lane = open.toSorted((a, b) => heldMs(a) - heldMs(b))[0];
    }
    lane?.jobs.set(job, nowMs);
    return lane;
  }

  opened(number: number): void {
    const lane = this.#lanes[number];
    if (lane?.state === 'opening') lane.state = 'open';
  }

  /** Marks a lane as ended; returns its jobs. */
  ended(number: number): readonly number[] {
    const lane = this.#lanes[number];
    if (!lane) return [];
    lane.state = 'over';
    return [...lane.jobs.keys()];
  }

  [Symbol.dispose](): void {
    for (const socket of this.#options.sockets) socket.destroy();
  }

  #openNext(): void {
    if (this.#lanes.some((it) => it.state === 'opening')) return;
    const next = this.#lanes.find((it) => it.state === 'shut');
    if (!next) return;
    next.state = 'opening';
    this.#options.open(next.number);
  }
}
