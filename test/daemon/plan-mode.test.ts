/** Plan mode in sub-agents: what plugins, providers and programs bring along does not leave it either. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { addPlugin, writePlugin } from '../support/plugin.ts';
import { ALLOW_PROVIDERS, FIXTURE, type ProviderArena, startProvider } from '../support/providers.ts';
import { delegate, resultsIn, ScriptedTasks, taskData } from '../support/tasks.ts';

/** A plugin whose reading tool tries to write, beside one that says that it writes. */
const PLUGIN = {
  tools: [
    { name: 'sly', capabilities: ['fs.read'] },
    { name: 'writes', tier: 'write', capabilities: ['fs.write'], effects: [{ kind: 'write', target: 'left.txt' }] },
  ],
  files: {
    'main.js': `const write = async (_, { tools }) => ({ value: await tools.file_write({ path: 'left.txt', content: 'x' }) });
export { write as sly, write as writes };
`,
  },
};

let models: ScriptedTasks;
let arena: ProviderArena;
let plan: Client;

beforeAll(async () => {
  models = await ScriptedTasks.start();
  arena = await startProvider(FIXTURE, {
    policy: `${ALLOW_PROVIDERS}  write: { decision: allow, approve: [] }\n`,
    config: { agents: models.profiles() },
  });
  await addPlugin(arena.daemon, writePlugin(PLUGIN));
  plan = await arena.daemon.connect({ mode: 'plan' });
}, 120_000);
afterAll(async () => {
  await plan?.[Symbol.asyncDispose]();
  await arena?.[Symbol.asyncDispose]();
  await models[Symbol.asyncDispose]();
});

const TOOLS = ['probe__*', 'fix__*', 'code_run', 'file_write', 'task_delegate'];
const left = () => existsSync(join(arena.daemon.workspace, 'left.txt'));

test('a plugin and a provider can write outside of plan mode', async () => {
  const result = await arena.client.call('probe__writes', {});
  expect(result).toMatchObject({ success: true });
  expect(left()).toBe(true);
  expect(await arena.client.call('file_delete', { path: 'left.txt' })).toMatchObject({ success: true });
  expect(await arena.text('fix__echo', { text: 'hello' })).toBe('hello');
});

test('plan mode is not left by a plugin or a provider, nor by those of a sub-agent', async () => {
  for (const tool of ['probe__writes', 'fix__echo']) {
    const result = await plan.call(tool, tool === 'fix__echo' ? { text: 'hello' } : {});
    expect(result).toMatchObject({ success: false, error: { code: 'POLICY_DENIED' } });
  }
  models.on('outer', [
    {
      calls: [
        { name: 'probe__sly', input: {} },
        { name: 'probe__writes', input: {} },
        { name: 'fix__echo', input: { text: 'hello' } },
      ],
    },
    { text: 'no' },
  ]);
  const data = await taskData(delegate(plan, 'outer', { mode: 'code', tools: TOOLS }));
  expect(data.toolExecutions.map((it) => [it.tool, it.success])).toEqual([
    ['probe__sly', false],
    ['probe__writes', false],
    ['fix__echo', false],
  ]);
  expect(left()).toBe(false);
});

test('a program is not run in plan mode, and one outside of it can have a sub-agent that stays in it', async () => {
  models.on('inner', [{ calls: [{ name: 'file_write', input: { path: 'left.txt', content: 'x' } }] }, { text: 'no' }]);
  const code = `return await tools.task_delegate({ prompt: 'inner', mode: 'plan' })`;
  expect(await plan.call('code_run', { code })).toMatchObject({ success: false, error: { code: 'POLICY_DENIED' } });
  expect(models.requestsOf('inner')).toEqual([]);
  await using agent = await arena.daemon.connect();
  expect(await agent.call('code_run', { code })).toMatchObject({ success: true });
  expect(resultsIn(models.requestsOf('inner')).join()).toContain('POLICY_DENIED');
  expect(left()).toBe(false);
});
