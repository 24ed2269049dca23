/** Daemons that a client started by itself. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { endWhenIdle } from '../../src/daemon/idle-exit.ts';
import { processesWith, removeTree, ringfence, temporaryDir, until } from '../support/daemon.ts';

let home: string;
let state: string;
let project: string;
beforeEach(() => {
  home = temporaryDir('home');
  state = join(home, 'state');
  project = join(home, 'project');
  mkdirSync(project);
});
afterEach(async () => {
  run(['stop']);
  await until(() => processesWith(state).length === 0);
  removeTree(home);
});

function run(words: string[], { cwd = project, env = {} } = {}) {
  const all = { PATH: process.env.PATH ?? '', HOME: home, RINGFENCE_STATE: state, XDG_CONFIG_HOME: home, ...env };
  return spawnSync(process.execPath, [ringfence, ...words], { cwd, env: all, encoding: 'utf8' });
}

/** Half a second, as minutes of config.yaml. */
const SOON = 'idleExitMinutes: 0.0083\n';

function configure(text: string): void {
  mkdirSync(join(home, 'ringfence'));
  writeFileSync(join(home, 'ringfence/config.yaml'), text);
}

test('a daemon that a call started ends when nobody uses it, but not while a client is connected', async () => {
  configure(SOON);
  expect(run(['call', 'file_list']).status).toBe(0);
  await until(() => processesWith(state).length === 0);
  expect(run(['call', 'file_list']).status).toBe(0);
  {
    await using client = await createClient({ socket: join(state, 'ringfence.sock'), workspace: project });
    // Long enough for it to end three times.
    const began = performance.now();
    while (performance.now() - began < 1500) expect((await client.call('file_list', {})).success).toBe(true);
    expect(processesWith(state).length).toBeGreaterThan(0);
  }
  await until(() => processesWith(state).length === 0);
});

test('only a daemon that a client started ends by itself', () => {
  const flags = () =>
    processesWith(state)
      .map((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8'))
      .join('\n');
  expect(run(['call', 'file_list']).status).toBe(0);
  expect(flags()).toContain('--end-when-idle');
  run(['stop']);
  expect(run(['serve', '--detach']).status).toBe(0);
  expect(flags()).toContain('ringfence');
  expect(flags()).not.toContain('--end-when-idle');
});

test('the time without use is counted anew after each use, and 0 minutes are for ever', () => {
  let [nowMs, isIdle, ended] = [0, true, 0];
  const looks: { fn: () => void; everyMs: number }[] = [];
  const powers = {
    monotonicMs: () => nowMs,
    every(everyMs: number, fn: () => void) {
      const look = { everyMs, fn };
      looks.push(look);
      return { cancel: () => void looks.splice(looks.indexOf(look), 1) };
    },
  };
  const look = (afterMs: number) => {
    nowMs += afterMs;
    for (const { fn } of [...looks]) fn();
  };
  const begin = (minutes: number) => endWhenIdle({ minutes, isIdle: () => isIdle, end: () => (ended += 1) }, powers);
  begin(0);
  expect(looks).toEqual([]);
  begin(30);
  look(29 * 60_000);
  expect(ended).toBe(0);
  isIdle = false;
  look(60 * 60_000);
  isIdle = true;
  look(29 * 60_000);
  expect(ended).toBe(0);
  look(60_000);
  expect([ended, looks]).toEqual([1, []]);
});

test.each([['/'], ['/tmp'], ['/var/tmp'], [tmpdir()]])('no call starts a daemon in %s', async (cwd) => {
  const { status, stderr } = run(['call', 'file_list'], { cwd });
  expect(status).not.toBe(0);
  expect(stderr).toMatch(
    /is no project; go to the folder of a project, or allow it with --workspace|can't be a workspace/,
  );
  // The one that refused may still be ending.
  await until(() => processesWith(state).length === 0);
});

test('no client starts a daemon in the home directory or in $TMPDIR', () => {
  const inHome = run(['call', 'file_list'], { cwd: home });
  expect(inHome.stderr).toContain("the home directory can't be a workspace");
  const inTmpdir = run(['call', 'file_list'], { env: { TMPDIR: project } });
  expect(inTmpdir.stderr).toContain('holds the temporary files of all programs');
  const bridge = run(['mcp'], { env: { TMPDIR: project } });
  expect(bridge.stderr).toContain('holds the temporary files of all programs');
  expect(processesWith(state)).toEqual([]);
  expect(existsSync(join(state, 'audit.db'))).toBe(false);
});

test('a caller that names the folder of temporary files gets it', () => {
  expect(run(['call', 'file_list', '--workspace', project], { env: { TMPDIR: project } }).status).toBe(0);
});
