/** Kills the host and the daemon in the middle of a commit: afterwards the workspace is as before it, or as after it. */
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { CommitResult, ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { dataOf, removeTree, startDaemon, temporaryDir } from '../support/daemon.ts';
import { treeWithModes } from '../support/workspace.ts';

const COMMAND =
  'for i in $(seq 40); do echo new > new$i; echo more >> old/$i; done; rm -r gone; mkdir made && cp old/* made/; chmod 700 old; mv old/1 moved';

function fill(workspace: string): void {
  for (const it of ['old', 'gone']) mkdirSync(join(workspace, it));
  for (let i = 1; i <= 40; i++)
    for (const it of ['old', 'gone']) writeFileSync(join(workspace, it, `${i}`), `${it} ${i}\n`);
}

async function preview(client: Client): Promise<string> {
  const result = (await client.call(
    'terminal_execute',
    { command: COMMAND },
    { preview: true },
  )) as unknown as ToolResult;
  if (!result.success || !result.preview) throw new Error(JSON.stringify(result));
  return result.preview.id;
}

const commit = (client: Client, previewId: string) =>
  client.request('calls.commit', { previewId }) as Promise<CommitResult>;

/** Settles when a commit has made its first file, or is over. */
async function begun(committing: Promise<unknown>, workspace: string): Promise<void> {
  let isOver = false;
  const end = () => (isOver = true);
  committing.then(end, end);
  while (!isOver && !existsSync(join(workspace, 'new1'))) await pause(1);
}

/** The files that the command leaves. */
async function treeAfter(): Promise<Record<string, string>> {
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  fill(daemon.workspace);
  await dataOf(client.call('terminal_execute', { command: COMMAND }));
  return treeWithModes(daemon.workspace);
}

test('a host that is killed at any moment of a commit leaves the old files or the new ones', async () => {
  const after = await treeAfter();
  await using daemon = await startDaemon();
  await using client = await daemon.connect();
  const { workspace } = daemon;
  const outcomes = new Set<string>();
  // The moments are between the first change and the last; a commit takes some 100 ms, on a busy machine more.
  for (const part of [0, 20, 80, 200]) {
    fill(workspace);
    const before = treeWithModes(workspace);
    const warm = await client.call('file_write', { path: 'warm', content: '' });
    await client.undo(warm.callId);
    const committing = commit(client, await preview(client));
    await begun(committing, workspace);
    await pause(part);
    try {
      process.kill(warm.metadata.hostPid as number, 'SIGKILL');
    } catch {
      // ESRCH: the host was replaced.
    }
    const { error } = await committing;
    outcomes.add(error ? 'old' : 'new');
    expect(treeWithModes(workspace), `killed after ${part} ms`).toEqual(error ? before : after);
    for (const it of readdirSync(workspace)) removeTree(join(workspace, it));
  }
  expect(outcomes).toContain('old');
});

test('a daemon that is killed in the middle of a commit takes it back when it starts again', async () => {
  const [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
  fill(workspace);
  const before = treeWithModes(workspace);
  let previewId: string;
  {
    await using daemon = await startDaemon({ stateDir, workspace });
    await using client = await daemon.connect();
    previewId = await preview(client);
    const committing = commit(client, previewId).catch(() => undefined);
    await begun(committing, workspace);
    daemon.process.kill('SIGKILL');
    await daemon.ended;
    await client[Symbol.asyncDispose]();
    await committing;
  }
  {
    await using daemon = await startDaemon({ stateDir, workspace });
    await using client = await daemon.connect();
    // The next change of the workspace takes the interrupted one back first.
    const written = await client.call('file_write', { path: 'next', content: '' });
    expect(written).toMatchObject({ success: true });
    await client.undo(written.callId);
    expect(treeWithModes(workspace)).toEqual(before);
    await expect(commit(client, previewId)).rejects.toThrow('was lost when the daemon restarted');
  }
  for (const it of [stateDir, workspace]) removeTree(it);
});
