/** Runs each call of a batch as soon as the calls that it depends on have ended. */
import type { BatchCall, BatchOptions, BatchResult, CallOptions, CallState, ToolResult } from '../../base/call.ts';
import { ToolError, toToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { onAbort, type Powers } from '../../base/powers.ts';
import { type BatchPlan, type PlanParts, planBatch, waitsFor } from './plan.ts';
import { resolveReferences } from './reference.ts';
import { BatchAnswer, HeldResults } from './results.ts';
import type { BatchTimeline } from './timeline.ts';

export interface BatchParts extends PlanParts {
  readonly limits: Limits;
  readonly powers: Powers;
  /** Told when each call begins and ends. */
  readonly timeline: BatchTimeline;
  /** Runs one call through the whole pipeline; never rejects. */
  run(call: BatchCall, input: unknown, control: RunControl): Promise<ToolResult>;
  /** Makes the result of a call that will not run. */
  refuse(call: BatchCall, error: ToolError): ToolResult;
  /** Receives each result when its call ends. */
  onResult(id: string, result: ToolResult): void;
}

export interface RunControl {
  readonly options: CallOptions;
  /** Aborts the call; the reason is the ToolError that the call ends with. */
  readonly signal: AbortSignal;
  onState(state: CallState): void;
}

/** Runs a batch to its end; never rejects. An abort of `signal` ends the calls that are not over, with its reason. */
export async function runBatch(
  calls: readonly BatchCall[],
  { options, signal }: { options: BatchOptions; signal: AbortSignal },
  parts: BatchParts,
): Promise<BatchResult> {
  const { timeline } = parts;
  let plan: BatchPlan;
  try {
    plan = planBatch(calls, parts);
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    const results = calls.map((call) => parts.refuse(call, error));
    timeline.over();
    const none = { levels: [], criticalPath: [], slackMs: calls.map(() => 0), maxParallelism: 0 };
    return toResult(results, { ...none, skippedCount: calls.length, durationMs: timeline.durationMs, error });
  }
  timeline.planned(plan);
  const run = new BatchRun(calls, { plan, options, parts });
  const results = await run.toEnd(signal);
  timeline.over();
  const { skipped: skippedCount, maxParallelism } = run;
  const { criticalPath, slackMs } = timeline.analysis();
  return toResult(results, {
    levels: plan.levels,
    criticalPath,
    slackMs: calls.map(({ id }) => slackMs.get(id) as number),
    skippedCount,
    maxParallelism,
    durationMs: timeline.durationMs,
  });
}

type OwnMetadata = Pick<
  BatchResult['metadata'],
  'levels' | 'criticalPath' | 'slackMs' | 'skippedCount' | 'maxParallelism' | 'durationMs'
>;

function toResult(
  results: ToolResult[],
  { error, skippedCount, durationMs, ...rest }: OwnMetadata & { error?: ToolError },
): BatchResult {
  const successCount = results.filter((it) => it.success).length;
  return {
    success: successCount === results.length,
    results,
    metadata: {
      totalCalls: results.length,
      successCount,
      failureCount: results.length - successCount,
      skippedCount,
      durationMs,
      cacheHits: results.filter((it) => it.metadata.cached).length,
      ...rest,
    },
    error: error?.toWire(),
  };
}

class BatchRun {
  skipped = 0;
  /** The most calls that were in progress at once; a call that waits in a queue, for a lock or for a person does not count. */
  maxParallelism = 0;
  readonly #inProgress = new Set<string>();
  readonly #calls: readonly BatchCall[];
  readonly #plan: BatchPlan;
  readonly #options: BatchOptions;
  readonly #parts: BatchParts;
  readonly #answer: BatchAnswer;
  readonly #held: HeldResults;
  /** Maps a call id to the calls that wait for it. */
  readonly #waiting = new Map<string, string[]>();
  /** Maps a call id to how many calls it still waits for. */
  readonly #missing = new Map<string, number>();
  readonly #byId: ReadonlyMap<string, BatchCall>;
  readonly #ready: BatchCall[];
  readonly #controller = new AbortController();
  readonly #over = Promise.withResolvers<void>();
  /** The error of every call that has not begun; set when the batch stops. */
  #refusal: ToolError | undefined;
  #active = 0;
  #isPaused = false;

  constructor(
    calls: readonly BatchCall[],
    { plan, options, parts }: { plan: BatchPlan; options: BatchOptions; parts: BatchParts },
  ) {
    this.#calls = calls;
    this.#plan = plan;
    this.#options = options;
    this.#parts = parts;
    this.#byId = new Map(calls.map((it) => [it.id, it]));
    this.#answer = new BatchAnswer(parts.limits);
    this.#held = new HeldResults(plan.needs, parts.limits);
    for (const { id } of calls) {
      const before = waitsFor(plan, id);
      this.#missing.set(id, before.size);
      for (const other of before) {
        const those = this.#waiting.get(other);
        if (those) those.push(id);
        else this.#waiting.set(other, [id]);
      }
    }
    this.#ready = calls.filter(({ id }) => this.#missing.get(id) === 0);
  }

  async toEnd(signal: AbortSignal): Promise<ToolResult[]> {
    const { powers } = this.#parts;
    const { timeoutMs } = this.#options;
    const timer = timeoutMs === undefined ? undefined : powers.after(timeoutMs, () => this.#stop(late(timeoutMs)));
    using _ = onAbort(signal, () => this.#stop(signal.reason as ToolError));
    this.#pump();
    try {
      if (this.#answer.size < this.#calls.length) await this.#over.promise;
    } finally {
      timer?.cancel();
    }
    return this.#calls.map(({ id }) => this.#answer.get(id));
  }

  /** Aborts the running calls and refuses the rest. */
  #stop(reason: ToolError): void {
    this.#refusal ??= reason;
    this.#controller.abort(reason);
    this.#pump();
  }

  #pump(): void {
    if (this.#isPaused) return;
    const { powers, limits } = this.#parts;
    const { concurrency = Infinity } = this.#options;
    const max = Math.min(concurrency, limits.batchConcurrencyMax);
    const pauseAt = powers.monotonicMs() + limits.batchTurnMs;
    while (this.#ready.length > 0) {
      if (powers.monotonicMs() > pauseAt) return this.#pause();
      if (this.#refusal) this.#skip(this.#ready.shift() as BatchCall, this.#refusal);
      else if (this.#active < max) this.#begin(this.#ready.shift() as BatchCall);
      else return;
    }
  }

  /** Yields to other work before the next calls begin: resolving large inputs blocks the thread, and a batch begins many at once. */
  #pause(): void {
    this.#isPaused = true;
    this.#parts.powers.after(0, () => {
      this.#isPaused = false;
      this.#pump();
    });
  }

  #begin(call: BatchCall): void {
    const needs = this.#plan.needs.get(call.id) ?? new Set<string>();
    const failed = [...needs].find((id) => !this.#answer.get(id).success);
    if (failed !== undefined) return this.#skip(call, dependencyFailed(failed, this.#answer.get(failed)));
    let input: unknown;
    try {
      const { batchInputBytesMax } = this.#parts.limits;
      input = resolveReferences(call.input, (id) => this.#held.get(id), { bytesMax: batchInputBytesMax });
    } catch (error) {
      return this.#skip(call, toToolError(error));
    }
    void this.#run(call, input);
  }

  async #run(call: BatchCall, input: unknown): Promise<void> {
    let isCounted = true;
    this.#active += 1;
    const count = (isActive: boolean) => {
      if (isActive === isCounted) return;
      isCounted = isActive;
      this.#active += isActive ? 1 : -1;
      if (!isActive) this.#pump();
    };
    const result = await this.#parts.run(call, input, {
      options: call.options ?? {},
      signal: this.#controller.signal,
      // A call that waits for a person, maybe for minutes, does not count against `concurrency`.
      onState: ({ status }) => {
        this.#note(call.id, status);
        this.#parts.timeline.changed(call.id, status);
        count(status !== 'blocked-on-user');
      },
    });
    this.#inProgress.delete(call.id);
    if (isCounted) this.#active -= 1;
    this.#end(call, result);
    this.#pump();
  }

  #note(id: string, status: CallState['status']): void {
    if (status !== 'in-progress') return void this.#inProgress.delete(id);
    this.#inProgress.add(id);
    this.maxParallelism = Math.max(this.maxParallelism, this.#inProgress.size);
  }

  #skip(call: BatchCall, error: ToolError): void {
    this.skipped += 1;
    this.#end(call, this.#parts.refuse(call, error));
  }

  #end({ id }: BatchCall, result: ToolResult): void {
    this.#held.put(id, result);
    this.#parts.timeline.ended(id, result);
    this.#parts.onResult(id, this.#answer.put(id, result));
    if (!result.success && this.#options.failFast) this.#refusal ??= failedFast(id);
    for (const other of this.#waiting.get(id) ?? []) {
      const missing = (this.#missing.get(other) as number) - 1;
      this.#missing.set(other, missing);
      if (missing === 0) this.#ready.push(this.#byId.get(other) as BatchCall);
    }
    if (this.#answer.size === this.#calls.length) this.#over.resolve();
  }
}

function dependencyFailed(id: string, result: ToolResult): ToolError {
  const code = result.success ? undefined : result.error.code;
  const why = code === undefined ? '' : `: ${code}`;
  return new ToolError('DEPENDENCY_FAILED', `call \`${id}\`, on which this one depends, failed${why}`, {
    layer: 'validate',
    details: { id, code },
  });
}

function failedFast(id: string): ToolError {
  return new ToolError('CANCELLED', `call \`${id}\` of this batch failed, and failFast skips the rest`, {
    details: { by: 'failFast', id },
  });
}

function late(limit: number): ToolError {
  return new ToolError('TIMEOUT', `the batch did not finish within the ${limit} ms that its caller set`, {
    details: { limit, used: limit, enforcedBy: 'timer' },
  });
}
