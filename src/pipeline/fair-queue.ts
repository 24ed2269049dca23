/** Places for work, given to sessions in turn, so that one with a thousand calls waiting does not hold up one with one. */
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';

const RETRY_AFTER_MS = 100;

interface Waiter {
  readonly congested: () => boolean;
  readonly placesOfSession: number;
  readonly go: () => void;
}

interface Line {
  /** Sessions in the order of their turns. */
  readonly lanes: Map<string, Waiter[]>;
  readonly places: number;
  /** By session; those without any are not kept. */
  readonly held: Map<string, number>;
  running: number;
}

export interface Place {
  /** Where work goes that shares places. */
  readonly line: string;
  readonly places: number;
  /** Of these, the most that one session may have. */
  readonly placesOfSession: number;
  readonly session: string;
  readonly signal: AbortSignal;
  /** While this holds the work is not begun, and its place goes to another session. */
  congested(): boolean;
}

function hold(line: Line, session: string, change: 1 | -1): void {
  line.running += change;
  const held = (line.held.get(session) ?? 0) + change;
  if (held > 0) line.held.set(session, held);
  else line.held.delete(session);
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
    const { session, placesOfSession } = place;
    const hasRoom = line.running < line.places && (line.held.get(session) ?? 0) < placesOfSession;
    if (hasRoom && !place.congested()) hold(line, session, 1);
    else await this.#wait(line, place);
    return () => {
      hold(line, session, -1);
      this.#fill(place.line, line);
    };
  }

  /** Looks again at what waited because it was congested. */
  wake(): void {
    for (const [name, line] of this.#lines) this.#fill(name, line);
  }

  #line({ line: name, places }: Place): Line {
    const line = this.#lines.get(name) ?? { lanes: new Map(), places, held: new Map(), running: 0 };
    this.#lines.set(name, line);
    return line;
  }

  #wait(line: Line, { session, signal, congested, placesOfSession }: Place): Promise<void> {
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
        placesOfSession,
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
      const [first] = lane;
      if (!first || first.congested() || (line.held.get(session) ?? 0) >= first.placesOfSession) continue;
      lane.shift();
      line.lanes.delete(session);
      if (lane.length > 0) line.lanes.set(session, lane);
      hold(line, session, 1);
      first.go();
    }
    if (line.running === 0 && line.lanes.size === 0) this.#lines.delete(name);
  }
}
