/** Kills the write host and the daemon in the middle of a command's undo, and of its journal: files are old or new, never between. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { processesWith, removeTree, startDaemon, temporaryDir, until } from '../support/daemon.ts';
import { treeWithModes } from '../support/workspace.ts';

const FILES = 120;
const COMMAND = `for i in $(seq ${FILES}); do echo new > d/$i; done; chmod 700 d; mkdir made; cp d/* made/; rm gone`;

function fill(workspace: string): void {
  mkdirSync(join(workspace, 'd'), { recursive: true });
  for (let i = 1; i <= FILES; i++) writeFileSync(join(workspace, 'd', `${i}`), `old ${i}\n`);
  writeFileSync(join(workspace, 'gone'), 'here\n');
}

/** The workspace is read in the background; until then commands say that they can't be undone. */
async function ready(client: Client): Promise<void> {
  const run = (command: string) => client.call('terminal_execute', { command });
  await until(async () => (await run('date +%N > .ready')).metadata.undo === 'full', 60_000);
  await run('rm .ready');
}

const undoOf = (client: Client, callId: string) =>
  client.request('calls.undo', { callId }).then(
    (it) => it as { error?: object; conflicts: string[] },
    () => undefined,
  );

/** Waits until an undo has changed its first file, or is over. */
async function begun(undoing: Promise<unknown>, workspace: string): Promise<void> {
  let isOver = false;
  void undoing.then(() => (isOver = true));
  const isNew = (i: number) => readFileSync(join(workspace, 'd', `${i}`), 'utf8') === 'new\n';
  while (!isOver && isNew(1) && isNew(FILES)) await pause(1);
}

test('a host that is killed at any moment of the undo of a command leaves the old files or the new ones', async () => {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  const { workspace } = daemon;
  fill(workspace);
  const before = treeWithModes(workspace);
  await ready(client);
  for (const part of [0, 5, 30]) {
    const made = await client.call('terminal_execute', { command: COMMAND });
    expect(made.metadata.undo).toBe('full');
    const after = treeWithModes(workspace);
    const warm = await client.call('file_write', { path: 'warm', content: '' });
    await client.undo(warm.callId);
    const undoing = undoOf(client, made.callId);
    await begun(undoing, workspace);
    await pause(part);
    try {
      process.kill(warm.metadata.hostPid as number, 'SIGKILL');
    } catch {
      // ESRCH: the host was replaced.
    }
    const answer = await undoing;
    expect(treeWithModes(workspace), `killed after ${part} ms`).toEqual(answer && !answer.error ? before : after);
    if (answer?.error) expect(await undoOf(client, made.callId)).toMatchObject({ conflicts: [] });
    expect(treeWithModes(workspace)).toEqual(before);
    await ready(client);
  }
});

test('a daemon that is killed in the middle of the undo of a command takes the undo back, or has it whole', async () => {
  const [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
  fill(workspace);
  const before = treeWithModes(workspace);
  let after: ReturnType<typeof treeWithModes>;
  let callId: string;
  {
    await using daemon = await startDaemon({ stateDir, workspace });
    await using client = await daemon.connect();
    await ready(client);
    ({ callId } = await client.call('terminal_execute', { command: COMMAND }));
    after = treeWithModes(workspace);
    const undoing = undoOf(client, callId);
    await begun(undoing, workspace);
    daemon.process.kill('SIGKILL');
    await daemon.ended;
    await client[Symbol.asyncDispose]();
    await undoing;
  }
  {
    await using daemon = await startDaemon({ stateDir, workspace });
    await using client = await daemon.connect();
    // The next change of the workspace takes the interrupted one back first.
    const written = await client.call('file_write', { path: 'next', content: '' });
    expect(written).toMatchObject({ success: true });
    await client.undo(written.callId);
    expect([before, after]).toContainEqual(treeWithModes(workspace));
  }
  for (const it of [stateDir, workspace]) removeTree(it);
});

test('a daemon that is killed while a command runs leaves what the command did, and no undo that would do half', async () => {
  const [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
  fill(workspace);
  let callId = '';
  {
    await using daemon = await startDaemon({ stateDir, workspace });
    await using client = await daemon.connect();
    await ready(client);
    callId = 'cut-off-command';
    const running = client
      .call('terminal_execute', { command: `${COMMAND}; touch done` }, { callId, detached: true })
      .catch(() => undefined);
    await until(() => readFileSync(join(workspace, 'd/1'), 'utf8') === 'new\n', 20_000);
    daemon.process.kill('SIGKILL');
    await daemon.ended;
    await client[Symbol.asyncDispose]();
    await running;
    await until(() => processesWith('touch done').length === 0, 20_000);
  }
  const left = treeWithModes(workspace);
  {
    await using daemon = await startDaemon({ stateDir, workspace });
    await using client = await daemon.connect();
    const answer = await undoOf(client, callId);
    expect(answer === undefined || answer.error !== undefined).toBe(true);
    expect(treeWithModes(workspace)).toEqual(left);
  }
  for (const it of [stateDir, workspace]) removeTree(it);
});
