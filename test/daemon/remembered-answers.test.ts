/** What a remembered approval covers, what the question says of it, and calls for which none is remembered. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, createClient, type RunningCall } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { ringfence, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

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
  // Allows more questions than a person could answer.
  daemon = await startDaemon({
    policy: POLICY,
    limits: { approvalsPerMinute: 1000, approvalsPerMinutePrincipal: 1000 },
  });
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
  mkdirSync(join(daemon.workspace, 'notes'));
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** The approval request of a new call. */
async function asked({ callId }: RunningCall<unknown>): Promise<Approval> {
  let found: Approval | undefined;
  await until(async () => {
    const { approvals } = (await operator.request('approvals.list', {})) as { approvals: Approval[] };
    found = approvals.find((it) => it.callId === callId);
    return found !== undefined;
  });
  return found as Approval;
}
const answer = (approvalId: string, decision: 'approve' | 'deny', more: object = {}) =>
  operator.request('approvals.resolve', { approvalId, decision, ...more });
const run = (command: string) => agent.call('terminal_execute', { command });
const write = (path: string, content: string) => agent.call('file_write', { path, content });
const at = (path: string) => join(daemon.workspace, path);
/** The output of `ringfence …` on both streams. */
function cli(...args: string[]): string {
  const where = ['--state', daemon.stateDir, '--socket', daemon.socket];
  const { stdout, stderr } = spawnSync(process.execPath, [ringfence, ...args, ...where], { encoding: 'utf8' });
  return stdout + stderr;
}

describe('a yes to publish', () => {
  const push = (words: string) => run(`git push ${words}`);
  const isRefused = async (words: string, remember: object) => {
    const call = push(words);
    const { approvalId } = await asked(call);
    await expect(answer(approvalId, 'approve', { remember })).rejects.toThrow(
      /for this session at most|may not be remembered/,
    );
    await answer(approvalId, 'deny', {});
    await call;
  };

  test('covers the same verb and remote for the session, and no force and no default branch', async () => {
    const first = push('origin agent/x');
    const { approvalId, remember } = await asked(first);
    expect(remember.tool).toBe('git push to origin');
    await answer(approvalId, 'approve', { remember: { scope: 'session', match: 'tool' } });
    await first;
    // git itself fails: there is no repository.
    expect(await push('origin agent/y')).toMatchObject({ success: true, data: { exitCode: 128 } });
    for (const words of ['other agent/x', '--force origin agent/y', 'origin main', 'origin +agent/y', '']) {
      const call = push(words);
      await answer((await asked(call)).approvalId, 'deny');
      expect(await call, words).toMatchObject({ success: false });
    }
  });

  test('a yes to publish is never remembered for good, nor for a default branch at all', async () => {
    await isRefused('upstream agent/z', { scope: 'always', match: 'exact' });
    await isRefused('upstream main', { scope: 'session', match: 'exact' });
  });
});

describe('an answer that is remembered', () => {
  test('says in the question what it would cover beyond what is shown', async () => {
    const rememberOf = async (call: RunningCall<unknown>) => {
      const { approvalId, remember } = await asked(call);
      await answer(approvalId, 'deny');
      await call;
      return remember;
    };
    writeFileSync(at('any.js'), '');
    expect(await rememberOf(run('node any.js'))).toEqual({
      exact: 'this very command line, whatever code the files that it runs hold by then',
      tool: 'any code in node',
    });
    expect(await rememberOf(run('mkdir covers'))).toEqual({
      exact: 'exactly this call',
      tool: 'commands of mkdir that reach no further than this one',
    });
    expect(await rememberOf(write('notes/covers', 'x'))).toEqual({
      exact: 'exactly this call',
      tool: 'calls of this tool with at most this impact',
    });
    expect(await rememberOf(agent.call('file_delete', { path: 'any.js' }))).toEqual({ exact: 'exactly this call' });
  });

  test.each([
    'node -e "1"',
    'node --eval=1',
    'python3 -c 1',
    'sh -c "touch x"',
    'bash -xc "touch x"',
    'perl -ne 1 any',
    'env node -p 1',
    'awk 1 any',
  ])('a remembered answer is neither offered nor taken for code in the command line: %s', async (command) => {
    const call = run(command);
    const { approvalId, remember } = await asked(call);
    expect(remember).toEqual({});
    for (const match of ['exact', 'tool', 'rule'])
      await expect(answer(approvalId, 'approve', { remember: { scope: 'session', match } })).rejects.toThrow(/code/);
    await answer(approvalId, 'deny', { remember: { scope: 'session', match: 'exact' } });
    expect(await call).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  });

  test('answers for two programs stand side by side, and are revoked all at once', async () => {
    await operator.request('approvals.revoke', { all: true });
    for (const command of ['seq 1', 'nl /dev/null']) {
      const call = run(command);
      await answer((await asked(call)).approvalId, 'approve', { remember: { scope: 'session', match: 'tool' } });
      await call;
    }
    for (const command of ['seq 2', 'nl -b a /dev/null']) expect(await run(command)).toMatchObject({ success: true });
    const { grants } = (await operator.request('approvals.grants', {})) as { grants: { programs: string[] }[] };
    expect(grants.map((it) => it.programs.map((program) => basename(program)))).toEqual([['seq'], ['nl']]);
    expect(cli('approvals', 'revoke', '--all')).toContain('revoked 2 answers');
    expect(await operator.request('approvals.grants', {})).toMatchObject({ grants: [] });
  });

  test('a remembered answer to the whole tool covers no code in a command line, whatever the program', async () => {
    writeFileSync(at('plain.js'), '');
    const first = run('node plain.js');
    await answer((await asked(first)).approvalId, 'approve', { remember: { scope: 'session', match: 'tool' } });
    expect(await first).toMatchObject({ success: true });
    const inline = run('node -e "2"');
    await answer((await asked(inline)).approvalId, 'deny');
    expect(await inline).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  });

  test.each([
    ['--session', ['--session', 'terminal-7'], {}],
    ['RINGFENCE_SESSION', [], { RINGFENCE_SESSION: 'terminal-8' }],
  ])(
    'an answer for a named session (%s) holds for the next command line of that name, and for no other',
    async (how, flags, env) => {
      const dir = `named-${how.replaceAll(/\W/g, '')}`;
      const call = (more: readonly string[], variables: object) => {
        const where = ['--state', daemon.stateDir, '--socket', daemon.socket, '--workspace', daemon.workspace];
        const words = ['call', 'terminal_execute', `command=mkdir -p ${dir}`, '--json', ...more, ...where];
        const { PATH = '' } = process.env;
        const options = { encoding: 'utf8', env: { PATH, HOME: daemon.stateDir, ...variables } } as const;
        const { status, stdout } = spawnSync(process.execPath, [ringfence, ...words], options);
        const { error } = JSON.parse(stdout) as { error?: { code: string; details: { approvalId: string } } };
        return { status, code: error?.code, approvalId: error?.details.approvalId };
      };
      const first = call(flags, env);
      expect(first).toMatchObject({ status: 4, code: 'APPROVAL_REQUIRED' });
      await answer(first.approvalId as string, 'approve', { remember: { scope: 'session', match: 'exact' } });
      for (let times = 0; times < 2; times++) expect(call(flags, env)).toMatchObject({ status: 0 });
      for (const other of [[], ['--session', 'another']])
        expect(call(other, {})).toMatchObject({ status: 4, code: 'APPROVAL_REQUIRED' });
    },
  );

  test('an answer can be remembered by its id on the command line, for the call or for the tool', async () => {
    const first = run('seq 3');
    const { approvalId } = await asked(first);
    expect(cli('approvals', 'approve', approvalId, '--remember', 'tool')).toContain('remembered: commands of seq');
    expect(await first).toMatchObject({ success: true });
    expect(await run('seq 4')).toMatchObject({ success: true });
    const more = run('mkdir by-id');
    const { approvalId: other } = await asked(more);
    expect(cli('approvals', 'approve', other, '--remember', 'tool')).toContain('only if the impact of the call is low');
    expect(cli('approvals', 'approve', other, '--remember', 'exact')).toContain('remembered: exactly this call');
    expect(await more).toMatchObject({ success: true });
  });
});

describe('a no to a tool for the session', () => {
  test('a no holds for calls that the policy allows, too, in its session and those below it alone', async () => {
    await using own = await daemon.connect();
    const note = own.call('file_write', { path: 'notes/no.txt', content: 'x' });
    const { approvalId } = await asked(note);
    await answer(approvalId, 'deny', { remember: { scope: 'session', match: 'tool' } });
    expect(await note).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
    const free = { path: 'free.txt', content: 'x' };
    expect(await own.call('file_write', free)).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
    expect(await agent.call('file_write', free)).toMatchObject({ success: true });
    const { token } = (await own.request('sessions.attenuate', { expiresIn: 60_000 })) as { token: string };
    await using child = await createClient({ socket: daemon.socket, workspace: daemon.workspace, token });
    expect(await child.call('file_write', free)).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
    expect(await own.call('file_read', { path: 'free.txt' })).toMatchObject({ success: true });
    expect(await own.call('file_read', { path: 'free.txt' })).toMatchObject({ success: true });

    const { statistics } = (await operator.request('approvals.grants', {})) as { statistics: object };
    expect(statistics).toMatchObject({
      deny: { count: 1, tools: ['file_write'] },
      questions: { denied: expect.any(Number) },
    });
    expect(cli('approvals', 'grants')).toMatch(/say yes, 1 say no; questions so far: .*denied/);
    await operator.request('approvals.revoke', { all: true });
    expect(await own.call('file_write', free)).toMatchObject({ success: true });
  });

  test('a no to a command holds for lines with the same programs, and lets others run', async () => {
    await using own = await daemon.connect();
    const push = own.call('terminal_execute', { command: 'git push origin agent/x' });
    const { approvalId } = await asked(push);
    await answer(approvalId, 'deny', { remember: { scope: 'session', match: 'tool' } });
    await push;
    expect(await own.call('terminal_execute', { command: 'ls' })).toMatchObject({ success: true });
    await operator.request('approvals.revoke', { all: true });
  });
});
