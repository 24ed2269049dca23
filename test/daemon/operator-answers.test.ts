/** Operators' requests about tools and the cache, and a policy on file types. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ToolInfo } from '../../src/tools/capability.ts';
import { runCli } from '../support/cli.ts';
import { openDaemon } from '../support/daemon.ts';

test('tools.stats counts the tools that a session sees', async () => {
  await using daemon = await openDaemon();
  await using operator = await daemon.connect({ role: 'operator' });
  const tools = await operator.tools('ringfence');
  const stats = await operator.request('tools.stats', {});
  expect(stats).toMatchObject({
    totalTools: tools.length,
    requireApproval: tools.filter((it) => it.decision === 'ask').length,
    byTier: { read_only: tools.filter((it) => it.tier === 'read_only').length },
  });
  expect(Object.values(stats.byCategory).reduce((sum, it) => sum + it, 0)).toBe(tools.length);
  await using agent = await daemon.connect();
  await expect(agent.request('tools.stats', {})).rejects.toMatchObject({ code: -32004 });
});

test('tools.list says of each tool what comes before it, whether it asks, and how long it usually takes', async () => {
  await using daemon = await openDaemon();
  await using agent = await daemon.connect();
  for (const _ of [1, 2]) await agent.call('terminal_execute', { command: 'sleep 0.05' });
  const listed = async (params: object) => {
    const { tools } = (await agent.request('tools.list', { tools: 'all', ...params })) as { tools: ToolInfo[] };
    return (name: string) => tools.find((it) => it.name === name);
  };
  const find = await listed({ estimates: true });
  expect(find('git_commit')).toMatchObject({
    allDependencies: expect.arrayContaining(['git_status', 'file_write', 'file_read']),
    cacheable: false,
  });
  expect(find('git_commit')?.dependencies).not.toContain('file_read');
  expect(find('file_read')).toMatchObject({ requiresConfirmation: false, cacheable: true, allDependencies: [] });
  expect(find('http_request')).toMatchObject({ requiresConfirmation: true });
  expect(find('terminal_execute')?.estimatedTime).toBeGreaterThan(40);
  expect((await listed({}))('terminal_execute')).not.toHaveProperty('estimatedTime');
});

test('tools.stats and `ringfence tools --stats` tell how tools were used', async () => {
  await using daemon = await openDaemon();
  await using operator = await daemon.connect({ role: 'operator' });
  await using agent = await daemon.connect();
  writeFileSync(join(daemon.workspace, 'a.txt'), 'a\n');
  for (const path of ['a.txt', 'a.txt', 'missing.txt']) await agent.call('file_read', { path }, { cache: false });
  await agent.call('no_such_tool' as string, {});
  const { usage } = (await operator.request('tools.stats', {})) as { usage: { tools: object[] } };
  expect(usage.tools).toEqual([
    expect.objectContaining({
      tool: 'file_read',
      calls: 3,
      failed: 1,
      refused: 0,
      p50Ms: expect.any(Number) as number,
    }),
    expect.objectContaining({ tool: 'unknown', calls: 1, refused: 1 }),
  ]);
  const shown = await runCli(daemon, ['tools', '--stats']);
  expect(shown.stdout).toMatch(/^tool +calls +failed.*\nfile_read +3 +1 +0 +0 +[\d.]+ ms/);
  expect((await runCli(daemon, ['tools', 'file_read', '--stats', '--hours', '2'])).stdout).toMatch(/\ntogether +3 +1/);
  expect(await runCli(daemon, ['tools', '--stats', '--hours', '0'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('from 1 to 744, not 0') as string,
  });
});

test('cache.clear forgets what was read, is recorded, and is for operators', async () => {
  await using daemon = await openDaemon();
  await using agent = await daemon.connect();
  await using operator = await daemon.connect({ role: 'operator' });
  writeFileSync(join(daemon.workspace, 'a.txt'), 'a\n');
  const isCached = async () => (await agent.call('file_read', { path: 'a.txt' })).metadata.cached;
  await isCached();
  await expect.poll(isCached).toBe(true);
  await expect(agent.request('cache.clear', {})).rejects.toMatchObject({ code: -32004 });
  expect(await operator.request('cache.clear', {})).toMatchObject({ entries: 1 });
  expect(await isCached()).toBe(false);
  const { entries } = (await operator.request('audit.query', { kind: 'session' })) as { entries: object[] };
  expect(entries).toContainEqual(
    expect.objectContaining({ detail: { event: 'cache-cleared', entries: 1, bytes: expect.any(Number) as number } }),
  );
});

/** The recipe of docs/policy.md. */
const TYPES = `rules:
  - id: file-types
    match: { path: '**/?*.*', not: { path: ['**/*.txt', '**/*.md'] } }
    decision: deny
    reason: Only text files are worked on here.
`;

test('a policy may list the types of files that calls work on', async () => {
  await using daemon = await openDaemon({ policy: TYPES });
  await using client = await daemon.connect();
  const codeOf = async (tool: 'file_write' | 'file_read', input: { path: string; content?: string }) => {
    const result = await client.call(tool as string, input as never);
    return result.success ? 'ok' : result.error.code;
  };
  expect(await codeOf('file_write', { path: 'docs/a.md', content: '' })).toBe('ok');
  expect(await codeOf('file_write', { path: 'Makefile', content: '' })).toBe('ok');
  expect(await codeOf('file_write', { path: 'docs/a.exe', content: '' })).toBe('POLICY_DENIED');
  writeFileSync(join(daemon.workspace, 'b.exe'), '');
  expect(await codeOf('file_read', { path: 'b.exe' })).toBe('POLICY_DENIED');
  expect(await client.call('terminal_execute', { command: 'cat b.exe' })).toMatchObject({
    success: false,
    error: { code: 'POLICY_DENIED' },
  });
});

test('a question says how long calls of its tool usually take, once there were some', async () => {
  await using daemon = await openDaemon({ policy: 'tiers: { write: { decision: ask } }\n' });
  await using operator = await daemon.connect({ role: 'operator' });
  await using agent = await daemon.connect();
  const asked: { estimatedMs?: number | undefined }[] = [];
  await operator.onApproval((approval) => {
    asked.push(approval);
    return { decision: 'approve' };
  });
  for (const path of ['a.txt', 'b.txt']) await agent.call('file_write', { path, content: 'x' });
  expect(asked).toHaveLength(2);
  expect(asked[0]).not.toHaveProperty('estimatedMs');
  expect(asked[1]?.estimatedMs).toBeGreaterThan(0);
});
