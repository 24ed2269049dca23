/** Kills a write host and its daemon in the middle of a call and of an undo: files are old or new, never a mix. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';

const FILES = 60;

function fill(workspace: string, text: string): void {
  mkdirSync(join(workspace, 'many'), { recursive: true });
  for (let n = 0; n < FILES; n++) writeFileSync(join(workspace, `many/${n}`), `${text} ${n}\n`.repeat(20));
}

/** The common word of all files, or all words if they differ. */
function wordOf(workspace: string): string {
  const names = readdirSync(join(workspace, 'many'));
  const words = new Set(names.map((it) => readFileSync(join(workspace, 'many', it), 'utf8').slice(0, 3)));
  const strange = names.filter((it) => it.startsWith('.'));
  return [...words, ...strange, ...(names.length === FILES ? [] : [`${names.length} files`])].join(' and ');
}

const edit = (client: Client, find: string, replace: string) =>
  client.call('file_multi_edit', { pattern: '*', path: 'many', find, replace }, { timeoutMs: 20_000 });

async function writeHost(client: Client): Promise<number> {
  let pid = 0;
  await until(async () => {
    const { hosts } = (await client.request('status', {})) as { hosts: { tier: string; pid: number }[] };
    pid = hosts.find((it) => it.tier === 'write')?.pid ?? 0;
    return pid !== 0;
  });
  return pid;
}

/** Kills when a change is visible on disk, some looks later. */
async function killWhen(looks: number, seen: () => boolean, kill: () => void): Promise<void> {
  const from = performance.now();
  for (let left = looks; left > 0 && performance.now() - from < 3000; ) {
    await new Promise((resolve) => setImmediate(resolve));
    if (seen()) left -= 1;
  }
  kill();
}

const journals = ({ stateDir }: TestDaemon): string[] =>
  readdirSync(join(stateDir, 'journal')).flatMap((it) => readdirSync(join(stateDir, 'journal', it)));

test('a host that is killed in the middle of a call leaves every file as it was, and says so', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  fill(daemon.workspace, 'old');
  // The host of writes, which is to be killed, and its folder of journals.
  await dataOf(client.call('file_write', { path: 'awake', content: '' }));
  let crashed = 0;
  for (let round = 0; round < 30; round++) {
    const pid = await writeHost(client).catch(() => 0);
    const before = journals(daemon).length;
    const call = edit(client, 'old', 'new');
    const killed = killWhen(
      1 + round * 3,
      () => journals(daemon).length > before,
      () => pid && tryKill(pid),
    );
    const result = await call;
    await killed;
    if (result.success) {
      expect(wordOf(daemon.workspace)).toBe('new');
      expect(await client.request('calls.undo', { callId: result.callId })).toMatchObject({ conflicts: [] });
    } else {
      crashed += 1;
      expect(result.error).toMatchObject({ code: 'HOST_CRASHED', details: { rolledBack: true } });
    }
    expect(wordOf(daemon.workspace), `round ${round}`).toBe('old');
    await dataOf(client.call('file_write', { path: 'awake', content: '' }));
  }
  expect(crashed).toBeGreaterThan(0);
}, 120_000);

test('an undo whose host is killed is as if it never was', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  fill(daemon.workspace, 'old');
  let crashed = 0;
  for (let round = 0; round < 10; round++) {
    const { callId } = await edit(client, 'old', 'new');
    const pid = await writeHost(client);
    const before = journals(daemon).length;
    const undoing = client.request('calls.undo', { callId }) as Promise<{ error?: { code: string } }>;
    await killWhen(
      1 + round * 5,
      () => journals(daemon).length > before,
      () => tryKill(pid),
    );
    const { error } = await undoing;
    if (error) {
      crashed += 1;
      expect(error).toMatchObject({ code: 'HOST_CRASHED', details: { rolledBack: true } });
      expect(wordOf(daemon.workspace)).toBe('new');
      expect(await client.request('calls.undo', { callId })).toMatchObject({ conflicts: [] });
    }
    expect(wordOf(daemon.workspace), `round ${round}`).toBe('old');
  }
  expect(crashed).toBeGreaterThan(0);
}, 120_000);

test('half a change of a killed daemon is taken back before the next change, and finished changes stay', async () => {
  const workspace = temporaryDir('ws');
  const stateDir = temporaryDir('state');
  try {
    for (let round = 0; round < 6; round++) {
      fill(workspace, 'old');
      const daemon = await startDaemon({ workspace, stateDir });
      const client = await daemon.connect();
      await dataOf(client.call('file_write', { path: 'awake', content: '' }));
      const before = journals(daemon).length;
      const call = edit(client, 'old', 'new').catch(() => undefined);
      await killWhen(
        1 + round * 12,
        () => journals(daemon).length > before,
        () => tryKill(daemon.pid),
      );
      await daemon.ended;
      const result = await call;
      await client[Symbol.asyncDispose]();
      await using next = await startDaemon({ workspace, stateDir });
      await using again = await next.connect();
      await dataOf(again.call('file_write', { path: 'awake', content: '' }));
      expect(wordOf(workspace), `round ${round}`).toBe(result?.success ? 'new' : expectedOf(wordOf(workspace)));
    }
  } finally {
    for (const it of [workspace, stateDir]) rmSync(it, { recursive: true, force: true });
  }
}, 120_000);

/** A call without a known end may have been complete. */
const expectedOf = (word: string): string => (word === 'new' ? 'new' : 'old');

function tryKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // ESRCH: the process of another round.
  }
}
