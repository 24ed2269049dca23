/** `preview: required` in a policy: a person approves what a command did, and not what it says. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { CommitResult, ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { type OpenDaemon, openDaemon, removeTree, until } from '../support/daemon.ts';

let daemon: OpenDaemon;
let client: Client;
let operator: Client;

beforeAll(async () => {
  daemon = await openDaemon({
    policy: `extends: careful
rules:
  - { id: see-first, match: { command: [sh, "**"] }, decision: ask, preview: required, reason: See what it does. }
`,
  });
  operator = await daemon.connect({ role: 'operator' });
  await operator.request('events.subscribe', { topics: ['approvals'] });
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
beforeEach(async () => {
  client = await daemon.connect();
  writeFileSync(at('old.txt'), 'old\n');
  writeFileSync(at('kept.txt'), 'kept\n');
});
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  for (const it of readdirSync(daemon.workspace)) removeTree(at(it));
});

const at = (path: string) => join(daemon.workspace, path);
const pending = async () => ((await operator.request('approvals.list', {})) as { approvals: Approval[] }).approvals;

async function asked(): Promise<Approval> {
  await until(async () => (await pending()).length > 0, 30_000);
  return (await pending())[0] as Approval;
}
const answer = ({ approvalId }: Approval, decision: 'approve' | 'deny') =>
  operator.request('approvals.resolve', { approvalId, decision });
const run = (command: string) => client.call('terminal_execute', { command }) as unknown as Promise<ToolResult>;
const previewsLeft = () =>
  readdirSync(join(daemon.stateDir, 'previews')).flatMap((it) => readdirSync(join(daemon.stateDir, 'previews', it)));

const SCRIPT = 'echo "told"; rm old.txt; echo new > new.txt; echo more >> kept.txt';

test('the question shows what the command did, and a yes commits that, as one call that can be undone', async () => {
  writeFileSync(at('script'), SCRIPT);
  const running = run('sh script');
  const question = await asked();
  expect(existsSync(at('old.txt'))).toBe(true);
  expect(question).toMatchObject({ tool: 'calls_commit', input: { command: 'sh script' } });
  expect(question.effects.slice(0, 1)).toEqual([{ kind: 'delete', target: 'old.txt' }]);
  for (const it of ['delete  old.txt', 'change  kept.txt', 'add     new.txt', '+more'])
    expect(question.diff).toContain(it);
  await answer(question, 'approve');
  const result = await running;
  expect(result).toMatchObject({
    success: true,
    tool: 'terminal_execute',
    data: { stdout: 'told\n', exitCode: 0 },
    metadata: { approvalGranted: true, undo: 'full', tier: 'execute' },
  });
  expect(result).not.toHaveProperty('preview');
  expect([existsSync(at('old.txt')), readFileSync(at('kept.txt'), 'utf8')]).toEqual([false, 'kept\nmore\n']);
  expect(await client.undo(result.callId)).toMatchObject({ conflicts: [] });
  expect([existsSync(at('old.txt')), existsSync(at('new.txt'))]).toEqual([true, false]);
  await until(() => previewsLeft().length === 0, 30_000);
});

test('a no, and files that changed since, leave everything as it is', async () => {
  writeFileSync(at('script'), SCRIPT);
  const denied = run('sh script');
  await answer(await asked(), 'deny');
  expect(await denied).toMatchObject({ success: false, error: { code: 'APPROVAL_DENIED' } });
  const raced = run('sh ./script');
  const question = await asked();
  writeFileSync(at('kept.txt'), 'mine\n');
  await answer(question, 'approve');
  expect(await raced).toMatchObject({
    success: false,
    error: { code: 'CONFLICT', details: { conflicts: ['kept.txt'] } },
  });
  expect([existsSync(at('old.txt')), existsSync(at('new.txt'))]).toEqual([true, false]);
});

test('nobody is asked about a command that changed nothing; one that did what can not be committed says so', async () => {
  writeFileSync(at('script'), 'cat old.txt');
  expect(await run('sh script')).toMatchObject({
    success: true,
    data: { stdout: 'old\n' },
    metadata: { undo: 'none' },
  });
  writeFileSync(at('script'), 'mkfifo pipe');
  expect(await run('sh script')).toMatchObject({ success: false, error: { code: 'UNSUPPORTED' } });
  expect(await pending()).toEqual([]);
});

test('a preview that was asked for runs unasked, and its commit asks', async () => {
  writeFileSync(at('script'), SCRIPT);
  for (const command of ['sh script', 'cp kept.txt new.txt']) {
    const result = (await client.call('terminal_execute', { command }, { preview: true })) as unknown as ToolResult;
    const { preview } = result as { preview: { id: string } };
    const committing = client.request('calls.commit', { previewId: preview.id }) as Promise<CommitResult>;
    await answer(await asked(), 'deny');
    expect(await committing, command).toMatchObject({ committed: [], error: { code: 'APPROVAL_DENIED' } });
  }
  expect(existsSync(at('new.txt'))).toBe(false);
});
