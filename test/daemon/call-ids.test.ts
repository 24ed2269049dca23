/** Call ids on the command line: finding calls of earlier commands, short ids, listing and ending running calls, undo. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { beginCli, endOf, runCli } from '../support/cli.ts';
import { dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

let daemon: OpenDaemon;
beforeAll(async () => {
  const asks =
    'rules:\n  - { id: ask, match: { tool: file_delete }, decision: ask, reason: A person should see it. }\n';
  daemon = await openDaemon({ policy: asks });
});
afterAll(() => daemon[Symbol.asyncDispose]());

const cli = (...args: string[]) => runCli(daemon, args);
const inWorkspace = (name: string) => join(daemon.workspace, name);
/** The id that a command printed. */
const idIn = ({ stderr }: { stderr: string }) => /call ([0-9a-f-]{36})/.exec(stderr)?.[1] as string;
const shortOf = (id: string) => id.slice(-8);

async function operator<T>(use: (client: Client) => Promise<T>): Promise<T> {
  await using client = await daemon.connect({ role: 'operator' });
  return await use(client);
}

describe('a call of an earlier command line', () => {
  test('an earlier call is found by `result` and `logs`, by its whole id and by a part of it', async () => {
    const id = idIn(await cli('call', 'terminal_execute', 'command=echo earlier; exit 4'));
    for (const it of [id, shortOf(id), id.slice(0, 30)]) {
      expect(await cli('result', it)).toMatchObject({ code: 4, stdout: 'earlier\n' });
      expect(await cli('logs', it)).toMatchObject({ code: 0, stdout: 'earlier\n' });
    }
    const { stdout } = await cli('result', shortOf(id), '--json');
    expect(JSON.parse(stdout)).toMatchObject({ callId: id, success: true, data: { exitCode: 4 } });
    const lines = (await cli('logs', shortOf(id), '--json')).stdout.trim().split('\n');
    expect(lines.map((it) => JSON.parse(it))).toEqual([{ seq: 1, stream: 'stdout', data: 'earlier\n' }]);
  });

  test("an agent can't find the call of another command line", async () => {
    const id = idIn(await cli('call', 'file_list'));
    await using agent = await daemon.connect();
    await expect(agent.record(id)).rejects.toThrow(/no call/);
    await expect(agent.request('calls.find', { id })).rejects.toThrow(/only operators/);
    await expect(agent.request('calls.list', { everywhere: true })).rejects.toThrow(/only operators/);
  });

  test('an ambiguous beginning of an id is refused with all ids that it could mean', async () => {
    const ids = [idIn(await cli('call', 'file_list')), idIn(await cli('call', 'file_list'))];
    const common = (ids[0] as string).slice(0, 4);
    const { code, stderr } = await cli('result', common);
    expect(code).toBe(2);
    for (const it of ids) expect(stderr).toContain(it);
  });

  test('an id that no call has is reported as unknown', async () => {
    expect(await cli('result', 'ffffffff')).toMatchObject({ code: 1, stderr: expect.stringContaining('ffffffff') });
  });
});

describe('what is under way', () => {
  test('a running call is shown by `ps` whoever made it, and ended by `cancel`', async () => {
    await using agent = await daemon.connect();
    const running = agent.call('terminal_execute', { command: 'touch under-way; sleep 60' }, { callId: 'mine' });
    const ours = beginCli(daemon, ['call', 'terminal_execute', 'command=touch ours; sleep 61']);
    await until(() => existsSync(inWorkspace('under-way')) && existsSync(inWorkspace('ours')));
    const { stdout } = await cli('ps');
    expect(stdout).toMatch(/^mine +in-progress +\d+ s +terminal_execute +touch under-way, sleep 60 /m);
    expect(stdout).toContain('sleep 61');
    const shown = JSON.parse((await cli('ps', '--json')).stdout) as { callId: string; workspace: string }[];
    expect(shown).toHaveLength(2);
    expect(shown[0]).toMatchObject({ callId: 'mine', workspace: daemon.workspace, state: { status: 'in-progress' } });
    expect((await cli('cancel', 'mine')).code).toBe(0);
    expect(await running).toMatchObject({ success: false, error: { code: 'CANCELLED', details: { by: 'operator' } } });
    expect((await cli('cancel', shortOf(shown[1]?.callId as string), '--json')).stdout).toContain('"cancelled":true');
    expect(await endOf(ours)).toBe(130);
    expect(await cli('ps')).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('no call') });
    expect(await cli('cancel', 'mine')).toMatchObject({ code: 1, stderr: expect.stringContaining('no call mine') });
  });

  test('a call whose id is in two sessions is ended in the session that is named', async () => {
    await using first = await daemon.connect();
    await using second = await daemon.connect();
    const calls = [first, second].map((it, at) =>
      it.call('terminal_execute', { command: `touch twice${at}; sleep 60` }, { callId: 'twice' }),
    );
    await until(() => existsSync(inWorkspace('twice0')) && existsSync(inWorkspace('twice1')));
    expect(await cli('cancel', 'twice')).toMatchObject({ code: 1, stderr: expect.stringContaining('name one') });
    for (const it of [first, second]) {
      const { session } = await it.hello;
      expect((await cli('cancel', 'twice', '--session', session.id)).code).toBe(0);
    }
    for (const it of calls) expect(await it).toMatchObject({ error: { code: 'CANCELLED' } });
  });
});

describe('undo', () => {
  const write = async (path: string, content: string) =>
    idIn(await cli('call', 'file_write', `path=${path}`, `content=${content}`));

  test('says `removed` of what it removes, and `restored` of what it restores, by a short id', async () => {
    const made = await write('made', 'one');
    const changed = await write('made', 'two');
    expect(await cli('undo', shortOf(changed))).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('restored made'),
    });
    expect(await cli('undo', shortOf(made))).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('removed made'),
    });
    expect(existsSync(inWorkspace('made'))).toBe(false);
    const { stdout } = await cli('undo', await write('made', 'x'), '--json');
    expect(JSON.parse(stdout)).toMatchObject({ restored: ['made'], removed: ['made'], conflicts: [] });
  });

  test('--last goes back step by step, and an undo that was undone counts again', async () => {
    const ids = [await write('step', '1'), await write('step', '2'), await write('step', '3')];
    const first = await cli('undo', '--last');
    expect(first).toMatchObject({ code: 0, stderr: expect.stringContaining(ids[2] as string) });
    expect(readFileSync(inWorkspace('step'), 'utf8')).toBe('2');
    const redo = /ringfence undo ([0-9a-f-]{36})/.exec(first.stdout)?.[1] as string;
    expect((await cli('undo', redo)).code).toBe(0);
    expect(readFileSync(inWorkspace('step'), 'utf8')).toBe('3');
    for (const content of ['2', '1']) {
      expect((await cli('undo', '--last')).code).toBe(0);
      expect(readFileSync(inWorkspace('step'), 'utf8')).toBe(content);
    }
    expect(await cli('undo', '--last')).toMatchObject({ code: 0, stdout: expect.stringContaining('removed step') });
  });

  test('an undo without a call to undo, or of two at once, is refused in words', async () => {
    await using other = await openDaemon();
    const { code, stderr } = await runCli(other, ['undo', '--last']);
    expect([code, stderr]).toEqual([1, expect.stringContaining('can be undone')]);
    for (const args of [['undo'], ['undo', '--last', 'x']]) expect((await cli(...args)).code).toBe(2);
  });
});

test('approvals are answered by a short id', async () => {
  await using agent = await daemon.connect();
  writeFileSync(inWorkspace('delete-me'), '');
  const deleting = agent.call('file_delete', { path: 'delete-me' });
  const id = await operator(async (client) => {
    const pending = async () => (await client.request('approvals.list', {})) as { approvals: { approvalId: string }[] };
    await until(async () => (await pending()).approvals.length === 1);
    return (await pending()).approvals[0]?.approvalId as string;
  });
  const { code, stdout } = await cli('approvals', 'approve', shortOf(id), '--json');
  expect([code, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ call: expect.anything() })]);
  expect(await dataOf(deleting)).toMatchObject({ deletedItems: 1 });
});

test('calls of ended sessions are forgotten by number and bytes, the oldest first', async () => {
  await using small = await openDaemon({ limits: { endedCallsKept: 2 } });
  const ids: string[] = [];
  for (let at = 0; at < 3; at++) ids.push(idIn(await runCli(small, ['call', 'file_list'])));
  const codes = await Promise.all(ids.map(async (it) => (await runCli(small, ['result', it])).code));
  expect(codes).toEqual([1, 0, 0]);
});
