/** Calls of sessions that have ended, for operators: one command line asks what became of a call of another one. */
import type { CallRecord } from '../call.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { Session } from './session.ts';

interface Ended {
  readonly record: CallRecord;
  readonly bytes: number;
  /** Milliseconds since the epoch at which it is forgotten. */
  readonly untilMs: number;
}

export class RecentCalls {
  readonly #limits: Limits;
  readonly #powers: Powers;
  /** The oldest first. */
  readonly #calls = new Set<Ended>();
  #bytes = 0;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Takes over what a session that has ended remembers of its calls; the oldest of all make room. */
  add(session: Pick<Session, 'remembered'>): void {
    const { endedCallsKept, endedResultBytesKept, resultLogKeptMs } = this.#limits;
    const untilMs = this.#powers.now() + resultLogKeptMs;
    for (const [{ record }, bytes] of session.remembered.endedCalls) {
      this.#calls.add({ record, bytes, untilMs });
      this.#bytes += bytes;
    }
    for (const it of this.#calls) {
      if (this.#calls.size <= endedCallsKept && this.#bytes <= endedResultBytesKept) break;
      this.#drop(it);
    }
  }

  /** The newest of that id; undefined where it is forgotten. */
  get(callId: string): CallRecord | undefined {
    return this.records.findLast((it) => it.callId === callId);
  }

  /** All of them, the oldest first. */
  get records(): CallRecord[] {
    const now = this.#powers.now();
    for (const it of this.#calls) if (it.untilMs <= now) this.#drop(it);
    return [...this.#calls].map(({ record }) => record);
  }

  #drop(ended: Ended): void {
    this.#calls.delete(ended);
    this.#bytes -= ended.bytes;
  }
}
