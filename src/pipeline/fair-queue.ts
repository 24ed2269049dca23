/** Places for work, given to sessions in turn, so that one with a thousand calls waiting does not hold up one with one. */
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';

const RETRY_AFTER_MS = 100;

interface Waiter {
  readonly signal: AbortSignal;
  readonly go: () => void;
}

interface Line {
  /** Sessions in the order of their turns. */
  readonly lanes: Map<string, Waiter[]>;
  running: number;
}

export interface Place {
  /** Where work goes that shares places. */
  readonly line: string;
  readonly places: number;
  readonly session: string;
  readonly signal: AbortSignal;
}

export class FairQueue {
  readonly #limits: Limits;
  readonly #lines = new Map<string, Line>();
  #queued = 0;

  constructor(limits: Limits) {
    this.#limits = limits;
  }

  get queued(): number {
    return this.#queued;
  }

  get running(): number {
    let running = 0;
    for (const line of this.#lines.values()) running += line.running;
    return running;
  }

  /** Waits for a place; call what it gives to leave it. Throws QUEUE_FULL, or the signal's reason. */
  async enter(place: Place): Promise<() => void> {
    const line = this.#line(place.line);
    if (line.running < place.places) line.running += 1;
    else await this.#wait(line, place);
    return () => this.#leave(place.line, line);
  }

  #line(name: string): Line {
    const line = this.#lines.get(name) ?? { lanes: new Map(), running: 0 };
    this.#lines.set(name, line);
    return line;
  }

  #wait(line: Line, { session, signal }: Place): Promise<void> {
    const { sessionQueueMax, queueMax } = this.#limits;
    const lane = line.lanes.get(session) ?? [];
    if (lane.length >= sessionQueueMax || this.#queued >= queueMax) {
      throw new ToolError('QUEUE_FULL', `${lane.length} calls of this session and ${this.#queued} in all are waiting; at most ${sessionQueueMax} and ${queueMax} may`, {
        details: { retryAfterMs: RETRY_AFTER_MS },
      });
    }
    line.lanes.set(session, lane);
    this.#queued += 1;
    return new Promise((resolve, reject) => {
      const give = () => {
        this.#queued -= 1;
        signal.removeEventListener('abort', giveUp);
      };
      const waiter: Waiter = {
        signal,
        go() {
          give();
          resolve();
        },
      };
      const giveUp = () => {
        give();
        const at = lane.indexOf(waiter);
        if (at >= 0) lane.splice(at, 1);
        if (lane.length === 0) line.lanes.delete(session);
        reject(signal.reason as Error);
      };
      lane.push(waiter);
      signal.addEventListener('abort', giveUp);
    });
  }

  /** Hands the place to the first session in line, which then goes to the end of it. */
  #leave(name: string, line: Line): void {
    const first = line.lanes.entries().next().value;
    if (!first) {
      line.running -= 1;
      if (line.running === 0) this.#lines.delete(name);
      return;
    }
    const [session, lane] = first;
    line.lanes.delete(session);
    const waiter = lane.shift();
    if (lane.length > 0) line.lanes.set(session, lane);
    waiter?.go();
  }
}
