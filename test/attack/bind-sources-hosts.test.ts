/**
 * A command swaps names while a host of its workspace, a provider's sandbox or a terminal is built. If bubblewrap
 * bound a name that is a link at that moment, the sandbox would show the whole machine below the workspace, writable.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { signalQuietly } from '../../src/base/quiet/signals.ts';
import type { Client } from '../../src/client/client.ts';
import { type TestDaemon, temporaryDir, until } from '../support/daemon.ts';
import { programs } from '../support/programs.ts';
import { FIXTURE, type ProviderArena, startProvider } from '../support/providers.ts';

const SECRET = 'hunter2-outside-of-the-workspace';
const ATTACK_MS = 6_000;
const workspace = temporaryDir('ws');
const outside = temporaryDir('outside');
const secret = join(outside, 'plain.txt');
/** A folder that the attacker's command swaps; sessions may use it as their workspace. */
const decoy = join(workspace, 'decoy');

let provider: ProviderArena;
let daemon: TestDaemon;
let client: Client;
let inside: Client;
beforeAll(async () => {
  mkdirSync(decoy);
  provider = await startProvider(
    { ...FIXTURE, tier: 'read_only', workspace: decoy },
    {
      workspace,
      args: ['--workspace', decoy],
      policy: 'tiers:\n  external_api: { decision: allow }\n',
      limits: { indexSweepMs: 50, providerBackoffMs: 10, providerBackoffMsMax: 20 },
    },
  );
  daemon = provider.daemon;
  client = await daemon.connect();
  inside = await daemon.connect({ workspace: decoy });
}, 60_000);
afterAll(async () => {
  await inside[Symbol.asyncDispose]();
  await client[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
  for (const it of [workspace, outside]) rmSync(it, { recursive: true, force: true });
});

/** Lets a command swap the folder `decoy` for a link, and calls `ask` meanwhile; gives how often each answer came. */
async function underAttack(ask: () => Promise<string>, targets = outside): Promise<Map<string, number>> {
  for (const name of ['plain.txt', '.env.decoy']) writeFileSync(join(outside, name), SECRET);
  rmSync(join(workspace, 'stop'), { force: true });
  cpSync(join(programs, 'swap-pinned.pl'), join(workspace, 'swap-pinned.pl'));
  await using attacker = await daemon.connect();
  const swapping = attacker.call('terminal_execute', {
    command: `perl swap-pinned.pl decoy ${targets}`,
    timeout: 40_000,
  });
  await until(() => execFileSync('ls', ['-A', decoy, workspace], { encoding: 'utf8' }).includes('.env.decoy'));
  const deadline = Date.now() + ATTACK_MS;
  const seen = new Map<string, number>();
  while (Date.now() < deadline) {
    const answer = await ask();
    seen.set(answer, (seen.get(answer) ?? 0) + 1);
  }
  writeFileSync(join(workspace, 'stop'), '');
  expect(await swapping).toMatchObject({ success: true, data: { stdout: expect.stringMatching(/swapped \d{3}/) } });
  for (const it of readdirSync(decoy)) rmSync(join(decoy, it), { recursive: true });
  rmSync(join(workspace, 'other'), { recursive: true, force: true });
  // Masks of removed files would keep the next attacker from moving the folder.
  await setTimeout(1_000);
  return seen;
}

const answersWith = (text: string, seen: Map<string, number>) => [...seen.keys()].filter((it) => it.includes(text));
const MET = 'while the sandbox was built';

/** The answer of a call; kills its host, so that the next call gets a new one. */
async function callOnce(by: Client, tool: 'file_read' | 'file_write' | 'terminal_execute', input: object) {
  const { metadata, ...result } = await by.call(tool, input as never);
  if (metadata.hostPid !== undefined) signalQuietly(metadata.hostPid, 'SIGKILL');
  return result.success ? JSON.stringify(result.data) : `${result.error.code} ${result.error.message}`;
}

test('a command that swaps a folder for a link shows no tool what is outside of the workspace', async () => {
  const seen = await underAttack(() => callOnce(inside, 'file_read', { path: 'plain.txt' }));
  expect(answersWith(SECRET, seen)).toEqual([]);
}, 60_000);

test('a command that swaps a folder for a link has no tool write outside of the workspace', async () => {
  await underAttack(() => callOnce(client, 'file_write', { path: 'decoy/plain.txt', content: 'planted' }));
  expect(readFileSync(secret, 'utf8')).toBe(SECRET);
}, 60_000);

test('a command that swaps a folder for a link shows no provider what is outside, not even at its start', async () => {
  const seen = await underAttack(async () => {
    const result = await inside.call('fix__read', { path: 'plain.txt' });
    const { pid } = await provider.info();
    if (pid !== undefined) signalQuietly(pid, 'SIGKILL');
    return result.success ? JSON.stringify(result.data) : `${result.error.code} ${result.error.message}`;
  });
  expect(answersWith(SECRET, seen)).toEqual([]);
  expect(answersWith(MET, seen)).not.toEqual([]);
}, 60_000);

test('a command that swaps a folder for a link shows no command of a session in that folder what is outside', async () => {
  const seen = await underAttack(() => callOnce(inside, 'terminal_execute', { command: 'cat plain.txt' }));
  expect(answersWith(SECRET, seen)).toEqual([]);
}, 60_000);

test('a command that swaps a folder for a link shows no terminal what is hidden', async () => {
  mkdirSync(join(workspace, 'conf'));
  writeFileSync(join(workspace, 'conf/.env'), SECRET);
  const seen = await underAttack(async () => {
    const command = 'x=env; cat decoy/.$x decoy/conf/.$x';
    const opened = await client.call('terminal_interactive', { action: 'open', command, waitMs: 2_000 } as never);
    if (!opened.success) return `${opened.error.code} ${opened.error.message}`;
    const { sessionId, output } = opened.data as { sessionId: string; output: string };
    await client.call('terminal_interactive', { action: 'close', sessionId });
    return output;
  }, 'conf .');
  expect(answersWith(SECRET, seen)).toEqual([]);
  expect(seen.size).toBeGreaterThan(1);
}, 60_000);
