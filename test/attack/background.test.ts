/** Attacks by commands in the background: on another session's, by floods of output and processes, by what outlives its end. */
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, processesWith, startDaemon, until } from '../support/daemon.ts';

const WAIT_MS = 20_000;

const startIn = async (client: Client, command: string): Promise<string> =>
  (await dataOf(client.call('terminal_execute', { command, background: true }))).handle as string;
const gone = (mark: string) => until(() => processesWith(mark).length === 0, WAIT_MS);
const there = (mark: string, count = 1) => until(() => processesWith(mark).length >= count, WAIT_MS);

/** Leaves the session and the process group of its shell, ignores signals, and holds the output. */
const escaping = (mark: string) =>
  `(setsid bash -c "trap '' HUP TERM INT; (exec -a ${mark} sleep 300) & exec -a ${mark} sleep 300" &) ; exec -a ${mark} sleep 300`;

test("another session's handle is like none: not read, not signalled, not ended, not listed", async () => {
  await using daemon = await startDaemon();
  await using one = await daemon.connect();
  await using two = await daemon.connect();
  const handle = await startIn(one, 'echo secret; exec -a marker-bg-mine sleep 300');
  await there('marker-bg-mine');
  const unknown = await two.call('terminal_output', { handle: '0'.repeat(36) });
  for (const call of [
    two.call('terminal_output', { handle }),
    two.call('terminal_kill', { handle }),
    two.call('terminal_kill', { handle, signal: 'KILL' }),
    two.call('terminal_interactive', { action: 'read', sessionId: handle }),
    two.call('terminal_interactive', { action: 'close', sessionId: handle }),
    // Nor is a command a terminal to its own session.
    one.call('terminal_interactive', { action: 'write', sessionId: handle, data: 'x' }),
  ])
    expect(await call).toMatchObject({ success: false, error: { code: 'NOT_FOUND' } });
  const refused = await two.call('terminal_output', { handle });
  const textOf = (it: typeof refused) => (it.success ? '' : it.error.message.replace(/[0-9a-f-]{36}/, 'ID'));
  expect(textOf(refused)).toBe(textOf(unknown));
  expect(await dataOf(two.call('terminal_output', {}))).toEqual({ commands: [] });
  expect(await dataOf(one.call('terminal_output', { handle, waitMs: WAIT_MS }))).toMatchObject({
    output: 'secret\n',
    exited: false,
  });
});

test('a flood of output fills no memory, keeps nobody waiting, and ends the command at the bound', async () => {
  await using daemon = await startDaemon({ limits: { commandOutputBytesMax: 64 * 1024 * 1024 } });
  await using client = await daemon.connect();
  await using other = await daemon.connect();
  const handle = await startIn(client, 'exec -a marker-bg-flood yes');
  const isEnded = async () =>
    (await dataOf(client.call('terminal_output', { handle, afterSeq: 1e12 }))).exited === true;
  await until(async () => {
    expect(await dataOf(other.call('terminal_execute', { command: 'echo beside' }))).toMatchObject({
      stdout: 'beside\n',
    });
    return isEnded();
  }, 60_000);
  const it = await dataOf(client.call('terminal_output', { handle }));
  expect(it).toMatchObject({ exited: true, endedBy: 'output' });
  expect(Buffer.byteLength(it.output as string)).toBeLessThanOrEqual(32 * 1024);
  expect(it.missedBytes).toBeGreaterThan(63 * 1024 * 1024);
  await gone('marker-bg-flood');
}, 90_000);

test('a killed command takes the processes it forked with it, deaf to signals or in a session of their own', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  for (const input of [{}, { signal: 'KILL' as const }]) {
    const handle = await startIn(client, escaping('marker-bg-fork'));
    await there('marker-bg-fork', 3);
    expect(await dataOf(client.call('terminal_kill', { handle, ...input }))).toMatchObject({ ended: true });
    expect(processesWith('marker-bg-fork')).toEqual([]);
  }
});

test('a command that ends by itself takes its leftover processes with it and closes its output', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  const handle = await startIn(client, '(setsid bash -c "exec -a marker-bg-left sleep 300" &); echo done');
  await until(async () => (await dataOf(client.call('terminal_output', { handle }))).exited === true, WAIT_MS);
  await gone('marker-bg-left');
});

test.each(['SIGTERM', 'SIGKILL'] as const)('nothing is left when the daemon ends by %s', async (signal) => {
  const daemon = await startDaemon();
  const client = await daemon.connect();
  const mark = `marker-bg-daemon-${signal}`;
  await startIn(client, escaping(mark));
  await there(mark, 3);
  daemon.process.kill(signal);
  await daemon.ended;
  await gone(mark);
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

test('a fork bomb ends at the bound on processes, and its owner is told', async () => {
  await using daemon = await startDaemon({ policy: 'tiers:\n  execute: { processes: 16 }\n' });
  await using client = await daemon.connect();
  const handle = await startIn(client, 'while :; do (exec -a marker-bg-bomb sleep 300) & done');
  await until(async () => (await dataOf(client.call('terminal_output', { handle }))).exited === true, 60_000);
  expect(await dataOf(client.call('terminal_output', { handle }))).toMatchObject({ endedBy: 'processes' });
  await gone('marker-bg-bomb');
}, 90_000);

test('a file that comes to be hidden, or is replaced under its mount, ends it before its output is told', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  const secret = join(daemon.workspace, '.env');
  const handle = await startIn(client, 'sleep 300');
  writeFileSync(secret, 'TOKEN=abc\n');
  let refused: unknown;
  await until(async () => {
    const read = await client.call('terminal_output', { handle, afterSeq: 1e9 });
    refused = read.success ? undefined : read.error;
    return !read.success;
  }, WAIT_MS);
  expect(refused).toMatchObject({ code: 'POLICY_DENIED', message: /\.env/ });

  const second = await startIn(client, 'exec -a marker-bg-mask sleep 300');
  await there('marker-bg-mask');
  writeFileSync(`${secret}.new.example`, 'TOKEN=def\n');
  renameSync(`${secret}.new.example`, secret);
  await gone('marker-bg-mask');
  expect(await client.call('terminal_output', { handle: second })).toMatchObject({ success: false });
});

test('a rule that denies a command denies it in the background, too', async () => {
  const policy = 'rules:\n  - { id: no-rm, match: { command: [rm] }, decision: deny, reason: r }\n';
  await using daemon = await startDaemon({ policy });
  await using client = await daemon.connect();
  expect(await client.call('terminal_execute', { command: 'rm -rf x', background: true })).toMatchObject({
    error: { code: 'POLICY_DENIED', rule: 'no-rm' },
  });
});
