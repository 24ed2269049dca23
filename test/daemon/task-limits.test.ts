/** What bounds sub-agents of a real daemon, what is kept of them, and how they end before their time. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, createClient } from '../../src/client/client.ts';
import type { ListedTask, ShownTask } from '../../src/services/agents/task-store.ts';
import { runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, processesWith, until } from '../support/daemon.ts';
import { delegate, ScriptedTasks, taskData } from '../support/tasks.ts';

const KEY = 'canary-5f1c0a77e2b94d0c';
let models: ScriptedTasks;
let daemon: OpenDaemon;
let agent: Client;
let operator: Client;

beforeAll(async () => {
  models = await ScriptedTasks.start();
  const { default: openai, claude } = models.profiles({ maxOutputTokens: 100, secret: 'model_key' });
  const priced = { pricesUsdPerMillion: { input: 1000, output: 2000 } };
  daemon = await openDaemon({
    limits: {
      hostStartMs: 100_000,
      taskTranscriptBytes: 4_000,
      taskContextChars: 8_000,
      taskResultChars: 3_000,
      taskMs: 15_000,
      modelAnswerMs: 4_000,
    },
    policy: 'tiers:\n  execute: { decision: allow }\n  write: { decision: allow, approve: [] }\n',
    config: {
      secrets: { model_key: { command: ['/bin/echo', KEY] } },
      agents: { default: openai, claude, priced: { ...openai, ...priced } },
    },
  });
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  for (const it of [agent, operator]) await it[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await models[Symbol.asyncDispose]();
});

let count = 0;
const task = (what: string) => `${what} ${++count}`;
const list = { name: 'file_list', input: { path: '.' } };
/** A command that no other test runs. */
const SLEEP = `sleep 60.${process.pid}`;
const waiting = { name: 'terminal_execute', input: { command: SLEEP } };
const tasksOf = async (client: Client) => ((await client.request('tasks.list', {})) as { tasks: ListedTask[] }).tasks;
const running = async () => (await tasksOf(operator)).filter((it) => it.running);

/** The id of the one task that runs, once it does. */
async function onlyRunning(): Promise<string> {
  await until(async () => (await running()).length === 1);
  return (await running())[0]?.taskId as string;
}

/** A session that may spend so much. */
async function within(budget: object): Promise<Client> {
  const { token } = (await agent.request('sessions.attenuate', { budget, expiresIn: 60_000 })) as { token: string };
  return createClient({ socket: daemon.socket, workspace: daemon.workspace, token });
}

describe('a budget', () => {
  test('a budget of calls ends the task at the first call beyond it', async () => {
    const prompt = task('calls');
    models.on(prompt, [{ calls: [list] }]);
    const data = await taskData(delegate(agent, prompt, { budget: { calls: 2 } }));
    expect(data).toMatchObject({ ended: 'budget', usage: { cycles: 3 } });
    expect(data.toolExecutions.map((it) => it.success)).toEqual([true, true, false]);
  });

  test('a budget of tokens bounds the next answer, and ends the task if there is no room for one', async () => {
    const prompt = task('tokens');
    models.on(prompt, [{ calls: [list], usage: { inputTokens: 3_000, outputTokens: 50 } }]);
    const data = await taskData(delegate(agent, prompt, { budget: { tokens: 30_000 } }));
    expect(data.ended).toBe('budget');
    const { inputTokens, outputTokens } = data.usage;
    expect(inputTokens + outputTokens).toBeLessThanOrEqual(30_000);
    const last = models.requestsOf(prompt).at(-1)?.body as { max_tokens: number };
    expect(last.max_tokens).toBeLessThanOrEqual(100);
    expect(await taskData(delegate(agent, prompt, { budget: { tokens: 10 } }))).toMatchObject({
      ended: 'budget',
      usage: { cycles: 0, inputTokens: 0 },
    });
  });

  test('a budget of dollars counts by the prices of the profile, and the costs are those of the tool', async () => {
    const prompt = task('usd');
    models.on(prompt, [{ calls: [list], usage: { inputTokens: 1_000, outputTokens: 100 } }]);
    const data = await taskData(delegate(agent, prompt, { agent: 'priced', maxCycles: 50, budget: { usd: 30 } }));
    expect(data.ended).toBe('budget');
    expect(data.usage.usd).toBeCloseTo(1.2 * data.usage.cycles, 6);
    expect(data.usage.usd).toBeLessThanOrEqual(30);
    const costs = JSON.stringify(await operator.request('costs.read', {}));
    expect(costs).toContain('task_delegate');
  });

  test('a budget of dollars is refused if the prices are not known', async () => {
    const result = await delegate(agent, task('free'), { budget: { usd: 1 } });
    expect(result).toMatchObject({ success: false, error: { code: 'COST_LIMIT' } });
  });

  test('a budget of time ends the task and its calls', async () => {
    const prompt = task('ms');
    models.on(prompt, [{ calls: [waiting] }]);
    const data = await taskData(delegate(agent, prompt, { budget: { ms: 1_500 } }));
    expect(data).toMatchObject({ ended: 'budget', toolExecutions: [{ success: false }] });
    expect(data.reason).toContain('longer than 1500 ms');
  });

  test("a task's budget is taken out of the session's, and what it did not spend is given back", async () => {
    await using session = await within({ usd: 50, calls: 10 });
    const prompt = task('parent');
    models.on(prompt, [
      { calls: [list], usage: { inputTokens: 1_000, outputTokens: 0 } },
      { text: 'done', usage: { inputTokens: 1_000, outputTokens: 0 } },
    ]);
    const more = await delegate(session, prompt, { agent: 'priced', budget: { usd: 51 } });
    expect(more).toMatchObject({ success: false, error: { code: 'COST_LIMIT' } });
    const own = { agent: 'priced', budget: { usd: 40, calls: 1 } };
    expect(await taskData(delegate(session, prompt, own))).toMatchObject({ ended: 'done', usage: { usd: 2 } });
    // 48 dollars and 7 calls are left: two calls delegated, one was made below the first.
    expect(await delegate(session, prompt, { agent: 'priced', budget: { usd: 48.5 } })).toMatchObject({
      success: false,
    });
    expect(await taskData(delegate(session, prompt, { agent: 'priced', budget: { usd: 48 } }))).toMatchObject({
      ended: 'done',
    });
  });

  test('tasks at once do not overspend a budget', async () => {
    await using session = await within({ usd: 60, calls: 20 });
    const prompts = Array.from({ length: 4 }, () => task('at once'));
    for (const it of prompts) models.on(it, [{ calls: [list], usage: { inputTokens: 1_000, outputTokens: 100 } }]);
    const all = await Promise.all(
      prompts.map((it) => taskData(delegate(session, it, { agent: 'priced', maxCycles: 50 }))),
    );
    expect(all.reduce((sum, it) => sum + (it.usage.usd ?? 0), 0)).toBeLessThanOrEqual(60);
    expect(all.map((it) => it.ended)).toEqual(Array(4).fill('budget'));
    expect(all.flatMap((it) => it.toolExecutions).filter((it) => it.success).length).toBeLessThanOrEqual(16);
  });
});

describe('without a budget', () => {
  test('a task ends after the time of the limit, whatever its caller says', async () => {
    const prompt = task('taskMs');
    models.on(prompt, [{ calls: [waiting] }]);
    const data = await taskData(delegate(agent, prompt, { budget: { ms: 86_400_000 } }));
    expect(data).toMatchObject({ ended: 'budget', reason: 'the task took longer than 15000 ms' });
  });

  test('an answer that trickles ends after its time', async () => {
    const prompt = task('trickle');
    models.on(prompt, [{ text: 'x'.repeat(200), stallAfterBytes: 300 }]);
    const data = await taskData(delegate(agent, prompt));
    expect(data).toMatchObject({ ended: 'error' });
    expect(data.reason).toContain('longer than 4000 ms');
  });

  test('more cycles, or a longer task, than the limits allow are refused', async () => {
    const invalid = { success: false, error: { code: 'INPUT_INVALID' } };
    expect(await delegate(agent, task('cycles'), { maxCycles: 51 })).toMatchObject(invalid);
    expect(await delegate(agent, 'x'.repeat(128 * 1024 + 1))).toMatchObject(invalid);
  });
});

describe('the end', () => {
  test('the end of the call ends its sub-agents of all levels with their calls', async () => {
    const [outer, inner] = [task('outer'), task('inner')];
    models.on(outer, [{ calls: [{ name: 'task_delegate', input: { prompt: inner } }] }]);
    models.on(inner, [{ calls: [waiting] }]);
    const stop = new AbortController();
    const call = agent.call(
      'task_delegate',
      { prompt: outer, tools: ['task_delegate', 'terminal_execute'] },
      { signal: stop.signal },
    );
    const commands = () => processesWith(SLEEP.replace(' ', '\0')).length;
    await until(async () => (await running()).length === 2 && commands() > 0);
    stop.abort();
    expect(await call).toMatchObject({ success: false, error: { code: 'CANCELLED' } });
    await until(async () => (await running()).length === 0);
    await until(async () => commands() === 0);
    const ended = (await tasksOf(operator)).slice(0, 2).map((it) => it.ended);
    expect(ended).toEqual(['cancelled', 'cancelled']);
  });

  test('tasks.cancel is reported to the caller, and only its principal and operators may use it', async () => {
    const prompt = task('cancel');
    models.on(prompt, [{ calls: [waiting] }]);
    const data = taskData(delegate(agent, prompt));
    const taskId = await onlyRunning();
    await using delegated = await within({ calls: 1 });
    expect(await delegated.request('tasks.cancel', { taskId })).toEqual({ cancelled: false });
    expect(await tasksOf(delegated)).toEqual([]);
    expect(await agent.request('tasks.cancel', { taskId })).toEqual({ cancelled: true });
    expect(await data).toMatchObject({ ended: 'cancelled', taskId });
    expect(await agent.request('tasks.cancel', { taskId })).toEqual({ cancelled: false });
  });

  test('a fifth sub-agent at once is refused, and may come when one has ended', async () => {
    const prompt = task('many');
    models.on(prompt, [{ calls: [waiting] }]);
    const four = Array.from({ length: 4 }, () => delegate(agent, prompt));
    await until(async () => (await running()).length === 4);
    expect(await delegate(agent, prompt)).toMatchObject({ error: { code: 'QUEUE_FULL' } });
    for (const { taskId } of await running()) await operator.request('tasks.cancel', { taskId });
    await Promise.all(four);
    models.on(prompt, [{ text: 'done' }]);
    expect(await taskData(delegate(agent, prompt))).toMatchObject({ ended: 'done' });
  });
});

describe('what is kept', () => {
  test('a transcript holds the answers, the calls and their results, within its bound', async () => {
    const prompt = task('kept');
    models.on(prompt, [{ text: 'I list.', calls: [list] }, { text: 'token ghp_0123456789abcdefghijABCDEFGHIJ012345' }]);
    const { taskId } = await taskData(delegate(agent, prompt));
    const shown = (await agent.request('tasks.show', { taskId })) as ShownTask;
    expect(shown).toMatchObject({
      taskId,
      prompt,
      agent: 'default',
      ended: 'done',
      running: false,
      truncated: false,
      usage: { cycles: 2 },
      transcript: [
        { kind: 'answer', text: 'I list.', calls: [{ tool: 'file_list', input: { path: '.' } }] },
        { kind: 'result', tool: 'file_list', success: true },
        { kind: 'answer', text: expect.stringContaining('[redacted') as string },
        { kind: 'end', ended: 'done' },
      ],
    });
    const long = task('long');
    models.on(long, [{ text: 'x'.repeat(2_900), calls: [list] }, { text: 'y'.repeat(2_900) }]);
    const cut = (await agent.request('tasks.show', {
      taskId: (await taskData(delegate(agent, long))).taskId,
    })) as ShownTask;
    expect(cut.truncated).toBe(true);
    expect(JSON.stringify(cut.transcript).length).toBeLessThan(6_000);
  });

  test('a long result reaches the model by its beginning and end, and an older one by less', async () => {
    const prompt = task('result');
    const seq = { name: 'terminal_execute', input: { command: 'seq 1 3000' } };
    models.on(prompt, [{ calls: [seq] }, { calls: [seq] }, { calls: [seq] }, { text: 'done' }]);
    await taskData(delegate(agent, prompt));
    const messages = models.requestsOf(prompt).at(-1)?.body.messages as { role: string; content: string }[];
    const results = messages.filter((it) => it.role === 'tool').map((it) => it.content);
    expect(results[2]).toMatch(
      /^1\n2\n[\s\S]*characters of the result of call .* are left out[\s\S]*3000\n+\[exit code 0\]\s*$/,
    );
    expect(results[0]).toContain('characters of an older result are left out');
    expect(JSON.stringify(messages).length).toBeLessThan(8_000);
  });

  test.each(['default', 'claude'])(
    'nothing of the key of the profile %s is anywhere but at the server',
    async (profile) => {
      const prompt = task('key');
      const half = KEY.length / 2;
      // A hostile server repeats what it was sent: at once, in pieces, in base64, in an error and in arguments.
      models.on(prompt, (answer, { headers }) => {
        const key = String(headers['x-api-key'] ?? headers.authorization).replace('Bearer ', '');
        expect(key).toBe(KEY);
        if (answer === 1)
          return {
            text: `${key} ${Buffer.from(key).toString('base64')}`,
            calls: [{ name: 'terminal_execute', input: { command: `echo ${key}; ps aux; env; cat /proc/*/environ` } }],
          };
        if (answer === 2) return { text: key, deltaChars: half, calls: [{ name: key, input: { [key]: key } }] };
        return { status: 400, body: { error: { message: `bad ${key}` } } };
      });
      const result = await agent.call('task_delegate', { prompt, agent: profile }, { progress: true });
      expect(result).toMatchObject({ success: true, data: { ended: 'error' } });
      const hosts = spawnSync(
        'sh',
        [
          '-c',
          `cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c ${KEY.slice(0, 12)} || true`,
        ],
        { encoding: 'utf8' },
      );
      // The command line of this very look holds its own words, no more.
      expect(Number(hosts.stdout)).toBeLessThanOrEqual(2);
      const { taskId } = (result as { data: { taskId: string } }).data;
      const kept = [
        result,
        await agent.request('tasks.show', { taskId }),
        await operator.request('audit.query', { limit: 100 }),
        daemon.log(),
      ];
      for (const it of kept) expect(JSON.stringify(it)).not.toContain(KEY);
      for (const it of kept) expect(JSON.stringify(it)).not.toContain(Buffer.from(KEY).toString('base64').slice(0, 20));
      const found = spawnSync(
        'grep',
        ['-rlE', `${KEY}|${Buffer.from(KEY).toString('base64').slice(0, 20)}`, daemon.stateDir],
        { encoding: 'utf8' },
      );
      expect(found.stdout.split('\n').filter((it) => it !== '' && !it.endsWith('config.yaml'))).toEqual([]);
    },
  );
});

describe('the command line', () => {
  const args = (...more: string[]) => [...more, '--workspace', daemon.workspace];
  test('run shows the progress, prints the summary, and exits by how the task ended', async () => {
    const prompt = task('run');
    models.on(prompt, [{ text: 'I list.', calls: [list] }, { text: 'All is well.' }]);
    const done = await runCli(daemon, args('run', prompt, '--agent', 'claude'));
    expect(done).toMatchObject({ code: 0, stdout: 'All is well.\n' });
    expect(done.stderr).toMatch(
      /I list\.\n→ file_list \{.*\}\n✓ file_list: .{1,200}\n[\s\S]*done\n[\s\S]*2 answers, 20 \+ 10 tokens/,
    );
    models.on(prompt, [{ calls: [list] }]);
    expect((await runCli(daemon, args('run', prompt, '--max-cycles', '2'))).code).toBe(5);
    models.on(prompt, [{ status: 500 }]);
    const failed = await runCli(daemon, args('run', prompt, '--json'));
    expect(failed.code).toBe(1);
    expect(JSON.parse(failed.stdout)).toMatchObject({ data: { ended: 'error' } });
    expect((await runCli(daemon, args('run', prompt, '--agent', 'none'))).code).not.toBe(0);
  });

  test('tasks lists, shows and cancels', async () => {
    const prompt = task('cli');
    models.on(prompt, [{ text: 'Let me see.', calls: [list] }, { text: 'Seen.' }]);
    const { taskId } = await taskData(delegate(agent, prompt));
    const listed = await runCli(daemon, ['tasks', 'list']);
    expect(listed.stdout).toContain(`${taskId.slice(-8)}  `);
    expect(listed.stdout).toContain(prompt);
    const shown = await runCli(daemon, ['tasks', 'show', taskId.slice(-8)]);
    expect(shown.stdout).toMatch(
      /> task\n.*\n[\s\S]*> model\n.*Let me see\.\n→ file_list[\s\S]*> file_list ok[\s\S]*Seen\./,
    );
    models.on(prompt, [{ calls: [waiting] }]);
    const data = taskData(delegate(agent, prompt));
    const id = await onlyRunning();
    expect((await runCli(daemon, ['tasks', 'cancel', id])).code).toBe(0);
    expect(await data).toMatchObject({ ended: 'cancelled' });
    expect((await runCli(daemon, ['tasks', 'cancel', id])).code).toBe(1);
  });
});

test('without a profile the tool is not there', async () => {
  await using none = await openDaemon();
  await using client = await none.connect();
  expect((await client.hello).session.toolset).not.toContain('task_delegate');
  expect(await delegate(client, 'anything')).toMatchObject({ error: { code: 'TOOL_NOT_FOUND' } });
  const { stderr, code } = await runCli(none, ['run', 'anything', '--workspace', none.workspace]);
  expect([code, stderr]).toEqual([1, expect.stringContaining('task_delegate')]);
});

test('a small process keeps the conversation', async () => {
  const prompt = task('memory');
  models.on(prompt, [{ calls: [waiting] }]);
  const data = taskData(delegate(agent, prompt));
  await until(async () => (await running()).length === 1);
  const { hosts } = (await operator.request('status', {})) as { hosts: { tier: string; pid: number; busy: number }[] };
  const busy = hosts.filter((it) => it.tier === 'isolate' && it.busy > 0);
  expect(busy).toHaveLength(1);
  const pss = /^Pss:\s+(\d+) kB/m.exec(readFileSync(join('/proc', String(busy[0]?.pid), 'smaps_rollup'), 'utf8'))?.[1];
  expect(Number(pss)).toBeLessThan(60 * 1024);
  for (const it of await running()) await operator.request('tasks.cancel', { taskId: it.taskId });
  await data;
});
