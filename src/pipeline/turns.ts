/**
 * Whose turn it is to have a call judged. Judging runs in the one thread that serves everybody, and how long it takes is for the
 * caller's words to decide, so that it is charged by the time it used: a session that used up its part waits, and so does
 * everybody's judging while it has had more than its part of the thread.
 */
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { afterMicrotasks, type Powers, type Timer } from '../powers.ts';

export interface Turn {
  /** The command line that is to be judged, if any. */
  readonly line: string | undefined;
  /** How many targets are to be judged beside it. */
  readonly targets: number;
  readonly session: string;
  /** Its reason is thrown when it aborts before the turn comes. */
  readonly signal: AbortSignal;
}

interface Waiter {
  readonly isLong: boolean;
  readonly go: () => void;
}

/** Milliseconds used, of which one is forgiven in each millisecond. */
interface Used {
  ms: number;
  atMs: number;
}

const RETRY_AFTER_MS = 100;
/** Sessions that used something are looked over for those whose use is forgiven when there are more. */
const SWEEP_ABOVE = 256;

export class Turns {
  readonly #limits: Limits;
  readonly #powers: Powers;
  /** By session. */
  readonly #used = new Map<string, Used>();
  readonly #usedByAll: Used;
  /** Keyed by session, in the order in which they came. */
  readonly #waiting = new Map<string, Waiter[]>();
  #count = 0;
  #judged: { readonly session: string; readonly sinceMs: number } | undefined;
  /** Whether a turn was given to one that has not taken it up yet. */
  #isGiven = false;
  #later: Timer | undefined;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
    this.#usedByAll = { ms: 0, atMs: powers.monotonicMs() };
  }

  /** Whether a call could take long to judge; those that can't don't wait. */
  isHeavy({ line, targets }: Pick<Turn, 'line' | 'targets'>): boolean {
    return line !== undefined || targets > this.#limits.judgedAtOnceTargets;
  }

  /**
   * Waits until a call may be judged. What its caller does before it awaits something that takes time is charged to the session.
   * Throws QUEUE_FULL, or the signal's reason.
   */
  async take(turn: Turn): Promise<void> {
    if (!this.isHeavy(turn)) return;
    turn.signal.throwIfAborted();
    const { session } = turn;
    // Several may come before the first of them is judged.
    const isFree = !this.#judged && !this.#isGiven && this.#count === 0;
    if (!isFree || this.#overMs > 0) await this.#wait(turn);
    this.#isGiven = false;
    this.#judged = { session, sinceMs: this.#powers.monotonicMs() };
    afterMicrotasks(() => {
      this.#charge();
      this.#giveSoon();
    });
  }

  /** The present turn is over. */
  #charge(): void {
    if (!this.#judged) return;
    const { session, sinceMs } = this.#judged;
    this.#judged = undefined;
    const nowMs = this.#powers.monotonicMs();
    for (const it of [this.#usedOf(session), this.#usedByAll]) {
      // Nothing is forgiven in the time that it takes.
      it.ms = this.#msOf(it, sinceMs) + nowMs - sinceMs;
      it.atMs = nowMs;
    }
  }

  /** What all have used beyond their part of the thread. */
  get #overMs(): number {
    return this.#msOf(this.#usedByAll) - this.#limits.judgeTurnMs;
  }

  #usedOf(session: string): Used {
    const known = this.#used.get(session);
    if (known) return known;
    if (this.#used.size >= SWEEP_ABOVE)
      for (const [other, used] of this.#used) if (this.#msOf(used) === 0) this.#used.delete(other);
    const used = { ms: 0, atMs: this.#powers.monotonicMs() };
    this.#used.set(session, used);
    return used;
  }

  #msOf(used: Used | undefined, nowMs: number = this.#powers.monotonicMs()): number {
    return used ? Math.max(0, used.ms - (nowMs - used.atMs)) : 0;
  }

  #wait({ line = '', session, signal }: Turn): Promise<void> {
    const { commandAtOnceChars, commandTurnsMax, sessionQueueMax, queueMax } = this.#limits;
    const own = this.#waiting.get(session) ?? [];
    const isLong = line.length > commandAtOnceChars;
    const isFull = own.length >= sessionQueueMax || this.#count >= queueMax;
    if (isFull || (isLong && own.filter((it) => it.isLong).length >= commandTurnsMax))
      throw new ToolError(
        'QUEUE_FULL',
        `${own.length} calls of this session and ${this.#count} in all wait to be judged; at most ${sessionQueueMax} and ${queueMax} may, ${commandTurnsMax} of a session with more than ${commandAtOnceChars} characters`,
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
      const waiter: Waiter = {
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

  /** Gives the next turn as soon as everybody else has had the thread for as long as the turns before it. */
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

  /** The session that used least; of equals the one that has waited longest. */
  #next(): string | undefined {
    let least: string | undefined;
    for (const session of this.#waiting.keys())
      if (least === undefined || this.#msOf(this.#used.get(session)) < this.#msOf(this.#used.get(least)))
        least = session;
    return least;
  }
}
