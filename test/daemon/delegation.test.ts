/** Modes and tokens that sessions pass on: what they take away stays away, by whatever way it is asked for. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, type ClientOptions, createClient } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

const FORBIDDEN = -32004;
let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await openDaemon({
    limits: { hostStartMs: 100_000 },
    policy: 'tiers:\n  execute: { decision: allow }\n  write: { decision: allow, approve: [] }\n',
    config: { modes: { review: { tools: ['file_*', 'code_run'], policy: 'read-only' }, files: { tools: ['file_*'] } } },
  });
  writeFileSync(join(daemon.workspace, 'a.txt'), 'one\n');
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  for (const it of [agent, operator]) await it[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const open = (options: Partial<ClientOptions> = {}) =>
  createClient({ socket: daemon.socket, workspace: daemon.workspace, ...options });
const write = { path: 'made.txt', content: 'x' };
const codeOf = async (call: PromiseLike<{ success: boolean; error?: { code: string } }>) =>
  (await call).error?.code ?? 'ok';

interface Token {
  readonly token: string;
  readonly id: string;
  readonly expiresAt: string;
}
const attenuate = (session: Client, asked: object) =>
  session.request('sessions.attenuate', { expiresIn: 60_000, ...asked }) as Promise<Token>;

describe('a mode', () => {
  test('plan lets the agent read and keep its todos, and nothing else', async () => {
    await using plan = await open({ mode: 'plan' });
    expect((await plan.hello).session).toMatchObject({ mode: 'plan' });
    expect(await codeOf(plan.call('file_read', { path: 'a.txt' }))).toBe('ok');
    expect(await codeOf(plan.call('todo_write', { todos: [{ content: 'think' }] }))).toBe('ok');
    expect(await codeOf(plan.call('file_write', write))).toBe('POLICY_DENIED');
    expect(await codeOf(plan.call('terminal_execute', { command: 'ls' }))).toBe('POLICY_DENIED');
  });

  test('a batch or a program does not leave the mode of its session', async () => {
    await using plan = await open({ mode: 'plan' });
    const { results } = await plan.batch([{ id: 'w', tool: 'file_write', input: write }]);
    expect(results).toMatchObject([{ error: { code: 'POLICY_DENIED' } }]);
    const code = 'return await tools.file_write({ path: "made.txt", content: "x" })';
    expect(await codeOf(plan.call('code_run', { code }))).toBe('POLICY_DENIED');
    await using review = await open({ mode: 'review' });
    expect(await codeOf(review.call('code_run', { code }))).toBe('POLICY_DENIED');
  });

  test('a mode of the config has only its own tools, also under other names, and combines with a policy', async () => {
    await using files = await open({ mode: 'files' });
    const { toolset } = (await files.hello).session;
    expect(toolset.every((it) => it.startsWith('file_'))).toBe(true);
    for (const tool of ['terminal_execute', 'bash', 'todo_read'])
      expect(await codeOf(files.call(tool as string, {}))).toBe('TOOL_NOT_FOUND');
    expect(await codeOf(files.call('file_write', write))).toBe('ok');
    await using both = await open({ mode: 'files', policy: 'read-only' });
    expect(await codeOf(both.call('file_write', write))).toBe('POLICY_DENIED');
  });

  test('a mode that does not exist is refused with the list of those that do', async () => {
    await expect(open({ mode: 'wild' })).rejects.toThrow(
      'there is no mode wild; the daemon has: read, plan, code, review',
    );
  });

  test('stays with a session that is resumed, and no other one may be asked for then', async () => {
    const raw = new RawPeer(daemon.socket);
    const hello = { workspace: daemon.workspace, resumeMs: 20_000 };
    const { session } = (await raw.hello({ ...hello, mode: 'plan' })).result as {
      session: { id: string; secret: string };
    };
    raw.socket.destroy();
    const resume = { sessionId: session.id, secret: session.secret };
    const next = new RawPeer(daemon.socket);
    expect((await next.hello({ ...hello, resume, mode: 'code' })).error).toMatchObject({ code: -32602 });
    expect((await next.hello({ ...hello, resume })).result).toMatchObject({ session: { mode: 'plan' } });
    const { result } = await next.request('tools.call', { tool: 'file_write', input: write });
    expect(result).toMatchObject({ error: { code: 'POLICY_DENIED' } });
    next.socket.destroy();
  });

  test('narrows calls of the command line', async () => {
    const { code, stdout } = await runCli(daemon, [
      'call',
      'file_write',
      JSON.stringify(write),
      '--mode',
      'plan',
      '--json',
      '--workspace',
      daemon.workspace,
    ]);
    expect([code === 0, (JSON.parse(stdout) as { error: { code: string } }).error.code]).toEqual([
      false,
      'POLICY_DENIED',
    ]);
  });
});

describe('a token that a session passed on', () => {
  test('gives the tools and the policy that it names, under the principal of its session', async () => {
    const { token } = await attenuate(agent, { tools: ['file_read', 'file_write'], policy: 'read-only' });
    await using child = await open({ token });
    expect((await child.hello).session.toolset).toEqual(['file_read']);
    expect(await codeOf(child.call('file_read', { path: 'a.txt' }))).toBe('ok');
    expect(await codeOf(child.call('file_write', write))).toBe('POLICY_DENIED');
    expect(await codeOf(child.call('file_list', {}))).toBe('TOOL_NOT_FOUND');
    const sessions = await openSessions();
    const entry = sessions.find((it) => it.chain?.[0]?.tool === 'sessions.attenuate');
    expect(entry?.principal).toBe(sessions.find((it) => !it.chain && it.role === 'agent')?.principal);
  });

  test('a token can be narrowed further, and never widened', async () => {
    const first = await attenuate(agent, { tools: ['file_*'] });
    await using child = await open({ token: first.token });
    const second = await attenuate(child, { tools: ['file_read'] });
    await using grandchild = await open({ token: second.token });
    expect((await grandchild.hello).session.toolset).toEqual(['file_read']);
    await expect(attenuate(grandchild, { tools: ['file_write'] })).rejects.toThrow('no tool file_write to pass on');
    const third = await attenuate(grandchild, {});
    await using last = await open({ token: third.token, mode: 'code' });
    expect((await last.hello).session.toolset).toEqual(['file_read']);
  });

  test('reserves its budget out of its session’s, and is refused beyond it', async () => {
    const { token } = await attenuate(agent, { budget: { calls: 5 } });
    await using child = await open({ token });
    await expect(attenuate(child, { budget: { calls: 6 } })).rejects.toThrow('5 calls left, and 6 are needed');
    const nested = await attenuate(child, { budget: { calls: 3 } });
    const read = (client: Client) => codeOf(client.call('file_read', { path: 'a.txt' }));
    const own = await Promise.all([1, 2, 3, 4].map(() => read(child)));
    expect(own.toSorted()).toEqual(['COST_LIMIT', 'COST_LIMIT', 'ok', 'ok']);
    await using grandchild = await open({ token: nested.token });
    expect(await read(grandchild)).toBe('ok');
    expect(await child.request('sessions.revoke', { id: nested.id })).toEqual({ revoked: true });
    expect([await read(child), await read(child), await read(child)]).toEqual(['ok', 'ok', 'COST_LIMIT']);
  });

  test('ends with its sessions when it is revoked, by whoever is above it only', async () => {
    const { token, id } = await attenuate(agent, {});
    const child = await open({ token });
    const nested = await attenuate(child, {});
    const grandchild = await open({ token: nested.token });
    await using stranger = await daemon.connect();
    await expect(stranger.request('sessions.revoke', { id })).rejects.toMatchObject({ code: FORBIDDEN });
    await expect(grandchild.request('sessions.revoke', { id })).rejects.toMatchObject({ code: FORBIDDEN });
    const running = grandchild.call('terminal_execute', { command: 'sleep 60' });
    running.catch(() => {}); // Its connection ends.
    expect(await agent.request('sessions.revoke', { id })).toEqual({ revoked: true });
    for (const it of [child, grandchild])
      await expect(it.call('file_list', {})).rejects.toThrow(/closed|ended|not one of this daemon/);
    for (const it of [token, nested.token]) await expect(open({ token: it })).rejects.toThrow('not one of this daemon');
    expect(await agent.request('sessions.revoke', { id })).toEqual({ revoked: false });
    for (const it of [child, grandchild]) await it[Symbol.asyncDispose]();
  });

  test('ends at its time, and with the session that made it', async () => {
    const soon = await attenuate(agent, { expiresIn: 150 });
    const child = await open({ token: soon.token });
    await until(async () => (await openSessions()).every((it) => it.chain?.at(-1)?.callId !== soon.id));
    await expect(open({ token: soon.token })).rejects.toThrow('not one of this daemon');
    const maker = await open();
    const { token } = await attenuate(maker, {});
    await maker[Symbol.asyncDispose]();
    await until(async () =>
      open({ token }).then(
        (it) => it[Symbol.asyncDispose]().then(() => false),
        () => true,
      ),
    );
    await child[Symbol.asyncDispose]();
  });

  test('reaches no call, output or undo of other sessions of its principal', async () => {
    const { callId } = await agent.call('file_write', { path: 'undone.txt', content: 'x' });
    const running = agent.call('terminal_execute', { command: 'echo secret; sleep 20' }, { detached: true });
    running.catch(() => {});
    const { token } = await attenuate(agent, {});
    await using child = await open({ token });
    await expect(child.request('calls.undo', { callId })).rejects.toThrow('has no call');
    await expect(child.request('calls.undo', { last: true })).rejects.toThrow('no call in this workspace');
    await expect(child.request('calls.get', { callId: running.callId })).rejects.toThrow('has no call');
    expect(await child.request('calls.cancel', { callId: running.callId })).toEqual({ cancelled: false });
    expect(((await child.request('calls.list', {})) as { calls: object[] }).calls).toEqual([]);
    expect(await codeOf(child.call('file_list', {}, { detached: true }))).toBe('UNSUPPORTED');
    await operator.request('calls.cancel', { callId: running.callId });
  });

  test('a passed-on token is for the workspace of its session, and its sessions are not resumed', async () => {
    const { token } = await attenuate(agent, {});
    await using child = await open({ token, resumeMs: 60_000 });
    expect((await child.hello).session.resumeMs).toBe(0);
    await expect(open({ token, workspace: join(daemon.workspace, '..') })).rejects.toMatchObject({ code: FORBIDDEN });
  });

  test('shows its chain in the record and in questions, and a yes to its session is none to it', async () => {
    await using strict = await open({ policy: 'strict' });
    const asking = (client: Client) => client.call('file_write', { path: 'asked.txt', content: 'x' });
    const answer = async (remember?: object) => {
      const find = async () => ((await operator.request('approvals.list', {})) as { approvals: Asked[] }).approvals;
      await until(async () => (await find()).length === 1, 60_000);
      const [asked] = (await find()) as [Asked];
      await operator.request('approvals.resolve', { approvalId: asked.approvalId, decision: 'approve', ...remember });
      return asked;
    };
    const own = asking(strict);
    expect((await answer({ remember: { scope: 'always', match: 'tool' } })).parents).toEqual([]);
    expect((await own).success).toBe(true);
    expect((await asking(strict)).success).toBe(true);
    const { token, id } = await attenuate(strict, { tools: ['file_write'] });
    await using child = await open({ token });
    const theirs = asking(child);
    expect((await answer()).parents).toEqual([{ callId: id, tool: 'sessions.attenuate' }]);
    expect((await theirs).success).toBe(true);
    const { entries } = (await operator.request('audit.query', { kind: 'session', limit: 50 })) as {
      entries: { detail: Record<string, unknown> }[];
    };
    expect(entries.some(({ detail }) => detail.event === 'attenuated' && detail.id === id)).toBe(true);
    expect(
      entries.find(({ detail }) => JSON.stringify(detail.chain ?? []).includes(id) && !detail.event)?.detail,
    ).toMatchObject({ parent: (await strict.hello).session.id });
    expect(JSON.stringify(entries)).not.toContain(token);
  });
});

interface Asked {
  readonly approvalId: string;
  readonly parents: object[];
}

interface OpenSession {
  readonly principal: string;
  readonly role: string;
  readonly chain?: { callId: string; tool: string }[];
}
async function openSessions(): Promise<OpenSession[]> {
  return ((await operator.request('status', {})) as { openSessions: OpenSession[] }).openSessions;
}
