/**
 * Ways from the gateway to single threads of a host, past its main thread: to be passed on there, decoded and encoded once
 * more and handed from thread to thread, costs more than most reads do. What a lane can't carry goes by the main thread.
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
  /** Has the host start the thread of a lane. */
  open(lane: number): void;
  onBytes(reader: FrameReader, chunk: Buffer): void;
  /** Nothing goes by it any more; the host has not said so yet. */
  onLost(lane: Lane): void;
}

/** Most reads take a hundredth of it. */
const SLOW_MS = 10;

/** `shut`: nobody has asked for its thread. `over`: that is gone, and does not come again. */
type State = 'shut' | 'opening' | 'open' | 'over';

export class Lane {
  readonly number: number;
  /** When each was sent, by number; the oldest first. */
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

  /** Throws what `toFrame` throws. */
  send(message: ToLane): void {
    this.#writer.write(toFrame(message, this.#frameBytesMax));
    this.poll();
  }

  /** For the result of a job that is alone: many at once wait for processors, which polling would take from the thread. */
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

  /** The first one takes jobs at once. */
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

  /** Whether one is over: its host is good for what it has, and no more. */
  get worn(): boolean {
    return this.#lanes.some((it) => it.state === 'over');
  }

  /**
   * A lane for one job more: the first that is not held up by a slow one, since many short jobs in one thread cost less than
   * the same in two; where all are, the one that is held up for the shortest time. Undefined where none is open.
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

  /** Gives the jobs that were in it. */
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
