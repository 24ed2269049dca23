/** Traces of calls, taken by a real HTTP server. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { type CollectedSpan, type Collector, startCollector } from '../support/collector.ts';
import { dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { connectMcp } from '../support/mcp.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';
const traceparent = `00-${TRACE}-${PARENT}-01`;
const SECRET = 'otlp-token-of-the-operator';
const POLICY = `rules:
  - { id: ask-plan, match: { tool: file_delete }, decision: ask, reason: A person should see it. }
`;

let collector: Collector;
let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  collector = await startCollector();
  daemon = await openDaemon({
    policy: POLICY,
    config: {
      telemetry: {
        traces: {
          endpoint: collector.endpoint,
          headers: { authorization: { env: 'OTLP_TOKEN', prefix: 'Bearer ' } },
          serviceName: 'tools-of-ann',
        },
      },
    },
    env: { OTLP_TOKEN: SECRET },
  });
  writeFileSync(join(daemon.workspace, 'plan-of-ann.txt'), 'the text of the plan\n');
  [agent, operator] = await Promise.all([daemon.connect(), daemon.connect({ role: 'operator' })]);
});
afterEach(() => expect(collector.problems).toEqual([]));
afterAll(async () => {
  await Promise.all([agent, operator].map((it) => it[Symbol.asyncDispose]()));
  await daemon[Symbol.asyncDispose]();
  await collector[Symbol.asyncDispose]();
});

/** The span of a call, once the collector has it. */
async function spanOf(callId: string): Promise<CollectedSpan> {
  const found = () => collector.spans.find((it) => it.attributes['gen_ai.tool.call.id'] === callId);
  await until(() => found() !== undefined);
  return found() as CollectedSpan;
}
const childrenOf = ({ spanId }: CollectedSpan): CollectedSpan[] =>
  collector.spans.filter((it) => it.parentSpanId === spanId);

test('a call is a span with the attributes of the conventions, and its stages are its children', async () => {
  const call = agent.call('terminal_execute', { command: 'true' });
  await dataOf(call);
  const span = await spanOf(call.callId);
  expect(span).toMatchObject({ name: 'execute_tool terminal_execute', kind: 1, status: {} });
  expect(span.parentSpanId).toBeUndefined();
  expect(span.attributes).toEqual({
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'terminal_execute',
    'gen_ai.tool.type': 'function',
    'gen_ai.tool.call.id': call.callId,
    'ringfence.tier': 'execute',
    'ringfence.decision': 'allow',
  });
  const stages = childrenOf(span);
  expect(stages.map(({ name }) => name)).toEqual(['policy', 'queue', 'start', 'run', 'settle']);
  expect(new Set([span, ...stages].map((it) => it.traceId)).size).toBe(1);
  // Each stage begins where the one before it ended, and all of them fill the call.
  const edges = stages.map((it) => [it.startTimeUnixNano, it.endTimeUnixNano] as const);
  for (const [at, [start, end]] of edges.entries()) {
    expect(end >= start).toBe(true);
    if (at > 0) expect(start).toBe(edges[at - 1]?.[1]);
  }
  expect(edges.at(-1)?.[1]).toBe(span.endTimeUnixNano);
  const run = stages[3] as CollectedSpan;
  expect(Number(BigInt(run.endTimeUnixNano) - BigInt(run.startTimeUnixNano))).toBeGreaterThan(100_000);
  expect(Math.abs(Number(BigInt(span.endTimeUnixNano) / 1_000_000n) - Date.now())).toBeLessThan(60_000);
  expect(collector.resource()).toMatchObject({ 'service.name': 'tools-of-ann', 'service.version': expect.any(String) });
});

test('a failed tool is a failed span, in the stage that failed, with the error code and no message', async () => {
  const call = agent.call('file_read', { path: 'missing-plan.txt' });
  expect(await call).toMatchObject({ success: false });
  const span = await spanOf(call.callId);
  expect(span).toMatchObject({ status: { code: 2 }, attributes: { 'error.type': 'NOT_FOUND' } });
  const failed = childrenOf(span).filter(({ status }) => status.code === 2);
  expect(failed.map(({ name }) => name)).toEqual(['run']);
});

test('the time that a person takes is a stage of its own', async () => {
  const events = operator.notifications(['approvals']);
  const call = agent.call('file_delete', { path: 'plan-of-ann.txt' });
  const { value } = await events[Symbol.asyncIterator]().next();
  const { approvalId } = (value as { params: { approval: { approvalId: string } } }).params.approval;
  await operator.request('approvals.resolve', { approvalId, decision: 'deny' });
  expect(await call).toMatchObject({ success: false, error: { code: 'APPROVAL_DENIED' } });
  const span = await spanOf(call.callId);
  expect(span.attributes).toMatchObject({ 'ringfence.decision': 'ask', 'error.type': 'APPROVAL_DENIED' });
  expect(childrenOf(span).map(({ name, status }) => [name, status.code])).toEqual([
    ['policy', undefined],
    ['approval', 2],
  ]);
});

test('a call is a part of the trace that its caller names', async () => {
  const call = agent.call('file_list', {}, { trace: { traceparent, tracestate: 'vendor=1' } });
  await dataOf(call);
  expect(await spanOf(call.callId)).toMatchObject({ traceId: TRACE, parentSpanId: PARENT, traceState: 'vendor=1' });
});

test('a trace that its caller does not record is not recorded here, nor are the calls of its program', async () => {
  const unsampled = { trace: { traceparent: `00-${'1'.repeat(32)}-${PARENT}-00` } };
  const code = 'return (await tools.file_list({})).entries.length';
  await dataOf(agent.call('code_run', { code }, unsampled));
  const later = agent.call('file_list', {});
  await dataOf(later);
  await spanOf(later.callId);
  expect(collector.spans.filter(({ traceId }) => traceId === '1'.repeat(32))).toEqual([]);
});

test('calls of a program are children of the program', async () => {
  const call = agent.call('code_run', { code: 'return (await tools.file_list({})).entries.length' });
  await dataOf(call);
  const span = await spanOf(call.callId);
  const names = () => childrenOf(span).map(({ name }) => name);
  await until(() => names().includes('execute_tool file_list'));
  expect(names()).toContain('run');
});

test('the calls of a batch are parts of the trace that the batch names', async () => {
  const traceId = '2'.repeat(32);
  const calls = ['a', 'b'].map((id) => ({ id, tool: 'file_list', input: {} }));
  await agent.request('tools.batch', { calls, _meta: { traceparent: `00-${traceId}-${PARENT}-01` } });
  const ofBatch = () =>
    collector.spans.filter((it) => it.traceId === traceId && it.name === 'execute_tool file_list').length;
  await until(() => ofBatch() === 2);
});

test('an MCP request is a span in the trace of its `_meta`, and its calls are its children', async () => {
  await using client = await connectMcp(daemon);
  const traceId = '3'.repeat(32);
  const _meta = { traceparent: `00-${traceId}-${PARENT}-01` };
  await client.callTool({ name: 'file_list', arguments: {}, _meta });
  await client.callTool({ name: 'file_read', arguments: { path: 'missing.txt' }, _meta });
  const calls = ['a', 'b'].map((id) => ({ id, tool: 'file_list', input: {} }));
  await client.callTool({ name: 'ringfence_batch', arguments: { calls }, _meta });
  const requests = () => collector.spans.filter((it) => it.traceId === traceId && it.kind === 2);
  await until(() => requests().length === 3);
  const [listed, read, batch] = requests() as [CollectedSpan, CollectedSpan, CollectedSpan];
  expect(listed).toMatchObject({ name: 'tools/call file_list', parentSpanId: PARENT, status: {} });
  expect(listed.attributes).toEqual({
    'mcp.method.name': 'tools/call',
    'mcp.session.id': expect.stringMatching(/^[0-9a-f-]{36}$/),
    'jsonrpc.request.id': expect.stringMatching(/^\d+$/),
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': 'file_list',
  });
  expect(childrenOf(listed).map(({ name }) => name)).toEqual(['execute_tool file_list']);
  expect(read).toMatchObject({ status: { code: 2 }, attributes: { 'error.type': 'tool_error' } });
  expect(childrenOf(read)[0]).toMatchObject({ status: { code: 2 }, attributes: { 'error.type': 'NOT_FOUND' } });
  expect(childrenOf(batch)).toHaveLength(2);
});

test('no argument, path, result or made-up name leaves, and the secret is only in its header', async () => {
  await using client = await connectMcp(daemon);
  await expect(client.callTool({ name: 'made_up_tool', arguments: { path: 'plan-of-ann.txt' } })).rejects.toThrow(
    'made_up_tool',
  );
  const madeUp: string = 'another_made_up';
  await agent.call(madeUp, { path: 'plan-of-ann.txt' });
  await agent.call('file_list', {}, { callId: 'reads /home/ann/plan of ann' });
  await dataOf(agent.call('file_read', { path: 'plan-of-ann.txt' }));
  await dataOf(agent.call('terminal_execute', { command: 'echo the-words-of-a-command' }));
  const last = agent.call('file_list', {});
  await dataOf(last);
  await spanOf(last.callId);
  const told = collector.bodies.join('\n');
  expect(told).toContain('execute_tool unknown');
  expect(told).toContain('tools/call unknown');
  expect(told).not.toMatch(/made_up|plan-of-ann|the text of the plan|words-of-a-command|home\/ann/);
  expect(told).not.toContain(daemon.workspace);
  expect(told).not.toContain(SECRET);
  expect(daemon.log()).not.toContain(SECRET);
  expect(new Set(collector.headers.map(({ authorization }) => authorization))).toEqual(new Set([`Bearer ${SECRET}`]));
});

test('metrics count the spans that the collector took', async () => {
  const { text } = (await operator.request('metrics.read', {})) as { text: string };
  expect(Number(/^ringfence_trace_spans_total\{result="sent"\} (\d+)$/m.exec(text)?.[1])).toBeGreaterThan(20);
  expect(text).toContain('ringfence_trace_spans_total{result="dropped"} 0');
});
