/**
 * Kills write hosts, and the daemon, at 200 random moments of calls that change many files: an edit, a preview's commit, an undo, the calls
 * of a batch. Afterwards each has changed all of its files or none, nothing of ours is left in the workspace, and what was cut can be done again.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { CommitResult, ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { removeTree, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';

const FILES = 24;
const PLACES = 5;
// 200 moments by `script/test --all`, or for this file alone; a quarter of them with all others.
const IS_LONG = process.env.RINGFENCE_TEST_ALL !== undefined;
const HOST_ROUNDS = IS_LONG ? 32 : 8;
const DAEMON_ROUNDS = IS_LONG ? 8 : 2;
/** Time from the beginning of a call to the last moment of a kill, as a share of what the same call takes if nobody kills it. */
const LATEST = 1.4;

const KINDS = ['edit', 'commit', 'undo', 'batch'] as const;
type Kind = (typeof KINDS)[number];

/** Moments by a seed that a failure names. */
const seed = Math.floor(Math.random() * 2 ** 31);
let state = seed;
function random(): number {
  state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
  return state / 2 ** 31;
}

function fill(workspace: string, text: string): void {
  for (const folder of ['one', 'two']) {
    mkdirSync(join(workspace, folder), { recursive: true });
    for (let n = 0; n < FILES; n++) writeFileSync(join(workspace, folder, `${n}`), `${text} ${n}\n`.repeat(20));
  }
}

/** The one word that all files of a folder begin with; else what they begin with, and what does not belong there. */
function wordOf(workspace: string, folder: string): string {
  const names = readdirSync(join(workspace, folder));
  const words = new Set(names.map((it) => readFileSync(join(workspace, folder, it), 'utf8').slice(0, 3)));
  return [...words, ...names.filter((it) => !/^\d+$/.test(it)), ...(names.length === FILES ? [] : ['missing'])].join(
    ' ',
  );
}

/** Names of all that is in the workspace and is not of the test. */
const strangeIn = (workspace: string): string[] =>
  readdirSync(workspace, { recursive: true, encoding: 'utf8' }).filter((it) => it.includes('.ringfence-'));

const edit = (client: Client, folder: string, find: string, replace: string) =>
  client.call('file_multi_edit', { pattern: '*', path: folder, find, replace }, { timeoutMs: 20_000 });

/** A change that is ready to begin; each leaves `old` in both folders, or `new` in those that it names. */
interface Change {
  readonly folders: readonly string[];
  /** What the files hold before it. */
  readonly before: string;
  readonly after: string;
  begin(): Promise<unknown>;
}

async function prepare(kind: Kind, client: Client, workspace: string): Promise<Change> {
  fill(workspace, 'old');
  const forth = { before: 'old', after: 'new' };
  switch (kind) {
    case 'edit':
      return { ...forth, folders: ['one'], begin: () => edit(client, 'one', 'old', 'new') };
    case 'batch': {
      const call = (path: string) => ({
        id: path,
        tool: 'file_multi_edit' as const,
        input: { pattern: '*', path, find: 'old', replace: 'new' },
      });
      return { ...forth, folders: ['one', 'two'], begin: () => client.batch([call('one'), call('two')]) };
    }
    case 'commit': {
      const command = 'sed -i s/old/new/ one/*';
      const made = (await client.call('terminal_execute', { command }, { preview: true })) as unknown as ToolResult;
      if (!made.success || !made.preview) throw new Error(JSON.stringify(made));
      const previewId = made.preview.id;
      return {
        ...forth,
        folders: ['one'],
        begin: () => client.request('calls.commit', { previewId }) as Promise<CommitResult>,
      };
    }
    case 'undo': {
      const { callId, success } = await edit(client, 'one', 'old', 'new');
      expect(success).toBe(true);
      return { before: 'new', after: 'old', folders: ['one'], begin: () => client.request('calls.undo', { callId }) };
    }
    default:
      return kind satisfies never;
  }
}

/** What became of a change: of each of its folders, all or nothing. */
function judge({ folders, before, after }: Change, kind: Kind, workspace: string): 'none' | 'all' | 'some' {
  const words = folders.map((it) => wordOf(workspace, it));
  for (const word of words) expect([before, after], `${kind}, seed ${seed}`).toContain(word);
  expect(strangeIn(workspace), `${kind}, seed ${seed}`).toEqual([]);
  return words.every((it) => it === before) ? 'none' : words.every((it) => it === after) ? 'all' : 'some';
}

async function hostOf(client: Client): Promise<number> {
  const { metadata } = await client.call('file_write', { path: 'warm', content: '' });
  return metadata.hostPid as number;
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // ESRCH: it was replaced.
  }
}

const start = (stateDir: string, workspaces: readonly string[]): Promise<TestDaemon> =>
  startDaemon({
    stateDir,
    workspace: workspaces[0] as string,
    args: workspaces.slice(1).flatMap((it) => ['--workspace', it]),
  });

/** Time in ms that changes take which nobody cuts, beside each other. */
async function durationOf(clients: readonly Client[], workspaces: readonly string[]): Promise<number> {
  const changes = await Promise.all(clients.map((it, i) => prepare('edit', it, workspaces[i] as string)));
  // A host that is just started would be measured with its start.
  await Promise.all(clients.map(hostOf));
  const from = performance.now();
  await Promise.all(changes.map((it) => it.begin()));
  return performance.now() - from;
}

test('each call that is cut by a kill of its host or of the daemon has changed all of its files or none', {
  timeout: 600_000,
}, async () => {
  const stateDir = temporaryDir('state');
  const workspaces = Array.from({ length: PLACES }, () => temporaryDir('ws'));
  const seen = { none: 0, all: 0, some: 0 };
  let daemon = await start(stateDir, workspaces);
  let clients = await Promise.all(workspaces.map((workspace) => daemon.connect({ workspace })));
  const latestMs = LATEST * (await durationOf(clients, workspaces));
  for (let round = 0; round < HOST_ROUNDS + DAEMON_ROUNDS; round++) {
    const killsDaemon = round >= HOST_ROUNDS;
    const kinds = workspaces.map((_, i) => KINDS[(round + i) % KINDS.length] as Kind);
    const changes = await Promise.all(clients.map((it, i) => prepare(kinds[i] as Kind, it, workspaces[i] as string)));
    const hosts = await Promise.all(clients.map(hostOf));
    const ends = changes.map(async (change, i) => {
      const ending = change.begin().catch(() => {});
      if (killsDaemon) return ending;
      await pause(random() * latestMs);
      kill(hosts[i] as number);
      return ending;
    });
    if (killsDaemon) {
      await pause(random() * latestMs);
      daemon.process.kill('SIGKILL');
      await daemon.ended;
      await Promise.all(clients.map((it) => it[Symbol.asyncDispose]()));
      await Promise.all(ends);
      daemon = await start(stateDir, workspaces);
      clients = await Promise.all(workspaces.map((workspace) => daemon.connect({ workspace })));
    } else await Promise.all(ends);
    for (const [i, change] of changes.entries()) {
      const kind = kinds[i] as Kind;
      const what = judge(change, kind, workspaces[i] as string);
      seen[what] += 1;
      // Calls of a batch are cut each by itself.
      if (kind !== 'batch') expect(what).not.toBe('some');
    }
    await Promise.all(
      changes.map(async (change, i) => {
        if (kinds[i] !== 'undo' || wordOf(workspaces[i] as string, 'one') !== change.before || killsDaemon) return;
        await change.begin();
        expect(wordOf(workspaces[i] as string, 'one'), `an undo again, seed ${seed}`).toBe(change.after);
      }),
    );
  }
  expect(seen.none).toBeGreaterThan(IS_LONG ? 10 : 2);
  expect(seen.all).toBeGreaterThan(IS_LONG ? 10 : 2);
  await Promise.all(clients.map((it) => it[Symbol.asyncDispose]()));
  await daemon[Symbol.asyncDispose]();
  for (const it of [stateDir, ...workspaces]) removeTree(it);
});
