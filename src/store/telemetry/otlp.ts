/**
 * Spans as OTLP/HTTP takes them in JSON (opentelemetry-proto, trace/v1). Ids are hexadecimal, times are nanoseconds in decimal, as that
 * format asks.
 */

import * as z from 'zod';
import { jsonOr } from '../../base/text/json.ts';

/** The conventions that names of spans and attributes follow: the last version of the common repository that has MCP and GenAI. */
const SCHEMA_URL = 'https://opentelemetry.io/schemas/1.39.0';

export type Attributes = Readonly<Record<string, string | number | boolean>>;

export const SPAN_KINDS = { internal: 1, server: 2 } as const;

/** A span that has ended. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | undefined;
  /** The caller's `tracestate`. */
  readonly state: string | undefined;
  readonly name: string;
  readonly kind: keyof typeof SPAN_KINDS;
  /** Milliseconds since the epoch, with a fraction. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  /** What kind of error ended it. */
  readonly error: string | undefined;
}

/** The process that sends the spans. */
export interface Resource {
  readonly serviceName: string;
  readonly version: string;
  /** Distinguishes the daemons of one service. */
  readonly instance: string;
}

/** The body of a request to `/v1/traces`. */
export function toOtlp(spans: readonly Span[], { serviceName, version, instance }: Resource): string {
  const resource = { 'service.name': serviceName, 'service.version': version, 'service.instance.id': instance };
  const scope = { name: 'ringfence', version };
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: toKeyValues(resource) },
        scopeSpans: [{ scope, schemaUrl: SCHEMA_URL, spans: spans.map(toJson) }],
      },
    ],
  });
}

const answer = z.object({
  partialSuccess: z.object({
    // A 64-bit number is a string in this format.
    rejectedSpans: z.union([z.int().min(0), z.string().regex(/^\d{1,15}$/)]).optional(),
    errorMessage: z.string().optional(),
  }),
});

/** How many spans of an accepted request a collector did not take, and why; undefined if it took all. */
export function rejectedIn(body: Uint8Array): { readonly rejected: number; readonly reason: string } | undefined {
  const said = answer.safeParse(jsonOr(Buffer.from(body).toString('utf8'), undefined));
  if (!said.success) return undefined;
  const { rejectedSpans = 0, errorMessage = '' } = said.data.partialSuccess;
  const rejected = Number(rejectedSpans);
  return rejected > 0 || errorMessage !== '' ? { rejected, reason: errorMessage || 'it gave no reason' } : undefined;
}

const STATUS_ERROR = 2;

function toJson({ traceId, spanId, parentId, state, name, kind, startMs, endMs, attributes, error }: Span): object {
  return {
    traceId,
    spanId,
    parentSpanId: parentId,
    traceState: state,
    name,
    kind: SPAN_KINDS[kind],
    startTimeUnixNano: toNanos(startMs),
    endTimeUnixNano: toNanos(endMs),
    attributes: toKeyValues(error === undefined ? attributes : { ...attributes, 'error.type': error }),
    status: error === undefined ? {} : { code: STATUS_ERROR },
  };
}

function toKeyValues(attributes: Attributes): object[] {
  return Object.entries(attributes).map(([key, value]) => ({ key, value: toValue(value) }));
}

function toValue(value: string | number | boolean): object {
  if (typeof value === 'string') return { stringValue: value };
  if (typeof value === 'boolean') return { boolValue: value };
  return Number.isInteger(value) ? { intValue: `${value}` } : { doubleValue: value };
}

/** Nanoseconds in decimal: more digits than a number holds. */
function toNanos(ms: number): string {
  const wholeMs = Math.floor(ms);
  return `${wholeMs}${String(Math.floor((ms - wholeMs) * 1e6)).padStart(6, '0')}`;
}
