/** Batches that run, and the newest of those that ended, for operators who watch them. */
import type * as z from 'zod';
import type { BatchCall } from '../../base/call.ts';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Read } from '../../base/result-shapes.ts';
import { type PastMs, UsualDurations } from '../../pipeline/batch/estimate.ts';
import { waitsFor } from '../../pipeline/batch/plan.ts';
import type { BatchTimeline } from '../../pipeline/batch/timeline.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { listedBatch, watchedBatch } from '../../wire/protocol/shapes.ts';

interface KnownBatch {
  readonly batchId: string;
  readonly owner: Pick<ListedBatch, 'sessionId' | 'client' | 'principal' | 'workspace'>;
  readonly calls: readonly Pick<BatchCall, 'id' | 'tool'>[];
  readonly timeline: BatchTimeline;
  /** How long calls took before the batch began; looked up when somebody asks first. */
  usual?: Promise<UsualDurations>;
  /** Gives the usual durations of the tools of these calls. */
  past(): Promise<PastMs>;
}

export type ListedBatch = Read<z.output<typeof listedBatch>>;
export type WatchedBatch = Read<z.output<typeof watchedBatch>>;

export class RecentBatches {
  readonly #limits: Pick<Limits, 'batchesKept' | 'batchCallsKept'>;
  /** Oldest first. */
  readonly #batches = new Set<KnownBatch>();

  constructor(limits: Pick<Limits, 'batchesKept' | 'batchCallsKept'>) {
    this.#limits = limits;
  }

  /** Notes a batch that begins; the oldest ended ones are dropped to make room. `calls` must hold no inputs. */
  add(batch: Omit<KnownBatch, 'usual'>): void {
    this.#batches.add(batch);
    const { batchesKept, batchCallsKept } = this.#limits;
    const weightOf = ({ calls, timeline }: KnownBatch) => calls.length + timeline.edges;
    let held = [...this.#batches].reduce((sum, it) => sum + weightOf(it), 0);
    for (const it of this.#batches) {
      if (this.#batches.size <= batchesKept && held <= batchCallsKept) break;
      if (!it.timeline.isOver) continue;
      this.#batches.delete(it);
      held -= weightOf(it);
    }
  }

  get methods() {
    return {
      'batches.list': () => this.list(),
      'batches.get': (_: unknown, params: Params<'batches.get'>) => this.get(params),
    };
  }

  /** Answers `batches.list`: the newest first. */
  list(): { batches: ListedBatch[] } {
    return { batches: [...this.#batches].reverse().map(toListed) };
  }

  /** Answers `batches.get`. Throws RpcError INVALID_PARAMS for a batch that is not known. */
  async get({ batchId, session }: Params<'batches.get'>): Promise<WatchedBatch> {
    const batch = [...this.#batches].findLast(
      (it) => it.batchId === batchId && (session ?? it.owner.sessionId) === it.owner.sessionId,
    );
    if (!batch) throw new RpcError('INVALID_PARAMS', `there is no batch ${batchId}, or it is no longer kept`);
    batch.usual ??= batch.past().then((past) => new UsualDurations(batch.calls, past));
    return toWatched(batch, await batch.usual);
  }
}

function toListed({ batchId, owner, calls, timeline }: KnownBatch): ListedBatch {
  const { startedAt, durationMs, isOver, counts } = timeline;
  return {
    batchId,
    ...owner,
    startedAt,
    durationMs,
    running: !isOver,
    totalCalls: calls.length,
    endedCalls: counts.ended,
    failedCalls: counts.failed,
  };
}

function toWatched(batch: KnownBatch, usual: UsualDurations): WatchedBatch {
  const { calls, timeline } = batch;
  const { plan } = timeline;
  const { criticalPath, slackMs } = timeline.analysis(usual);
  const levelOf = new Map((plan?.levels ?? []).flatMap((level, at) => level.map((id) => [id, at] as const)));
  const estimatedMs = usual.isUnknown ? undefined : timeline.estimateMs(usual);
  return {
    ...toListed(batch),
    criticalPath,
    estimatedMs: estimatedMs && Math.round(estimatedMs),
    calls: calls.map(({ id, tool }) => {
      const past = usual.pastOf(id);
      return {
        id,
        tool,
        level: levelOf.get(id) ?? 0,
        dependsOn: plan ? [...waitsFor(plan, id)] : [],
        slackMs: slackMs.get(id) ?? 0,
        ...timeline.timesOf(id),
        estimatedMs: past && Math.round(past),
      };
    }),
  };
}
