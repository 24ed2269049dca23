/** Files that the person's programs run or obey: file tools write them only after a yes, under any policy. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { UndoResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await openDaemon();
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (path: string) => join(daemon.workspace, path);
async function answer(decision: 'approve' | 'deny', more: object = {}): Promise<Approval> {
  let approval: Approval | undefined;
  await until(async () => {
    const { approvals } = (await operator.request('approvals.list', {})) as { approvals: Approval[] };
    approval = approvals[0];
    return approval !== undefined;
  });
  const { approvalId } = approval as Approval;
  await operator.request('approvals.resolve', { approvalId, decision, ...more });
  return approval as Approval;
}

test('a file tool writes a protected name after a yes, and not after a no', async () => {
  const write = (content: string) => agent.call('file_write', { path: '.vscode/tasks.json', content });
  const refused = write('1');
  expect(await answer('deny')).toMatchObject({
    rule: 'protected-names',
    impact: { level: 'high' },
    reason: expect.stringMatching(/\.vscode\/tasks\.json.*editors/),
  });
  expect(await refused).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  expect(existsSync(at('.vscode'))).toBe(false);

  const allowed = write('2');
  await answer('approve', { remember: { scope: 'session', match: 'exact' } });
  expect(await allowed).toMatchObject({ success: true });
  expect(readFileSync(at('.vscode/tasks.json'), 'utf8')).toBe('2');
  expect(await agent.call('file_read', { path: '.vscode/tasks.json' })).toMatchObject({ success: true });
  // What was remembered is this very text.
  expect(await write('2')).toMatchObject({ success: true });
  const other = write('3');
  await answer('deny');
  expect(await other).toMatchObject({ success: false });
});

test.each([
  ['file_delete', { path: '.idea/gone.xml' }],
  ['file_rename', { oldPath: '.idea/gone.xml', newPath: 'b' }],
])('nobody is asked whether %s may take away what is not there', async (tool, input) => {
  expect(await agent.call(tool as string, input, { timeoutMs: 5_000 })).toMatchObject({ error: { code: 'NOT_FOUND' } });
});

test('explain says of a call about which a person is asked under any policy that it asks', async () => {
  const explained = (path: string) =>
    agent.request('policy.explain', { tool: 'file_write', input: { path, content: '' } });
  expect(await explained('.vscode/tasks.json')).toMatchObject({ decision: 'ask', suggestion: expect.any(String) });
  expect(await explained('notes.txt')).toMatchObject({ decision: 'allow' });
});

test('an undo by an operator brings a protected name back unasked, one by an agent asks', async () => {
  mkdirSync(at('.idea'), { recursive: true });
  writeFileSync(at('.idea/a.xml'), 'old');
  const written = agent.call('file_write', { path: '.idea/a.xml', content: 'new' });
  await answer('approve');
  const { callId } = await written;
  const byAgent = agent.request('calls.undo', { callId }) as Promise<UndoResult>;
  expect(await answer('deny')).toMatchObject({ tool: 'calls_undo', rule: 'protected-names' });
  expect((await byAgent).error).toMatchObject({ code: 'APPROVAL_DENIED' });
  expect(readFileSync(at('.idea/a.xml'), 'utf8')).toBe('new');
  expect(await operator.request('calls.undo', { callId })).toMatchObject({ restored: ['.idea/a.xml'] });
  expect(readFileSync(at('.idea/a.xml'), 'utf8')).toBe('old');
});

test('a file of such a folder that runs nothing is written unasked', async () => {
  const path = '.vscode/extensions.json';
  expect(await agent.call('file_write', { path, content: '{}' })).toMatchObject({ success: true });
});
