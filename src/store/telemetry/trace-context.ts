/** Trace contexts as W3C Trace Context writes them (`traceparent`, `tracestate`), from `params._meta` of requests; which ids a trace may hold. */
import type { SpanContext } from '../../base/call.ts';

const PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
/** Printable ASCII, in the length that every receiver must pass on. */
const STATE = /^[\x20-\x7e]{1,512}$/;
const SAMPLED = 1;

/** The caller's span; undefined if the request names none, or none that is valid. */
export function spanContextOf(meta: Readonly<Record<string, unknown>> | undefined): SpanContext | undefined {
  const { traceparent, tracestate } = meta ?? {};
  if (typeof traceparent !== 'string' || traceparent.length > PARENT_CHARS_MAX) return undefined;
  const [, version, traceId = '', spanId = '', flags = '', more] = PARENT.exec(traceparent) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  const sampled = (Number.parseInt(flags, 16) & SAMPLED) === SAMPLED;
  const state = typeof tracestate === 'string' && STATE.test(tracestate) ? tracestate : undefined;
  return { traceId, spanId, sampled, state };
}

/** More than version 00 has; later versions may be longer. */
const PARENT_CHARS_MAX = 256;

/** Whether an id that a client chose may go to a collector: a text that is more than an id may not. */
export const isPlainId = (id: unknown): boolean =>
  typeof id === 'number' || (typeof id === 'string' && /^[\w.:-]{1,64}$/.test(id));
