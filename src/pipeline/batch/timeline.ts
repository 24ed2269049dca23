/** When each call of a batch began and ended, from which follow the critical path and the slack, also while it runs. */
import type { CallStatus, ToolResult } from '../../base/call.ts';
import type { Powers } from '../../base/powers.ts';
import { type CriticalPath, criticalPathOf } from './critical-path.ts';
import type { UsualDurations } from './estimate.ts';
import { type BatchPlan, waitsFor } from './plan.ts';

/** Facts about one call; times are milliseconds since the batch began. */
export interface CallTimes {
  callId?: string;
  /** Undefined for a call that waits for others, or that never began. */
  status?: CallStatus;
  startMs?: number;
  endMs?: number;
  code?: string;
}

export class BatchTimeline {
  /** ISO 8601. */
  readonly startedAt: string;
  /** Undefined for a batch that was refused. */
  plan: BatchPlan | undefined;
  /** Number of dependencies between the calls. */
  edges = 0;
  readonly #powers: Pick<Powers, 'monotonicMs'>;
  readonly #startMs: number;
  readonly #times = new Map<string, CallTimes>();
  #durationMs: number | undefined;

  constructor(powers: Pick<Powers, 'monotonicMs' | 'now'>) {
    this.#powers = powers;
    this.#startMs = powers.monotonicMs();
    this.startedAt = new Date(powers.now()).toISOString();
  }

  planned(plan: BatchPlan): void {
    this.plan = plan;
    for (const its of [...plan.needs.values(), ...plan.follows.values()]) this.edges += its.size;
  }

  began(id: string, callId: string): void {
    Object.assign(this.#of(id), { callId, startMs: this.#nowMs });
  }

  changed(id: string, status: CallStatus): void {
    this.#of(id).status = status;
  }

  ended(id: string, result: ToolResult): void {
    Object.assign(this.#of(id), { endMs: this.#nowMs, ...(!result.success && { code: result.error.code }) });
  }

  /** The batch has ended. */
  over(): void {
    this.#durationMs = this.#nowMs;
  }

  get isOver(): boolean {
    return this.#durationMs !== undefined;
  }

  /** Milliseconds since the batch began; of an ended one, how long it took. */
  get durationMs(): number {
    return Math.round(this.#durationMs ?? this.#nowMs);
  }

  timesOf(id: string): Readonly<CallTimes> {
    return this.#times.get(id) ?? {};
  }

  /** How many calls have ended, and how many of them with an error. */
  get counts(): { ended: number; failed: number } {
    const ended = [...this.#times.values()].filter(({ endMs }) => endMs !== undefined);
    return { ended: ended.length, failed: ended.filter(({ code }) => code !== undefined).length };
  }

  /** The critical path as it was, or with `usual` for what has not ended, as it is going to be. */
  analysis(usual?: UsualDurations): CriticalPath {
    if (!this.plan) return { criticalPath: [], slackMs: new Map(), totalMs: 0 };
    const plan = this.plan;
    const before = (id: string) => waitsFor(plan, id);
    const endOf = (id: string) => this.#times.get(id)?.endMs;
    const durationMs = (id: string) => {
      const readyMs = Math.max(0, ...[...before(id)].map((it) => endOf(it) ?? Infinity));
      const usualMs = usual?.of(id) ?? 0;
      // This call still waits for others, so only an estimate is known.
      if (readyMs === Infinity) return usualMs;
      return Math.max(0, (endOf(id) ?? Math.max(this.#nowMs, readyMs + usualMs)) - readyMs);
    };
    const found = criticalPathOf(plan.levels.flat(), before, durationMs);
    return { ...found, slackMs: new Map([...found.slackMs].map(([id, ms]) => [id, Math.round(ms * 1000) / 1000])) };
  }

  /** How long the batch takes if each of its calls takes as long as usual. */
  estimateMs(usual: UsualDurations): number {
    const { plan } = this;
    if (!plan) return 0;
    return criticalPathOf(
      plan.levels.flat(),
      (id) => waitsFor(plan, id),
      (id) => usual.of(id),
    ).totalMs;
  }

  get #nowMs(): number {
    return Math.round((this.#powers.monotonicMs() - this.#startMs) * 1000) / 1000;
  }

  #of(id: string): CallTimes {
    const known = this.#times.get(id);
    if (known) return known;
    const times: CallTimes = {};
    this.#times.set(id, times);
    return times;
  }
}
