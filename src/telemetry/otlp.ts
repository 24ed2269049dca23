/**
 * Spans as OTLP/HTTP takes them in JSON (opentelemetry-proto, trace/v1). Ids are hexadecimal, times are nanoseconds in decimal, as that
 * format asks.
 */

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

const STATUS_ERROR = 2;

function toJson({ traceId, spanId, parentId, state, name, kind, startMs, endMs, attributes, error }: Span): object {
  return {
    traceId,
    spanId,
    ...(parentId !== undefined && { parentSpanId: parentId }),
    ...(state !== undefined && { traceState: state }),
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
