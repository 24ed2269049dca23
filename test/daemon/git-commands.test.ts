/** git in commands: the author of commits, and what they set in a repository's config. */
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { toGitConfig } from '../../src/sandbox/git/commit-author.ts';
import { dataOf, type OpenDaemon, openDaemon, temporaryDir, until } from '../support/daemon.ts';
import { createRepository, type TestRepository } from '../support/repository.ts';

let daemon: OpenDaemon;
let client: Client;
let home: string;
beforeAll(async () => {
  home = temporaryDir('home');
  writeFileSync(join(home, '.gitconfig'), '[user]\n\tname = Grace Hopper\n\temail = grace@example.org\n');
  daemon = await openDaemon({ env: { HOME: home } });
  client = await daemon.connect();
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  rmSync(home, { recursive: true });
});

async function run(command: string, cwd: string) {
  const result = await client.call('terminal_execute', { command, cwd });
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
  return { ...result.data, warnings: result.metadata.warnings ?? [] };
}

const repositoryAt = (name: string): TestRepository => createRepository(join(daemon.workspace, name));
const BY = 'git log -1 --format="%an %ae %cn %ce"';
const GRACE = 'Grace Hopper grace@example.org';

describe('a commit of a command', () => {
  test("a command's commit is by the person where nothing else names an author", async () => {
    const repository = repositoryAt('plain');
    for (const key of ['user.name', 'user.email']) repository.git('config', '--unset', key);
    const { stdout, stderr } = await run(`git commit -qm x --allow-empty; ${BY}`, 'plain');
    expect([stdout, stderr]).toEqual([`${GRACE} ${GRACE}\n`, '']);
  });

  test.each([
    ['the repository', ''],
    ['a variable', 'export GIT_AUTHOR_NAME=Ada GIT_COMMITTER_NAME=Ada;'],
    ['the settings of the command', 'git config --global user.name Eve;'],
  ])("a command's commit is by the author that %s names", async (who, before) => {
    const repository = repositoryAt(`said-${who.length}`);
    if (before !== '') for (const key of ['user.name', 'user.email']) repository.git('config', '--unset', key);
    // Settings of the home last for the session.
    const after = 'git config --global --unset user.name || true';
    const { stdout } = await run(`${before} git commit -qm x --allow-empty; ${BY}; ${after}`, `said-${who.length}`);
    const name = before.includes('Eve') ? 'Eve' : 'Ada';
    const mail = before === '' ? 'ada@example.org' : 'grace@example.org';
    expect(stdout).toBe(`${name} ${mail} ${name} ${mail}\n`);
  });

  test('a commit in a terminal is by the person, and in a repository that the command makes by its settings', async () => {
    repositoryAt('maker');
    const own = 'cd "$(mktemp -d)" && git init -q . && git config user.name Own && git commit -qm x --allow-empty';
    expect((await run(`${own}; ${BY}`, 'maker')).stdout).toBe('Own grace@example.org Own grace@example.org\n');
    const command = `cd "$(mktemp -d)" && git init -q . && git commit -qm x --allow-empty && ${BY}`;
    const { sessionId = '' } = await dataOf(client.call('terminal_interactive', { action: 'open', command }));
    const read = () => dataOf(client.call('terminal_interactive', { action: 'read', sessionId }));
    await expect.poll(async () => JSON.stringify(await read()), { timeout: 30_000 }).toContain(GRACE);
    await client.call('terminal_interactive', { action: 'close', sessionId });
  });

  test("finds settings that it can't change, so that no other command has what it wrote there", async () => {
    repositoryAt('system');
    const ways = 'git config --system alias.x "!id"; echo x > /run/git/config; rm -rf /run/git; mv /run/git /run/h';
    const { stdout } = await run(
      `(${ways}) 2>/dev/null; git config --system --list; touch /run/git/y || echo no`,
      'system',
    );
    expect(stdout).toBe('user.name=Grace Hopper\nuser.email=grace@example.org\nno\n');
  });
});

test.each(['x\n[alias]\n\tst = !id', '"; [core] fsmonitor = id', 'a\\', '# c', ' x ', 'tab\tend\\\n'])(
  'the name %j stays a name',
  (name) => {
    const path = join(home, 'written');
    writeFileSync(path, toGitConfig({ name, email: name }) ?? '');
    const listed = execFileSync('git', ['config', '-z', '--file', path, '--list'], { encoding: 'utf8' });
    const shown = name.replaceAll(/\p{Cc}/gu, ' ');
    expect(listed).toBe(`user.name\n${shown}\0user.email\n${shown}\0`);
  },
);

test('a command has a config of its own, of which the repository gets what names no program; the rest it is told', async () => {
  const repository = repositoryAt('held');
  repository.commit('first');
  const config = () => readFileSync(join(repository.folder, '.git/config'), 'utf8');
  const { stdout, warnings } = await run(
    'git config core.editor id; git config core.editor; git branch -m trunk',
    'held',
  );
  expect([stdout, warnings.join()]).toEqual([
    'id\n',
    expect.stringContaining('held/.git/config was not given: core.editor'),
  ]);
  expect(config()).not.toContain('editor');
  expect((await run('git config user.name Zed && git config core.editor', 'held')).warnings).toEqual([]);
  expect(config()).toContain('name = Zed');
});

/** A repository with the folders `x` and `y`. */
function withFolders(name: string): TestRepository {
  const repository = repositoryAt(name);
  for (const it of ['x/a.txt', 'y/b.txt']) repository.write(it, 'text\n');
  repository.commit('first');
  return repository;
}

const isThere = ({ folder }: TestRepository, path: string) => existsSync(join(folder, path));

describe('a sparse checkout', () => {
  test('a sparse checkout that a command makes holds for later commands and for the person, and can be ended', async () => {
    const repository = withFolders('sparse');
    const states = () => [isThere(repository, 'x'), isThere(repository, 'y')];
    expect(await run('git sparse-checkout set x', 'sparse')).toMatchObject({ exitCode: 0, stderr: '', warnings: [] });
    expect([states(), repository.git('sparse-checkout', 'list')]).toEqual([[true, false], 'x\n']);
    const added = await run('git sparse-checkout add y && git sparse-checkout list', 'sparse');
    expect([added.stdout, added.warnings, states()]).toEqual(['x\ny\n', [], [true, true]]);
    await run('git sparse-checkout set y', 'sparse');
    expect(await run('git sparse-checkout disable', 'sparse')).toMatchObject({ exitCode: 0, warnings: [] });
    expect([states(), repository.git('status', '--short')]).toEqual([[true, true], '']);
    expect(isThere(repository, '.git/config.worktree')).toBe(false);
  });

  test('a command can change a sparse checkout that the person made', async () => {
    const repository = withFolders('sparser');
    repository.git('sparse-checkout', 'set', 'x');
    expect(await run('git sparse-checkout add y', 'sparser')).toMatchObject({ exitCode: 0, stderr: '', warnings: [] });
    expect(repository.git('sparse-checkout', 'list')).toBe('x\ny\n');
    await run('git sparse-checkout disable', 'sparser');
    expect(repository.git('config', '--worktree', 'core.sparseCheckout')).toBe('false\n');
  });
});

test('a remote is given its ssh address, and another name beside its own', async () => {
  const repository = repositoryAt('remotes');
  repository.commit('first');
  repository.git('remote', 'add', 'origin', 'https://example.org/a/b.git');
  for (const [key = '', value = ''] of [
    ['remote', 'origin'],
    ['merge', 'refs/heads/main'],
  ])
    repository.git('config', `branch.main.${key}`, value);
  const { exitCode, warnings } = await run('git remote set-url origin git@example.org:a/b.git', 'remotes');
  expect([exitCode, warnings, repository.git('remote', 'get-url', 'origin')]).toEqual([
    0,
    [],
    'git@example.org:a/b.git\n',
  ]);
  const renamed = await run('git remote rename origin upstream && git remote', 'remotes');
  expect([renamed.stdout, renamed.warnings.join()]).toEqual([
    'upstream\n',
    expect.stringContaining('remote.origin.url'),
  ]);
  expect(repository.git('config', 'branch.main.remote')).toBe('upstream\n');
  expect(repository.git('remote')).toBe('origin\nupstream\n');
});

test('the submodules that a repository names are set up by a command', async () => {
  const repository = repositoryAt('modules');
  const inner = repositoryAt('modules-inner').commit('first');
  repository.write('.gitmodules', '[submodule "s"]\n\tpath = s\n\turl = https://example.org/s.git\n');
  repository.git('update-index', '--add', '--cacheinfo', `160000,${inner},s`);
  expect(await run('git submodule init', 'modules')).toMatchObject({ exitCode: 0, warnings: [] });
  expect(repository.git('config', '--get-regexp', 'submodule')).toBe(
    'submodule.s.active true\nsubmodule.s.url https://example.org/s.git\n',
  );
});

test("commands' git has git-lfs as the person set it up, and a repository gets it from no command", async () => {
  const values = { clean: 'git-lfs clean -- %f', smudge: 'git-lfs smudge -- %f', process: 'git-lfs filter-process' };
  const repository = repositoryAt('lfs');
  const set = Object.entries(values).map(([key, value]) => `git config --local filter.lfs.${key} "${value}"`);
  const { warnings } = await run(set.join(' && '), 'lfs');
  expect(warnings.join()).toContain('filter.lfs.clean (it names a program, git-lfs');
  expect(repository.git('config', '--list')).not.toContain('lfs');
  writeFileSync(
    join(home, '.gitconfig'),
    `[filter "lfs"]\n${Object.entries(values)
      .map(([key, value]) => `\t${key} = ${value}\n`)
      .join('')}\trequired = true\n[filter "x"]\n\tclean = id\n`,
  );
  await using other = await openDaemon({ env: { HOME: home } });
  await using agent = await other.connect();
  const told = await dataOf(agent.call('terminal_execute', { command: 'git config --get-regexp filter' }));
  expect(told).toMatchObject({
    stdout: `${Object.entries(values)
      .map(([key, value]) => `filter.lfs.${key} ${value}\n`)
      .join('')}filter.lfs.required true\n`,
  });
});

describe('a repository of another user', () => {
  test("git in commands trusts another user's repository where the person's git does, from their home, too", async () => {
    writeFileSync(
      join(home, '.gitconfig'),
      '[safe]\n\tdirectory = /lost\n\tdirectory =\n\tdirectory = ~/work/*\n\tdirectory = /a "b"\n\tbareRepository = all\n',
    );
    await using other = await openDaemon({ env: { HOME: home } });
    await using agent = await other.connect();
    const { stdout } = await dataOf(agent.call('terminal_execute', { command: 'git config --get-regexp ^safe' }));
    expect(stdout).toBe(`safe.directory ${home}/work/*\nsafe.directory /a b\nsafe.barerepository explicit\n`);
  });

  test.runIf(process.getuid?.() === 0)(
    "commands use another user's repository if it is trusted, and git refuses it otherwise",
    async () => {
      const workspace = temporaryDir('theirs');
      const theirs = createRepository(join(workspace, 'theirs'));
      theirs.commit('first');
      for (const it of ['.', '.git']) chownSync(join(theirs.folder, it), 64_123, 64_123);
      for (const [settings, ending] of [
        ['', { exitCode: 128, stderr: expect.stringContaining('dubious ownership') }],
        [`[safe]\n\tdirectory = ${theirs.folder}\n`, { exitCode: 0, stdout: '## main\n' }],
      ] as const) {
        writeFileSync(join(home, '.gitconfig'), settings);
        await using other = await openDaemon({ env: { HOME: home }, workspace });
        await using agent = await other.connect();
        const command = 'git -C theirs status --short --branch';
        expect(await dataOf(agent.call('terminal_execute', { command }))).toMatchObject(ending);
      }
      rmSync(workspace, { recursive: true });
    },
  );
});

describe('a terminal', () => {
  const ask = (input: object) => client.call('terminal_interactive', input);

  test('a terminal has its own git config, and the repository gets its harmless settings at each call', async () => {
    const repository = repositoryAt('typed');
    const command =
      'git config user.name Typed; git config core.editor id; read -r; git config user.name Again; echo over; cat';
    const opened = await ask({ action: 'open', cwd: 'typed', command, waitMs: 10_000 });
    expect(opened.metadata.warnings?.join()).toContain('typed/.git/config was not given: core.editor');
    expect(repository.git('config', 'user.name')).toBe('Typed\n');
    expect(repository.git('config', '--list')).not.toContain('editor');
    const { sessionId } = (await dataOf(Promise.resolve(opened))) as { sessionId: string };
    const written = await ask({ action: 'write', sessionId, data: '\r', waitMs: 10_000 });
    expect([written.metadata.warnings ?? [], repository.git('config', 'user.name')]).toEqual([[], 'Again\n']);
    await ask({ action: 'close', sessionId });
  });

  test('gives the repository what it set when it is closed, and keeps what the person changed meanwhile', async () => {
    const repository = repositoryAt('closed');
    // A terminal from before could write this config; it counts as gone two looks of a second after its end.
    await new Promise((resolve) => setTimeout(resolve, 3_000));
    // The daemon hears of the new repository some milliseconds later; a terminal from before would write its config itself.
    await until(async () => (await run('grep -c /closed/.git/config /proc/self/mountinfo', '.')).stdout !== '0\n');
    const command = 'read -r; git config user.name Last; sleep 100';
    const { sessionId } = (await dataOf(ask({ action: 'open', cwd: 'closed', command }))) as { sessionId: string };
    writeFileSync(
      join(repository.folder, '.git/config'),
      `${readFileSync(join(repository.folder, '.git/config'), 'utf8')}[alias]\n\tst = status\n`,
    );
    await ask({ action: 'write', sessionId, data: '\r', waitMs: 0 });
    await expect
      .poll(() => ask({ action: 'read', sessionId }).then(() => repository.git('config', 'user.name')))
      .toBe('Last\n');
    await ask({ action: 'close', sessionId });
    expect(repository.git('config', 'alias.st')).toBe('status\n');
  });
});
