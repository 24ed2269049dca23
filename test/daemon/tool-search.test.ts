/** Long lists of tools: what models are told of, and how they find the rest. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { connectMcp } from '../support/mcp.ts';
import { ALLOW_PROVIDERS, FIXTURE, type ProviderArena, startProvider } from '../support/providers.ts';

const ISSUE_TOOLS = 200;
let it: ProviderArena;
beforeAll(async () => {
  const fix = { ...FIXTURE, env: { ISSUE_TOOLS: String(ISSUE_TOOLS) } };
  it = await startProvider(fix, { policy: `${ALLOW_PROVIDERS}  read_only: { decision: allow }\n` });
});
afterAll(() => it[Symbol.asyncDispose]());

test('200 tools of a provider cost a model less than 4 KB, and it finds, describes and calls them', async () => {
  await using mcp = await connectMcp(it.daemon);
  const { tools } = await mcp.listTools();
  expect(tools.filter(({ name }) => name.startsWith('fix__'))).toEqual([]);
  const added = tools.filter(({ name }) => name.startsWith('tools_'));
  expect(added.map(({ name }) => name)).toEqual(['tools_describe', 'tools_search']);
  expect(JSON.stringify(added).length).toBeLessThan(4_000);

  const found = await mcp.callTool({ name: 'tools_search', arguments: { query: 'one more issue, of project 17' } });
  expect(JSON.stringify(found)).toContain('fix__open_issue_17');
  const described = await mcp.callTool({ name: 'tools_describe', arguments: { names: ['fix__open_issue_17'] } });
  expect(JSON.stringify(described)).toContain('Opens an issue in project 17');
  expect(JSON.stringify(described)).toContain('title: string');
  const called = await mcp.callTool({ name: 'fix__open_issue_17', arguments: { title: 'It rains.' } });
  expect(JSON.stringify(called)).toContain('17: It rains.');

  await using all = await connectMcp(it.daemon, { args: ['--workspace', it.daemon.workspace, '--tools', 'all'] });
  const names = (await all.listTools()).tools.map(({ name }) => name);
  expect(names.filter((name) => name.startsWith('fix__open_issue'))).toHaveLength(ISSUE_TOOLS);
});

test('a search shows nothing that the policy of the session denies', async () => {
  await using client = await createClient({
    socket: it.daemon.socket,
    workspace: it.daemon.workspace,
    policy: 'read-only',
  });
  const { tools } = (await client.request('tools.search', { query: 'open issue' })) as { tools: { name: string }[] };
  expect(tools.filter(({ name }) => name.startsWith('fix__'))).toEqual([]);
  const described = await client.call('tools_describe', { names: ['fix__open_issue_1'] });
  expect(described).toMatchObject({ error: { code: 'NOT_FOUND' } });
});

test('the command line finds tools, and says how many more match', async () => {
  const found = await runCli(it.daemon, ['tools', '--search', 'open issue']);
  expect(found.stdout.split('\n')[0]).toMatch(/^fix__open_issue_0 .*Opens an issue in project 0\./);
  expect(found.stderr).toMatch(/: 1\d\d more match/);
  expect(await runCli(it.daemon, ['tools', '--search', 'xylophone'])).toMatchObject({ code: 1, stdout: '' });
});

test('a query of the wrong size or type is refused with the bound', async () => {
  expect(await it.client.call('tools_search', { query: 'x'.repeat(257) })).toMatchObject({
    error: { code: 'INPUT_INVALID', message: expect.stringContaining('256') },
  });
  await expect(it.client.request('tools.search', { query: '' })).rejects.toMatchObject({ code: -32602 });
});
