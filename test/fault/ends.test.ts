/** Ends calls in every way, whatever the command does to outlive it: nothing is left, and nobody waits for a pipe. */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await startDaemon();
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** MARK stands for the name by which the processes are found. */
const trees: [string, string, number][] = [
  ['has a session of its own', 'setsid bash -c "exec -a MARK sleep 60" & exec -a MARK sleep 60', 2],
  ['forked twice', '( (exec -a MARK sleep 60 &) & ); exec -a MARK sleep 60', 2],
  ['is under nohup', 'nohup bash -c "exec -a MARK sleep 60" >/dev/null 2>&1 & exec -a MARK sleep 60', 2],
  ['left its output to a grandchild', '(bash -c "exec -a MARK sleep 60" &); exec -a MARK sleep 60', 2],
  ['ignores SIGTERM and SIGHUP', "trap '' TERM HUP; (exec -a MARK sleep 60); sleep 60", 1],
];

describe.each(trees)('a command that %s', (name, script, processes) => {
  const mark = (by: string) => `marker-${by}-${name.replaceAll(' ', '-')}`;
  const begin = async (of: Client, by: string, callId: string) => {
    const command = script.replaceAll('MARK', mark(by));
    const running = of.call('terminal_execute', { command }, { callId });
    running.catch(() => {}); // The connection ends.
    await until(() => processesNamed(mark(by)).length === processes);
    return { running };
  };

  test('a command is answered and ended when it is cancelled, at the latest after its grace', async () => {
    const { running } = await begin(client, 'cancel', name);
    const from = performance.now();
    await client.request('calls.cancel', { callId: name });
    expect(await running).toMatchObject({ error: { code: 'CANCELLED' } });
    expect(performance.now() - from).toBeLessThan(700 + 1500);
    await until(() => processesWith(mark('cancel')).length === 0, 1000);
  });

  test('a command is ended without a grace when its connection ends', async () => {
    const other = await daemon.connect();
    await begin(other, 'disconnect', name);
    await other[Symbol.asyncDispose]();
    await until(() => processesWith(mark('disconnect')).length === 0, 2000);
  });
});

test('the daemon’s end tells each client why, refuses what is new, lets what runs go on for the grace, and leaves nothing', async () => {
  await using ending = await startDaemon();
  const raw = new RawPeer(ending.socket);
  await raw.hello({ workspace: ending.workspace });
  const call = (id: string, command: string) =>
    raw.send({ id, method: 'tools.call', params: { tool: 'terminal_execute', input: { command } } });
  call('short', 'sleep 0.3; echo done');
  call('long', 'setsid bash -c "exec -a marker-of-the-end sleep 60" & exec -a marker-of-the-end sleep 60');
  await until(() => processesNamed('marker-of-the-end').length === 2);
  await using operator = await ending.connect({ role: 'operator' });
  await operator.request('shutdown', { graceMs: 1000 });
  const closing = await raw.answer((it) => it.method === 'session.closing');
  expect(closing.params).toMatchObject({ reason: expect.stringMatching(/operator/) });
  call('new', 'true');
  const { result: refused } = await raw.answer((it) => it.id === 'new');
  expect(refused).toMatchObject({ success: false, error: { code: 'SHUTTING_DOWN', recoverable: true } });
  const { result: short } = await raw.answer((it) => it.id === 'short');
  expect(short).toMatchObject({ success: true, data: { stdout: 'done\n' } });
  const { result: long } = await raw.answer((it) => it.id === 'long');
  expect(long).toMatchObject({ success: false, error: { code: 'SHUTTING_DOWN' } });
  expect(await ending.ended).toBe(0);
  expect(processesWith('marker-of-the-end')).toEqual([]);
  await raw.closed;
});

/** Processes whose first word is the mark, not those that will become one. */
function processesNamed(mark: string): number[] {
  return processesWith(mark).filter((pid) => firstWordOf(pid) === mark);
}

function firstWordOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')[0];
  } catch {
    return undefined; // ENOENT: ended meanwhile.
  }
}
