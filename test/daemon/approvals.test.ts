/** Approvals through a real daemon: what is asked, what an answer covers, what makes it stale. */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client, RemoteError, RunningCall } from '../../src/client/client.ts';
import type { Approval, Grant } from '../../src/store/approvals/approval.ts';
import { dataOf, ringfence, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';

const POLICY = `extends: careful
rules:
  - id: ask-about-notes
    match: { write: "notes/**" }
    decision: ask
    reason: Notes are the person's.
`;

let daemon: TestDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await startDaemon({ policy: POLICY });
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
  mkdirSync(join(daemon.workspace, 'notes'));
  mkdirSync(join(daemon.workspace, 'bin'));
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const pending = async (): Promise<Approval[]> =>
  ((await operator.request('approvals.list', {})) as { approvals: Approval[] }).approvals;

/** The approval request of a new call. */
async function asked({ callId }: RunningCall<unknown>): Promise<Approval> {
  let found: Approval | undefined;
  await until(async () => {
    found = (await pending()).find((it) => it.callId === callId);
    return found !== undefined;
  });
  return found as Approval;
}

const answer = (approvalId: string, decision: 'approve' | 'deny', more: object = {}) =>
  operator.request('approvals.resolve', { approvalId, decision, ...more });
const run = (command: string, more: object = {}) => agent.call('terminal_execute', { command, ...more });
/** The output of `ringfence …` on both streams. */
function cli(...args: string[]): string {
  const where = ['--state', daemon.stateDir, '--socket', daemon.socket];
  const { stdout, stderr } = spawnSync(process.execPath, [ringfence, ...args, ...where], { encoding: 'utf8' });
  return stdout + stderr;
}
const write = (path: string, content: string) => agent.call('file_write', { path, content });
const at = (path: string) => join(daemon.workspace, path);

describe('a call that the policy asks about', () => {
  test('tells of a command line each command and redirection among its effects', async () => {
    const approval = await asked(run('touch z; make > notes/out'));
    expect(approval.effects).toEqual([
      { kind: 'write', target: 'notes/out' },
      { kind: 'exec', target: 'touch z' },
      { kind: 'exec', target: expect.stringMatching(/^make/) },
    ]);
    // Without a verb, the command line lists them.
    expect(cli('approvals')).toContain(approval.approvalId);
    expect(cli('audit')).toContain('terminal_execute');
    await answer(approval.approvalId, 'deny');
  });

  test('waits, shows what would happen, and runs once after a yes', async () => {
    writeFileSync(at('notes/a.txt'), 'old\n');
    const call = write('notes/a.txt', 'new\n');
    const approval = await asked(call);
    expect(approval).toMatchObject({
      tool: 'file_write',
      input: { path: 'notes/a.txt' },
      effects: [{ kind: 'write', target: 'notes/a.txt' }],
      rule: 'ask-about-notes',
      impact: { level: 'medium' },
      diff: expect.stringContaining('-old\n+new'),
    });
    expect((await agent.record(call.callId)).state).toEqual({
      status: 'blocked-on-user',
      approvalId: approval.approvalId,
    });
    expect(readFileSync(at('notes/a.txt'), 'utf8')).toBe('old\n');
    expect(await answer(approval.approvalId, 'approve')).toMatchObject({ call: { callId: call.callId } });
    expect(await call).toMatchObject({ success: true, metadata: { approvalGranted: true } });
    expect(readFileSync(at('notes/a.txt'), 'utf8')).toBe('new\n');
    await expect(answer(approval.approvalId, 'approve')).rejects.toThrow(/used|answered|waits/);
  });

  test('shows on every face what nobody would see, in its event too', async () => {
    await using watcher = await daemon.connect({ role: 'operator' });
    const heard: Approval[] = [];
    const end = new AbortController();
    const listening = (async () => {
      for await (const { params } of watcher.notifications(['approvals'], { signal: end.signal }))
        if ((params as { approval?: Approval }).approval) heard.push((params as { approval: Approval }).approval);
    })();
    await until(async () => ((await operator.request('status', {})) as { approvers: number }).approvers === 1);
    const hidden = 'a\u{e0061}\u{e0062}\u202e\u200bz';
    const shownAs = 'a\\u{e0061}\\u{e0062}\\u{202e}\\u{200b}z';
    const call = write(`notes/${hidden}.txt`, `${hidden}\n`);
    const approval = await asked(call);
    await until(() => heard.length > 0);
    for (const it of [approval, heard[0] as Approval]) {
      expect(it.input).toMatchObject({ path: `notes/${shownAs}.txt`, content: `${shownAs}\n` });
      expect(it.effects).toEqual([{ kind: 'write', target: `notes/${shownAs}.txt` }]);
      expect(it.diff).toContain(`+${shownAs}`);
      expect(JSON.stringify(it)).not.toMatch(/[\p{Cf}\p{Zl}\p{Zp}]/u);
    }
    expect(cli('approvals')).toContain(`notes/${shownAs}.txt`);
    await answer(approval.approvalId, 'deny');
    end.abort();
    await listening.catch(() => {});
  });

  test('does not run after a no, and its agent hears why', async () => {
    const call = write('notes/b.txt', 'x');
    await answer((await asked(call)).approvalId, 'deny', { feedback: 'use the wiki' });
    expect(await call).toMatchObject({
      error: { code: 'APPROVAL_DENIED', layer: 'approval', message: expect.stringContaining('use the wiki') },
    });
    expect((await agent.record(call.callId)).state).toEqual({ status: 'rejected-by-user' });
  });

  test('holds up no other call', async () => {
    const waiting = write('notes/c.txt', 'x');
    const approval = await asked(waiting);
    await dataOf(write('other.txt', 'x'));
    await answer(approval.approvalId, 'approve');
    await dataOf(waiting);
  });

  test('a question is withdrawn when its client cancels the call', async () => {
    const call = write('notes/d.txt', 'x');
    const { approvalId } = await asked(call);
    await agent.request('calls.cancel', { callId: call.callId });
    expect(await call).toMatchObject({ error: { code: 'CANCELLED' } });
    expect((await pending()).map((it) => it.approvalId)).not.toContain(approvalId);
  });

  test('shows a preview to who asks for one, and does nothing', async () => {
    const preview = await agent.call('file_write', { path: 'notes/p.txt', content: 'p\n' }, { preview: true });
    expect(preview).toMatchObject({
      success: true,
      data: { preImages: [{ path: 'notes/p.txt', hash: null }], diff: expect.stringContaining('+p') },
    });
  });
});

describe('a question about deleting', () => {
  const warningsOf = async (call: RunningCall<unknown>) => {
    const { approvalId, impact } = await asked(call);
    await answer(approvalId, 'deny');
    await call;
    return [impact.description, ...impact.warnings].join('; ');
  };

  test('says that it can be undone where undo keeps it, and that it can not be where that is too much', async () => {
    writeFileSync(at('small.txt'), 'x');
    expect(await warningsOf(agent.call('file_delete', { path: 'small.txt' }))).toMatch(
      /Can be undone \(ringfence undo\)/,
    );
    expect(await warningsOf(agent.call('file_rename', { oldPath: 'small.txt', newPath: 'n.txt' }))).not.toMatch(
      /annot be/,
    );
    writeFileSync(at('large.bin'), '');
    truncateSync(at('large.bin'), 65 * 1024 * 1024);
    expect(await warningsOf(agent.call('file_delete', { path: 'large.bin' }))).toMatch(
      /permanently; .*Cannot be undone/,
    );
    expect(await warningsOf(run('rm small.txt'))).toMatch(/Cannot be undone/);
  });
});

describe('between a yes and the start', () => {
  test('a file that changed makes it stale', async () => {
    writeFileSync(at('notes/s.txt'), 'one\n');
    const call = write('notes/s.txt', 'two\n');
    const { approvalId } = await asked(call);
    writeFileSync(at('notes/s.txt'), 'one, and more\n');
    await answer(approvalId, 'approve');
    expect(await call).toMatchObject({
      error: { code: 'APPROVAL_STALE', message: expect.stringContaining('notes/s.txt') },
    });
    expect(readFileSync(at('notes/s.txt'), 'utf8')).toBe('one, and more\n');
  });

  test('a program that changed makes it stale', async () => {
    writeFileSync(at('bin/tool'), '#!/bin/sh\necho good\n');
    chmodSync(at('bin/tool'), 0o755);
    const call = run('bin/tool');
    const { approvalId } = await asked(call);
    writeFileSync(at('bin/tool'), '#!/bin/sh\necho evil\n');
    await answer(approvalId, 'approve');
    expect(await call).toMatchObject({ error: { code: 'APPROVAL_STALE' } });
  });

  test('a program that comes before it in PATH makes it stale', async () => {
    const call = run('git status', { env: { PATH: `${at('bin')}:/usr/bin:/bin` } });
    const { approvalId } = await asked(call);
    writeFileSync(at('bin/git'), '#!/bin/sh\necho evil\n');
    chmodSync(at('bin/git'), 0o755);
    await answer(approvalId, 'approve');
    expect(await call).toMatchObject({ error: { code: 'APPROVAL_STALE' } });
    rmSync(at('bin/git'));
  });

  test('a script that the command names and that changed makes it stale', async () => {
    writeFileSync(at('script.sh'), 'echo good');
    const call = run('bash script.sh');
    const { approvalId } = await asked(call);
    writeFileSync(at('script.sh'), 'echo evil');
    await answer(approvalId, 'approve');
    expect(await call).toMatchObject({ error: { code: 'APPROVAL_STALE' } });
  });

  test('a policy that changed makes it stale', async () => {
    const call = write('notes/policy.txt', 'x');
    const { approvalId } = await asked(call);
    writeFileSync(join(daemon.stateDir, 'policy.yaml'), `${POLICY}approvals: { timeoutMs: 200000 }\n`);
    expect(await operator.request('policy.reload', {})).toEqual({ ok: true, problems: [] });
    await answer(approvalId, 'approve');
    expect(await call).toMatchObject({
      error: { code: 'APPROVAL_STALE', message: expect.stringContaining('the policy') },
    });
  });
});

describe('an answer that is remembered', () => {
  test('covers the same call in this session, and no other', async () => {
    const first = run('touch remembered');
    await answer((await asked(first)).approvalId, 'approve', { remember: { scope: 'session', match: 'exact' } });
    expect(await first).toMatchObject({ success: true });
    expect(await run('touch remembered')).toMatchObject({ success: true, metadata: { approvalGranted: true } });
    const other = run('touch something-else');
    await answer((await asked(other)).approvalId, 'deny');
    expect(await other).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  });

  test('settles others that wait and are covered by it', async () => {
    const [one, two] = [run('touch t1'), run('touch t2')];
    const first = await asked(one);
    const second = await asked(two);
    await answer(first.approvalId, 'approve', { remember: { scope: 'session', match: 'tool' } });
    expect(await one).toMatchObject({ success: true });
    expect(await two).toMatchObject({ success: true });
    expect((await pending()).map((it) => it.approvalId)).not.toContain(second.approvalId);
  });

  test('a remembered yes to the whole tool covers no other program, and no call that reaches further', async () => {
    const first = run('mkdir harmless');
    await answer((await asked(first)).approvalId, 'approve', { remember: { scope: 'session', match: 'tool' } });
    expect(await first).toMatchObject({ success: true });
    expect(await run('mkdir harmless2')).toMatchObject({ success: true });
    for (const command of ['sh script.sh', 'node -e 1', 'mv harmless harmless3']) {
      const other = run(command);
      await answer((await asked(other)).approvalId, 'deny');
      expect(await other).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
    }
  });

  test('a remembered answer is listed for operators, and has no effect after it is taken back', async () => {
    // Answers of other tests for the whole tool would cover the call.
    await operator.request('approvals.revoke', { all: true });
    const first = run('touch taken-back');
    const remember = { scope: 'always', match: 'exact' };
    const { grant } = (await answer((await asked(first)).approvalId, 'approve', { remember })) as { grant: Grant };
    await first;
    expect(await run('touch taken-back')).toMatchObject({ success: true });
    const grants = async () => ((await operator.request('approvals.grants', {})) as { grants: Grant[] }).grants;
    expect(await grants()).toContainEqual(grant);

    expect(cli('approvals', 'grants')).toContain(`${grant.grantId}  approve  exactly this call of terminal_execute`);
    expect(cli('approvals', 'revoke', grant.grantId)).toContain(`revoked ${grant.grantId}`);
    expect((await grants()).map((it) => it.grantId)).not.toContain(grant.grantId);
    const again = run('touch taken-back');
    await answer((await asked(again)).approvalId, 'deny');
    expect(await again).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
    const { entries } = (await operator.request('audit.query', { kind: 'approval' })) as { entries: object[] };
    const revoked = { event: 'revoked', grantId: grant.grantId, revokedBy: 'operator' };
    expect(entries).toContainEqual(expect.objectContaining({ detail: expect.objectContaining(revoked) }));
    await expect(operator.request('approvals.revoke', { grantId: 'g_none' })).rejects.toThrow(
      'no remembered answer has the id g_none',
    );
  });

  test('an answer that is remembered for ever comes with the rule that would make it so', async () => {
    await using stranger = await daemon.connect();
    const call = stranger.call('terminal_execute', { command: 'touch always' });
    const settled = await answer((await asked(call)).approvalId, 'approve', {
      remember: { scope: 'always', match: 'exact' },
    });
    expect(settled).toMatchObject({ proposedRule: expect.stringContaining('touch') });
    expect(await call).toMatchObject({ success: true });
  });
});

test('an agent learns nothing of approvals, audit or reload but that they are not for it', async () => {
  const methods = ['approvals.list', 'approvals.resolve', 'approvals.grants', 'approvals.revoke'];
  for (const method of [...methods, 'audit.query', 'audit.verify', 'policy.reload']) {
    const refused = await agent.request(method, { nonsense: true }).catch((error: RemoteError) => error);
    expect(refused).toMatchObject({ code: -32004, message: `only operators may use ${method}` });
  }
});

test('an operator who listens is told of questions and answers', async () => {
  await using watcher = await daemon.connect({ role: 'operator' });
  const end = new AbortController();
  const heard: string[] = [];
  const listening = (async () => {
    for await (const { method } of watcher.notifications(['approvals'], { signal: end.signal })) heard.push(method);
  })();
  await until(async () => ((await operator.request('status', {})) as { approvers: number }).approvers === 1);
  const call = write('notes/told.txt', 'x');
  await answer((await asked(call)).approvalId, 'deny');
  await call;
  await until(() => heard.includes('approval.resolved'));
  expect(heard).toEqual(['approval.requested', 'approval.resolved']);
  end.abort();
  await listening;
});

test('a question survives the death of the daemon, and its answer serves the same call once', async () => {
  const stateDir = temporaryDir('state');
  const workspace = temporaryDir('ws');
  try {
    const first = await startDaemon({ policy: POLICY, stateDir, workspace });
    const before = await first.connect();
    const lost = before.call('terminal_execute', { command: 'touch after-restart' });
    lost.catch(() => {});
    const firstOperator = await first.connect({ role: 'operator' });
    const list = async (from: Client) =>
      ((await from.request('approvals.list', {})) as { approvals: Approval[] }).approvals;
    await until(async () => (await list(firstOperator)).length === 1);
    first.process.kill('SIGKILL');
    await first.ended;

    await using second = await startDaemon({ policy: POLICY, stateDir, workspace });
    await using secondOperator = await second.connect({ role: 'operator' });
    const [approval] = await list(secondOperator);
    expect(approval).toMatchObject({ tool: 'terminal_execute', input: { command: 'touch after-restart' } });
    await secondOperator.request('approvals.resolve', { approvalId: approval?.approvalId, decision: 'approve' });
    await using after = await second.connect();
    const again = after.call('terminal_execute', { command: 'touch after-restart' });
    expect(await again).toMatchObject({ success: true, metadata: { approvalGranted: true } });
    const third = after.call('terminal_execute', { command: 'touch after-restart' });
    await until(async () => (await list(secondOperator)).length === 1);
    await after.request('calls.cancel', { callId: third.callId });
    await third;
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
    rmSync(workspace, { recursive: true, force: true });
  }
});
