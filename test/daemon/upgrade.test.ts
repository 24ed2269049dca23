/** One daemon hands over to the next: nothing is lost, nothing happens twice, and a new one that fails changes nothing. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { beginCli, endOf, runCli } from '../support/cli.ts';
import { dataOf, type TestDaemon, until } from '../support/daemon.ts';
import { begun, go, isHandingOver, UNTIL_GO, upgradable } from '../support/upgrade.ts';
import { loadDuringUpgrades } from '../support/upgrade-load.ts';

const ASK = 'tiers:\n  execute: { decision: ask }\n';

async function pidOf(daemon: TestDaemon): Promise<number> {
  await using client = await daemon.connect();
  return ((await client.request('status', {})) as { pid: number }).pid;
}

/** Asks for an upgrade over a connection; gives the pid of the new daemon, which waits for its turn. */
async function askForUpgrade(daemon: TestDaemon): Promise<number> {
  await using operator = await daemon.connect({ role: 'operator' });
  return ((await operator.request('upgrade', {})) as { pid: number }).pid;
}

const resuming = ({ socket, workspace }: TestDaemon) => createClient({ socket, workspace, resumeMs: 60_000 });

describe('ringfence upgrade', () => {
  test('replaces the process, keeps the socket, and tells clients why', { timeout: 60_000 }, async () => {
    await using daemon = await upgradable();
    await using client = await daemon.connect();
    const told: unknown[] = [];
    void (async () => {
      for await (const it of client.notifications(['calls'])) told.push(it);
    })();
    const { code, stdout, stderr } = await runCli(daemon, ['upgrade', '--json']);
    expect([code, stderr]).toEqual([0, expect.stringContaining('is ready to take over')]);
    const { pid } = JSON.parse(stdout) as { pid: number };
    expect(pid).not.toBe(daemon.pid);
    expect(await pidOf(daemon)).toBe(pid);
    expect(await daemon.ended).toBe(0);
    expect(told).toContainEqual({ method: 'session.closing', params: { reason: 'upgrade' } });
    await dataOf(client.call('file_list', {}));
  });

  test('lets a running call end, and keeps the result of a detached one', { timeout: 60_000 }, async () => {
    await using daemon = await upgradable();
    await using client = await daemon.connect();
    await using other = await resuming(daemon);
    const { callId } = await other.call('terminal_execute', { command: 'echo kept' }, { detached: true });
    const running = client.call('terminal_execute', { command: UNTIL_GO });
    await begun(daemon);
    const upgrade = beginCli(daemon, ['upgrade']);
    await until(() => isHandingOver(daemon));
    // The daemon serves as usual while the first calls end.
    await dataOf(other.call('file_write', { path: 'meanwhile', content: '' }));
    go(daemon);
    expect((await dataOf(running)).stdout).toBe('done\n');
    expect(await endOf(upgrade)).toBe(0);
    expect(await pidOf(daemon)).not.toBe(daemon.pid);
    const { result } = await other.record(callId);
    expect(result).toMatchObject({ success: true, data: { stdout: 'kept\n' } });
  });

  test('keeps the question of a call that waits for a person', { timeout: 60_000 }, async () => {
    await using daemon = await upgradable({ policy: ASK });
    await using client = await daemon.connect();
    const call = client.call('terminal_execute', { command: 'echo once >> effects' });
    type Question = { approvalId: string };
    const questions = async () => {
      await using operator = await daemon.connect({ role: 'operator' });
      return ((await operator.request('approvals.list', {})) as { approvals: Question[] }).approvals;
    };
    await until(async () => (await questions()).length === 1);
    const before = await questions();
    expect((await runCli(daemon, ['upgrade'])).code).toBe(0);
    expect((await questions()).map((it) => it.approvalId)).toEqual(before.map((it) => it.approvalId));
    expect((await runCli(daemon, ['approvals', 'approve', before[0]?.approvalId as string])).code).toBe(0);
    await dataOf(call);
    expect(readFileSync(join(daemon.workspace, 'effects'), 'utf8')).toBe('once\n');
  });

  test('subscriptions of resumed clients follow an upgrade, and say that they missed something', {
    timeout: 60_000,
  }, async () => {
    await using daemon = await upgradable();
    await using client = await resuming(daemon);
    const told: { method: string; params: Record<string, unknown> }[] = [];
    void (async () => {
      for await (const it of client.notifications(['calls'])) told.push(it);
    })();
    const states = (callId: string) => told.filter(({ params }) => params.callId === callId).length;
    await dataOf(client.call('file_list', {}, { callId: 'before' }));
    await until(() => states('before') > 0);
    expect((await runCli(daemon, ['upgrade'])).code).toBe(0);
    await dataOf(client.call('file_list', {}, { callId: 'after' }));
    await until(() => states('after') > 0);
    expect(told.filter(({ method }) => method === 'events.missed')).toEqual([
      { method: 'events.missed', params: { topics: ['calls'] } },
    ]);
    expect(new Set(told.filter(({ params }) => params.callId === 'after').map(({ params }) => params.seq)).size).toBe(
      states('after'),
    );
  });

  test('leaves an operator who answers questions answering them', { timeout: 60_000 }, async () => {
    await using daemon = await upgradable({ policy: ASK });
    const { socket } = daemon;
    const token = daemon.token('operator');
    await using operator = await createClient({ socket, role: 'operator', token, resumeMs: 60_000 });
    using _ = await operator.onApproval(() => ({ decision: 'approve' }));
    expect((await runCli(daemon, ['upgrade'])).code).toBe(0);
    await using client = await daemon.connect();
    expect((await dataOf(client.call('terminal_execute', { command: 'echo yes' }))).stdout).toBe('yes\n');
  });

  test('changes nothing if the new daemon does not start', { timeout: 60_000 }, async () => {
    await using daemon = await upgradable();
    await using client = await daemon.connect();
    writeFileSync(join(daemon.stateDir, 'config.yaml'), '{"limit": 1}');
    const { code, stderr } = await runCli(daemon, ['upgrade']);
    expect(code).toBe(1);
    expect(stderr).toContain('the new daemon did not start, and this one goes on');
    expect(stderr).toContain('limit is unknown; did you mean limits?');
    await dataOf(client.call('file_list', {}));
    expect(await pidOf(daemon)).toBe(daemon.pid);
  });

  test('leaves the old daemon serving if the new one dies before its turn', { timeout: 60_000 }, async () => {
    await using daemon = await upgradable();
    await using client = await resuming(daemon);
    const running = client.call('terminal_execute', { command: UNTIL_GO });
    await begun(daemon);
    process.kill(await askForUpgrade(daemon), 'SIGKILL');
    go(daemon);
    expect((await dataOf(running)).stdout).toBe('done\n');
    await until(() => daemon.log().includes('the new daemon failed'));
    await dataOf(client.call('file_list', {}));
    expect(await pidOf(daemon)).toBe(daemon.pid);
  });

  test('ends with `ringfence stop`, and the new daemon with it', { timeout: 60_000 }, async () => {
    await using daemon = await upgradable();
    await using client = await daemon.connect();
    const running = client.call('terminal_execute', { command: UNTIL_GO });
    await begun(daemon);
    const pid = await askForUpgrade(daemon);
    await until(() => isHandingOver(daemon));
    expect((await runCli(daemon, ['stop'])).code).toBe(0);
    expect((await running).success).toBe(false);
    expect(existsSync(`/proc/${pid}`)).toBe(false);
    expect(existsSync(daemon.socket)).toBe(false);
  });

  test('loses and doubles no call of clients that go on calling', { timeout: 120_000 }, async () => {
    await using daemon = await upgradable();
    const load = { callsPerSecond: 20, clients: 3, callsPerEdit: 2, upgrades: 2, betweenMs: 300, resumeMs: 60_000 };
    const { calls, failed, lost, doubled } = await loadDuringUpgrades(daemon, load);
    expect({ failed, lost, doubled }).toEqual({ failed: [], lost: 0, doubled: 0 });
    expect(calls).toBeGreaterThan(10);
  });

  test('only operators may use upgrade, and its time is at most a day', { timeout: 60_000 }, async () => {
    await using daemon = await upgradable();
    await using client = await daemon.connect();
    await expect(client.request('upgrade', {})).rejects.toThrow('only operators may use upgrade');
    const { code, stderr } = await runCli(daemon, ['upgrade', '--drain', '25h']);
    expect([code, stderr]).toEqual([2, expect.stringContaining('--drain is 25h')]);
  });
});
