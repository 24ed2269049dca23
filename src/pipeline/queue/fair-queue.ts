/** Hands out slots for work to sessions in turn, so that a session with a thousand waiting calls does not hold up a session with one. */
import { ToolError } from '../../errors.ts';
import type { Limits } from '../../limits.ts';

const RETRY_AFTER_MS = 100;

interface QueueWaiter {
  readonly congested: () => boolean;
  readonly slotsPerSession: number;
  readonly go: () => void;
}

interface TierQueue {
  /** Waiters by session, in the order in which sessions take turns. */
  readonly lanes: Map<string, QueueWaiter[]>;
  readonly slots: number;
  /** Slots in use by session; a session without any has no entry. */
  readonly held: Map<string, number>;
  running: number;
}

export interface QueueSlot {
  /** Names the line; work of one line shares its slots. */
  readonly line: string;
  readonly slots: number;
  /** The most of these slots that one session may use. */
  readonly slotsPerSession: number;
  readonly session: string;
  readonly signal: AbortSignal;
  /** While this is true the work does not begin, and its slot goes to another session. */
  congested(): boolean;
}

function hold(line: TierQueue, session: string, change: 1 | -1): void {
  line.running += change;
  const held = (line.held.get(session) ?? 0) + change;
  if (held > 0) line.held.set(session, held);
  else line.held.delete(session);
}

export class FairQueue {
  readonly #limits: Limits;
  readonly #lines = new Map<string, TierQueue>();
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

  /** Waits for a slot; the returned function gives it back. Throws QUEUE_FULL, or the signal's reason. */
  async enter(slot: QueueSlot): Promise<() => void> {
    const line = this.#line(slot);
    const { session, slotsPerSession } = slot;
    const hasRoom = line.running < line.slots && (line.held.get(session) ?? 0) < slotsPerSession;
    if (hasRoom && !slot.congested()) hold(line, session, 1);
    else await this.#wait(line, slot);
    return () => {
      hold(line, session, -1);
      this.#fill(slot.line, line);
    };
  }

  /** Checks again whether work that waited because it was congested can begin. */
  wake(): void {
    for (const [name, line] of this.#lines) this.#fill(name, line);
  }

  #line({ line: name, slots }: QueueSlot): TierQueue {
    const line = this.#lines.get(name) ?? { lanes: new Map(), slots, held: new Map(), running: 0 };
    this.#lines.set(name, line);
    return line;
  }

  #wait(line: TierQueue, { session, signal, congested, slotsPerSession }: QueueSlot): Promise<void> {
    const { sessionQueueMax, queueMax } = this.#limits;
    const lane = line.lanes.get(session) ?? [];
    if (lane.length >= sessionQueueMax || this.#queued >= queueMax) {
      throw new ToolError(
        'QUEUE_FULL',
        `${lane.length} calls of this session and ${this.#queued} in all are waiting; at most ${sessionQueueMax} and ${queueMax} are allowed; wait for some to end`,
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
      const waiter: QueueWaiter = {
        congested,
        slotsPerSession,
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

  /** Gives free slots to the sessions of the line; a session that gets one goes to the end of the line. */
  #fill(name: string, line: TierQueue): void {
    // The iteration reaches a lane that is put back again, so the loop ends when no slot is free or every waiter left is congested.
    for (const [session, lane] of line.lanes) {
      if (line.running >= line.slots) break;
      const [first] = lane;
      if (!first || first.congested() || (line.held.get(session) ?? 0) >= first.slotsPerSession) continue;
      lane.shift();
      line.lanes.delete(session);
      if (lane.length > 0) line.lanes.set(session, lane);
      hold(line, session, 1);
      first.go();
    }
    if (line.running === 0 && line.lanes.size === 0) this.#lines.delete(name);
  }
}
