/** What the kernel counts by user, over all processes: sessions that take what they can leave enough to the person's programs. */
import { spawn, spawnSync } from 'node:child_process';
import { chownSync, cpSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { IDENTITIES } from '../support/arena.ts';
import { startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';
import { programs } from '../support/programs.ts';

/** The numbers that a fixture printed, by their names. */
const numbersIn = (output: string): Record<string, number> =>
  Object.fromEntries([...output.matchAll(/^(\w+): (\d+)$/gm)].map(([, name, value]) => [name, Number(value)]));

/** The output of a running call, until it says that all is taken. */
async function untilTaken(client: Client, callId: string): Promise<string> {
  const decoder = new TextDecoder();
  let output = '';
  for await (const { data } of client.output(callId)) {
    output += decoder.decode(data, { stream: true });
    if (output.includes('taken')) break;
  }
  return output;
}

/** Runs a fixture as a command of each client, and `look` while all hold what they took. */
async function whileTaking<T>(program: string, clients: readonly Client[], look: () => T) {
  const command = `perl programs/${program}`;
  const calls = clients.map((it) => it.call('terminal_execute', { command, timeout: 40_000 }));
  const outputs = await Promise.all(calls.map(({ callId }, i) => untilTaken(clients[i] as Client, callId)));
  const left = look();
  for (const [i, { callId }] of calls.entries()) await clients[i]?.request('calls.cancel', { callId });
  await Promise.all(calls);
  return { left, taken: outputs.map(numbersIn) };
}

describe.each(IDENTITIES)('as $name', ({ daemon: owner, workspace: workspaceOwner, isRoot }) => {
  const person = owner ?? workspaceOwner ?? {};

  async function start(): Promise<TestDaemon> {
    const workspace = temporaryDir('ws');
    const daemon = await startDaemon({ workspace, ...(owner && { owner }) });
    if (workspaceOwner) chownSync(workspace, workspaceOwner.uid, workspaceOwner.gid);
    cpSync(programs, join(workspace, 'programs'), { recursive: true });
    return daemon;
  }

  test('two sessions that take all inotify instances and fanotify groups leave the person a quarter of the machine', async () => {
    await using daemon = await start();
    await using one = await daemon.connect();
    await using other = await daemon.connect();
    const look = () => {
      const { stdout } = spawnSync('timeout', ['1', 'perl', join(programs, 'take-counters.pl')], {
        encoding: 'utf8',
        ...person,
      });
      return numbersIn(stdout);
    };
    const { left, taken } = await whileTaking('take-counters.pl', [one, other], look);
    expect(taken.reduce((sum, it) => sum + (it.inotify as number), 0)).toBeGreaterThan(16);
    expect(left.inotify).toBeGreaterThanOrEqual(32);
    expect(left.fanotify).toBeGreaterThanOrEqual(32);
  });

  test.skipIf(isRoot)(
    'a session that sends descriptors and receives none leaves the person free to send them',
    async () => {
      // The person's programs have the soft limit of most machines.
      const usual = spawn('prlimit', ['--nofile=1024', 'sleep', '60'], { ...person, stdio: 'ignore' });
      try {
        await using daemon = await start();
        await using client = await daemon.connect();
        const words = ['--nofile=1024', 'perl', join(programs, 'pass-descriptors.pl'), '1'];
        const look = () => numbersIn(spawnSync('prlimit', words, { encoding: 'utf8', ...person }).stdout);
        const { left, taken } = await whileTaking('pass-descriptors.pl', [client], look);
        expect(taken[0]?.descriptors).toBeGreaterThan(500);
        expect(left.descriptors).toBe(1);
      } finally {
        usual.kill();
      }
    },
  );
});
