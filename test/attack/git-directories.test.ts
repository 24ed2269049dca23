/**
 * Git directories that a command makes or changes, under a policy that allows commands: what their configs and hooks name never
 * runs in the person's git, which looks at the workspace while the command sleeps; what git itself writes stays.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';

let daemon: TestDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await startDaemon();
  execFileSync('git', ['init', '-q', daemon.workspace]);
  // The program that each config and hook names: the person's git runs it, wherever it stands.
  writeFileSync(at('trip.sh'), `#!/bin/sh\necho ran >> '${at('RAN')}'\n`);
  chmodSync(at('trip.sh'), 0o755);
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await agent[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await agent?.[Symbol.asyncDispose]();
  await operator?.[Symbol.asyncDispose]();
  // A session of its own for each attack: the third is paused.
  [agent, operator] = [await daemon.connect(), await daemon.connect({ role: 'operator' })];
  const { items } = await quarantine();
  await quarantine({ drop: items.map(({ path }) => path) });
  rmSync(at('RAN'), { force: true });
});

const at = (path: string) => join(daemon.workspace, path);
const run = (command: string, more: object = {}) =>
  agent.call('terminal_execute', { command, ...more }) as Promise<ToolResult<{ stdout: string; exitCode: number }>>;
interface Listed {
  readonly items: readonly { path: string; runBy: string }[];
  readonly done: readonly string[];
}
const quarantine = (params: object = {}) => operator.request('session.quarantine', params) as Promise<Listed>;
const pathsOf = ({ metadata }: ToolResult) => (metadata.quarantined ?? []).map(({ path }) => path).sort();

/** The person's git in a folder, with their editor's question. */
const lookIn = (folder: string) => spawnSync('git', ['status'], { cwd: at(folder), encoding: 'utf8' });

function readIfThere(path: string): string {
  try {
    return readFileSync(at(path), 'utf8');
  } catch {
    return ''; // ENOENT: it was moved away.
  }
}

/** The longest time in milliseconds that a file held a text, while `work` went on. */
async function seenWhile(path: string, text: string, work: Promise<unknown>): Promise<number> {
  let isOver = false;
  void work.finally(() => (isOver = true));
  let [since, longest] = [0, 0];
  for (; !isOver; await delay(2)) {
    const mode = statSync(at(path), { throwIfNoEntry: false })?.mode ?? 0;
    const isActive = mode > 0 && (!path.includes('/hooks/') || (mode & 0o111) > 0);
    if (isActive && readIfThere(path).includes(text)) since ||= performance.now();
    else since = 0;
    if (since > 0) longest = Math.max(longest, performance.now() - since);
  }
  return longest;
}

const layout = (folder: string) =>
  `mkdir -p ${folder}/objects ${folder}/refs; echo ref: refs/heads/main > ${folder}/HEAD`;
const evilIn = (file: string, more = '') => `printf '[core]\\n\\t${more}fsmonitor = %s/trip.sh\\n' $PWD > ${file}`;

describe('a command that sleeps after it armed a git directory', () => {
  test.each([
    ['sets a key', 'git init -q a; git -C a config core.fsmonitor $PWD/trip.sh', 'a/.git/config', 'a'],
    ['makes one by hand', `${layout('b/.git')}; ${evilIn('b/.git/config')}`, 'b/.git/config', 'b'],
    [
      'writes the config first',
      `mkdir -p c/.git; ${evilIn('c/.git/config')}; ${layout('c/.git')}`,
      'c/.git/config',
      'c',
    ],
    [
      'makes a bare one',
      `${layout('d')}; ${evilIn('d/config', 'bare = false\\n\\tworktree = .\\n\\t')}`,
      'd/config',
      'd',
    ],
    [
      'makes a gitlink',
      `mkdir e; ${layout('e-store')}; ${evilIn('e-store/config')}; echo gitdir: ../e-store > e/.git`,
      'e-store/config',
      'e',
    ],
    [
      'includes a file',
      `git init -q f; ${evilIn('f/team')}; git -C f config include.path ../team`,
      'f/.git/config',
      'f',
    ],
    [
      'names a common directory',
      `mkdir -p g/.git g/c/objects g/c/refs; ${evilIn('g/c/config')}; echo ../c > g/.git/commondir; cp .git/HEAD g/.git`,
      'g/.git/commondir',
      'g',
    ],
    ['makes a hook', 'git init -q h; cp trip.sh h/.git/hooks/post-index-change', 'h/.git/hooks/post-index-change', 'h'],
    [
      'lets a hook be executed',
      'git init -q i; cat trip.sh > i/.git/hooks/post-index-change; sleep 0.3; chmod +x i/.git/hooks/post-index-change',
      'i/.git/hooks/post-index-change',
      'i',
    ],
    ['links the config', `git init -q j; ${evilIn('j/team')}; ln -sf ../team j/.git/config`, 'j/.git/config', 'j'],
    [
      'writes by a second link',
      `git init -q k; ln k/.git/config k/other; sleep 0.3; ${evilIn('k/other')}`,
      'k/.git/config',
      'k',
    ],
    [
      'writes by a mapping',
      `git init -q l; printf '[core]\\n\\tbare = false\\n#%0200d\\n' 0 > l/.git/config; python3 -c '
import mmap, os, time
f = open("l/.git/config", "r+b"); m = mmap.mmap(f.fileno(), 0); f.close(); m[30:31] = b"1"; time.sleep(0.3)
m[0:60] = b"[core]\\n\\tfsmonitor = ./../trip.sh\\n#".ljust(59, b"#") + b"\\n"; time.sleep(1)'`,
      'l/.git/config',
      'l',
    ],
    ['renames a folder', `${layout('m/x')}; ${evilIn('m/x/config')}; mv m/x m/.git`, 'm/.git/config', 'm'],
    [
      'unpacks an archive',
      `${layout('n0/.git')}; git init -q n1; ${evilIn('t')}; cd n1; cp ../t .git/x; cd .git; mv x config`,
      'n1/.git/config',
      'n1',
    ],
    [
      'hides it in a burst of folders',
      `for i in $(seq 1500); do mkdir -p o/$i/hooks; :> o/$i/config; done & ${layout('o/.git')}; ${evilIn('o/.git/config')}; wait`,
      'o/.git/config',
      'o',
    ],
    [
      'keeps the quarantine busy',
      `for i in $(seq 300); do mkdir -p q/$i/.vscode; :> q/$i/.vscode/x; done; sleep 0.2; ${layout('q/.git')}; ${evilIn('q/.git/config')}`,
      'q/.git/config',
      'q',
    ],
    [
      'has a name that is no text',
      `d=$(printf 'p/\\377'); mkdir p; ${layout('"$d"')}; printf '[core]\\nbare=false\\nworktree=..\\nfsmonitor=%s/trip.sh\\n' $PWD > "$d/config"; ln -s "$d" p/.git; cd p; ln -sfn $(printf '\\377') .git`,
      'p/.git/config',
      'p',
    ],
  ])('%s: it is moved away at once, and told', async (_, command, path, folder) => {
    const work = run(`${command}; sleep 1`);
    const seen = await seenWhile(path, path.includes('hooks') ? 'ran' : 'trip', work);
    const result = await work;
    expect(result, JSON.stringify(result)).toMatchObject({ success: true });
    lookIn(folder);
    expect(existsSync(at('RAN'))).toBe(false);
    // Some are found before they get the name.
    expect(pathsOf(result).map((it) => basename(it))).toContain(basename(path));
    expect(seen).toBeLessThan(500);
  });
});

test('a config that a command arms as its last act is gone with its result', async () => {
  const result = await run(`git init -q last; ${evilIn('team')}; mv team last/.git/config`);
  expect(pathsOf(result)).toEqual(['last/.git/config']);
  lookIn('last');
  expect(existsSync(at('RAN'))).toBe(false);
});

test('an existing bare repository that a later command arms is moved away from, too', async () => {
  expect(pathsOf(await run('git init -q --bare later.git'))).toEqual([]);
  const result = await run('printf "[core]\\nfsmonitor = $PWD/trip.sh\\n" >> later.git/config');
  expect(pathsOf(result)).toEqual(['later.git/config']);
});

test('a hook in a repository of the person that had no hooks is moved away', async () => {
  execFileSync('git', ['init', '-q', '--template=', at('bare-of-hooks')]);
  const result = await run('mkdir bare-of-hooks/.git/hooks; cp trip.sh bare-of-hooks/.git/hooks/post-index-change');
  expect(pathsOf(result)).toEqual(['bare-of-hooks/.git/hooks/post-index-change']);
});

test('a config that the person puts back stays, also while later commands change that repository', async () => {
  const named = await run('git init -q kept; git -C kept config alias.hi status');
  expect(pathsOf(named)).toEqual(['kept/.git/config']);
  const { items } = await quarantine();
  expect(items).toMatchObject([{ path: 'kept/.git/config', runBy: expect.stringContaining('git:') }]);
  rmSync(at('kept/.git/config'), { force: true });
  expect((await quarantine({ keep: ['kept/.git/config'] })).done).toEqual(['kept/.git/config']);
  expect(pathsOf(await run('cd kept; git checkout -q -b other; git commit -q --allow-empty -m x'))).toEqual([]);
  expect(readFileSync(at('kept/.git/config'), 'utf8')).toContain('alias');
});

test('the third git directory that names programs ends the command and pauses the session, until the person decides', async () => {
  const command = 'for i in 1 2 3 4; do git init -q strike$i; git -C strike$i config core.editor x; done; sleep 20';
  expect(await run(command)).toMatchObject({ success: false, error: { code: 'APPROVAL_REQUIRED' } });
  expect(await run('true')).toMatchObject({ success: false, error: { code: 'APPROVAL_REQUIRED' } });
  const { items } = await quarantine();
  expect(items.length).toBeGreaterThanOrEqual(3);
  await quarantine({ drop: items.map(({ path }) => path) });
  expect(await run('true')).toMatchObject({ success: true });
});

const HONEST = `set -ex
mkdir honest; cd honest; git init -q one; cd one
git config user.email a@x; git config user.name a; git config commit.gpgsign false
git commit -q --allow-empty -m first; git worktree add -q ../tree; cd ..
git clone -q one two; git clone -q --bare one three.git; git clone -q --mirror one four.git
cd two; git config user.email a@x; git config user.name a; git remote add other ../three.git
git checkout -q -b topic; git commit -q --allow-empty -m second; git push -q -u other topic
git -c protocol.file.allow=always submodule --quiet add ../one sub; git commit -q -m sub; git sparse-checkout init
git -C sub config user.email b@x; git -C sub status -s; git -C ../tree status -s; git branch -vv
`;

test('repositories that git makes, clones, links and connects stay as git leaves them', async () => {
  // A person is asked about a push that the command line names.
  writeFileSync(at('honest.sh'), HONEST);
  const result = await run('sh honest.sh');
  expect(result, JSON.stringify(result)).toMatchObject({ success: true, data: { exitCode: 0 } });
  expect(pathsOf(result)).toEqual([]);
  expect(JSON.stringify(result)).toContain('[other/topic');
  mkdirSync(at('honest/x'));
  expect(lookIn('honest/two/sub').status).toBe(0);
});
