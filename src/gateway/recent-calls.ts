/** Calls of ended sessions, for operators: one command can ask about a call of an earlier one. */
import type { CallRecord } from '../base/call.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { type ListedCall, toListed } from './operator/listed-call.ts';
import type { Session } from './session.ts';

interface EndedCall {
  readonly record: CallRecord;
  readonly listed: ListedCall;
  readonly bytes: number;
  /** When the call is forgotten, in milliseconds since the epoch. */
  readonly untilMs: number;
}

export class RecentCalls {
  readonly #limits: Limits;
  readonly #powers: Powers;
  /** Oldest first. */
  readonly #calls = new Set<EndedCall>();
  #bytes = 0;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Takes over the calls that an ended session remembers; the oldest of all are dropped to make room. */
  add(session: Pick<Session, 'remembered' | 'options'>): void {
    const { endedCallsKept, endedResultBytesKept, resultLogKeptMs } = this.#limits;
    const untilMs = this.#powers.now() + resultLogKeptMs;
    for (const [{ record, call }, bytes] of session.remembered.endedCalls) {
      const listed = toListed(call, { record, effects: [], ...session.options });
      this.#calls.add({ record, listed, bytes, untilMs });
      this.#bytes += bytes;
    }
    for (const it of this.#calls) {
      if (this.#calls.size <= endedCallsKept && this.#bytes <= endedResultBytesKept) break;
      this.#drop(it);
    }
  }

  /** The most recent call with this id, of the session `of` if one is named; undefined if it is forgotten. */
  get(callId: string, of?: string): CallRecord | undefined {
    return this.records.findLast((it) => it.callId === callId && (of === undefined || it.sessionId === of));
  }

  /** All calls, oldest first. */
  get records(): CallRecord[] {
    const now = this.#powers.now();
    for (const it of this.#calls) if (it.untilMs <= now) this.#drop(it);
    return [...this.#calls].map(({ record }) => record);
  }

  /** All calls as they are listed, oldest first. */
  get listed(): ListedCall[] {
    return [...this.#calls].map((it) => it.listed);
  }

  #drop(ended: EndedCall): void {
    this.#calls.delete(ended);
    this.#bytes -= ended.bytes;
  }
}
