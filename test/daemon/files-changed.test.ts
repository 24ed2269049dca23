/** The result of a command lists the files that it changed. */
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon, temporaryDir, until } from '../support/daemon.ts';

/** A generous time limit for a busy machine; this tests the content of the answer. */
const limits = { watchAnswerMs: 20_000, filesChangedMax: 5 };

let daemon: OpenDaemon;
let client: Client;

beforeAll(async () => {
  daemon = await openDaemon({ limits });
  for (const it of ['src', 'old/deep']) mkdirSync(join(daemon.workspace, it), { recursive: true });
  for (const it of ['src/a.ts', 'src/b.ts', 'old/deep/x', '.env']) writeFileSync(join(daemon.workspace, it), 'one\n');
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

async function changedBy(command: string, options = {}) {
  const { metadata } = await client.call('terminal_execute', { command, ...options });
  const { filesChanged, filesChangedTotal, warnings, undo } = metadata;
  return { filesChanged, filesChangedTotal, warnings, undo };
}

describe('a command', () => {
  test('tells what it created, changed and deleted, and that it can be undone', async () => {
    const command =
      'echo two >> src/a.ts; mv src/b.ts src/c.ts; rm -r old; mkdir new empty; echo x > new/n; chmod 600 new/n';
    expect(await changedBy(command)).toEqual({
      filesChanged: [
        { path: 'new/n', kind: 'create' },
        { path: 'src/a.ts', kind: 'modify' },
        { path: 'src/b.ts', kind: 'delete' },
        { path: 'src/c.ts', kind: 'create' },
        { path: 'old/deep/x', kind: 'delete' },
      ],
      filesChangedTotal: undefined,
      warnings: undefined,
      undo: 'full',
    });
  });

  test('a command that changes no file has an empty list of changes', async () => {
    expect((await changedBy('cat src/a.ts > /dev/null; echo x > /tmp/x')).filesChanged).toEqual([]);
  });

  test('tells the number where not all are listed', async () => {
    const told = await changedBy('mkdir many; for i in 1 2 3 4 5 6 7; do echo x > many/$i; done');
    expect(told).toMatchObject({ filesChanged: { length: 5 }, filesChangedTotal: 7 });
  });

  test('a command that fails, or is ended, lists the files that it had changed', async () => {
    expect((await changedBy('echo x > failed; exit 3')).filesChanged).toEqual([{ path: 'failed', kind: 'create' }]);
    const ended = await client.call('terminal_execute', { command: 'echo x > ended; sleep 60', timeout: 500 });
    expect(ended.metadata.filesChanged).toEqual([{ path: 'ended', kind: 'create' }]);
  });

  test('does not tell of what is kept from it, which others changed while it ran', async () => {
    const running = client.call('terminal_execute', { command: 'touch began; until [ -e go ]; do sleep 0.02; done' });
    await until(() => existsSync(join(daemon.workspace, 'began')));
    chmodSync(join(daemon.workspace, '.env'), 0o600);
    writeFileSync(join(daemon.workspace, '.env'), 'SECRET=1\n');
    writeFileSync(join(daemon.workspace, 'go'), '');
    const { metadata } = await running;
    expect(metadata.filesChanged?.map((it) => it.path)).toEqual(['began', 'go']);
    expect(metadata.filesChangedTotal).toBeUndefined();
  });
});

test('git tells what it changed of the work tree, and nothing of its own', async () => {
  await changedBy(
    'rm -rf many && git init -q . && git add src && git -c user.name=a -c user.email=a@b commit -qm x && git branch side',
  );
  const { metadata } = await client.call('terminal_execute', { command: 'git rm -q src/a.ts' });
  expect(metadata.filesChanged).toEqual([{ path: 'src/a.ts', kind: 'delete' }]);
});

test('a workspace with more folders than are followed says that it is not known', async () => {
  const workspace = temporaryDir('ws');
  for (let i = 0; i < 5; i++) mkdirSync(join(workspace, `${i}`));
  await using small = await openDaemon({ workspace, limits: { ...limits, watchedDirectoriesMax: 3 } });
  await using its = await small.connect();
  const { metadata } = await its.call('terminal_execute', { command: 'echo x > y' });
  expect(metadata.filesChanged).toBeUndefined();
  expect(metadata.warnings?.join()).toContain('which files it changed is not known');
});

test('a command beside which other calls ran says that it may tell of theirs', async () => {
  const policy = 'tiers:\n  execute: { decision: allow, locks: none }\n  write: { decision: allow }\n';
  await using open = await openDaemon({ limits, policy });
  await using its = await open.connect();
  const running = its.call('terminal_execute', { command: 'touch began; until [ -e go ]; do sleep 0.02; done' });
  await until(() => existsSync(join(open.workspace, 'began')));
  await dataOf(its.call('file_write', { path: 'go', content: '' }));
  const { metadata } = await running;
  expect(metadata.filesChanged?.map((it) => it.path)).toEqual(['began', 'go']);
  expect(metadata.warnings?.join()).toContain('may hold their changes');
  const alone = await its.call('terminal_execute', { command: 'rm go' });
  expect(alone.metadata.warnings).toBeUndefined();
});

test('a command that changes files without end holds up nobody', async () => {
  await using open = await openDaemon({ policy: 'tiers:\n  execute: { decision: allow, locks: none }\n' });
  await using its = await open.connect();
  await its.call('terminal_execute', { command: 'true' }); // Its host has started.
  const busy = 'while :; do for i in a b c d e f g h; do : > $i; done; done';
  const running = its.call('terminal_execute', { command: `${busy} & ${busy}`, timeout: 3000 });
  await until(() => existsSync(join(open.workspace, 'h')));
  for (let i = 0; i < 5; i++) {
    const { metadata } = await its.call('terminal_execute', { command: 'echo x' });
    expect(metadata.durationMs).toBeLessThan(2000);
    expect(metadata.filesChanged ?? metadata.warnings).toBeDefined();
  }
  expect(await running).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
});
