/** Hostile repositories: their config, hooks and attributes run nothing, and git reveals nothing that file tools would not. */
import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { dataOf, startDaemon, type TestDaemon } from '../support/daemon.ts';
import { createRepository, type TestRepository } from '../support/repository.ts';

let daemon: TestDaemon;
let agent: Client;
beforeAll(async () => {
  daemon = await startDaemon();
  agent = await daemon.connect();
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const call = (tool: string, input: object) =>
  agent.call(tool, input) as PromiseLike<ToolResult<Record<string, unknown>>>;
const repositoryAt = (name: string): TestRepository => createRepository(join(daemon.workspace, name));

/** Sets every program that a config can name, and every hook: each leaves a mark and kills all processes that it can. */
function arm({ folder, git, write }: TestRepository): string {
  const mark = join(folder, 'RAN');
  const program = join(folder, 'trip.sh');
  writeFileSync(program, `#!/bin/sh\necho "$0 $*" >> '${mark}'\nkill -9 -1\n`);
  chmodSync(program, 0o755);
  const names = [
    ...['core.fsmonitor', 'core.editor', 'core.pager', 'core.sshCommand', 'core.askPass', 'core.gitProxy'],
    ...['sequence.editor', 'diff.external', 'diff.x.command', 'diff.x.textconv', 'merge.x.driver', 'gpg.program'],
    ...['gpg.ssh.program', 'credential.helper', 'filter.x.clean', 'filter.x.smudge', 'filter.y.process'],
    ...['pager.status', 'pager.diff', 'pager.log', 'alias.status', 'alias.diff', 'core.alternateRefsCommand'],
    ...['interactive.diffFilter', 'trailer.x.command', 'remote.origin.uploadpack', 'uploadpack.packObjectsHook'],
  ];
  for (const name of names) git('config', name, name.startsWith('alias.') ? `!${program}` : program);
  const settings = {
    'core.hooksPath': join(folder, 'hooks'),
    'core.worktree': '/etc',
    'filter.x.required': 'true',
    'filter.y.required': 'true',
    'commit.gpgSign': 'true',
    'log.showSignature': 'true',
    'diff.submodule': 'log',
    'status.submoduleSummary': 'true',
    'remote.origin.url': `ext::${program}`,
    'remote.origin.promisor': 'true',
    'remote.origin.partialCloneFilter': 'blob:none',
    'protocol.ext.allow': 'always',
    'protocol.file.allow': 'always',
    'diff.noprefix': 'true',
    'color.ui': 'always',
  };
  for (const [name, value] of Object.entries(settings)) git('config', name, value);
  for (const hooks of [join(folder, 'hooks'), join(folder, '.git/hooks')]) {
    mkdirSync(hooks, { recursive: true });
    const all =
      'pre-commit prepare-commit-msg commit-msg post-commit post-checkout post-index-change reference-transaction pre-auto-gc';
    for (const hook of all.split(' ')) {
      writeFileSync(join(hooks, hook), readFileSync(program));
      chmodSync(join(hooks, hook), 0o755);
    }
  }
  write('.gitattributes', '*.txt filter=x diff=x merge=x\n*.bin filter=y diff=x\n');
  return mark;
}

test('no tool runs a program that a repository names', async () => {
  const repository = repositoryAt('armed');
  for (const it of ['a.txt', 'b.bin', 'c.md']) repository.write(it, `${it}\n`);
  repository.commit('first');
  repository.git('branch', 'other');
  repository.write('a.txt', 'changed\n');
  repository.write('c.md', 'changed\n');
  const mark = arm(repository);
  // Proof that it is armed: plain git runs one of them.
  const bare = await call('terminal_execute', { command: 'git -C armed --work-tree=. status; true' });
  expect(existsSync(mark), JSON.stringify(bare)).toBe(true);
  rmSync(mark);

  const path = 'armed';
  expect(await dataOf(call('git_status', { path }))).toMatchObject({
    branch: 'main',
    unstaged: ['armed/a.txt', 'armed/c.md'],
  });
  const diff = await dataOf(call('git_diff', { path }));
  expect(diff).toMatchObject({ files: 2, additions: 2, deletions: 2 });
  expect(String(diff.diff)).toContain('+++ b/a.txt\n@@ -1 +1 @@\n-a.txt\n+changed');
  for (const [tool, input] of [
    ['git_diff', { path, staged: true }],
    ['git_diff', { path, from: 'HEAD', to: 'other' }],
    ['git_log', { path }],
    ['git_show', { path }],
    ['git_branch', { path }],
    ['git_branch', { path, action: 'create', name: 'third' }],
    ['git_commit', { message: 'of what has no filter', files: ['armed/c.md'] }],
  ] as const)
    expect(await call(tool, input), tool).toMatchObject({ success: true });
  expect(await call('git_commit', { message: 'x', files: ['armed/a.txt'] })).toMatchObject({
    error: { code: 'UNSUPPORTED', details: { reason: 'filter' } },
  });
  // The only way back to the committed state.
  const disarmed = ['core.fsmonitor=', 'filter.x.clean=cat', 'filter.x.smudge=cat', 'core.hooksPath=/dev/null'];
  const settings = disarmed.flatMap((it) => ['-c', it]);
  // git takes core.worktree from the repository's own config only, whatever -c says.
  repository.git('--work-tree=.', ...settings, 'checkout', '-q', '-f', '--', 'a.txt');
  rmSync(mark, { force: true });
  expect(await call('git_branch', { path, action: 'switch', name: 'other' })).toMatchObject({ success: true });
  expect(existsSync(mark)).toBe(false);
}, 60_000);

test("a repository that another one carries as plain files names nothing that a command's git runs", async () => {
  const { folder, write } = repositoryAt('carrier');
  for (const it of ['objects/none', 'refs/none']) write(`inner/${it}`, '');
  write('inner/HEAD', 'ref: refs/heads/main\n');
  write('inner/config', '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\nfsmonitor = ./trip.sh\n');
  const mark = join(folder, 'RAN');
  for (const it of ['trip.sh', 'inner/trip.sh']) {
    write(it, `#!/bin/sh\ntouch '${mark}'\n`);
    chmodSync(join(folder, it), 0o755);
  }
  const status = (before: string) =>
    call('terminal_execute', { command: `${before} git status 2>&1; true`, cwd: 'carrier/inner' });
  expect(await dataOf(status(''))).toMatchObject({ stdout: expect.stringMatching(/safe\.bareRepository/) });
  expect(existsSync(mark)).toBe(false);
  await dataOf(status('GIT_CONFIG_COUNT=0'));
  expect(existsSync(mark)).toBe(true);
});

test('a missing object is fetched from nowhere', async () => {
  const repository = repositoryAt('partial');
  repository.write('a.txt', 'one\n');
  repository.commit('first');
  const blob = repository.git('rev-parse', 'HEAD:a.txt').trim();
  const mark = arm(repository);
  rmSync(join(repository.folder, '.git/objects', blob.slice(0, 2), blob.slice(2)));
  expect(await call('git_show', { path: 'partial' })).toMatchObject({ success: false, error: { code: 'UNSUPPORTED' } });
  expect(existsSync(mark)).toBe(false);
});

test.each(['.env', 'config/.env', 'deploy/server.pem', 'my secret\n"file".txt'])(
  'no tool tells what was ever in %j',
  async (name) => {
    const repository = repositoryAt(`history-${Buffer.from(name).toString('hex')}`);
    const path = repository.folder.slice(daemon.workspace.length + 1);
    repository.write('a.txt', 'one\n');
    repository.write(name, 'KEY=GOLD1\nmore\nand\nmore\nof\nit\n');
    repository.commit('first');
    repository.write(name, 'KEY=GOLD2\nmore\nand\nmore\nof\nit\n');
    repository.write('a.txt', 'two\n');
    repository.commit('second');
    renameSync(join(repository.folder, name), join(repository.folder, 'plain.txt'));
    repository.write('plain.txt', 'KEY=GOOD\nmore\nand\nmore\nof\nit\n');
    repository.commit('third: under another name, without it');
    repository.write(name, 'KEY=GOLD3\n');
    // An index that is no newer than a file says nothing of it, so git looks into the file.
    const later = Date.now() / 1000 + 60;
    utimesSync(join(repository.folder, name), later, later);
    repository.git('add', '-A', '-f');
    repository.write(name, 'KEY=GOLD4\n');
    const told: unknown[] = [];
    for (const [tool, input] of [
      ['git_status', {}],
      ['git_diff', {}],
      ['git_diff', { staged: true }],
      ['git_diff', { from: 'HEAD~2' }],
      ['git_diff', { from: 'HEAD~2', to: 'HEAD' }],
      ['git_diff', { from: 'HEAD', to: 'HEAD~2' }],
      ['git_show', {}],
      ['git_show', { ref: 'HEAD~1' }],
      ['git_show', { ref: 'HEAD~2' }],
      ['git_log', {}],
      ['git_commit', { message: 'x', files: [`${path}/plain.txt`] }],
    ] as const)
      told.push(await call(tool, tool === 'git_commit' ? input : { path, ...input }));
    expect(JSON.stringify(told)).not.toContain('GOLD');
    expect(told[1]).toMatchObject({ success: true, data: { withheld: [`${path}/${name}`] } });
    expect(told[3]).toMatchObject({ success: true, data: { files: 2 } });
    expect(told[6]).toMatchObject({ success: true, data: { withheld: [`${path}/${name}`] } });
    expect(told[7]).toMatchObject({ success: true, data: { files: 1, withheld: [`${path}/${name}`] } });
    for (const tool of ['git_diff', 'git_show', 'git_log', 'git_status'])
      expect(await call(tool, { path: `${path}/${name}` })).toMatchObject({ error: { code: 'SENSITIVE_FILE' } });
    expect(await call('git_commit', { message: 'x', files: [`${path}/${name}`] })).toMatchObject({
      error: { code: 'SENSITIVE_FILE' },
    });
  },
  30_000,
);

test('options, ranges and files are no commits', async () => {
  repositoryAt('refs').commit('first');
  for (const ref of ['--output=x', '-p', 'HEAD:a.txt', 'a..b', ':/first', 'x y', '@{-1}~1:', 'HEAD\n--all'])
    for (const [tool, input] of [
      ['git_show', { ref }],
      ['git_log', { ref }],
      ['git_diff', { from: ref }],
      ['git_branch', { action: 'create', name: ref }],
    ] as const)
      expect(await call(tool, { path: 'refs', ...input }), `${tool} ${ref}`).toMatchObject({
        error: { code: 'INPUT_INVALID' },
      });
});

test('a repository outside of the workspace, or one that anybody may write, is none', async () => {
  const outside = createRepository(join(daemon.stateDir, 'outside'));
  outside.write('a.txt', 'GOLD\n');
  outside.commit('first');
  const pointer = (name: string, text: string) => {
    mkdirSync(join(daemon.workspace, name));
    writeFileSync(join(daemon.workspace, name, '.git'), text);
  };
  pointer('points-out', `gitdir: ${outside.folder}/.git\n`);
  pointer('points-up', 'gitdir: ../../../../etc\n');
  pointer('points-to-plain', 'gitdir: ../plain\n');
  mkdirSync(join(daemon.workspace, 'plain'));
  const bare = join(daemon.workspace, 'bare');
  mkdirSync(bare);
  createRepository(join(daemon.stateDir, 'x')).git('init', '-q', '--bare', bare);
  for (const path of ['points-out', 'points-up', 'points-to-plain', 'bare'])
    expect(await call('git_log', { path }), path).toMatchObject({
      error: { code: 'NOT_FOUND', details: { reason: 'not-a-repository' } },
    });
});

test('a switch that would change a file that the policy holds changes nothing', async () => {
  const repository = repositoryAt('held');
  repository.write('a.txt', 'one\n');
  repository.commit('first');
  repository.git('checkout', '-q', '-b', 'evil');
  repository.write('.envrc', 'rm -rf ~\n');
  repository.write('a.txt', 'two\n');
  repository.commit('second');
  repository.git('checkout', '-q', 'main');
  expect(await call('git_branch', { path: 'held', action: 'switch', name: 'evil' })).toMatchObject({
    error: { code: 'POLICY_DENIED', details: { reason: 'refused-file' } },
  });
  expect(readFileSync(join(repository.folder, 'a.txt'), 'utf8')).toBe('one\n');
  expect(existsSync(join(repository.folder, '.envrc'))).toBe(false);
});

test('a history that replacements or grafts change is shown and compared as the hashes stand for', async () => {
  const repository = repositoryAt('replaced');
  repository.write('a.txt', 'harmless\n');
  const first = repository.commit('first');
  repository.write('a.txt', 'evil\n');
  const second = repository.commit('second');
  repository.write('a.txt', 'harmless\n');
  const third = repository.commit('third');
  repository.git('replace', second, first);
  mkdirSync(join(repository.folder, '.git/info'), { recursive: true });
  writeFileSync(join(repository.folder, '.git/info/grafts'), `${third} ${first}\n`);
  const { commits } = await dataOf(call('git_log', { path: 'replaced' }));
  expect((commits as { hash: string }[]).map((it) => it.hash)).toEqual([third, second, first]);
  const { subject, diff } = await dataOf(call('git_show', { path: 'replaced', ref: second }));
  expect({ subject, diff }).toEqual({ subject: 'second', diff: expect.stringContaining('+evil') });
});
