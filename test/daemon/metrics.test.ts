/** Metrics over the socket and the command line; over HTTP see test/attack/monitor.test.ts. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import type { Family } from '../../src/store/telemetry/families.ts';
import { runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, ringfence, until } from '../support/daemon.ts';
import { connectMcp } from '../support/mcp.ts';

const POLICY = 'tiers:\n  execute: { decision: ask, reason: A person should see it. }\n';

let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await openDaemon({ policy: POLICY });
  writeFileSync(join(daemon.workspace, 'plan-of-ann.txt'), 'text\n');
  [agent, operator] = await Promise.all([daemon.connect(), daemon.connect({ role: 'operator' })]);
});
afterAll(async () => {
  await Promise.all([agent, operator].map((it) => it[Symbol.asyncDispose]()));
  await daemon[Symbol.asyncDispose]();
});

const families = async (): Promise<Family[]> =>
  ((await operator.request('metrics.read', { format: 'json' })) as { families: Family[] }).families;
const text = async (): Promise<string> => ((await operator.request('metrics.read', {})) as { text: string }).text;

/** The value of the sample with all these labels; 0 if there is none. */
async function sampleOf(name: string, labels: Record<string, string> = {}, suffix?: string): Promise<number> {
  const samples = (await families()).find((it) => it.name === name)?.samples ?? [];
  const found = samples.find(
    (it) => it.suffix === suffix && Object.entries(labels).every(([key, value]) => it.labels?.[key] === value),
  );
  return found?.value ?? 0;
}

test('each call is counted by tool, outcome, decision and duration', async () => {
  const read = { tool: 'file_read', tier: 'read_only', outcome: 'ok' };
  const before = await sampleOf('ringfence_calls_total', read);
  for (let call = 0; call < 3; call++)
    expect(await agent.call('file_read', { path: 'plan-of-ann.txt' })).toMatchObject({ success: true });
  await agent.call('file_read', { path: 'missing.txt' });
  expect(await sampleOf('ringfence_calls_total', read)).toBe(before + 3);
  expect(await sampleOf('ringfence_calls_total', { ...read, outcome: 'not_found' })).toBe(1);
  expect(await sampleOf('ringfence_call_errors_total', { code: 'NOT_FOUND' })).toBe(1);
  expect(await sampleOf('ringfence_call_decisions_total', { tier: 'read_only', decision: 'allow' })).toBe(before + 4);
  expect(await sampleOf('ringfence_call_duration_seconds', { tier: 'read_only' }, '_count')).toBe(before + 4);
  expect(await sampleOf('ringfence_call_duration_seconds', { tier: 'read_only', le: '+Inf' }, '_bucket')).toBe(
    before + 4,
  );
  expect(await sampleOf('ringfence_cache_hits_total')).toBeGreaterThanOrEqual(2);
});

test('durations of tools and of MCP requests have the names and labels of the conventions', async () => {
  await using client = await connectMcp(daemon);
  await client.listTools();
  await client.callTool({ name: 'file_read', arguments: { path: 'plan-of-ann.txt' } });
  await client.callTool({ name: 'file_read', arguments: { path: 'missing.txt' } });
  await client.readResource({ uri: 'ringfence://result/none' }).catch(() => {});
  const requests = (labels: Record<string, string>) =>
    sampleOf('mcp_server_operation_duration_seconds', labels, '_count');
  expect(await requests({ mcp_method_name: 'tools/list' })).toBe(1);
  expect(await requests({ mcp_method_name: 'tools/call', error_type: 'tool_error' })).toBe(1);
  expect(await requests({ mcp_method_name: 'resources/read', error_type: '-32602' })).toBe(1);
  expect(await text()).toContain('mcp_server_operation_duration_seconds_count{mcp_method_name="tools/call"} 1');
  const tool = { gen_ai_operation_name: 'execute_tool', gen_ai_tool_name: 'file_read' };
  const failed = { ...tool, error_type: 'tool_error' };
  expect(await sampleOf('gen_ai_execute_tool_duration_seconds', tool, '_count')).toBeGreaterThan(0);
  expect(await sampleOf('gen_ai_execute_tool_duration_seconds', failed, '_count')).toBe(2);
  expect(await sampleOf('gen_ai_execute_tool_duration_seconds', { ...tool, le: '+Inf' }, '_bucket')).toBeGreaterThan(0);
});

test('an answer of a person is counted, and a question counts as pending until then', async () => {
  const events = operator.notifications(['approvals']);
  const call = agent.call('terminal_execute', { command: 'true' });
  const { value } = await events[Symbol.asyncIterator]().next();
  expect(await sampleOf('ringfence_approvals_pending')).toBe(1);
  const { approvalId } = (value as { params: { approval: { approvalId: string } } }).params.approval;
  await operator.request('approvals.resolve', { approvalId, decision: 'deny' });
  expect(await call).toMatchObject({ success: false, error: { code: 'APPROVAL_DENIED' } });
  expect(await sampleOf('ringfence_approvals_pending')).toBe(0);
  expect(await sampleOf('ringfence_approvals_total', { decision: 'deny' })).toBe(1);
  expect(await sampleOf('ringfence_call_decisions_total', { tier: 'execute', decision: 'ask' })).toBe(1);
});

test('no label holds a path, an argument, or a name that a caller made up', async () => {
  for (const tool of ['made_up_one', 'made_up_two', 'token=hunter2'])
    expect(await agent.call(tool, { path: 'plan-of-ann.txt' })).toMatchObject({ success: false });
  const told = await text();
  expect(told).not.toMatch(/plan-of-ann|made_up|hunter2/);
  expect(told).not.toContain(daemon.workspace);
  expect(await sampleOf('ringfence_calls_total', { tool: 'unknown', outcome: 'not_found' })).toBe(3);
});

test('the text has a type and a help for each metric, and one value for each set of labels', async () => {
  const lines = (await text()).trimEnd().split('\n');
  const types = new Set(lines.flatMap((it) => /^# TYPE (\S+) (?:counter|gauge|histogram)$/.exec(it)?.[1] ?? []));
  const samples = lines.filter((it) => !it.startsWith('#'));
  for (const it of samples) {
    expect(it).toMatch(/^[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [\d.e+-]+$/);
    const [name = ''] = it.split(/[{ ]/);
    expect(types.has(name) || types.has(name.replace(/_(bucket|sum|count)$/, '')), name).toBe(true);
  }
  const keys = samples.map((it) => it.slice(0, it.lastIndexOf(' ')));
  expect(new Set(keys).size).toBe(keys.length);
  expect(await sampleOf('ringfence_sessions')).toBe(2);
  expect(await sampleOf('ringfence_hosts', { tier: 'read_only' })).toBeGreaterThanOrEqual(1);
});

test('an agent may not read metrics, which tell of all sessions', async () => {
  await expect(agent.request('metrics.read', {})).rejects.toMatchObject({ code: -32004 });
});

test('`ringfence metrics` prints them, and the same as JSON', async () => {
  const plain = await runCli(daemon, ['metrics']);
  expect(plain).toMatchObject({ code: 0, stdout: expect.stringContaining('\nringfence_calls_total{tool="file_read"') });
  const { stdout } = await runCli(daemon, ['metrics', '--json']);
  expect((JSON.parse(stdout) as { families: Family[] }).families.map((it) => it.name)).toContain(
    'ringfence_calls_total',
  );
}, 30_000);

test('tools beyond metricToolsMax count as other', async () => {
  await using small = await openDaemon({ limits: { metricToolsMax: 1 } });
  await using client = await small.connect();
  await using reader = await small.connect({ role: 'operator' });
  for (const tool of ['file_list', 'file_glob', 'file_glob', 'git_status'])
    await client.call(tool, tool === 'file_glob' ? { pattern: '*' } : {});
  const { text: told } = (await reader.request('metrics.read', {})) as { text: string };
  expect(told.match(/^ringfence_calls_total.*$/gm)?.map((it) => /tool="(\w+)"/.exec(it)?.[1])).toEqual(
    expect.arrayContaining(['file_list', 'other']),
  );
  expect(told).not.toMatch(/tool="(file_glob|git_status)"/);
}, 30_000);

test('`ringfence top` shows sessions and calls that run once without a terminal, and the same as JSON', async () => {
  const call = agent.call('file_list', {});
  const plain = await runCli(daemon, ['top']);
  expect(plain).toMatchObject({ code: 0, stderr: '' });
  expect(plain.stdout).toMatch(/SESSION .*\n(?:.*\n)*.*CALL .*\n(?:.*\n)*HOST .*\nread_only/);
  const { stdout } = await runCli(daemon, ['top', '--json']);
  const { status } = JSON.parse(stdout) as { status: { openSessions: { workspace: string }[] } };
  expect(status.openSessions.map((it) => it.workspace)).toContain(daemon.workspace);
  expect(await call).toMatchObject({ success: true });
}, 30_000);

test('`ringfence top` in a terminal draws again until q, and gives the screen back', async () => {
  const { spawn } = await import('@lydell/node-pty');
  const env = { PATH: process.env.PATH ?? '', RINGFENCE_STATE: daemon.stateDir, RINGFENCE_SOCKET: daemon.socket };
  const terminal = spawn(process.execPath, [ringfence, 'top'], { cols: 80, rows: 24, env });
  let screen = '';
  const ended = new Promise<number>((resolve) => terminal.onExit(({ exitCode }) => resolve(exitCode)));
  terminal.onData((it) => (screen += it));
  await until(() => screen.includes('calls/s'), 20_000);
  terminal.write('q');
  expect(await ended).toBe(0);
  expect(screen.endsWith('\u001b[?25h\u001b[?1049l')).toBe(true);
}, 30_000);
