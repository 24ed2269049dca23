/** Detached calls: they go on without their connection, and their principal finds them, even after a restart. */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CallRecord, Client } from '../../src/client/client.ts';
import {
  dataOf,
  type OpenDaemon,
  openDaemon,
  processesWith,
  ringfence,
  startDaemon,
  temporaryDir,
  until,
} from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

const WAIT = 'tiers:\n  execute: { decision: ask }\napprovals: { headless: wait }\n';

let daemon: OpenDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await openDaemon({ limits: { detachedCallsMax: 3 } });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** Begins a detached command in a new session, and ends the session once the command runs. */
async function leave(of: OpenDaemon, command: string, callId: string): Promise<void> {
  const other = await of.connect();
  const running = other.call('terminal_execute', { command }, { callId, detached: true, progress: true });
  running.catch(() => {}); // The connection ends.
  for await (const it of running) if (it.kind === 'state' && it.state.status !== 'queued') break;
  await other[Symbol.asyncDispose]();
}
const ended = async (by: Client, callId: string): Promise<CallRecord> => {
  await until(async () => (await by.record(callId)).result !== undefined, 10_000);
  return by.record(callId);
};
const refOf = (result: CallRecord['result']) => result?.metadata.truncated?.ref ?? 'none';
const ids = async (by: Client) =>
  ((await by.request('calls.list', {})) as { calls: CallRecord[] }).calls.map((it) => it.callId);

test('a detached call goes on after its connection, and another session of its principal gets state, output and result', async () => {
  await leave(daemon, 'echo one; until [ -e go1 ]; do sleep 0.01; done; echo two; seq 1 20000', 'a');
  expect(await client.record('a')).toMatchObject({ callId: 'a', state: { status: 'in-progress' } });
  const output = client.output('a');
  expect(Buffer.from(((await output.next()).value as { data: Uint8Array }).data).toString()).toBe('one\n');
  writeFileSync(join(daemon.workspace, 'go1'), '');
  let bytes = 0;
  for await (const { data } of output) bytes += data.length;
  expect(bytes).toBe(4 + 108_894);
  const { result, state } = await ended(client, 'a');
  expect([state, result]).toMatchObject([{ status: 'done' }, { success: true, data: { exitCode: 0 } }]);
  const ref = refOf(result);
  const page = (await client.request('results.read', { ref, offset: 4, limit: 4 })) as { data: Uint8Array };
  expect(Buffer.from(page.data).toString()).toBe('two\n');
  expect(await ids(client)).toContain('a');
});

test('a call that is not detached ends with its connection, beside one that is', async () => {
  const other = await daemon.connect();
  for (const [callId, detached] of [
    ['b1', true],
    ['b2', false],
  ] as const)
    other
      .call('terminal_execute', { command: `exec -a marker-${callId} sleep 60` }, { callId, detached })
      .catch(() => {}); // The connection ends.
  await until(() => processesWith('marker-b').length >= 2 && processesWith('marker-b2').length > 0);
  await other[Symbol.asyncDispose]();
  await until(() => processesWith('marker-b2').length === 0);
  expect(processesWith('marker-b1').length).toBeGreaterThan(0);
  await expect(client.record('b2')).rejects.toMatchObject({ code: -32602 });
  expect(await client.request('calls.cancel', { callId: 'b1' })).toEqual({ cancelled: true });
  expect(await ended(client, 'b1')).toMatchObject({ state: { status: 'cancelled' } });
  await until(() => processesWith('marker-b1').length === 0);
});

test('a detached call runs to its own time limit', async () => {
  const other = await daemon.connect();
  other
    .call(
      'terminal_execute',
      { command: 'echo x; exec -a marker-limit sleep 60', timeout: 300 },
      { callId: 'c', detached: true },
    )
    .catch(() => {}); // The connection ends.
  await until(() => processesWith('marker-limit').length > 0);
  await other[Symbol.asyncDispose]();
  expect(await ended(client, 'c')).toMatchObject({ result: { error: { code: 'TIMEOUT' } } });
});

test('asked again by another session it gives the first result, and CONFLICT for another input', async () => {
  await leave(daemon, 'echo x >>count; cat count', 'd');
  const again = (command: string) => client.call('terminal_execute', { command }, { callId: 'd', detached: true });
  await ended(client, 'd');
  expect(await dataOf(again('echo x >>count; cat count'))).toMatchObject({ stdout: 'x\n' });
  expect(await again('cat count')).toMatchObject({ error: { code: 'CONFLICT' } });
  expect(readFileSync(join(daemon.workspace, 'count'), 'utf8')).toBe('x\n');
});

test('nobody else finds it: another principal gets no state, no output, no cancel', async () => {
  await leave(daemon, 'echo mine; seq 1 20000', 'e');
  const { result } = await ended(client, 'e');
  const raw = new RawPeer(daemon.socket);
  await raw.hello({ workspace: daemon.workspace, token: daemon.token('agent') });
  const ref = refOf(result);
  for (const [method, params] of [
    ['calls.get', { callId: 'e' }],
    ['results.read', { callId: 'e', afterSeq: 0 }],
    ['results.read', { ref }],
  ] as const)
    expect((await raw.request(method, params)).error).toMatchObject({ code: -32602 });
  expect((await raw.request('calls.cancel', { callId: 'e' })).result).toEqual({ cancelled: false });
  expect((await raw.request('calls.list', {})).result).toEqual({ calls: [] });
  raw.socket.destroy();
});

test('no principal has more of them than the bound', async () => {
  for (const callId of ['f1', 'f2', 'f3']) await leave(daemon, 'until [ -e gof ]; do sleep 0.01; done', callId);
  expect(await client.call('terminal_execute', { command: 'true' }, { detached: true })).toMatchObject({
    error: { code: 'QUEUE_FULL', details: { retryAfterMs: expect.any(Number) } },
  });
  writeFileSync(join(daemon.workspace, 'gof'), '');
  for (const callId of ['f1', 'f2', 'f3'])
    expect(await ended(client, callId)).toMatchObject({ state: { status: 'done' } });
});

test('calls.list pages over detached calls of others and own ones, each once', async () => {
  await using own = await daemon.connect();
  for (const callId of ['own1', 'd']) await own.call('file_list', {}, { callId });
  const pages: string[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = (await own.request('calls.list', { limit: 2, ...(cursor !== undefined && { cursor }) })) as {
      calls: CallRecord[];
      cursor?: string;
    };
    pages.push(...page.calls.map((it) => it.callId));
    cursor = page.cursor;
    if (cursor === undefined) break;
  }
  expect(pages).toEqual([...new Set(pages)]);
  expect(pages.slice(-2)).toEqual(['own1', 'd']);
  expect(pages).toEqual(expect.arrayContaining(['a', 'b1', 'c', 'e']));
});

test('an ended call is kept over a restart; an interrupted call says that its effect is unknown, or that it did nothing, and never runs again', async () => {
  const [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
  try {
    const first = await startDaemon({ stateDir, workspace });
    await leave(first, 'echo all; seq 1 20000', 'whole');
    await using watching = await first.connect();
    await ended(watching, 'whole');
    await leave(first, 'echo x >>cut; exec -a marker-cut-off sleep 60', 'cut');
    await until(() => existsSync(join(workspace, 'cut')));
    first.process.kill('SIGTERM');
    first.process.kill('SIGTERM');
    await first.ended;
    await until(() => processesWith('marker-cut-off').length === 0);
    expect(statSync(join(stateDir, 'calls.db')).mode & 0o777).toBe(0o600);

    await using second = await openDaemon({ stateDir, workspace });
    await using by = await second.connect();
    const { result } = await by.record('whole');
    expect(result).toMatchObject({ success: true, data: { stdout: expect.stringMatching(/^all\n1\n/) } });
    const ref = refOf(result);
    expect(((await by.request('results.read', { ref, limit: 4 })) as { data: Uint8Array }).data).toEqual(
      Buffer.from('all\n'),
    );
    const unknown = { success: false, error: { code: 'HOST_CRASHED', details: { outcome: 'unknown' } } };
    expect(await by.record('cut')).toMatchObject({ state: { status: 'error' }, result: unknown });
    expect(
      await by.call(
        'terminal_execute',
        { command: 'echo x >>cut; exec -a marker-cut-off sleep 60' },
        { callId: 'cut', detached: true },
      ),
    ).toMatchObject(unknown);
    expect(await ids(by)).toEqual(['whole', 'cut']);
    expect(readFileSync(join(workspace, 'cut'), 'utf8')).toBe('x\n');
  } finally {
    for (const it of [stateDir, workspace]) rmSync(it, { recursive: true, force: true });
  }
});

test('a detached call that waits for a person goes on waiting without its connection, and runs when the person says yes', async () => {
  await using asking = await openDaemon({ policy: WAIT });
  await using person = await asking.connect({ role: 'operator' });
  await using by = await asking.connect();
  await leave(asking, 'echo yes >answered', 'q');
  const { state } = await by.record('q');
  expect(state).toMatchObject({ status: 'blocked-on-user' });
  const { approvalId } = state as { approvalId: string };
  const { call } = (await person.request('approvals.resolve', { approvalId, decision: 'approve' })) as {
    call: CallRecord;
  };
  expect(call.callId).toBe('q');
  expect(await ended(by, 'q')).toMatchObject({
    state: { status: 'done' },
    result: { metadata: { approvalGranted: true } },
  });
  expect(existsSync(join(asking.workspace, 'answered'))).toBe(true);
});

async function cli({ stateDir, socket, workspace }: OpenDaemon, args: readonly string[]) {
  const flags = ['--state', stateDir, '--socket', socket];
  const child = spawn(process.execPath, [ringfence, ...args, ...flags], {
    cwd: workspace,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const code = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await code, stdout, stderr };
}

test('ringfence call --detach says when the call waits for a person, and tells a failure as any other call', async () => {
  await using asking = await openDaemon({ policy: WAIT });
  const waits = await cli(asking, ['call', 'terminal_execute', 'command=id', '--detach']);
  expect(waits).toMatchObject({ code: 0, stderr: expect.stringContaining('waits for approval') });
  const refused = await cli(asking, ['call', 'terminal_execute', 'command=shutdown now', '--detach']);
  expect(refused).toMatchObject({ code: 4, stdout: '', stderr: expect.stringContaining('stop-machine') });
}, 30_000);

test('ringfence call --detach prints the id and returns; result and logs find it', async () => {
  const run = (...args: string[]) => cli(daemon, args);
  const begun = await run(
    'call',
    'terminal_execute',
    'command=until [ -e gog ]; do sleep 0.01; done; echo over',
    '--detach',
  );
  expect(begun).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[0-9a-f-]{36}\n$/) });
  const id = begun.stdout.trim();
  expect(await run('result', id)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/no result yet \(in-progress\)/),
  });
  const waiting = run('result', id, '--wait');
  writeFileSync(join(daemon.workspace, 'gog'), '');
  expect(await waiting).toMatchObject({ code: 0, stdout: 'over\n' });
  expect(await run('logs', id)).toMatchObject({ code: 0, stdout: 'over\n' });
  expect(JSON.parse((await run('result', id, '--json')).stdout)).toMatchObject({ callId: id, success: true });
  expect(await run('result', 'never')).toMatchObject({ code: 1 });
  expect(await run('call', 'no_such_tool', '--detach')).toMatchObject({ code: 1, stdout: '' });
}, 30_000);
