/** git in commands: the author of commits, and the warning for commands that can't write a repository's config. */
import { execFileSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client.ts';
import { toGitConfig } from '../../src/sandbox/git/commit-author.ts';
import { ALLOW_ALL, dataOf, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';
import { createRepository, type TestRepository } from '../support/repository.ts';

let daemon: TestDaemon;
let client: Client;
let home: string;
beforeAll(async () => {
  home = temporaryDir('home');
  writeFileSync(join(home, '.gitconfig'), '[user]\n\tname = Grace Hopper\n\temail = grace@example.org\n');
  daemon = await startDaemon({ policy: ALLOW_ALL, env: { HOME: home } });
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
  test('is by the person where nobody says whom it is by', async () => {
    const repository = repositoryAt('plain');
    for (const key of ['user.name', 'user.email']) repository.git('config', '--unset', key);
    const { stdout, stderr } = await run(`git commit -qm x --allow-empty; ${BY}`, 'plain');
    expect([stdout, stderr]).toEqual([`${GRACE} ${GRACE}\n`, '']);
  });

  test.each([
    ['the repository', ''],
    ['a variable', 'export GIT_AUTHOR_NAME=Ada GIT_COMMITTER_NAME=Ada;'],
    ['the settings of the command', 'git config --global user.name Eve;'],
  ])('is by whom %s says', async (who, before) => {
    const repository = repositoryAt(`said-${who.length}`);
    if (before !== '') for (const key of ['user.name', 'user.email']) repository.git('config', '--unset', key);
    const { stdout } = await run(`${before} git commit -qm x --allow-empty; ${BY}`, `said-${who.length}`);
    const name = before.includes('Eve') ? 'Eve' : 'Ada';
    const mail = before === '' ? 'ada@example.org' : 'grace@example.org';
    expect(stdout).toBe(`${name} ${mail} ${name} ${mail}\n`);
  });

  test("is in a terminal by the person, too, and in a repository that the command makes by that one's settings", async () => {
    repositoryAt('maker');
    const own = 'cd "$(mktemp -d)" && git init -q . && git config user.name Own && git commit -qm x --allow-empty';
    expect((await run(`${own}; ${BY}`, 'maker')).stdout).toBe('Own grace@example.org Own grace@example.org\n');
    const command = `cd "$(mktemp -d)" && git init -q . && git commit -qm x --allow-empty && ${BY}`;
    const { sessionId = '' } = await dataOf(client.call('terminal_interactive', { action: 'open', command }));
    const read = () => dataOf(client.call('terminal_interactive', { action: 'read', sessionId }));
    await expect.poll(async () => JSON.stringify(await read()), { timeout: 10_000 }).toContain(GRACE);
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

test("a terminal sees a repository's config read-only, and git in it says so", async () => {
  const repository = repositoryAt('typed');
  const command = 'git -C typed config user.name Typed; echo over';
  const { sessionId = '' } = await dataOf(client.call('terminal_interactive', { action: 'open', command }));
  const read = () => dataOf(client.call('terminal_interactive', { action: 'read', sessionId }));
  await expect.poll(async () => JSON.stringify(await read()), { timeout: 10_000 }).toContain('over');
  expect(repository.git('config', 'user.name')).toBe('Ada\n');
});
