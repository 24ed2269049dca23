/**
 * Spans of calls, from their begin until a collector has them. Nothing here waits for the collector: ended spans go to a bounded queue,
 * requests leave it one at a time, and what does not fit is dropped and counted.
 */
import type { SpanContext } from '../../base/call.ts';
import type { Limits } from '../../base/limits.ts';
import { type Powers, settlesWithin, type Timer } from '../../base/powers.ts';
import type { Family } from './families.ts';
import { type Attributes, type Resource, type Span, toOtlp } from './otlp.ts';

/** What came of a request. */
export interface Sent {
  /** `again` if the collector may take the same spans later. */
  readonly result: 'sent' | 'again' | 'refused';
  /** Spans that a collector did not take, of those that it answered as sent. */
  readonly rejected?: number;
  /** Why not all was taken. */
  readonly reason?: string | undefined;
}

/** The export of traces, for `status`. */
export interface TraceStatus {
  readonly sent: number;
  /** Spans that the collector did not take although it took their request. */
  readonly rejected: number;
  readonly failed: number;
  readonly dropped: number;
  readonly queued: number;
  readonly lastError?: { readonly at: string; readonly reason: string } | undefined;
}

export interface TracerOptions extends Pick<Resource, 'serviceName' | 'version'> {
  /** Share of traces that are recorded, from 0 to 1, where the caller has not decided. */
  readonly sample: number;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Sends one request to the collector; never rejects. */
  send(body: string): Promise<Sent>;
}

/** The facts of a span that are known at its end. */
export interface SpanEnd {
  readonly name: string;
  readonly kind: Span['kind'];
  readonly attributes: Attributes;
  readonly error?: string | undefined;
}

/** A span that has begun. */
export class OpenSpan {
  /** Makes other spans children of this one. */
  readonly context: SpanContext;
  readonly #tracer: Tracer;
  readonly #parentId: string | undefined;
  readonly #startMs: number;
  readonly #stages: { readonly name: string; readonly startMs: number }[] = [];

  constructor(tracer: Tracer, context: SpanContext, parentId: string | undefined) {
    this.#tracer = tracer;
    this.context = context;
    this.#parentId = parentId;
    this.#startMs = tracer.nowMs();
  }

  /** Begins a stage, which becomes a child; the stage before it has ended. */
  enter(name: string): void {
    if (this.context.sampled && this.#stages.length < this.#tracer.stagesMax)
      this.#stages.push({ name, startMs: this.#tracer.nowMs() });
  }

  end(given: SpanEnd): void {
    const { traceId, spanId, sampled, state } = this.context;
    if (!sampled) return;
    const endMs = this.#tracer.nowMs();
    const { error, ...what } = given;
    // The last stage that a call reached failed; the work after it did not.
    const last = this.#stages.findLastIndex(({ name }) => name !== AFTERWARDS);
    const stages = this.#stages.map(({ name, startMs }, at): Span => {
      const until = this.#stages[at + 1]?.startMs ?? endMs;
      const ids = { traceId, spanId: this.#tracer.spanId(), parentId: spanId, state };
      const failure = at === last ? error : undefined;
      return { ...ids, name, kind: 'internal', startMs, endMs: until, attributes: {}, error: failure };
    });
    const own = { traceId, spanId, parentId: this.#parentId, state };
    this.#tracer.ended([{ ...own, ...what, startMs: this.#startMs, endMs, error }, ...stages]);
  }
}

/** The stage after a run, failed or not. */
export const AFTERWARDS = 'settle';

const SPAN_ID_CHARS = 16;
const TRACE_ID_CHARS = 32;
/** The part of a trace id by which it is sampled. */
const SAMPLE_CHARS = 13;
/** Change of the wall clock above which span times follow it. */
const CLOCK_STEP_MS = 100;
const BACKOFF_MS = 1000;

export class Tracer implements AsyncDisposable {
  readonly #options: TracerOptions;
  readonly #resource: Resource;
  readonly #queue: Span[] = [];
  readonly #counts = { sent: 0, rejected: 0, dropped: 0, failed: 0 };
  #lastError: TraceStatus['lastError'];
  #sending: Promise<void> | undefined;
  #timer: Timer | undefined;
  /** Number of failed requests with the spans at the head of the queue. */
  #attempts = 0;
  #closed = false;
  #offsetMs: number | undefined;
  /** Random digits for ids. */
  #random = '';

  constructor(options: TracerOptions) {
    this.#options = options;
    const { serviceName, version, powers } = options;
    this.#resource = { serviceName, version, instance: powers.uuid() };
  }

  get stagesMax(): number {
    return this.#options.limits.traceStagesMax;
  }

  /** Begins a span. A caller with a span of its own has decided whether its trace is recorded. */
  begin(parent: SpanContext | undefined): OpenSpan {
    if (parent) return new OpenSpan(this, { ...parent, spanId: this.spanId() }, parent.spanId);
    const random = this.#options.powers.secret();
    const traceId = random.slice(0, TRACE_ID_CHARS);
    const spanId = random.slice(TRACE_ID_CHARS, TRACE_ID_CHARS + SPAN_ID_CHARS);
    const share = Number.parseInt(random.slice(-SAMPLE_CHARS), 16) / 16 ** SAMPLE_CHARS;
    return new OpenSpan(this, { traceId, spanId, sampled: share < this.#options.sample }, undefined);
  }

  /** A random id. Several come of one random number, which costs as much as the rest of a span. */
  spanId(): string {
    if (this.#random.length < SPAN_ID_CHARS) this.#random = this.#options.powers.secret();
    const id = this.#random.slice(0, SPAN_ID_CHARS);
    this.#random = this.#random.slice(SPAN_ID_CHARS);
    return id;
  }

  /** The time since the epoch with the monotonic clock's fraction, so that no span ends before it began. */
  nowMs(): number {
    const { powers } = this.#options;
    const monotonicMs = powers.monotonicMs();
    const offsetMs = powers.now() - monotonicMs;
    if (this.#offsetMs === undefined || Math.abs(offsetMs - this.#offsetMs) > CLOCK_STEP_MS) this.#offsetMs = offsetMs;
    return monotonicMs + this.#offsetMs;
  }

  ended(spans: readonly Span[]): void {
    const room = Math.max(0, this.#options.limits.traceQueueMax - this.#queue.length);
    this.#queue.push(...spans.slice(0, room));
    this.#counts.dropped += Math.max(0, spans.length - room);
    this.#plan(this.#options.limits.traceExportEveryMs);
  }

  get status(): TraceStatus {
    return { ...this.#counts, queued: this.#queue.length, lastError: this.#lastError };
  }

  families(): Family[] {
    const samples = Object.entries(this.#counts).map(([result, value]) => ({ labels: { result }, value }));
    return [
      { name: 'ringfence_trace_spans_total', type: 'counter', help: 'Spans by what came of them.', samples },
      {
        name: 'ringfence_trace_queue',
        type: 'gauge',
        help: 'Spans that no collector has taken yet.',
        samples: [{ value: this.#queue.length }],
      },
    ];
  }

  /** Sends what is left, within traceFlushMs. */
  async [Symbol.asyncDispose](): Promise<void> {
    const { limits, powers } = this.#options;
    this.#closed = true;
    this.#timer?.cancel();
    const rest = async () => {
      await this.#sending;
      // A failed request is not repeated at the end.
      while (this.#queue.length > 0 && this.#attempts === 0) await this.#send();
    };
    await settlesWithin(rest(), limits.traceFlushMs, powers);
    this.#counts.dropped += this.#queue.length;
    this.#queue.length = 0;
  }

  #plan(delayMs: number): void {
    if (this.#closed || this.#timer || this.#sending || this.#queue.length === 0) return;
    this.#timer = this.#options.powers.after(delayMs, () => {
      this.#timer = undefined;
      this.#sending = this.#send().finally(() => {
        this.#sending = undefined;
        const { traceExportEveryMs, traceBackoffMsMax } = this.#options.limits;
        const waits = this.#attempts > 0 ? BACKOFF_MS * 2 ** (this.#attempts - 1) : traceExportEveryMs;
        this.#plan(Math.min(waits, traceBackoffMsMax));
      });
    });
  }

  /** Sends the oldest spans. They count against the queue's bound until the collector has answered. */
  async #send(): Promise<void> {
    const { limits, send, powers } = this.#options;
    const batch = this.#queue.slice(0, limits.traceBatchMax);
    const { result, rejected = 0, reason } = await send(toOtlp(batch, this.#resource));
    if (reason !== undefined) this.#lastError = { at: new Date(powers.now()).toISOString(), reason };
    if (result === 'again' && this.#attempts + 1 < limits.traceAttemptsMax) {
      this.#attempts += 1;
      return;
    }
    this.#attempts = 0;
    this.#queue.splice(0, batch.length);
    const lost = result === 'sent' ? Math.min(rejected, batch.length) : 0;
    this.#counts.rejected += lost;
    this.#counts[result === 'sent' ? 'sent' : 'failed'] += batch.length - lost;
  }
}
