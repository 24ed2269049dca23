import { expect, test } from 'vitest';
import { spanContextOf } from '../../../src/store/telemetry/trace-context.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const of = (traceparent: unknown, tracestate?: unknown) => spanContextOf({ traceparent, tracestate });

test('a traceparent names trace, span and whether the trace is recorded', () => {
  expect(of(`00-${TRACE}-${SPAN}-01`)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: true });
  expect(of(`00-${TRACE}-${SPAN}-00`)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: false });
  expect(of(`00-${TRACE}-${SPAN}-01`, 'vendor=x,other=y')).toMatchObject({ state: 'vendor=x,other=y' });
});

test('a later version may have more behind what is known', () => {
  expect(of(`cc-${TRACE}-${SPAN}-01-what-comes`)).toMatchObject({ traceId: TRACE });
});

test.each([
  ['no text', 7],
  ['upper case', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
  ['no trace', `00-${'0'.repeat(32)}-${SPAN}-01`],
  ['no span', `00-${TRACE}-${'0'.repeat(16)}-01`],
  ['the version that is none', `ff-${TRACE}-${SPAN}-01`],
  ['version 00 with more', `00-${TRACE}-${SPAN}-01-more`],
  ['a line end', `00-${TRACE}-${SPAN}-01\n`],
  ['more than 256 characters', `cc-${TRACE}-${SPAN}-01-${'x'.repeat(256)}`],
])('a traceparent with %s is ignored', (_, traceparent) => {
  expect(of(traceparent)).toBeUndefined();
});

test('a tracestate that no receiver must take is left out, and the traceparent counts all the same', () => {
  for (const state of [`a=${'x'.repeat(600)}`, 'a=b\nc', 'a=ü', 7])
    expect(of(`00-${TRACE}-${SPAN}-01`, state)).toEqual({ traceId: TRACE, spanId: SPAN, sampled: true });
});

test('a request without trace context has none', () => {
  expect(spanContextOf(undefined)).toBeUndefined();
  expect(spanContextOf({ progressToken: 1 })).toBeUndefined();
});
