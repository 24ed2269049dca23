/** Features of `ringfence/client` beside calls: approvals by a program, undo, cancel, tools in the formats of model APIs. */
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Approval, Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon, repository, until } from '../support/daemon.ts';

let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await openDaemon({ policy: 'extends: default\ntiers:\n  execute: { decision: ask }\n' });
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  for (const it of [agent, operator]) await it[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
const command = (text: string) => agent.call('terminal_execute', { command: text });

describe('onApproval', () => {
  test('asks about what waits already and about what comes, each once, and sends the answers', async () => {
    const asked: string[] = [];
    const waiting = command('echo before > before.txt');
    await until(
      async () => ((await operator.request('approvals.list', {})) as { approvals: unknown[] }).approvals.length === 1,
    );
    using _ = await operator.onApproval((approval) => {
      const { command: line } = approval.input as { command: string };
      asked.push(line);
      return line.includes('bad') ? { decision: 'deny', feedback: 'not that' } : { decision: 'approve' };
    });
    expect(await waiting).toMatchObject({ success: true, metadata: { approvalGranted: true } });
    expect(await command('echo bad > bad.txt')).toMatchObject({
      error: { code: 'APPROVAL_DENIED', message: expect.stringContaining('not that') },
    });
    expect(asked).toEqual(['echo before > before.txt', 'echo bad > bad.txt']);
    expect(existsSync(join(daemon.workspace, 'bad.txt'))).toBe(false);
  });

  test('leaves a question open that its handler does not answer, and tells it when somebody else has', async () => {
    const heard = Promise.withResolvers<{ approval: Approval; over: AbortSignal }>();
    using watch = await operator.onApproval((approval, over) => {
      heard.resolve({ approval, over });
      return undefined;
    });
    const waiting = command('echo left > left.txt');
    const { approval, over } = await heard.promise;
    expect(over.aborted).toBe(false);
    await operator.request('approvals.resolve', { approvalId: approval.approvalId, decision: 'approve' });
    expect(await waiting).toMatchObject({ success: true });
    await until(() => over.aborted);
    watch[Symbol.dispose]();
    expect(await watch.ended).toBeUndefined();
  });

  test('ends with what its handler throws, and the question stays open', async () => {
    using watch = await operator.onApproval(() => {
      throw new Error('the dialog broke');
    });
    const abort = new AbortController();
    const waiting = agent.call('terminal_execute', { command: 'echo broken > broken.txt' }, { signal: abort.signal });
    await expect(watch.ended).rejects.toThrow('the dialog broke');
    const { approvals } = (await operator.request('approvals.list', {})) as { approvals: Approval[] };
    expect(approvals).toMatchObject([{ tool: 'terminal_execute' }]);
    abort.abort();
    expect(await waiting).toMatchObject({ error: { code: 'CANCELLED' } });
  });

  test('onApproval is refused to an agent, which hears of no question', async () => {
    const asked: unknown[] = [];
    await expect(
      agent.onApproval((it) => {
        asked.push(it);
        return undefined;
      }),
    ).rejects.toMatchObject({ code: -32004 });
    expect(asked).toEqual([]);
  });
});

test('undo takes a write back, tells of a conflict, and loses what came since where it is forced', async () => {
  const path = join(daemon.workspace, 'undone.txt');
  writeFileSync(path, 'first\n');
  const { callId } = await agent.call('file_write', { path: 'undone.txt', content: 'second\n' });
  writeFileSync(path, 'third\n');
  expect(await agent.undo(callId)).toMatchObject({ restored: [], conflicts: ['undone.txt'] });
  expect(await agent.undo(callId, { force: true })).toMatchObject({ restored: ['undone.txt'] });
  expect(readFileSync(path, 'utf8')).toBe('first\n');
  await expect(agent.undo('no-such-call')).rejects.toMatchObject({ code: -32602 });
});

test('cancel ends a call that waits, and says when there is nothing to end', async () => {
  const waiting = command('sleep 60');
  await until(
    async () => (await agent.record(waiting.callId).catch(() => undefined))?.state.status === 'blocked-on-user',
  );
  expect(await agent.cancel(waiting.callId)).toBe(true);
  expect(await waiting).toMatchObject({ error: { code: 'CANCELLED' } });
  expect(await agent.cancel(waiting.callId)).toBe(false);
});

test('tools gives each format its own shape', async () => {
  const ours = await agent.tools();
  expect(ours.find((it) => it.name === 'file_read')).toMatchObject({ decision: 'allow', tier: 'read_only' });
  const [openai] = await agent.tools('openai');
  expect(openai).toMatchObject({ type: 'function', strict: expect.any(Boolean), parameters: { type: 'object' } });
  const anthropic = await agent.tools('anthropic', { tools: 'all' });
  expect(anthropic.length).toBeGreaterThan((await agent.tools('anthropic')).length);
  expect(anthropic[0]).toMatchObject({ input_schema: { type: 'object' } });
  expect((await agent.tools('mcp', { tier: 'write' })).map((it) => it.annotations.readOnlyHint)).not.toContain(true);
});

test('createClient without a socket finds the daemon as the command line does, and works in the current folder', async () => {
  const entry = join(repository, 'src/entries/client.ts');
  const code = `import { createClient } from ${JSON.stringify(entry)};
    await using client = await createClient({ autostart: false });
    console.log((await client.hello).session.workspace);`;
  const env = { PATH: process.env.PATH ?? '', RINGFENCE_STATE: daemon.stateDir, RINGFENCE_SOCKET: daemon.socket };
  const run = (where: Record<string, string>) =>
    promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], { cwd: daemon.workspace, env: where });
  expect((await run(env)).stdout.trim()).toBe(daemon.workspace);
  await expect(run({ ...env, RINGFENCE_SOCKET: join(daemon.stateDir, 'none.sock') })).rejects.toThrow(
    /no daemon listens at .*none\.sock/,
  );
});
