/** Detached commands in the background: they go on when their session ends, for the same principal and no other. */

import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Client, createClient } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon, processesWith, until } from '../support/daemon.ts';

const WAIT_MS = 20_000;

const idle = (mark: string) => `echo started; exec -a ${mark} sleep 300`;
const gone = (mark: string) => until(() => processesWith(mark).length === 0, WAIT_MS);
const there = (mark: string) => until(() => processesWith(mark).length > 0, WAIT_MS);
const listed = async (client: Client) => (await dataOf(client.call('terminal_output', {}))).commands as object[];

async function leaveRunning(daemon: OpenDaemon, command: string): Promise<{ handle: string; callId: string }> {
  await using client = await daemon.connect();
  const call = await client.call('terminal_execute', { command, background: true }, { detached: true });
  const { handle } = await dataOf(Promise.resolve(call));
  await dataOf(client.call('terminal_output', { handle: handle as string, waitMs: WAIT_MS }));
  return { handle: handle as string, callId: call.callId };
}

test('a later session of the principal lists it, reads it, and ends it', async () => {
  await using daemon = await openDaemon();
  const { handle } = await leaveRunning(daemon, idle('marker-det-later'));
  await using client = await daemon.connect();
  expect(processesWith('marker-det-later')).not.toEqual([]);
  expect(await listed(client)).toEqual([expect.objectContaining({ handle, exited: false, detached: true })]);
  expect(await dataOf(client.call('terminal_output', { handle }))).toMatchObject({
    output: 'started\n',
    exited: false,
  });
  expect(await dataOf(client.call('terminal_kill', { handle }))).toMatchObject({ ended: true });
  await gone('marker-det-later');
  expect(await dataOf(client.call('terminal_output', { handle }))).toMatchObject({ output: 'started\n', exited: true });
});

test('one that is not detached ends with its session beside it', async () => {
  await using daemon = await openDaemon();
  await leaveRunning(daemon, idle('marker-det-stays'));
  const client = await daemon.connect();
  await dataOf(client.call('terminal_execute', { command: idle('marker-det-goes'), background: true }));
  await there('marker-det-goes');
  expect(await listed(client)).toHaveLength(2);
  await client[Symbol.asyncDispose]();
  await gone('marker-det-goes');
  expect(processesWith('marker-det-stays')).not.toEqual([]);
});

test('an operator sees it and ends it by the id of its call', async () => {
  await using daemon = await openDaemon();
  const { handle, callId } = await leaveRunning(daemon, idle('marker-det-operator'));
  await using operator = await daemon.connect({ role: 'operator' });
  expect(await operator.request('background.list', {})).toMatchObject({
    commands: [{ handle, callId, detached: true, exited: false }],
  });
  expect(await operator.request('calls.cancel', { callId })).toEqual({ cancelled: true });
  await gone('marker-det-operator');
  await until(
    async () => ((await operator.request('calls.cancel', { callId })) as { cancelled: boolean }).cancelled === false,
    WAIT_MS,
  );
});

test('an operator who stops everything ends it, too', async () => {
  await using daemon = await openDaemon();
  await leaveRunning(daemon, idle('marker-det-stop'));
  await using operator = await daemon.connect({ role: 'operator' });
  await operator.request('gateway.pause', { cancel: true });
  await gone('marker-det-stop');
});

test('another principal, another policy and a delegated session find none', async () => {
  await using daemon = await openDaemon();
  const { handle } = await leaveRunning(daemon, idle('marker-det-others'));
  await using own = await daemon.connect();
  const { token } = (await own.request('sessions.attenuate', { expiresIn: 60_000 })) as { token: string };
  const { socket, workspace } = daemon;
  await using delegated = await createClient({ socket, workspace, token });
  await using planning = await createClient({ socket, workspace, mode: 'plan' });
  await using agent = await createClient({ socket, workspace, token: daemon.token('agent') });
  for (const client of [delegated, planning, agent]) {
    expect(await listed(client)).toEqual([]);
    for (const [tool, input] of [
      ['terminal_output', { handle }],
      ['terminal_kill', { handle }],
    ] as const)
      expect(await client.call(tool, input)).toMatchObject({ error: { code: 'NOT_FOUND' } });
  }
  expect(processesWith('marker-det-others')).not.toEqual([]);
  expect(await listed(own)).toHaveLength(1);
});

test('a principal has no more than the bound, and one that has ended makes room', async () => {
  await using daemon = await openDaemon({ limits: { detachedCommandsMax: 1 } });
  const { handle } = await leaveRunning(daemon, idle('marker-det-bound'));
  await using client = await daemon.connect();
  const start = () => client.call('terminal_execute', { command: 'echo hi', background: true }, { detached: true });
  expect(await start()).toMatchObject({ error: { code: 'QUEUE_FULL', details: { limit: 1 } } });
  await dataOf(client.call('terminal_kill', { handle }));
  await until(async () => (await start()).success, WAIT_MS);
});

test('a detached command ends at the longest life, when the policy changes, and with the daemon', async () => {
  await using daemon = await openDaemon({ limits: { terminalLifeMs: 3_000 } });
  await leaveRunning(daemon, idle('marker-det-life'));
  await gone('marker-det-life');

  const other = await openDaemon();
  await leaveRunning(other, idle('marker-det-policy'));
  const rules = 'rules:\n  - { id: x, match: { read: y }, decision: deny, reason: z }\n';
  writeFileSync(join(other.stateDir, 'policy.yaml'), rules);
  await gone('marker-det-policy');
  await leaveRunning(other, idle('marker-det-daemon'));
  await other[Symbol.asyncDispose]();
  await gone('marker-det-daemon');
});
