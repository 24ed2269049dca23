/** Tools with a broken program say so: in the call, in tools.list, in `status` and `doctor`; and they work again after a repair. */
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import type { ToolInfo } from '../../src/tools/capability.ts';
import {
  dataOf,
  type OpenDaemon,
  processesWith,
  ringfence,
  startDaemon,
  temporaryDir,
  until,
} from '../support/daemon.ts';
import { createRepository } from '../support/repository.ts';

const BROKEN = '#!/bin/sh\necho "git: error while loading shared libraries: libz.so.1" >&2\nexit 127\n';
const OLD = '#!/bin/sh\necho git version 2.20.1\n';
const WORKING = '#!/bin/sh\nexec /usr/lib/git-core/git "$@"\n';
/** A mount namespace needs root. */
const isRoot = process.getuid?.() === 0;

let folder: string;
let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
const setGit = (script: string) => writeFileSync(join(folder, 'git'), script);

beforeAll(async () => {
  if (!isRoot) return;
  folder = temporaryDir('git');
  writeFileSync(join(folder, 'git'), BROKEN, { mode: 0o755 });
  const shadowed = [
    'unshare',
    '-m',
    '/bin/sh',
    '-c',
    'mount --bind "$0" /usr/bin/git && exec "$@"',
    join(folder, 'git'),
  ];
  daemon = await startDaemon({ launcher: shadowed, limits: { healthKeptMs: 1 } });
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
  createRepository(join(daemon.workspace, 'repo')).write('a.txt', 'one\n');
});
afterAll(async () => {
  if (!isRoot) return;
  for (const it of [agent, operator, daemon]) await it[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true });
});

interface Checked {
  health: { name: string; ok: boolean; message?: string }[];
}
const gitStatus = () => agent.call('git_status', { path: 'repo' });
const listed = async (name: string): Promise<ToolInfo> => {
  const info = (await agent.tools()).find((it) => it.name === name);
  if (!info) throw new Error(`${name} is not listed`);
  return info;
};
const checked = async (): Promise<Map<string, Checked['health'][number]>> => {
  const { health } = (await operator.request('status', { health: true })) as Checked;
  return new Map(health.map((it) => [it.name, it]));
};
function run(...args: string[]): string {
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: '/nonexistent',
    RINGFENCE_CONFIG: join(daemon.stateDir, 'config.yaml'),
  };
  const words = [ringfence, ...args, '--state', daemon.stateDir, '--socket', daemon.socket];
  return execFileSync(process.execPath, words, { env, cwd: daemon.workspace, encoding: 'utf8' });
}

test.runIf(isRoot)('git tools say that git does not run, wherever somebody looks, until it does', async () => {
  expect((await listed('git_status')).health).toBeUndefined();
  expect(await gitStatus()).toMatchObject({
    success: false,
    error: {
      code: 'UNSUPPORTED',
      message: expect.stringMatching(/git can't be run .*libz/),
      details: { reason: 'not-ready' },
    },
  });
  const bad = { ok: false, message: expect.stringContaining('libz') };
  // Known from the call for this tool alone, and from a check for all tools that share it.
  expect((await listed('git_status')).health).toEqual(bad);
  expect((await listed('git_log')).health).toBeUndefined();
  const health = await checked();
  for (const name of ['git_status', 'git_log', 'git_commit']) expect(health.get(name)).toMatchObject(bad);
  for (const name of ['file_grep', 'terminal_execute', 'workspace_structure'])
    expect(health.get(name)).toEqual({ name, ok: true });
  expect(health.has('file_write')).toBe(false);
  expect((await listed('git_log')).health).toEqual(bad);
  expect(run('tools', 'git_log')).toMatch(/does not work now: .*libz/);
  expect(run('status', '--health')).toMatch(/git_branch, git_commit.*: .*libz/);
  const { findings } = JSON.parse(run('doctor', '--workspace', daemon.workspace, '--json')) as {
    findings: { id: string }[];
  };
  expect(findings.find((it) => it.id === 'tools')).toMatchObject({
    status: 'warning',
    found: expect.stringMatching(/git_status.*libz/),
  });

  setGit(OLD);
  expect(await gitStatus()).toMatchObject({
    error: { code: 'UNSUPPORTED', message: expect.stringMatching(/2\.20\.1.* 2\.31/) },
  });

  setGit(WORKING);
  expect(await dataOf(gitStatus())).toMatchObject({ untracked: ['repo/a.txt'] });
  expect((await listed('git_status')).health).toBeUndefined();
  expect((await checked()).get('git_log')).toEqual({ name: 'git_log', ok: true });
  expect((await listed('git_log')).health).toBeUndefined();
});

test.runIf(isRoot)('a tool that worked in a thread once is not checked before each call', async () => {
  setGit(WORKING);
  await dataOf(gitStatus());
  setGit(`#!/bin/sh\ncase "$*" in *--version) exit 1;; esac\n${WORKING}`);
  expect(await gitStatus()).toMatchObject({ success: true });
});

test.runIf(isRoot)('an agent is told nothing of health by status', async () => {
  await expect(agent.request('status', { health: true })).rejects.toThrow('only operators');
});

test.runIf(isRoot)("a session's terminals end with it", async () => {
  const one = await daemon.connect();
  const marker = `sleep 9876.${process.pid}`;
  await dataOf(one.call('terminal_interactive', { command: `exec ${marker}` }));
  expect(processesWith(marker.replace(' ', '\0'))).not.toEqual([]);
  await one[Symbol.asyncDispose]();
  await until(() => processesWith(marker.replace(' ', '\0')).length === 0);
});
