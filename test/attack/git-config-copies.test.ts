/**
 * A command's own copy of a repository's config: written settings that could make the person's git run, read or
 * connect to something else never reach the repository, at no moment; permitted settings do.
 */
import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, linkSync, lstatSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { createRepository, type TestRepository } from '../support/repository.ts';

let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await startDaemon();
});
// A session with many such commands is paused.
beforeEach(async () => {
  client = await daemon.connect();
});
afterEach(() => client[Symbol.asyncDispose]());
afterAll(() => daemon[Symbol.asyncDispose]());

let count = 0;
function repositoryOf(): TestRepository & { readonly name: string; config(): string } {
  const name = `r${++count}`;
  const repository = createRepository(join(daemon.workspace, name));
  repository.commit('first');
  return { ...repository, name, config: () => readFileSync(join(repository.folder, '.git/config'), 'utf8') };
}

/** The output of a command and its warnings. The line comes from a file, since rules judge visible words. */
async function run(line: string, cwd: string, options: { timeout?: number } = {}) {
  const script = `line-${++count}.sh`;
  writeFileSync(join(daemon.workspace, script), line);
  const result = await client.call('terminal_execute', { command: `sh ../${script}`, cwd, ...options });
  const warnings = result.metadata.warnings?.join('\n') ?? '';
  return result.success
    ? { ...result.data, warnings }
    : { stdout: '', stderr: result.error.message, exitCode: -1, warnings };
}

describe('what a command sets', () => {
  test("a setting of a command that names no program is taken over, and the person's own lines stay", async () => {
    const { name, folder, config } = repositoryOf();
    appendFileSync(join(folder, '.git/config'), '; mine\n[alias]\n\tst = status\n');
    const before = config();
    const { stderr, exitCode, warnings } = await run(
      'git remote add o https://example.org/x && git config user.name Grace && git checkout -q -b side --track main',
      name,
    );
    expect([stderr, exitCode, warnings]).toEqual(['', 0, '']);
    expect(config()).toBe(
      `${before.replace('Ada', 'Grace')}[remote "o"]\n\turl = https://example.org/x\n\tfetch = +refs/heads/*:refs/remotes/o/*\n` +
        '[branch "side"]\n\tremote = .\n\tmerge = refs/heads/main\n',
    );
    expect((await run('git branch -m side other && git config --unset user.email', name)).warnings).toBe('');
    expect(config()).toContain('[branch "other"]\n\tremote = .\n\tmerge = refs/heads/main\n');
    for (const it of ['email', '"side"']) expect(config()).not.toContain(it);
    expect(existsSync(join(folder, '.git/config.lock'))).toBe(false);
  });

  test('the record lists which settings of a command were taken and which were refused', async () => {
    const { name } = repositoryOf();
    await run('git config user.name Recorded; git config alias.x "!id"', name);
    await using operator = await daemon.connect({ role: 'operator' });
    const { entries } = (await operator.request('audit.query', { limit: 20 })) as { entries: { detail?: object }[] };
    const told = entries.map((it) => JSON.stringify(it.detail ?? {})).join();
    expect(told).toContain(`{"path":"${name}/.git/config","taken":["user.name"],"refused":[{"key":"alias.x"`);
  });

  test("a command's setting in a submodule, a nested repository and a linked worktree is taken over, too", async () => {
    const { name, folder, git } = repositoryOf();
    for (const it of ['inner', 'source']) createRepository(join(folder, it)).commit('first');
    git('-c', 'protocol.file.allow=always', 'submodule', 'add', '-q', join(folder, 'source'), 'sub');
    git('worktree', 'add', '-q', 'linked');
    const line = 'for it in inner sub linked; do git -C $it config branch.main.description "of $it"; done';
    const { stderr, warnings } = await run(line, name);
    expect([stderr, warnings]).toEqual(['', '']);
    const configs = { inner: 'inner/.git/config', sub: '.git/modules/sub/config', linked: '.git/config' };
    for (const [it, path] of Object.entries(configs))
      expect(readFileSync(join(folder, path), 'utf8')).toContain(`description = of ${it}\n`);
  });
});

describe('settings that the person never gets', () => {
  test.each([
    ['a monitor', 'git config core.fsmonitor ./trip.sh', 'core.fsmonitor'],
    ['an alias', 'git config alias.st "!./trip.sh"', 'alias.st'],
    ['an included file', 'git config include.path ../more', 'include.path'],
    ['another address', 'git config url.https://evil.example/.insteadOf https://github.com/', 'insteadof'],
    [
      'a remote that is a program',
      'git remote add e "ext::./trip.sh"; git config protocol.ext.allow always',
      'remote.e.url',
    ],
    ['a remote that is a folder, whose hooks run', 'git remote add e ../evil', 'remote.e.url'],
    ['hooks', 'git config core.hooksPath own', 'core.hookspath'],
    [
      'a config of a worktree',
      'git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ./trip.sh',
      // Taken over key by key, or moved away as a whole: whichever looks first.
      'core.fsmonitor|config.worktree; the person is asked',
    ],
    [
      'a config of a worktree that is a link',
      'git config extensions.worktreeConfig true; ln -s /etc/passwd .git/config.worktree',
      'extensions.worktreeconfig',
    ],
    [
      'a config of a linked worktree',
      'git worktree add -q linked; cd linked; git sparse-checkout set x',
      'extensions.worktreeconfig',
    ],
    ['a filter', 'git config filter.x.clean ./trip.sh', 'filter.x.clean'],
    [
      'what hides in a value',
      'git config user.name "$(printf \'x\\n[core]\\n\\tfsmonitor = ./trip.sh\')"',
      'user.name',
    ],
    ['what hides in a branch', 'git config branch.x.remote "ext::./trip.sh"', 'branch.x.remote'],
    ['a config that is none', 'echo "[core" >/run/git-config/0', 'all keys'],
    ['a config of 100 MB', 'head -c 100000000 /dev/zero | tr "\\0" "\\n" >/run/git-config/0', 'all keys'],
    [
      'a config of many keys',
      'for i in $(seq 5000); do echo "[branch \\"b$i\\"] remote = ."; done >>/run/git-config/0',
      'all keys',
    ],
    ['a named pipe', 'rm /run/git-config/0; mkfifo /run/git-config/0', 'all keys'],
    ['a folder', 'rm /run/git-config/0; mkdir /run/git-config/0', 'all keys'],
  ])("the person's git config never gets %s that a command set", async (_, line, told) => {
    const { name, folder, config } = repositoryOf();
    writeFileSync(join(folder, 'trip.sh'), '#!/bin/sh\ntouch ran\n', { mode: 0o755 });
    const before = config();
    const { warnings } = await run(line, name);
    expect(config()).toBe(before);
    expect(warnings).toContain('was not given');
    expect(warnings).toMatch(new RegExp(told));
    execFileSync('git', ['status'], { cwd: folder, stdio: 'pipe' });
    expect(existsSync(join(folder, 'ran'))).toBe(false);
  });

  test("the person's pushes never go to another place that a command set", async () => {
    const { name, git, config } = repositoryOf();
    git('remote', 'add', 'origin', 'https://example.org/x');
    git('config', 'branch.main.remote', 'origin');
    const before = config();
    for (const line of [
      'git remote set-url origin https://evil.example/x',
      'git remote set-url --push origin https://evil.example/x',
      'git remote set-url --add origin https://evil.example/x',
      'git remote remove origin; git remote add origin https://evil.example/x',
      'git config remote.pushDefault origin; git config branch.main.pushRemote origin',
    ])
      expect((await run(line, name)).warnings).toContain('was not given');
    expect(git('remote', 'get-url', '--push', 'origin')).toBe('https://example.org/x\n');
    expect(config()).not.toContain('evil');
    expect(config().slice(0, before.indexOf('[branch'))).toBe(before.slice(0, before.indexOf('[branch')));
  });

  test("the person's git config never gets a secret that a link in the copy leads to", async () => {
    const { name, folder, config } = repositoryOf();
    const secret = join(daemon.workspace, `${name}-secret`);
    writeFileSync(secret, '[user]\n\tname = of-the-host\n');
    const before = config();
    for (const target of [secret, '/proc/self/environ', '/etc/passwd']) {
      const { warnings } = await run(`rm /run/git-config/0; ln -s ${target} /run/git-config/0`, name);
      expect(warnings).toContain('is no file');
    }
    expect(config()).toBe(before);
    expect(existsSync(join(folder, '.git/config.lock'))).toBe(false);
  });
});

describe('config that git reads once it is enabled', () => {
  const trap = (folder: string) => writeFileSync(join(folder, 'trip.sh'), '#!/bin/sh\ntouch ran\n', { mode: 0o755 });

  test('a command leaves no work-tree config behind that git would read once the person enables it', async () => {
    const { name, folder, git } = repositoryOf();
    trap(folder);
    const file = '.git/config.worktree';
    for (const made of [
      `printf '[core]\\n\\tfsmonitor = ./trip.sh\\n' >${file}`,
      `ln -s ../trap ${file}; echo "[core] fsmonitor = ./trip.sh" >trap`,
    ]) {
      await run(made, name);
      expect(() => lstatSync(join(folder, file))).toThrow('ENOENT');
    }
    git('sparse-checkout', 'set', 'x');
    git('status');
    expect(existsSync(join(folder, 'ran'))).toBe(false);
  });

  test('a command changes only the sparse-checkout settings of a work-tree config that git reads', async () => {
    const { name, folder, git } = repositoryOf();
    trap(folder);
    git('remote', 'add', 'origin', 'https://example.org/x');
    git('sparse-checkout', 'set', 'x');
    const { warnings } = await run(
      'git sparse-checkout disable; git config --worktree core.fsmonitor ./trip.sh; git config --worktree --add remote.origin.url https://evil.example/x',
      name,
    );
    for (const it of ['core.fsmonitor', 'remote.origin.url']) expect(warnings).toContain(it);
    expect([git('config', '--worktree', 'core.sparseCheckout'), git('remote', '-v').includes('evil')]).toEqual([
      'false\n',
      false,
    ]);
    git('status');
    expect(existsSync(join(folder, 'ran'))).toBe(false);
  });

  test('a work-tree config that the person enables while a command runs is left alone', async () => {
    const { name, folder, git } = repositoryOf();
    const running = run('touch begun; while [ ! -e over ]; do sleep 0.05; done; git config user.name x', name);
    await expect.poll(() => existsSync(join(folder, 'begun')), { timeout: 10_000 }).toBe(true);
    git('sparse-checkout', 'set', 'x');
    writeFileSync(join(folder, 'over'), '');
    await running;
    expect(git('sparse-checkout', 'list')).toBe('x\n');
  });
});

test.each([
  ['sets', 'git config core.fsmonitor ./trip.sh; git remote set-url origin https://evil.example/x'],
  [
    'makes for one work tree',
    'git config extensions.worktreeConfig true; git config --worktree core.fsmonitor ./trip.sh',
  ],
  ['writes in its copy', 'echo "[core] fsmonitor = ./trip.sh" >/run/git-config/0'],
])(
  'a setting that a terminal %s does not make the person run or send anything, meanwhile or afterwards',
  async (_, line) => {
    const { name, folder, git } = repositoryOf();
    writeFileSync(join(folder, 'trip.sh'), '#!/bin/sh\ntouch ran\n', { mode: 0o755 });
    git('remote', 'add', 'origin', 'https://example.org/x');
    const ask = (input: object) => client.call('terminal_interactive', input);
    const opened = await ask({ action: 'open', cwd: name, command: `${line}; echo done; cat`, waitMs: 10_000 });
    const { sessionId = '' } = opened.success ? (opened.data as { sessionId?: string }) : {};
    const read = () => ask({ action: 'read', sessionId }).then((it) => JSON.stringify(it));
    await expect.poll(read, { timeout: 10_000 }).toContain('done');
    for (const action of ['read', 'close']) {
      await ask({ action, sessionId });
      git('status');
      expect([git('remote', 'get-url', 'origin'), existsSync(join(folder, 'ran'))]).toEqual([
        'https://example.org/x\n',
        false,
      ]);
    }
    expect(existsSync(join(folder, '.git/config.worktree'))).toBe(false);
  },
);

describe('the config itself', () => {
  test('a command can neither write, remove, move nor uncover the config', async () => {
    const { name, config } = repositoryOf();
    const before = config();
    const ways = [
      'rm -f .git/config; mv .git/config x; mv x .git/config; ln -f /run/git-config/0 .git/config',
      'umount .git/config; mount --bind /run/git-config/0 .git/config; unshare -Urm umount .git/config',
      'rm -rf /run/git-config/*; echo "[alias] x = !id" >.git/config; mv .git g; mv g .git',
      'mkdir .git/c; echo "[alias] x = !id" >.git/c/config; mv .git/c/config .git/config',
      'nsenter -t 1 -m true; cat /proc/1/root/.git/config; echo "[alias] x = !id" >/proc/1/cwd/.git/config',
      'for fd in /proc/self/fd/* /proc/1/fd/*; do echo "[alias] x = !id" >>$fd/config; done',
    ];
    for (const way of ways) await run(`(${way}) >/dev/null 2>&1; true`, name);
    expect(config()).not.toContain('alias');
    expect(config()).toContain(before.split('\n')[3]);
  });

  test('stays covered for a command that runs while another one sets something', async () => {
    const { name, config } = repositoryOf();
    const lurking = run(
      'for i in $(seq 40); do rm -f .git/config; echo "[alias] lurk = !id" >>.git/config; sleep 0.05; done 2>/dev/null; true',
      name,
    );
    for (const who of ['a', 'b', 'c']) expect((await run(`git config user.name ${who}`, name)).warnings).toBe('');
    await lurking;
    expect(config()).toContain('name = c');
    expect(config()).not.toContain('lurk');
  });

  test('the config has all that two commands set at once, and nothing that one of them may not set', async () => {
    const { name, config } = repositoryOf();
    const set = (key: string) =>
      run(`for i in $(seq 5); do git config branch.${key}.description $i; git config alias.${key} "!id"; done`, name);
    await Promise.all(['a', 'b', 'c', 'd'].map(set));
    for (const key of ['a', 'b', 'c', 'd']) expect(config()).toContain(`[branch "${key}"]\n\tdescription = 5\n`);
    expect(config()).not.toContain('alias');
  });

  test('shows the git of the person no key that is refused, while commands set what they may', async () => {
    const { name, folder, config } = repositoryOf();
    const trap = '  fsmonitor = id  ';
    const done = (async () => {
      for (let i = 0; i < 6; i++)
        await run(
          `git config branch.main.description "${trap.repeat((i % 3) + 1)}"; git config core.fsmonitor id`,
          name,
        );
      return true;
    })();
    let isOver = false;
    void done.then(() => (isOver = true));
    while (!isOver) {
      const listed = execFileSync('git', ['config', '--local', '--list', '--name-only'], {
        cwd: folder,
        encoding: 'utf8',
      });
      expect(listed).not.toContain('fsmonitor');
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(config()).toContain('description');
  });

  test('the config is not written if it has another name or its lock is taken', async () => {
    const { name, folder, config } = repositoryOf();
    const before = config();
    writeFileSync(join(folder, '.git/config.lock'), '');
    expect((await run('git config user.name x', name)).warnings).toContain('config.lock');
    linkSync(join(folder, '.git/config'), join(folder, 'other-name'));
    await run('rm .git/config.lock; git config user.name x', name);
    expect(config()).toBe(before);
  });

  test('the config is written, or is reported as not written, while a command plays with its lock', async () => {
    const { name, config } = repositoryOf();
    const before = config();
    const lock = '.git/config.lock';
    const playing = run(
      `for i in $(seq 300); do mkdir ${lock}; rmdir ${lock}; ln -s ../x ${lock}; rm -f ${lock}; done 2>/dev/null; true`,
      name,
    );
    for (let i = 0; i < 6; i++) {
      const { exitCode, warnings } = await run(`git config user.name N${i}`, name);
      expect([exitCode, warnings.includes('was not given') || config().includes(`name = N${i}`)]).toEqual([0, true]);
    }
    await playing;
    expect(config().replace(/name = .*/, 'name = Ada')).toBe(before);
    expect(existsSync(join(daemon.workspace, name, 'x'))).toBe(false);
  });

  test('the config has what a command set before it was ended', async () => {
    const { name, config } = repositoryOf();
    await run('git config user.name Before; sleep 60', name, { timeout: 3000 });
    expect(config()).toContain('name = Before');
  });
});
