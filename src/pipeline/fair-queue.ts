/** Places for work, given to sessions in turn, so that one with a thousand calls waiting does not hold up one with one. */
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';

const RETRY_AFTER_MS = 100;

interface Waiter {
  readonly congested: () => boolean;
  readonly go: () => void;
}

interface Line {
  /** Sessions in the order of their turns. */
  readonly lanes: Map<string, Waiter[]>;
  readonly places: number;
  running: number;
}

export interface Place {
  /** Where work goes that shares places. */
  readonly line: string;
  readonly places: number;
  readonly session: string;
  readonly signal: AbortSignal;
  /** While this holds the work is not begun, and its place goes to another session. */
  congested(): boolean;
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
    const line = this.#line(place);
    if (line.running < line.places && !place.congested()) line.running += 1;
    else await this.#wait(line, place);
    return () => {
      line.running -= 1;
      this.#fill(place.line, line);
    };
  }

  /** Looks again at what waited because it was congested. */
  wake(): void {
    for (const [name, line] of this.#lines) this.#fill(name, line);
  }

  #line({ line: name, places }: Place): Line {
    const line = this.#lines.get(name) ?? { lanes: new Map(), places, running: 0 };
    this.#lines.set(name, line);
    return line;
  }

  #wait(line: Line, { session, signal, congested }: Place): Promise<void> {
    const { sessionQueueMax, queueMax } = this.#limits;
    const lane = line.lanes.get(session) ?? [];
    if (lane.length >= sessionQueueMax || this.#queued >= queueMax) {
      throw new ToolError(
        'QUEUE_FULL',
        `${lane.length} calls of this session and ${this.#queued} in all are waiting; at most ${sessionQueueMax} and ${queueMax} may`,
        {
          details: { retryAfterMs: RETRY_AFTER_MS },
        },
      );
    }
    line.lanes.set(session, lane);
    this.#queued += 1;
    return new Promise((resolve, reject) => {
      const give = () => {
        this.#queued -= 1;
        signal.removeEventListener('abort', giveUp);
      };
      const waiter: Waiter = {
        congested,
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

  /** Gives free places to the sessions in line, each of which then goes to the end of it. */
  #fill(name: string, line: Line): void {
    // A lane that is put back is come to again, until the places are taken or whoever is left is congested.
    for (const [session, lane] of line.lanes) {
      if (line.running >= line.places) break;
      if (lane[0]?.congested()) continue;
      const waiter = lane.shift();
      line.lanes.delete(session);
      if (lane.length > 0) line.lanes.set(session, lane);
      line.running += 1;
      waiter?.go();
    }
    if (line.running === 0 && line.lanes.size === 0) this.#lines.delete(name);
  }
}
