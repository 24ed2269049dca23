/**
 * Trees of folders that no person makes: their depth, their names and their number end nothing but the command that made
 * them. The daemon, its hosts and other sessions go on, and the next daemon starts.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import {
  type DaemonOptions,
  removeTree,
  startDaemon,
  type TestDaemon,
  temporaryDir,
  until,
} from '../support/daemon.ts';

/** Makes folders in one another: `name` as often as is said. */
const NEST = 'import os, sys\nfor _ in range(int(sys.argv[2])): os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])\n';
const LONG = 'n'.repeat(250);
const GROWTH_MAX = 200 * 1024 * 1024;

let workspace: string;
beforeEach(() => {
  workspace = temporaryDir('trees');
  writeFileSync(join(workspace, 'nest.py'), NEST);
});
// Node's own removal recurses once a level.
afterEach(() => void execFileSync('rm', ['-rf', workspace]));

const nest = (folder: string, name: string, levels: number) =>
  execFileSync('python3', [join(workspace, 'nest.py'), name, `${levels}`], { cwd: folder });

const residentBytes = ({ pid }: TestDaemon): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;

/** The follower may take its time on a busy machine, so that what it says is known when the command ends. */
const start = (more: DaemonOptions = {}) => startDaemon({ workspace, limits: { watchAnswerMs: 20_000 }, ...more });

async function says(client: Client, command: string, timeout = 120_000): Promise<unknown> {
  const result = await client.call('terminal_execute', { command, timeout }, { timeoutMs: 2 * timeout });
  return result.success ? (result.data as { stdout: string }).stdout : result.error.code;
}

/** Commands, files and searches work in the workspace, and so does the next daemon. */
async function goesOn(daemon: TestDaemon, client: Client, before: number): Promise<void> {
  expect(await says(client, 'echo next')).toBe('next\n');
  expect(await client.call('file_read', { path: 'nest.py' })).toMatchObject({ success: true });
  // A host is given no call before each name of the workspace was judged.
  const found = await client.call('file_glob', { pattern: '*.py' }, { timeoutMs: 300_000 });
  expect(found.success ? 'found' : found.error.code).toMatch(/^(found|FILE_LIMIT)$/);
  expect(residentBytes(daemon) - before).toBeLessThan(GROWTH_MAX);
  await daemon[Symbol.asyncDispose]();
  await using second = await start();
  await using its = await second.connect();
  expect(await says(its, 'echo next')).toBe('next\n');
}

const TREES: readonly [string, string, string][] = [
  ['20 000 nested folders', 'python3 nest.py d 20000', 'FILE_LIMIT'],
  ['4 000 levels of names of 250 bytes', `python3 nest.py ${LONG} 4000`, 'FILE_LIMIT'],
];

describe.each(TREES)('%s', (_, command, outcome) => {
  test('a command that makes such a tree ends only itself, and another session is served', {
    timeout: 120_000,
  }, async () => {
    await using daemon = await start();
    await using client = await daemon.connect();
    await using other = await daemon.connect();
    expect(await says(client, 'echo first')).toBe('first\n');
    const before = residentBytes(daemon);
    const [made, beside] = await Promise.all([says(client, command), other.call('file_read', { path: 'nest.py' })]);
    expect(made).toBe(outcome);
    expect(beside.success).toBe(true);
    await goesOn(daemon, client, before);
  });
});

describe('a tree that was there before', () => {
  test('a tree that was there before is followed up to the bounds, and `status` and `doctor` say so', {
    timeout: 120_000,
  }, async () => {
    nest(workspace, 'd', 20_000);
    await using daemon = await start();
    await using client = await daemon.connect({ role: 'operator' });
    const before = residentBytes(daemon);
    await until(async () => {
      const { metadata } = await client.call('terminal_execute', { command: 'echo x > made' });
      return metadata.undo === 'none' && metadata.undoMissing?.[0]?.why === 'unwatched';
    }, 60_000);
    expect(await client.request('status', {})).toMatchObject({ unfollowed: [{ workspace, why: 'path' }] });
    await goesOn(daemon, client, before);
  });
});

/** Half a million by `script/test --all`, or for this file alone: making them takes longer than to bear them. */
const MANY = process.env.RINGFENCE_TEST_ALL === undefined ? 30_000 : 500_000;
const FILL = `import os
os.mkdir('many'); os.chdir('many')
for i in range(${MANY}): os.close(os.open(f'file-{i}', os.O_CREAT))
`;

test.each([
  ['was there before', false],
  ['a command makes', true],
])(
  'a folder of very many files that %s: calls in it are answered, those in another folder at once, and the next daemon starts',
  {
    timeout: 600_000,
  },
  async (_, isMade) => {
    writeFileSync(join(workspace, 'fill.py'), FILL);
    if (!isMade) execFileSync('python3', ['fill.py'], { cwd: workspace });
    const aside = temporaryDir('aside');
    writeFileSync(join(aside, 'small'), '');
    await using daemon = await start({ args: ['--workspace', aside] });
    await using client = await daemon.connect();
    await using other = await daemon.connect({ workspace: aside });
    const before = residentBytes(daemon);
    const run = (command: string) => says(client, command, 300_000);
    const first = isMade ? run('python3 fill.py && echo made') : run('echo first');
    let slowestMs = 0;
    let isOver = false;
    const reads = (async () => {
      while (!isOver) {
        const from = performance.now();
        expect(await other.call('file_read', { path: 'small' })).toMatchObject({ success: true });
        slowestMs = Math.max(slowestMs, performance.now() - from);
        await pause(20);
      }
    })();
    try {
      // On a full machine a command may use up its own time with so many files.
      expect(await first).toMatch(isMade ? /^(made\n|FILE_LIMIT|TIMEOUT)$/ : /^(first\n|FILE_LIMIT)$/);
      expect(await run('echo x > many/file-1 && echo next')).toMatch(/^(next\n|FILE_LIMIT)$/);
    } finally {
      isOver = true;
      await reads;
    }
    expect(slowestMs).toBeLessThan(10_000);
    await goesOn(daemon, client, before);
    removeTree(aside);
  },
);

test('a nested tree in an archive ends the command that unpacks it', { timeout: 120_000 }, async () => {
  const folder = temporaryDir('archive');
  nest(folder, 'd', 5_000);
  execFileSync('tar', ['-cf', join(workspace, 'deep.tar'), '-C', folder, 'd']);
  execFileSync('rm', ['-rf', folder]);
  await using daemon = await start();
  await using client = await daemon.connect();
  const before = residentBytes(daemon);
  expect(await says(client, 'tar -xf deep.tar')).toBe('FILE_LIMIT');
  await goesOn(daemon, client, before);
});

test('a workspace at which two daemons died is not followed by the next one, and by the one after', async () => {
  mkdirSync(join(workspace, 'a'));
  const stateDir = temporaryDir('state');
  const { WalkMarks } = await import('../../src/hosts/follower/walk-marks.ts');
  // As a daemon leaves them that dies while it reads the workspace.
  for (let deaths = 0; deaths < 2; deaths++) new WalkMarks(join(stateDir, 'walks')).begin(workspace);
  for (const unfollowed of [[{ workspace, why: 'deaths' }], []]) {
    await using daemon = await startDaemon({ workspace, stateDir });
    await using client = await daemon.connect({ role: 'operator' });
    expect(await says(client, 'echo x > made')).toBe('');
    expect(await client.request('status', {})).toMatchObject({ unfollowed });
  }
  execFileSync('rm', ['-rf', stateDir]);
});
