/** Batches of the sessions: their limits, their progress notices and their end. */
import type { BatchCall, BatchEstimate, BatchResult, SpanContext } from '../base/call.ts';
import { RpcError, ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { type BatchParts, runBatch } from '../pipeline/batch/batch.ts';
import { estimateBatch, type PastMs } from '../pipeline/batch/estimate.ts';
import { type BatchPlan, planBatch } from '../pipeline/batch/plan.ts';
import { countReferences } from '../pipeline/batch/reference.ts';
import { BatchTimeline } from '../pipeline/batch/timeline.ts';
import { spanContextOf } from '../store/telemetry/trace-context.ts';
import type { Toolset } from '../tools/tool.ts';
import type { Params } from '../wire/protocol/messages.ts';
import { RecentBatches } from './operator/recent-batches.ts';
import type { Outbox } from './outbox.ts';
import type { Session } from './session.ts';

type KnownCalls = readonly Pick<BatchCall, 'tool'>[];

export interface BatchesOptions {
  readonly limits: Limits;
  readonly powers: Powers;
  /**
   * Recent duration of a tool's calls, in milliseconds, up to a time as ISO 8601 if one is given; undefined if none is on
   * record.
   */
  pastDurationMs(tool: string, until?: string): Promise<number | undefined>;
}

export class Batches {
  readonly #options: BatchesOptions;
  readonly recent: RecentBatches;
  readonly #running = new Map<Session, Map<string, AbortController>>();
  #count = 0;

  constructor(options: BatchesOptions) {
    this.#options = options;
    this.recent = new RecentBatches(options.limits);
  }

  /** Number of batches that run. */
  get count(): number {
    return this.#count;
  }

  /** Answers `tools.batch`; with `progress`, sends a `batch.update` for each result. Throws RpcError INVALID_PARAMS, OVERLOADED. */
  async run(
    session: Session,
    { calls, options, _meta }: Params<'tools.batch'>,
    { outbox, span = spanContextOf(_meta) }: { outbox: Outbox; span?: SpanContext | undefined },
  ): Promise<BatchResult | BatchEstimate> {
    const { limits, powers } = this.#options;
    assertBounded(calls, limits);
    const batchId = options.batchId ?? powers.uuid();
    const batch = calls as BatchCall[];
    if (options.plan) return this.#plan(session, batch);
    const controller = this.#register(session, batchId);
    try {
      const onResult: BatchParts['onResult'] = (id, result) => {
        if (options.progress) outbox.notify('batch.update', { batchId, id, result });
      };
      const parts = this.#parts(session, onResult, span);
      this.#remember(session, {
        batchId,
        timeline: parts.timeline,
        calls: batch.map(({ id, tool }) => ({ id, tool })),
      });
      return await runBatch(batch, { options, signal: controller.signal }, parts);
    } finally {
      this.#unregister(session, batchId);
    }
  }

  /** Answers `calls.cancel`, whose id may be that of a batch. */
  cancelAny(session: Session, { callId, park }: Params<'calls.cancel'>): { cancelled: boolean } {
    if (park) return { cancelled: session.park(callId) };
    const reason = new ToolError('CANCELLED', 'the batch was cancelled by its client', { details: { by: 'caller' } });
    const isBatch = this.cancel(session, callId, reason);
    return { cancelled: session.cancel(callId) || isBatch };
  }

  /** Ends a batch; returns whether it runs in this session. */
  cancel(session: Session, batchId: string, reason: ToolError): boolean {
    const batch = this.#running.get(session)?.get(batchId);
    batch?.abort(reason);
    return batch !== undefined;
  }

  /** Ends all batches of some sessions. */
  cancelAll(reason: ToolError, isTheirs: (session: Session) => boolean): void {
    for (const [session, own] of this.#running) if (isTheirs(session)) for (const it of own.values()) it.abort(reason);
  }

  async #plan(session: Session, calls: readonly BatchCall[]): Promise<BatchEstimate> {
    const parts = this.#parts(session, () => {});
    let plan: BatchPlan;
    try {
      plan = planBatch(calls, parts);
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      throw new RpcError('INVALID_PARAMS', error.message, { code: error.code, details: error.extras.details });
    }
    return estimateBatch(calls, plan, await this.#past(session.options.toolset, calls));
  }

  /** Lets operators watch a batch; holds neither the session nor inputs of its calls. */
  #remember({ options }: Session, batch: Pick<Parameters<RecentBatches['add']>[0], 'batchId' | 'calls' | 'timeline'>) {
    const { id: sessionId, client, principal, workspace, toolset } = options;
    const past = () => this.#past(toolset, batch.calls, batch.timeline.startedAt);
    this.recent.add({ ...batch, owner: { sessionId, client, principal, workspace }, past });
  }

  /** Looks up existing tools only, so the number of queries is bounded. */
  async #past(toolset: Toolset, calls: KnownCalls, until?: string): Promise<PastMs> {
    const names = new Set(calls.map(({ tool }) => toolset.get(tool)?.tool.name));
    const past = new Map<string, number | undefined>();
    for (const name of names) if (name !== undefined) past.set(name, await this.#options.pastDurationMs(name, until));
    return (tool) => past.get(toolset.get(tool)?.tool.name ?? tool);
  }

  #register(session: Session, batchId: string): AbortController {
    const { sessionBatchesMax, batchesMax } = this.#options.limits;
    const own = this.#running.get(session) ?? new Map<string, AbortController>();
    if (own.has(batchId))
      throw new RpcError('INVALID_PARAMS', `batch ${batchId} is already running; choose another batchId`);
    if (own.size >= sessionBatchesMax || this.#count >= batchesMax) {
      throw new RpcError(
        'OVERLOADED',
        `${own.size} batches of this session and ${this.#count} in all are under way; at most ${sessionBatchesMax} and ${batchesMax} may`,
      );
    }
    const controller = new AbortController();
    this.#running.set(session, own.set(batchId, controller));
    this.#count += 1;
    return controller;
  }

  #unregister(session: Session, batchId: string): void {
    const own = this.#running.get(session);
    own?.delete(batchId);
    if (own?.size === 0) this.#running.delete(session);
    this.#count -= 1;
  }

  #parts(session: Session, onResult: BatchParts['onResult'], span?: SpanContext): BatchParts {
    const { limits, powers } = this.#options;
    const { toolset } = session.options;
    const timeline = new BatchTimeline(powers);
    return {
      limits,
      powers,
      timeline,
      onResult,
      canonical: (tool) => toolset.get(tool)?.tool.name ?? tool,
      followsOf: (tool) => toolset.get(tool)?.tool.dependencies ?? [],
      refuse: ({ tool, input, options }, error) => session.refusal(tool, input, { options: options ?? {}, error }),
      run: async ({ id, tool }, input, { options, signal, onState }) => {
        const callId = options.callId ?? powers.uuid();
        timeline.began(id, callId);
        // A call that had this id before the batch must not end with the batch.
        const isOwn = session.get(callId) === undefined;
        const cancel = () => session.abort(callId, signal.reason as ToolError);
        const result = session.call(tool, input, { ...options, callId, span }, onState);
        if (isOwn) signal.addEventListener('abort', cancel);
        return result.finally(() => signal.removeEventListener('abort', cancel));
      },
    };
  }
}

function assertBounded(calls: Params<'tools.batch'>['calls'], { batchCallsMax, batchEdgesMax }: Limits): void {
  if (calls.length > batchCallsMax)
    throw new RpcError('INVALID_PARAMS', `${calls.length} calls; a batch has at most ${batchCallsMax}`);
  const edges = calls.reduce((sum, { dependsOn = [] }) => sum + dependsOn.length, 0);
  const references = countReferences(
    calls.map(({ input }) => input),
    batchEdgesMax,
  );
  if (edges + references > batchEdgesMax)
    throw new RpcError(
      'INVALID_PARAMS',
      `${edges} names in dependsOn and ${references > batchEdgesMax ? 'more than ' : ''}${Math.min(references, batchEdgesMax)} references; a batch has at most ${batchEdgesMax} of both`,
    );
}
