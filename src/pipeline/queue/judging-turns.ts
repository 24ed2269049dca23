/**
 * Takes turns at judging calls. Judging runs in the one thread that serves everybody, and its time depends on the
 * caller's input, so each session is charged for the time that it used: a session beyond its share waits, and all
 * judging waits while it has had more than its share of the thread.
 */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { afterMicrotasks, type Powers, type Timer } from '../../base/powers.ts';

export interface JudgingRequest {
  /** The command line to judge, if any. */
  readonly line: string | undefined;
  /** How many targets are judged beside the command line. */
  readonly targets: number;
  readonly session: string;
  /** Aborts the wait; its reason is thrown. */
  readonly signal: AbortSignal;
}

interface JudgingWaiter {
  readonly isLong: boolean;
  readonly go: () => void;
}

/** Milliseconds used at `atMs`; each millisecond that passes forgives one. */
interface JudgingTimeUsed {
  ms: number;
  atMs: number;
}

const RETRY_AFTER_MS = 100;
/** Above this many sessions, those whose use is forgiven are dropped. */
const SWEEP_ABOVE = 256;

export class JudgingTurns {
  readonly #limits: Limits;
  readonly #powers: Powers;
  /** Time used, by session. */
  readonly #used = new Map<string, JudgingTimeUsed>();
  readonly #usedByAll: JudgingTimeUsed;
  /** Waiters by session; sessions stand in the order of their turns. */
  readonly #waiting = new Map<string, JudgingWaiter[]>();
  #count = 0;
  #judged: { readonly session: string; readonly sinceMs: number } | undefined;
  /** Whether a turn was given to a waiter that has not begun yet. */
  #isGiven = false;
  #later: Timer | undefined;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
    this.#usedByAll = { ms: 0, atMs: powers.monotonicMs() };
  }

  /** Whether a call could take long to judge; light calls don't wait. */
  isHeavy({ line, targets }: Pick<JudgingRequest, 'line' | 'targets'>): boolean {
    return line !== undefined || targets > this.#limits.judgedAtOnceTargets;
  }

  /**
   * Waits until a call may be judged. The session is charged for the synchronous work of the caller after this
   * resolves. Throws QUEUE_FULL, or the signal's reason.
   */
  async take(turn: JudgingRequest): Promise<void> {
    if (!this.isHeavy(turn)) return;
    turn.signal.throwIfAborted();
    const { session } = turn;
    // Several calls may arrive before the first is judged.
    const isFree = !this.#judged && !this.#isGiven && this.#count === 0;
    if (!isFree || this.#overMs > 0) await this.#wait(turn);
    this.#isGiven = false;
    this.#judged = { session, sinceMs: this.#powers.monotonicMs() };
    afterMicrotasks(() => {
      this.#charge();
      this.#giveSoon();
    });
  }

  /** Ends the present turn and charges its time. */
  #charge(): void {
    if (!this.#judged) return;
    const { session, sinceMs } = this.#judged;
    this.#judged = undefined;
    const nowMs = this.#powers.monotonicMs();
    for (const it of [this.#usedOf(session), this.#usedByAll]) {
      // Nothing is forgiven during the turn itself.
      it.ms = this.#msOf(it, sinceMs) + nowMs - sinceMs;
      it.atMs = nowMs;
    }
  }

  /** Milliseconds that all sessions together used beyond judging's share of the thread. */
  get #overMs(): number {
    return this.#msOf(this.#usedByAll) - this.#limits.judgeTurnMs;
  }

  #usedOf(session: string): JudgingTimeUsed {
    const known = this.#used.get(session);
    if (known) return known;
    if (this.#used.size >= SWEEP_ABOVE)
      for (const [other, used] of this.#used) if (this.#msOf(used) === 0) this.#used.delete(other);
    const used = { ms: 0, atMs: this.#powers.monotonicMs() };
    this.#used.set(session, used);
    return used;
  }

  #msOf(used: JudgingTimeUsed | undefined, nowMs: number = this.#powers.monotonicMs()): number {
    return used ? Math.max(0, used.ms - (nowMs - used.atMs)) : 0;
  }

  #wait({ line = '', session, signal }: JudgingRequest): Promise<void> {
    const { commandAtOnceChars, commandTurnsMax, sessionQueueMax, queueMax } = this.#limits;
    const own = this.#waiting.get(session) ?? [];
    const isLong = line.length > commandAtOnceChars;
    const isFull = own.length >= sessionQueueMax || this.#count >= queueMax;
    if (isFull || (isLong && own.filter((it) => it.isLong).length >= commandTurnsMax))
      throw new ToolError(
        'QUEUE_FULL',
        `${own.length} calls of this session and ${this.#count} in all wait for a policy decision; at most ${sessionQueueMax} and ${queueMax} are allowed, ${commandTurnsMax} of a session with more than ${commandAtOnceChars} characters`,
        { details: { retryAfterMs: RETRY_AFTER_MS } },
      );
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#count -= 1;
        signal.removeEventListener('abort', giveUp);
        own.splice(own.indexOf(waiter), 1);
        if (own.length === 0) this.#waiting.delete(session);
      };
      const giveUp = () => {
        leave();
        reject(signal.reason as Error);
      };
      const waiter: JudgingWaiter = {
        isLong,
        go() {
          leave();
          resolve();
        },
      };
      this.#waiting.set(session, own);
      own.push(waiter);
      this.#count += 1;
      signal.addEventListener('abort', giveUp);
      this.#giveSoon();
    });
  }

  /** Gives the next turn once the rest of the daemon has had the thread for as long as the earlier turns took. */
  #giveSoon(): void {
    if (this.#later || this.#isGiven || this.#judged || this.#count === 0) return;
    const overMs = this.#overMs;
    if (overMs <= 0) return this.#give();
    this.#later = this.#powers.after(Math.ceil(overMs), () => {
      this.#later = undefined;
      if (!this.#isGiven && !this.#judged) this.#give();
    });
  }

  #give(): void {
    const session = this.#next();
    const [first] = (session !== undefined && this.#waiting.get(session)) || [];
    if (session === undefined || !first) return;
    this.#isGiven = true;
    first.go();
    this.#toEnd(session);
  }

  #toEnd(session: string): void {
    const rest = this.#waiting.get(session);
    if (rest && this.#waiting.delete(session)) this.#waiting.set(session, rest);
  }

  /** The session that used least; among equals the one that has waited longest. */
  #next(): string | undefined {
    let least: string | undefined;
    for (const session of this.#waiting.keys())
      if (least === undefined || this.#msOf(this.#used.get(session)) < this.#msOf(this.#used.get(least)))
        least = session;
    return least;
  }
}
