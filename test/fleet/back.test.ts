/** Calls whose node was lost: what their client and the operator learn of them when the node is back. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { removeTree, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';
import { clientOf, linkOf, noBus, TestFleet } from '../support/fleet.ts';

const POLICY = 'tiers:\n  execute: { decision: allow, locks: workspace }\n';
const UNKNOWN = {
  success: false,
  error: { code: 'HOST_CRASHED', details: { outcome: 'unknown', node: 'node-a' } },
};

describe.skipIf(noBus !== undefined)(`a node that is back${noBus ? ` (${noBus})` : ''}`, () => {
  const [stateDir, workspace] = [temporaryDir('back'), temporaryDir('back-ws')];
  let fleet: TestFleet;
  let node: TestDaemon;
  let socket: string;
  beforeAll(async () => {
    fleet = await TestFleet.start();
    node = await fleet.node('node-a', { stateDir, workspace, policy: POLICY });
    socket = await fleet.gateway();
  });
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
    for (const it of [stateDir, workspace]) removeTree(it);
  });

  /** A client that comes back for its session. It names no node: the gateway tells it which one it got. */
  const resuming = (): Promise<Client> => clientOf(socket, { resumeMs: 120_000 });
  const run = (client: Client, callId: string, command: string) =>
    client.call('terminal_execute', { command }, { callId });
  const linesOf = (name: string): number => {
    const path = join(workspace, name);
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n').length - 1 : 0;
  };

  test('a client that resumes its session gets the result of a call that its gateway lost', async () => {
    await using client = await resuming();
    expect((await client.hello).session.node).toBe('node-a');
    const command = 'echo x >> slow; sleep 5; echo done';
    const call = run(client, 'slow-1', command);
    const queued = run(client, 'queued-1', 'echo x >> queued');
    await until(() => linesOf('slow') === 1);
    const link = linkOf(node);
    process.kill(link, 'SIGSTOP');
    try {
      expect(await call).toMatchObject(UNKNOWN);
      expect(await queued).toMatchObject(UNKNOWN);
    } finally {
      process.kill(link, 'SIGCONT');
    }
    await expect.poll(async () => (await client.record('slow-1')).result).toMatchObject({ data: { stdout: 'done\n' } });
    expect(await run(client, 'slow-1', command)).toMatchObject({ success: true, data: { stdout: 'done\n' } });
    expect(linesOf('slow')).toBe(1);
    // What waited when the node was lost is not started for the session that is back.
    await expect
      .poll(async () => (await client.record('queued-1')).result)
      .toMatchObject({ error: { code: 'HOST_CRASHED', details: { outcome: 'none' } } });
    expect(linesOf('queued')).toBe(0);
    expect(await run(client, 'next-1', 'echo x >> next')).toMatchObject({ success: true });
    const told = await fleet.cli('call', 'node-a', 'slow-1');
    expect([told.code, told.stdout]).toEqual([0, expect.stringMatching(/^slow-1 {2}terminal_execute {2}done\n$/)]);
    const whole = await fleet.cli('call', 'node-a', 'slow-1', '--result');
    expect(whole.stdout).toContain('"stdout":"done\\n"');
  });

  test('a call that the end of its node cut off stays unknown, and does not run again when it is asked for', async () => {
    await using client = await resuming();
    const command = 'echo x >> cut; sleep 60';
    const call = run(client, 'cut-1', command);
    await until(() => linesOf('cut') === 1);
    node.process.kill('SIGKILL');
    await node.ended;
    expect(await call).toMatchObject(UNKNOWN);
    node = await fleet.node('node-a', { stateDir, workspace, policy: POLICY });
    expect(await run(client, 'cut-1', command)).toMatchObject({
      error: { code: 'HOST_CRASHED', details: { outcome: 'unknown' } },
    });
    expect((await client.hello).session.resumed).toBeDefined();
    expect(linesOf('cut')).toBe(1);
    const [found] = await fleet.json<{ result: object }[]>('call', 'node-a', 'cut-1', '--result');
    expect(found?.result).toMatchObject({ error: { details: { outcome: 'unknown' } } });
  });

  test('the operator learns of a call that never reached the node, and of a result that is too large', async () => {
    const none = await fleet.cli('call', 'node-a', 'never-1');
    expect([none.code, none.stderr]).toEqual([1, expect.stringContaining('node-a has started no call never-1')]);
    await using client = await clientOf(socket);
    const large = { path: 'large', content: 'x'.repeat(400_000) };
    await client.call('file_write', large);
    expect(await client.call('file_read', { path: 'large' }, { callId: 'large-1' })).toMatchObject({ success: true });
    const { code, stdout, stderr } = await fleet.cli('call', 'node-a', 'large-1', '--result');
    expect([code, stdout]).toEqual([0, expect.stringMatching(/done\n$/)]);
    expect(stderr).toMatch(/the result is left out: \d+ bytes are more than an answer may have; ask for it at node-a/);
  });
});
