/** Estimates a batch before it runs: its levels, its critical path, and its duration from how long past calls took. */
import type { BatchCall, BatchEstimate } from '../../base/call.ts';
import { criticalPathOf } from './critical-path.ts';
import { type BatchPlan, waitsFor } from './plan.ts';

/** Gives the usual duration of a tool in milliseconds; undefined for a tool without a past. */
export type PastMs = (tool: string) => number | undefined;

/** How long each call of a batch usually takes; one of a tool without a past counts as the mean of the others. */
export class UsualDurations {
  /** Whether no tool of the batch has a past. */
  readonly isUnknown: boolean;
  readonly #past: ReadonlyMap<string, number | undefined>;
  readonly #mean: number;

  constructor(calls: readonly Pick<BatchCall, 'id' | 'tool'>[], pastMs: PastMs) {
    this.#past = new Map(calls.map(({ id, tool }) => [id, pastMs(tool)]));
    const known = [...this.#past.values()].filter((it) => it !== undefined);
    this.isUnknown = known.length === 0;
    this.#mean = this.isUnknown ? 1 : known.reduce((sum, it) => sum + it, 0) / known.length;
  }

  of(id: string): number {
    return this.#past.get(id) ?? this.#mean;
  }

  /** Undefined if the call's tool has no past. */
  pastOf(id: string): number | undefined {
    return this.#past.get(id);
  }

  get sum(): number {
    return [...this.#past.values()].reduce<number>((sum, it) => sum + (it ?? this.#mean), 0);
  }
}

export function estimateBatch(calls: readonly BatchCall[], plan: BatchPlan, pastMs: PastMs): BatchEstimate {
  const { levels } = plan;
  const usual = new UsualDurations(calls, pastMs);
  const before = (id: string) => waitsFor(plan, id);
  const { criticalPath, totalMs, slackMs } = criticalPathOf(levels.flat(), before, (id) => usual.of(id));
  const levelOf = new Map(levels.flatMap((level, at) => level.map((id) => [id, at] as const)));
  return {
    levels,
    maxParallelism: Math.max(...levels.map((it) => it.length)),
    criticalPath,
    ...(!usual.isUnknown && { estimatedMs: Math.round(totalMs), sequentialMs: Math.round(usual.sum) }),
    calls: calls.map(({ id, tool }) => {
      const ms = usual.pastOf(id);
      return {
        id,
        tool,
        level: levelOf.get(id) as number,
        dependsOn: [...before(id)],
        ...(!usual.isUnknown && { slackMs: Math.round(slackMs.get(id) as number) }),
        estimatedMs: ms && Math.round(ms),
      };
    }),
  };
}
