/**
 * Hands out slots for work to principals in turn, and to the sessions of a principal in turn, so that neither a thousand
 * waiting calls nor a hundred sessions of one hold up the single call of another.
 */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';

const RETRY_AFTER_MS = 100;

interface QueueWaiter {
  readonly congested: () => boolean;
  readonly slotsPerSession: number;
  readonly go: () => void;
}

interface TierQueue {
  /** Waiters by session by principal, in the order in which principals and their sessions take turns. */
  readonly principals: Map<string, Map<string, QueueWaiter[]>>;
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
  readonly principal: string;
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
  #isPaused = false;

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
    if (hasRoom && !this.#isPaused && !slot.congested()) hold(line, session, 1);
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

  /** Lets no further work begin; work that has a slot goes on. */
  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.wake();
  }

  #line({ line: name, slots }: QueueSlot): TierQueue {
    const line = this.#lines.get(name) ?? { principals: new Map(), slots, held: new Map(), running: 0 };
    this.#lines.set(name, line);
    return line;
  }

  #wait(line: TierQueue, { principal, session, signal, congested, slotsPerSession }: QueueSlot): Promise<void> {
    const { sessionQueueMax, queueMax } = this.#limits;
    const lanes = line.principals.get(principal) ?? new Map<string, QueueWaiter[]>();
    const lane = lanes.get(session) ?? [];
    if (lane.length >= sessionQueueMax || this.#queued >= queueMax) {
      throw new ToolError(
        'QUEUE_FULL',
        `${lane.length} calls of this session and ${this.#queued} in all are waiting; at most ${sessionQueueMax} and ${queueMax} are allowed; wait for some to end`,
        {
          details: { retryAfterMs: RETRY_AFTER_MS },
        },
      );
    }
    line.principals.set(principal, lanes.set(session, lane));
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
        // A lane that emptied before is no longer here, and another one may have its place.
        if (lane.length === 0 && lanes.get(session) === lane) lanes.delete(session);
        if (lanes.size === 0 && line.principals.get(principal) === lanes) line.principals.delete(principal);
        reject(signal.reason as Error);
      };
      lane.push(waiter);
      signal.addEventListener('abort', giveUp);
    });
  }

  /** Gives free slots to the principals of the line; one that gets a slot goes to the end of the line, and so does its session. */
  #fill(name: string, line: TierQueue): void {
    // The iteration reaches a principal that is put back again, so the loop ends when no slot is free or every waiter left is congested.
    for (const [principal, lanes] of line.principals) {
      if (line.running >= line.slots || this.#isPaused) break;
      const next = nextOf(lanes, line.held);
      if (!next) continue;
      const { session, lane, waiter } = next;
      lane.shift();
      lanes.delete(session);
      if (lane.length > 0) lanes.set(session, lane);
      line.principals.delete(principal);
      if (lanes.size > 0) line.principals.set(principal, lanes);
      hold(line, session, 1);
      waiter.go();
    }
    if (line.running === 0 && line.principals.size === 0) this.#lines.delete(name);
  }
}

/** The first waiter of a principal's sessions that may begin. */
function nextOf(lanes: ReadonlyMap<string, QueueWaiter[]>, held: ReadonlyMap<string, number>) {
  for (const [session, lane] of lanes) {
    const [waiter] = lane;
    const mayBegin = waiter && !waiter.congested() && (held.get(session) ?? 0) < waiter.slotsPerSession;
    if (mayBegin) return { session, lane, waiter };
  }
  return undefined;
}
