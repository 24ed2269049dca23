/**
 * Protected folders that were there before a command: it has a copy of each, in which checkouts and installers can write. What the
 * person has committed reaches the real folder when the command has ended, anything else does not.
 */
import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
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
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
  git('init', '-q', '-b', 'main', '.');
  put('README', 'x\n');
  put('.vscode/settings.json', '{"main": 1}\n');
  put('.vscode/tasks.json', '{}\n');
  put('.husky/pre-commit', 'true\n');
  put('mise.toml', 'main\n');
  put('.mcp.json', '{}\n');
  git('add', '-A');
  commit('main');
  git('checkout', '-qb', 'other');
  put('.vscode/settings.json', '{"other": 1}\n');
  put('.vscode/sub/new.json', '{"new": 1}\n');
  put('mise.toml', 'other\n');
  git('rm', '-q', '.vscode/tasks.json', '.mcp.json');
  git('add', '-A');
  commit('other');
  git('checkout', '-q', 'main');
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await agent[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
beforeEach(async () => {
  git('checkout', '-qf', 'main');
  git('clean', '-qffdx');
  const { items } = await quarantine();
  await quarantine({ drop: items.map(({ path }) => path) });
});

const at = (path: string) => join(daemon.workspace, path);
const text = (path: string) => readFileSync(at(path), 'utf8');
const put = (path: string, content: string) => {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), content);
};
const git = (...words: string[]) => execFileSync('git', words, { cwd: daemon.workspace, encoding: 'utf8' });
const commit = (message: string) => git('-c', 'user.name=p', '-c', 'user.email=p@x', 'commit', '-qm', message);
const commitAll = () => {
  git('add', '-A');
  git('-c', 'user.name=p', '-c', 'user.email=p@x', 'commit', '-qm', 'x', '--allow-empty');
};
const run = (command: string, more: object = {}) =>
  agent.call('terminal_execute', { command, ...more }) as Promise<ToolResult<{ stdout: string; exitCode: number }>>;
interface Listed {
  readonly items: readonly { path: string }[];
  readonly done: readonly string[];
  readonly errors: readonly { code: string }[];
}
const quarantine = (params: object = {}) => operator.request('session.quarantine', params) as Promise<Listed>;
const pathsOf = ({ metadata }: ToolResult) => (metadata.quarantined ?? []).map(({ path }) => path).sort();
const done = { success: true, data: { exitCode: 0 } };
const AS = 'git -c user.name=a -c user.email=a@x';

describe('programs that have to write in such a folder', () => {
  test('a checkout leaves the texts of its branch on the way there and back, and nothing to commit', async () => {
    const there = await run('git checkout -q other && git status --porcelain');
    expect(there, JSON.stringify(there)).toMatchObject({ ...done, data: { exitCode: 0, stdout: '' } });
    expect(pathsOf(there)).toEqual([]);
    expect(text('.vscode/settings.json')).toBe('{"other": 1}\n');
    expect(text('.vscode/sub/new.json')).toBe('{"new": 1}\n');
    expect([existsSync(at('.vscode/tasks.json')), existsSync(at('.mcp.json'))]).toEqual([false, false]);
    expect(text('mise.toml')).toBe('other\n');
    expect(git('status', '--porcelain')).toBe('');
    const back = await run('git checkout -q main && git status --porcelain');
    expect(back).toMatchObject({ ...done, data: { exitCode: 0, stdout: '' } });
    expect(text('.vscode/settings.json')).toBe('{"main": 1}\n');
    expect([text('.vscode/tasks.json'), text('.mcp.json'), text('mise.toml')]).toEqual(['{}\n', '{}\n', 'main\n']);
    expect(existsSync(at('.vscode/sub'))).toBe(false);
    expect(git('status', '--porcelain')).toBe('');
    expect(git('diff', 'HEAD', '--stat')).toBe('');
  });

  test('a later commit of all changes holds nothing of the checkout before it', async () => {
    await run('git checkout -q other');
    expect(await run(`echo y > README; ${AS} commit -qam x; git show --stat --format=`)).toMatchObject({
      data: { exitCode: 0, stdout: expect.not.stringContaining('.vscode') },
    });
    git('reset', '-q', '--hard', 'HEAD~1');
  });

  test('a stash and its return leave a changed settings file as the person had it', async () => {
    put('.vscode/settings.json', '{"mine": 1}\n');
    put('README', 'mine\n');
    const result = await run(`${AS} stash -q && git status --porcelain && ${AS} stash pop -q`);
    expect(result).toMatchObject({ ...done, data: { stdout: '' } });
    expect(pathsOf(result)).toEqual([]);
    expect([text('.vscode/settings.json'), text('README')]).toEqual(['{"mine": 1}\n', 'mine\n']);
  });

  test('an installation fills an existing folder of hooks, and what it writes is asked about once', async () => {
    const script =
      'const f = require("fs"); f.mkdirSync(".husky/_", { recursive: true }); f.writeFileSync(".husky/_/.gitignore", "*");' +
      'for (const it of ["h", "pre-commit"]) f.writeFileSync(".husky/_/" + it, "sh", { mode: 0o755 })';
    put('prepare.cjs', script);
    put('package.json', JSON.stringify({ name: 'x', version: '1.0.0', scripts: { prepare: 'node prepare.cjs' } }));
    const first = await run('npm install --no-audit --no-fund --offline');
    expect(first, JSON.stringify(first)).toMatchObject(done);
    expect(pathsOf(first)).toEqual(['.husky/_']);
    expect((await quarantine({ keep: ['.husky/_'] })).done).toEqual(['.husky/_']);
    expect(statSync(at('.husky/_/h')).mode & 0o777).toBe(0o755);
    const second = await run('npm install --no-audit --no-fund --offline');
    expect(second).toMatchObject(done);
    expect(pathsOf(second)).toEqual([]);
  });

  test('husky succeeds, the answer tells how a person takes its setting over, and its hooks run from then on', async () => {
    const script =
      'const f = require("fs"); require("child_process").execFileSync("git", ["config", "core.hooksPath", ".husky/_"]);' +
      'f.mkdirSync(".husky/_", { recursive: true });' +
      'f.writeFileSync(".husky/_/pre-commit", "#!/bin/sh\\ntouch ran\\n", { mode: 0o755 })';
    put('prepare.cjs', script);
    put('package.json', JSON.stringify({ name: 'x', version: '1.0.0', scripts: { prepare: 'node prepare.cjs' } }));
    const first = await run('npm install --no-audit --no-fund --offline && git config core.hooksPath');
    expect(first).toMatchObject({ ...done, data: { stdout: expect.stringMatching(/\.husky\/_\n$/) } });
    expect(pathsOf(first)).toEqual(['.husky/_']);
    expect(first.metadata.warnings?.join()).toContain('a person runs `git config core.hooksPath .husky/_`');
    expect(git('config', '--get', '--default', '', 'core.hooksPath')).toBe('\n');
    await quarantine({ keep: ['.husky/_'] });
    git('config', 'core.hooksPath', '.husky/_');
    const second = await run('npm install --no-audit --no-fund --offline');
    expect(second).toMatchObject(done);
    expect([pathsOf(second), second.metadata.warnings ?? []]).toEqual([[], []]);
    commitAll();
    expect(existsSync(at('ran'))).toBe(true);
    git('config', '--unset', 'core.hooksPath');
    git('reset', '-q', '--hard', 'HEAD~1');
  });
});

describe('hooks of the repository', () => {
  const HOOK = '.git/hooks/pre-commit';
  const evil = "printf '#!/bin/sh\\ntouch ran\\n'";
  beforeEach(() => {
    rmSync(at('.git/hooks'), { recursive: true, force: true });
    put('.git/hooks/pre-push.sample', 'sample\n');
  });

  test('an installation that writes them succeeds, and git of the person runs them after a yes only', async () => {
    const script =
      'const f = require("fs"); f.mkdirSync(".git/hooks", { recursive: true });' +
      'f.writeFileSync(".git/hooks/pre-commit", "#!/bin/sh\\ntouch ran\\n"); f.chmodSync(".git/hooks/pre-commit", 0o755)';
    put('prepare.cjs', script);
    put('package.json', JSON.stringify({ name: 'x', version: '1.0.0', scripts: { prepare: 'node prepare.cjs' } }));
    const first = await run('npm install --no-audit --no-fund --offline');
    expect(first, JSON.stringify(first)).toMatchObject(done);
    expect(pathsOf(first)).toEqual([HOOK]);
    commitAll();
    expect([existsSync(at(HOOK)), existsSync(at('ran'))]).toEqual([false, false]);
    expect((await quarantine({ keep: [HOOK] })).done).toEqual([HOOK]);
    commitAll();
    expect(existsSync(at('ran'))).toBe(true);
    const second = await run('npm install --no-audit --no-fund --offline');
    expect(second).toMatchObject(done);
    expect(pathsOf(second)).toEqual([]);
    git('reset', '-q', '--hard', 'HEAD~2');
  });

  test.each([
    ['writes one', `${evil} > ${HOOK}; chmod +x ${HOOK}; sleep 1`],
    ['moves one there', `${evil} > h; chmod +x h; mv h ${HOOK}; sleep 1`],
    ['links one', `${evil} > h; chmod +x h; ln -s ../../h ${HOOK}; sleep 1`],
    ['links one hard', `${evil} > h; chmod +x h; ln h ${HOOK} || cp h ${HOOK}; sleep 1`],
    ['gives a sample its name', `chmod +x .git/hooks/*; mv .git/hooks/pre-push.sample ${HOOK}`],
    ['exchanges the folder', `mv .git/hooks x; mkdir -p .git/hooks; ${evil} > ${HOOK}; chmod +x ${HOOK}`],
    ['makes it beside the mount', `mv .git x; mkdir -p .git/hooks; ${evil} > ${HOOK}; chmod +x ${HOOK}`],
    ['leaves a program that writes on', `(${evil} > ${HOOK}; chmod +x ${HOOK}; sleep 2; chmod +x ${HOOK}) & sleep 1`],
  ])('a command that %s reaches no folder of the person', async (_, command) => {
    let seen = false;
    let isOver = false;
    const work = run(command).finally(() => (isOver = true));
    for (; !isOver; await delay(5)) seen ||= existsSync(at(HOOK));
    expect([seen, existsSync(at(HOOK)), pathsOf(await work).includes(HOOK)]).toEqual([false, false, true]);
  });

  test('a hook is no text of the person because a forged tree of a branch has it', async () => {
    const write = (type: string, input: string | Buffer) =>
      execFileSync('git', ['hash-object', '-w', '-t', type, '--literally', '--stdin'], {
        cwd: daemon.workspace,
        input,
        encoding: 'latin1',
      }).trim();
    const tree = (entry: string, hash: string) =>
      write('tree', Buffer.concat([Buffer.from(`${entry}\0`), Buffer.from(hash, 'hex')]));
    const hooks = tree('100755 pre-commit', write('blob', 'evil\n'));
    const top = tree('40000 .git', tree('40000 hooks', hooks));
    const forged = git('-c', 'user.name=p', '-c', 'user.email=p@x', 'commit-tree', '-m', 'forged', top).trim();
    git('update-ref', 'refs/heads/forged', forged);
    const result = await run(`echo evil > ${HOOK}; chmod +x ${HOOK}`);
    git('update-ref', '-d', 'refs/heads/forged');
    expect([existsSync(at(HOOK)), pathsOf(result)]).toEqual([false, [HOOK]]);
  });

  test('programs in the background find them read-only', async () => {
    const started = await run(`echo x > ${HOOK}; echo $?; sleep 30`, { background: true });
    const { handle } = (started as unknown as { data: { handle: string } }).data;
    await delay(1_000);
    expect(existsSync(at(HOOK))).toBe(false);
    await agent.call('terminal_kill', { handle });
  });

  test('a hook that the person has is neither replaced nor removed, and samples are as the person has them', async () => {
    put(HOOK, 'mine\n');
    const result = await run(`echo evil > ${HOOK}; rm .git/hooks/pre-push.sample; echo x > .git/hooks/other.sample`);
    expect(pathsOf(result)).toEqual([HOOK]);
    expect(text(HOOK)).toBe('mine\n');
    expect(readdirSync(at('.git/hooks')).sort()).toEqual(['pre-commit', 'pre-push.sample']);
    const removal = await run(`rm -f ${HOOK}`);
    expect([text(HOOK), removal.metadata.warnings?.join()]).toEqual(['mine\n', expect.stringContaining(HOOK)]);
  });
});

describe('a command that writes in such a folder on its own account', () => {
  test('its text is never in sight, and replaces the old one only by a yes', async () => {
    let seen = '';
    const work = run(
      'echo evil > .vscode/settings.json; echo evil > .vscode/launch.json; cat .vscode/settings.json; sleep 1',
    );
    let isOver = false;
    void work.finally(() => (isOver = true));
    for (; !isOver; await delay(5))
      seen += [text('.vscode/settings.json'), existsSync(at('.vscode/launch.json'))].join();
    const result = await work;
    expect(result).toMatchObject({ data: { stdout: 'evil\n' } });
    expect(seen).not.toMatch(/evil|true/);
    expect(pathsOf(result)).toEqual(['.vscode/launch.json', '.vscode/settings.json']);
    expect(text('.vscode/settings.json')).toBe('{"main": 1}\n');
    expect((await quarantine({ keep: ['.vscode/settings.json'] })).done).toEqual(['.vscode/settings.json']);
    expect(text('.vscode/settings.json')).toBe('evil\n');
  });

  test('a file that the person saved meanwhile stays, also after a yes', async () => {
    const work = run('echo evil > .vscode/settings.json; git checkout -q other -- .vscode/sub; sleep 1');
    await delay(500);
    put('.vscode/settings.json', 'saved\n');
    put('.vscode/sub/new.json', 'saved\n');
    const result = await work;
    expect(pathsOf(result)).toEqual(['.vscode/settings.json', '.vscode/sub']);
    expect(await quarantine({ keep: ['.vscode/settings.json'] })).toMatchObject({ errors: [{ code: 'CONFLICT' }] });
    expect([text('.vscode/settings.json'), text('.vscode/sub/new.json')]).toEqual(['saved\n', 'saved\n']);
  });

  test.each([
    ['removes it', 'rm -f .husky/pre-commit'],
    ['removes all', 'rm -rf .husky .vscode; true'],
    ['moves it', 'mv .husky/pre-commit moved'],
  ])('%s: it stays, and that is told', async (_, command) => {
    const result = await run(command);
    expect(text('.husky/pre-commit')).toBe('true\n');
    expect(result.metadata.warnings?.join()).toMatch(/still there.*\.husky\/pre-commit/);
  });

  test('a text in a commit of the command is not one of the person', async () => {
    const result = await run(`echo evil > .vscode/tasks.json; ${AS} commit -qam evil; git checkout -q -- .vscode`);
    expect(pathsOf(result)).toEqual(['.vscode/tasks.json']);
    expect(text('.vscode/tasks.json')).toBe('{}\n');
    git('reset', '-q', '--hard', 'HEAD~1');
  });

  test.each([
    ['hard link', 'ln .vscode/settings.json here || cp -l .vscode/settings.json here; echo evil > here; true'],
    ['rename of the folder', 'mv .vscode v; mkdir .vscode; echo evil > .vscode/settings.json; true'],
    ['link to the folder', 'ln -s .vscode way; echo evil > way/settings.json'],
    [
      'bind of the outside',
      'ls -R /run; find / -xdev -name settings.json -newer README -exec sh -c "echo evil > {}" \\;; true',
    ],
  ])('a %s does not reach the real folder', async (_, command) => {
    await run(command);
    expect(text('.vscode/settings.json')).toBe('{"main": 1}\n');
  });

  test('a folder with a link to outside shows nothing of it, and a folder swapped for a link is not copied', async () => {
    const outside = join(dirname(daemon.workspace), 'outside-of-own');
    mkdirSync(outside, { recursive: true });
    writeFileSync(join(outside, 'secret'), 'private');
    try {
      symlinkSync(outside, at('.vscode/way'));
      const result = await run('cat .vscode/way/secret; cat .vscode/way; true');
      expect(JSON.stringify(result)).not.toContain('private');
      rmSync(at('.vscode/way'));
    } finally {
      rmSync(outside, { recursive: true });
    }
  });

  test('more than can be looked at ends as FILE_LIMIT, and nothing of it is taken over', async () => {
    const result = await run(
      'for i in $(seq 2100); do :> .vscode/f$i; done; git checkout -q other -- .vscode/settings.json',
    );
    expect(result).toMatchObject({ success: false, error: { code: 'FILE_LIMIT' } });
    expect(text('.vscode/settings.json')).toBe('{"main": 1}\n');
    expect(await run('ls .vscode')).toMatchObject({ data: { stdout: 'settings.json\ntasks.json\n' } });
  });
});

describe('a single protected file that the person has committed', () => {
  test.each([
    ['is written', 'echo evil > mise.toml; sleep 2'],
    ['is replaced', 'echo evil > new; mv new mise.toml; sleep 2'],
    ['is written by a second link', 'ln mise.toml way; echo evil > way; sleep 2; echo evil >> way'],
    [
      'is written by a mapping',
      'python3 -c \'import mmap; f = open("mise.toml", "r+b"); m = mmap.mmap(f.fileno(), 0); f.close(); m[0:4] = b"evil"\'; sleep 1',
    ],
    [
      'is written by a descriptor that stays open',
      'exec 5>>mise.toml; echo evil >&5; sleep 1.5; echo evil >&5; sleep 1',
    ],
  ])('%s: the text is put back, and a yes replaces it', async (_, command) => {
    const result = await run(command);
    expect(result, JSON.stringify(result)).toMatchObject({ success: true });
    expect(text('mise.toml')).toBe('main\n');
    expect(statSync(at('mise.toml')).nlink).toBe(1);
    expect(pathsOf(result)).toContain('mise.toml');
    expect((await quarantine({ keep: ['mise.toml'] })).done).toContain('mise.toml');
    expect(text('mise.toml')).toContain('evil');
  });

  test('a second link that a command leaves to it leads a later command nowhere', async () => {
    await run('ln mise.toml way');
    expect(statSync(at('mise.toml')).nlink).toBe(1);
    expect(text('mise.toml')).toBe('main\n');
    await run('echo evil > way');
    expect(text('mise.toml')).toBe('main\n');
  });

  test('a command that removes or moves it leaves it where it was, and is told', async () => {
    for (const command of ['rm mise.toml', 'mv mise.toml moved']) {
      const result = await run(command);
      expect(text('mise.toml')).toBe('main\n');
      expect(result.metadata.warnings?.join()).toMatch(/still there.*mise\.toml/);
    }
  });

  test('a text that the person did not commit stays read-only', async () => {
    put('mise.toml', 'mine\n');
    expect(await run('echo evil > mise.toml')).toMatchObject({ data: { exitCode: 1 } });
    expect(text('mise.toml')).toBe('mine\n');
  });

  test('a program in the background can not write what a checkout put in its place', async () => {
    const started = await run('sleep 4; echo evil > mise.toml; sleep 30', { background: true });
    expect(await run('git checkout -q other')).toMatchObject(done);
    await delay(6_000);
    expect(text('mise.toml')).toMatch(/^(?:main|other)\n$/);
    const { handle } = (started as unknown as { data: { handle: string } }).data;
    await agent.call('terminal_kill', { handle });
  });
});

test('a file of such a folder that runs nothing is taken over unasked', async () => {
  const result = await run('echo {} > .vscode/extensions.json');
  expect(pathsOf(result)).toEqual([]);
  expect(text('.vscode/extensions.json')).toBe('{}\n');
});

test('a masked file in such a folder stays hidden', async () => {
  put('.vscode/.env', 'TOKEN=private-7\n');
  const result = await run('cat .vscode/.env; ls -l .vscode; cp -r .vscode copied; cat copied/.env; true');
  expect(JSON.stringify(result)).not.toContain('private-7');
  expect(text('.vscode/.env')).toBe('TOKEN=private-7\n');
  rmSync(at('.vscode/.env'));
});
