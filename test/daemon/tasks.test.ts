/** Sub-agents of a real daemon, whose models are scripted servers on loopback in both dialects. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon } from '../support/daemon.ts';
import { delegate, resultsIn, ScriptedTasks, taskData } from '../support/tasks.ts';

let models: ScriptedTasks;
let daemon: OpenDaemon;
let agent: Client;

beforeAll(async () => {
  models = await ScriptedTasks.start();
  daemon = await openDaemon({
    limits: { hostStartMs: 100_000, taskQuestionMs: 1_500, modelIdleMs: 1_500, modelRetryMs: 2_000 },
    policy: [
      'tiers:',
      '  execute: { decision: allow }',
      '  write: { decision: allow, approve: [] }',
      'rules:',
      '  - { id: moves, match: { tool: file_rename }, decision: ask, reason: A person sees it. }',
      '',
    ].join('\n'),
    config: {
      agents: {
        ...models.profiles(),
        priced: { ...models.profiles().default, pricesUsdPerMillion: { input: 1000, output: 2000 } },
        narrow: { ...models.profiles().default, tools: ['file_read'], policy: 'read-only' },
      },
      modes: { files: { tools: ['file_*', 'task_delegate'] } },
    },
  });
  writeFileSync(join(daemon.workspace, 'a.txt'), 'one\n');
  agent = await daemon.connect();
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await models[Symbol.asyncDispose]();
});

const inWorkspace = (name: string) => join(daemon.workspace, name);
const write = (path: string) => ({ name: 'file_write', input: { path, content: 'x' } });
const read = { name: 'file_read', input: { path: 'a.txt' } };
const open = (mode: string) => daemon.connect({ mode });
let count = 0;
const task = (what: string) => `${what} ${++count}`;

describe.each(['default', 'claude'])('a task of the profile %s', (profile) => {
  test('works with tools, and ends with a summary', async () => {
    const prompt = task('copy');
    const made = `${prompt}.txt`;
    models.on(prompt, [{ text: 'I look.', calls: [read, write(made)] }, { text: 'It is done.' }]);
    expect(await taskData(delegate(agent, prompt, { agent: profile }))).toMatchObject({
      summary: 'It is done.',
      ended: 'done',
      toolExecutions: [
        { tool: 'file_read', success: true },
        { tool: 'file_write', success: true },
      ],
      modifiedFiles: [made],
      usage: { inputTokens: 20, outputTokens: 10, cycles: 2 },
    });
    expect(resultsIn(models.requestsOf(prompt))).toEqual(['one\n', expect.stringContaining('created')]);
  });

  test("a model's stream is understood wherever it is cut", async () => {
    const prompt = task('grüße 👋');
    models.on(prompt, [
      { text: 'Grüße 👋', calls: [read], writeBytes: 1, deltaChars: 1 },
      { text: 'ok 👋', writeBytes: 3 },
    ]);
    expect(await taskData(delegate(agent, prompt, { agent: profile }))).toMatchObject({
      summary: 'ok 👋',
      ended: 'done',
    });
  });

  test('tells its model once that arguments are no JSON, and ends if it goes on', async () => {
    const broken = { name: 'file_read', rawArguments: '{"path": "a.txt' };
    const once = task('once');
    models.on(once, [{ calls: [broken, read] }, { text: 'sorry' }]);
    expect(await taskData(delegate(agent, once, { agent: profile }))).toMatchObject({
      summary: 'sorry',
      ended: 'done',
    });
    const [told, other] = resultsIn(models.requestsOf(once));
    expect([told, other]).toEqual([expect.stringContaining('INPUT_INVALID: the arguments'), 'one\n']);
    const ever = task('ever');
    models.on(ever, [{ calls: [broken] }]);
    const data = await taskData(delegate(agent, ever, { agent: profile }));
    expect(data).toMatchObject({ ended: 'error', toolExecutions: [], usage: { cycles: 2 } });
    expect(data.reason).toContain('no JSON object twice');
  });

  test('ends when its cycles are over, and carries out no further call', async () => {
    const prompt = task('loop');
    models.on(prompt, [{ text: 'again', calls: [read] }]);
    const data = await taskData(delegate(agent, prompt, { agent: profile, maxCycles: 3 }));
    expect(data).toMatchObject({ ended: 'cycles', summary: 'again', usage: { cycles: 3 } });
    expect(data.toolExecutions).toHaveLength(2);
  });

  test('gives an answer that fits a schema, and tells its model once if it does not', async () => {
    const output = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
    const good = task('schema');
    models.on(good, [{ text: 'n is 7' }, { text: '```json\n{"n": 7}\n```' }]);
    const data = await taskData(delegate(agent, good, { agent: profile, output }));
    expect(data).toMatchObject({ ended: 'done', output: { n: 7 } });
    expect(data).not.toHaveProperty('summary');
    const bad = task('schema');
    models.on(bad, [{ text: '{"n": "seven"}' }]);
    const failed = await taskData(delegate(agent, bad, { agent: profile, output }));
    expect(failed).toMatchObject({ ended: 'error', summary: '{"n": "seven"}' });
    expect(failed.reason).toContain('answer/n must be integer');
  });

  test.each([
    ['that sends no end', { endless: true }, 'longer than 8388608 bytes'],
    ['that stalls', { text: 'hello', stallAfterBytes: 100 }, 'nothing came for 1500 ms'],
    ['that breaks off', { text: 'hello', breakAfterBytes: 100 }, 'gave no answer'],
    ['that answers nothing', {}, 'the model answered nothing'],
    ['that refuses', { status: 401, body: { error: { message: 'no such key' } } }, 'answered 401: no such key'],
    ['that is busy for too long', { status: 429, headers: { 'retry-after': '3' } }, 'answered 429'],
  ])('ends with a server %s', async (_, reply, reason) => {
    const prompt = task('bad');
    models.on(prompt, [reply]);
    const data = await taskData(delegate(agent, prompt, { agent: profile }));
    expect(data.ended).toBe('error');
    expect(data.reason).toContain(reason);
  });

  test.each([429, 529])('waits for a server that answers %s, as it asks', async (status) => {
    const prompt = task('busy');
    let asked = 0;
    models.on(prompt, () => (++asked < 3 ? { status, headers: { 'retry-after': '0.1' } } : { text: 'at last' }));
    const data = await taskData(delegate(agent, prompt, { agent: profile }));
    expect(data).toMatchObject({ summary: 'at last', ended: 'done', usage: { cycles: 1 } });
    expect(asked).toBe(3);
  });
});

test('a call of a sub-agent is found below the call that delegated the task, and can be undone', async () => {
  await using operator = await daemon.connect({ role: 'operator' });
  const prompt = task('undo');
  models.on(prompt, [{ calls: [write('undone.txt')] }, { text: 'done' }]);
  const running = agent.call('task_delegate', { prompt });
  const { toolExecutions } = await taskData(running as ReturnType<typeof delegate>);
  const [{ callId = '' } = {}] = toolExecutions as { callId?: string }[];
  const { entries } = (await operator.request('audit.query', { callId })) as { entries: { detail?: object }[] };
  expect(entries.map((it) => it.detail)).toContainEqual({ parentCallId: running.callId });
  expect(await agent.request('calls.undo', { callId })).toMatchObject({ undone: callId, removed: ['undone.txt'] });
  expect(existsSync(inWorkspace('undone.txt'))).toBe(false);
});

test('the alias `task` takes a prompt and a context, and reports the name of the tool', async () => {
  const prompt = task('alias');
  models.on(prompt, [{ text: 'done' }]);
  const result = await agent.call('task' as string, { prompt, context: 'The file is a.txt.' });
  expect(result).toMatchObject({ tool: 'task_delegate', success: true, data: { summary: 'done' } });
  expect(JSON.stringify(models.requestsOf(prompt)[0]?.body)).toContain('The file is a.txt.');
});

describe('authority', () => {
  test('a tool that is not among its tools is not there, though its caller has it', async () => {
    const prompt = task('narrow');
    models.on(prompt, [{ calls: [write('never.txt'), { name: 'no_such_tool' }, read] }, { text: 'done' }]);
    const data = await taskData(delegate(agent, prompt, { tools: ['file_read', 'file_l*'] }));
    expect(data.toolExecutions.map((it) => it.success)).toEqual([false, false, true]);
    expect(resultsIn(models.requestsOf(prompt))[0]).toContain('TOOL_NOT_FOUND');
    expect(existsSync(inWorkspace('never.txt'))).toBe(false);
    const tools = models.requestsOf(prompt)[0]?.body.tools as { function: { name: string } }[] | undefined;
    expect(tools?.map((it) => it.function.name).sort()).toEqual(['file_list', 'file_read']);
  });

  test('a sub-agent gets the tools that its caller names by their aliases', async () => {
    const prompt = task('aliases');
    models.on(prompt, [{ calls: [read] }, { text: 'done' }]);
    const input = { prompt, tools: ['read_file', 'bash'] };
    expect(await agent.call('task' as string, input)).toMatchObject({ data: { ended: 'done' } });
    const tools = models.requestsOf(prompt)[0]?.body.tools as { function: { name: string } }[] | undefined;
    expect(tools?.map((it) => it.function.name).sort()).toEqual(['file_read', 'terminal_execute']);
  });

  test('a sub-agent whose tools nobody names reads, searches, edits and runs commands, and no more', async () => {
    const prompt = task('usual');
    models.on(prompt, [{ text: 'done' }]);
    expect(await taskData(delegate(agent, prompt))).toMatchObject({ ended: 'done' });
    const tools = models.requestsOf(prompt)[0]?.body.tools as { function: { name: string } }[] | undefined;
    const names = tools?.map((it) => it.function.name) ?? [];
    expect(names).toEqual(expect.arrayContaining(['file_edit', 'file_grep', 'file_read', 'terminal_execute']));
    expect(names.filter((it) => !/^(file|terminal)_/.test(it) || it === 'file_delete')).toEqual([]);
  });

  test('tools that its caller does not have are refused', async () => {
    const result = await delegate(agent, task('more'), { tools: ['no_such_tool'] });
    expect(result).toMatchObject({ success: false, error: { code: 'INPUT_INVALID' } });
  });

  test("a sub-agent's profile narrows it by tools and policy", async () => {
    const prompt = task('profile');
    models.on(prompt, [{ calls: [write('never.txt'), read] }, { text: 'done' }]);
    const data = await taskData(delegate(agent, prompt, { agent: 'narrow' }));
    expect(data.toolExecutions.map((it) => it.success)).toEqual([false, true]);
  });

  test('plan mode is not left by a sub-agent, its own sub-agent, its batch or its program', async () => {
    await using plan = await open('plan');
    const inner = task('inner');
    const outer = task('outer');
    models.on(inner, [
      { calls: [write('left.txt'), { name: 'terminal_execute', input: { command: 'touch left.txt' } }] },
      { text: 'no' },
    ]);
    const program = {
      name: 'code_run',
      input: { code: 'return await tools.file_write({ path: "left.txt", content: "x" })' },
    };
    const further = {
      name: 'task_delegate',
      input: { prompt: inner, mode: 'code', tools: ['file_write', 'terminal_execute'] },
    };
    models.on(outer, [{ calls: [write('left.txt'), program, further, read] }, { text: 'no' }]);
    const tools = ['file_*', 'code_run', 'terminal_execute', 'task_delegate'];
    const data = await taskData(delegate(plan, outer, { mode: 'code', tools }));
    expect(data.toolExecutions.map((it) => [it.tool, it.success])).toEqual([
      ['file_write', false],
      ['code_run', false],
      ['task_delegate', true],
      ['file_read', true],
    ]);
    expect(resultsIn(models.requestsOf(inner)).join()).toMatch(/POLICY_DENIED.*POLICY_DENIED/s);
    expect(existsSync(inWorkspace('left.txt'))).toBe(false);
  });

  test('a mode of the call narrows the sub-agent alone', async () => {
    const prompt = task('mode');
    models.on(prompt, [{ calls: [write('never.txt'), read] }, { text: 'done' }]);
    const data = await taskData(delegate(agent, prompt, { mode: 'read' }));
    expect(data.toolExecutions.map((it) => it.success)).toEqual([false, true]);
    expect(await agent.call('file_write', write('mine.txt').input)).toMatchObject({ success: true });
    expect(await delegate(agent, prompt, { mode: 'wild' })).toMatchObject({ error: { code: 'INPUT_INVALID' } });
  });

  test('a mode with its own tools holds for the sub-agent', async () => {
    await using files = await open('files');
    const prompt = task('files');
    models.on(prompt, [{ calls: [{ name: 'terminal_execute', input: { command: 'true' } }, read] }, { text: 'done' }]);
    const data = await taskData(delegate(files, prompt));
    expect(data.toolExecutions.map((it) => it.success)).toEqual([false, true]);
  });

  test('there is no third level, and none below a sub-agent that was not given the tool by its name', async () => {
    const [first, second, third] = [task('first'), task('second'), task('third')];
    const next = (prompt: string) => ({
      name: 'task_delegate',
      input: { prompt, tools: ['file_read', 'task_delegate'] },
    });
    models.on(first, [{ calls: [next(second)] }, { text: 'one' }]);
    models.on(second, [{ calls: [{ ...next(third), input: { prompt: third } }] }, { text: 'two' }]);
    models.on(third, [{ text: 'three' }]);
    const data = await taskData(delegate(agent, first, { tools: ['file_read', 'task_delegate'] }));
    expect(data).toMatchObject({ summary: 'one', toolExecutions: [{ tool: 'task_delegate', success: true }] });
    expect(resultsIn(models.requestsOf(second))[0]).toContain('TOOL_NOT_FOUND');
    expect(models.requestsOf(third)).toEqual([]);
    for (const more of [{}, { tools: ['*'] }]) {
      const alone = task('alone');
      models.on(alone, [{ calls: [next(second)] }, { text: 'done' }]);
      await taskData(delegate(agent, alone, more));
      expect(resultsIn(models.requestsOf(alone))[0]).toContain('TOOL_NOT_FOUND');
    }
  });

  test('a question shows whose call it is, and is denied in time', async () => {
    await using operator = await daemon.connect({ role: 'operator' });
    const prompt = task('ask');
    models.on(prompt, [
      { calls: [{ name: 'file_rename', input: { oldPath: 'a.txt', newPath: 'c.txt' } }] },
      { text: 'done' },
    ]);
    const running = agent.call('task_delegate', { prompt, tools: ['*'] });
    const asked = await seen(operator);
    expect(asked.parents).toEqual([{ callId: running.callId, tool: 'task_delegate' }]);
    const data = await taskData(running as never);
    expect(data).toMatchObject({ ended: 'refused', toolExecutions: [{ tool: 'file_rename', success: false }] });
    expect(existsSync(inWorkspace('c.txt'))).toBe(false);
  });

  test('a yes lets its call run, and a remembered yes of the caller does not count for it', async () => {
    await using operator = await daemon.connect({ role: 'operator' });
    const move = (oldPath: string, newPath: string) => ({ name: 'file_rename', input: { oldPath, newPath } });
    writeFileSync(inWorkspace('m.txt'), 'm');
    const own = agent.call('file_rename', { oldPath: 'm.txt', newPath: 'n.txt' });
    own.catch(() => {});
    const { approvalId } = await seen(operator);
    const remember = { scope: 'session', match: 'rule' };
    await operator.request('approvals.resolve', { approvalId, decision: 'approve', remember });
    expect(await own).toMatchObject({ success: true });
    const prompt = task('yes');
    models.on(prompt, [{ calls: [move('n.txt', 'o.txt')] }, { text: 'moved' }]);
    const running = delegate(agent, prompt, { tools: ['file_*'] });
    const asked = await seen(operator);
    await operator.request('approvals.resolve', { approvalId: asked.approvalId, decision: 'approve' });
    expect(await taskData(running)).toMatchObject({ ended: 'done', toolExecutions: [{ success: true }] });
    expect(readFileSync(inWorkspace('o.txt'), 'utf8')).toBe('m');
  });

  test("a yes at a door counts for the caller's sub-agents, but for one under a stricter policy", async () => {
    await using operator = await daemon.connect({ role: 'operator' });
    await operator.request('events.subscribe', { topics: ['approvals'] });
    const curl = "curl -s -p -o /dev/null -w '%{http_connect}' https://shared.invalid/; true";
    const remember = { scope: 'session', match: 'door' };
    const answer = async () =>
      operator.request('approvals.resolve', {
        approvalId: (await seen(operator)).approvalId,
        decision: 'approve',
        remember,
      });
    const connect = { name: 'terminal_execute', input: { command: curl } };
    const first = task('connects');
    models.on(first, [{ calls: [connect] }, { text: 'connected' }]);
    const running = delegate(agent, first);
    await answer();
    await taskData(running);
    // The name is in no DNS: 502 says that the door is open, to the caller as well.
    expect(resultsIn(models.requestsOf(first))).toEqual([expect.stringContaining('502')]);
    expect(await dataOf(agent.call('terminal_execute', { command: curl }))).toMatchObject({ stdout: '502' });

    writeFileSync(inWorkspace('.env'), 'PORT=80');
    const shown = agent.call('access_request', { path: '.env' });
    await answer();
    await dataOf(shown);
    const look = { name: 'file_read', input: { path: '.env' } };
    const [same, stricter] = [task('looks'), task('looks under a policy')];
    for (const it of [same, stricter]) models.on(it, [{ calls: [look] }, { text: 'seen' }]);
    await taskData(delegate(agent, same));
    expect(resultsIn(models.requestsOf(same))).toEqual(['PORT=80']);
    await taskData(delegate(agent, stricter, { agent: 'narrow' }));
    expect(resultsIn(models.requestsOf(stricter))).toEqual([expect.stringContaining('SENSITIVE_FILE')]);
  });
});

interface Question {
  readonly approvalId: string;
  readonly parents: unknown;
}

/** The first open question. */
async function seen(operator: Client): Promise<Question> {
  for (;;) {
    const { approvals } = (await operator.request('approvals.list', {})) as { approvals: Question[] };
    if (approvals[0]) return approvals[0];
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
