/** The git tools compared with real git, in every state of a repository. */
import { rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon, temporaryDir, until } from '../support/daemon.ts';
import { createRepository, type TestRepository } from '../support/repository.ts';

const POLICY = `rules:
  - { id: commits, match: { tool: git_commit }, decision: allow, reason: Nobody is there to ask. }
tiers: { write: { approve: [destructive] } }
approvals: { headless: deny }
`;

let daemon: OpenDaemon;
let agent: Client;
let home: string;
beforeAll(async () => {
  home = temporaryDir('home');
  writeFileSync(join(home, '.gitconfig'), '[user]\n\tname = Grace <Hopper>\n\temail = grace@example.org\n');
  daemon = await openDaemon({ policy: POLICY, env: { HOME: home } });
  agent = await daemon.connect();
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  rmSync(home, { recursive: true });
});

type Data = Record<string, unknown>;
const call = (tool: string, input: object) => agent.call(tool, input) as PromiseLike<ToolResult<Data>>;
const repositoryAt = (name: string): TestRepository => createRepository(join(daemon.workspace, name));
const refusal = (reason: string, code: string) => ({ success: false, error: { code, details: { reason } } });

test('a commit is by the person where the repository says nobody, and by the repository where it does', async () => {
  const repository = repositoryAt('identity');
  repository.write('a.txt', 'one\n');
  repository.write('b.txt', 'one\n');
  const first = await dataOf(call('git_commit', { message: 'as it says', files: ['identity/a.txt'] }));
  expect(first).toMatchObject({ filesChanged: 1, insertions: 1, deletions: 0, signed: false });
  repository.git('config', '--unset', 'user.name');
  repository.git('config', '--unset', 'user.email');
  const message = 'subject "$(touch x)" `y`\n\n-body\n# kept\n';
  await dataOf(call('git_commit', { message, files: ['identity/b.txt'] }));
  expect(repository.git('log', '--format=%an %ae %cn %ce')).toBe(
    'Grace Hopper grace@example.org Grace Hopper grace@example.org\nAda ada@example.org Ada ada@example.org\n',
  );
  expect(repository.git('log', '-1', '--format=%B').trimEnd()).toBe(message.trimEnd());
  expect(repository.git('status', '--porcelain')).toBe('');
});

test('the index records files as a git outside sees them, so that neither git reads them all again', async () => {
  const repository = repositoryAt('stat');
  repository.write('a.txt', 'one\n');
  repository.write('b.txt', 'one\n');
  await dataOf(call('git_commit', { message: 'first', files: ['stat/a.txt', 'stat/b.txt'] }));
  // It compares stat data only, not contents.
  expect(repository.git('diff-files', '--name-only')).toBe('');
});

test('without any identity the commit says what is missing, and leaves the index as it was', async () => {
  await using other = await openDaemon({ policy: POLICY });
  await using session = await other.connect();
  const repository = createRepository(join(other.workspace, 'r'));
  repository.git('config', '--unset', 'user.email');
  repository.write('a.txt', 'one\n');
  expect(await session.call('git_commit', { message: 'x', files: ['r/a.txt'] })).toMatchObject({
    error: { code: 'AUTH_REQUIRED', details: { reason: 'no-identity', key: 'user.email' } },
  });
  expect(repository.git('status', '--porcelain')).toBe('?? a.txt\n');
});

test('only what is named is committed, what else is staged stays so', async () => {
  const repository = repositoryAt('named');
  for (const it of ['a', 'b', 'c', 'd']) repository.write(it, 'one\n');
  repository.commit('first');
  for (const it of ['a', 'b']) repository.write(it, 'two\n');
  rmSync(join(repository.folder, 'c'));
  repository.git('add', 'b');
  repository.write('-dash *', 'new\n');
  const files = ['named/a', 'named/c', 'named/-dash *'];
  expect(await dataOf(call('git_commit', { message: 'second', files }))).toMatchObject({ filesChanged: 3 });
  expect(repository.git('status', '--porcelain')).toBe('M  b\n');
});

test('a diff of the work tree leaves out a file that is hidden, changed or not, and shows the rest', async () => {
  const repository = repositoryAt('beside');
  repository.write('src/password.txt', 'one\n');
  repository.write('a.txt', 'one\n');
  repository.commit('first');
  repository.write('a.txt', 'two\n');
  const expected = { files: 1, additions: 1, deletions: 1, withheld: ['beside/src/password.txt'], truncated: false };
  // The daemon's watcher reports a file from elsewhere some milliseconds later.
  const diff = () => dataOf(agent.call('git_diff', { path: 'beside' }));
  await until(async () => (await diff()).withheld.length > 0);
  expect(await dataOf(call('git_diff', { path: 'beside' }))).toMatchObject(expected);
  expect(await dataOf(call('git_diff', { path: 'beside', from: 'HEAD' }))).toMatchObject(expected);
  expect(await dataOf(call('git_diff', { path: 'beside', staged: true }))).toMatchObject({ files: 0, withheld: [] });
});

test('a commit of all takes changes of known files, not what is new, and never what is hidden', async () => {
  const repository = repositoryAt('all');
  for (const it of ['a', 'b', '.env']) repository.write(it, 'one\n');
  repository.commit('first');
  repository.write('a', 'two\n');
  rmSync(join(repository.folder, 'b'));
  repository.write('.env', 'more than one\n');
  repository.write('new', 'one\n');
  expect(await dataOf(call('git_status', { path: 'all' }))).toMatchObject({
    unstaged: ['all/a', 'all/b'],
    deleted: ['all/b'],
    untracked: ['all/new'],
    hidden: ['all/.env'],
  });
  await using session = await daemon.connect({ workspace: daemon.workspace });
  expect(await session.call('git_commit', { message: 'x', files: ['all'] })).toMatchObject({
    success: true,
    data: { filesChanged: 3, hidden: ['all/.env'] },
  });
  expect(repository.git('status', '--porcelain')).toBe(' M .env\n');
});

test('a hidden file is named whether or not git could tell that it changed', async () => {
  const repository = repositoryAt('settled');
  const long = new Date(Date.now() - 3_600_000);
  for (const it of ['a', '.env']) {
    repository.write(it, 'one\n');
    utimesSync(join(repository.folder, it), long, long);
  }
  // git reads no file that is older than its index: it takes what stands in for the hidden one for unchanged.
  repository.commit('first');
  repository.write('a', 'two\n');
  const hidden = ['settled/.env'];
  expect(await dataOf(call('git_status', { path: 'settled' }))).toMatchObject({ unstaged: ['settled/a'], hidden });
  expect(await dataOf(call('git_status', { path: 'settled/a' }))).toMatchObject({ hidden: [] });
  expect(await dataOf(call('git_diff', { path: 'settled' }))).toMatchObject({ files: 1, withheld: hidden });
  expect(await dataOf(call('git_diff', { path: 'settled', staged: true }))).toMatchObject({ withheld: [] });
  expect(await dataOf(call('git_commit', { message: 'x', files: ['settled'] }))).toMatchObject({ hidden });
});

test('a file that is staged as new and gone is not committed, and what is staged of it stays', async () => {
  const repository = repositoryAt('gone');
  repository.commit('first');
  repository.write('new.txt', 'only in the index\n');
  repository.git('add', 'new.txt');
  rmSync(join(repository.folder, 'new.txt'));
  expect(await call('git_commit', { message: 'x', files: ['gone/new.txt'] })).toMatchObject({
    error: { code: 'CONFLICT', message: '`gone/new.txt` is staged as new, and is no longer there' },
  });
  expect(repository.git('status', '--porcelain')).toBe('AD new.txt\n');
  expect(repository.git('show', ':new.txt')).toBe('only in the index\n');
});

test('a commit without changes, conflicts, a detached head and a missing repository give different errors', async () => {
  const repository = repositoryAt('states');
  const path = 'states';
  const files = ['states/a.txt'];
  expect(await call('git_log', { path })).toMatchObject(refusal('no-commits', 'NOT_FOUND'));
  expect(await call('git_show', { path })).toMatchObject(refusal('no-commits', 'NOT_FOUND'));
  expect(await dataOf(call('git_status', { path }))).toMatchObject({ branch: 'main', head: null, clean: true });
  expect(await dataOf(call('git_branch', { path }))).toMatchObject({ branches: [], currentBranch: 'main' });
  expect(await call('git_branch', { path, action: 'create', name: 'x' })).toMatchObject(
    refusal('no-commits', 'NOT_FOUND'),
  );
  repository.write('a.txt', 'one\n');
  repository.commit('first');
  expect(await call('git_commit', { message: 'x', files })).toMatchObject(refusal('nothing-to-commit', 'CONFLICT'));
  repository.write('.git/info/exclude', '*.log\n');
  repository.write('a.log', '');
  expect(await call('git_commit', { message: 'x', files: ['states/a.log'] })).toMatchObject({
    error: {
      code: 'CONFLICT',
      message: expect.stringMatching(/^`states\/a\.log` is ignored/),
      details: { reason: 'ignored' },
    },
  });
  repository.git('checkout', '-q', '-b', 'other');
  repository.write('a.txt', 'two\n');
  repository.commit('theirs');
  repository.git('checkout', '-q', 'main');
  expect(await call('git_branch', { path, action: 'delete', name: 'other' })).toMatchObject({
    error: { code: 'APPROVAL_DENIED' },
  });
  repository.write('a.txt', 'three\n');
  expect(await call('git_branch', { path, action: 'switch', name: 'other' })).toMatchObject(
    refusal('local-changes', 'CONFLICT'),
  );
  expect(await call('git_branch', { path, action: 'switch', name: 'other' })).toMatchObject({
    error: { message: expect.stringMatching(/would be overwritten by checkout: a\.txt$/) },
  });
  expect(await call('git_branch', { path, action: 'create', name: 'a b' })).toMatchObject({
    error: { code: 'INPUT_INVALID', message: expect.stringMatching(/must be the name of a branch/) },
  });
  repository.commit('ours');
  expect(() => repository.git('merge', 'other')).toThrow('git merge');
  expect(await dataOf(call('git_status', { path }))).toMatchObject({ conflicted: ['states/a.txt'], clean: false });
  expect((await dataOf(call('git_diff', { path }))).diff).toMatch(/^diff --cc a.txt\n.*\n\+\+=======\n/s);
  expect(await call('git_commit', { message: 'x', files })).toMatchObject(refusal('conflicts', 'CONFLICT'));
  repository.write('a.txt', 'both\n');
  repository.git('add', 'a.txt');
  expect(await call('git_commit', { message: 'x', files })).toMatchObject(refusal('merge-in-progress', 'CONFLICT'));
  expect(await call('git_commit', { message: 'merged', files: [path] })).toMatchObject({ success: true });
  expect(await dataOf(call('git_show', { path }))).toMatchObject({
    subject: 'merged',
    additions: 1,
    deletions: 1,
    parents: [expect.any(String), expect.any(String)],
  });
  repository.git('checkout', '-q', '--detach');
  expect(await dataOf(call('git_status', { path }))).toMatchObject({ branch: null });
  expect(await dataOf(call('git_branch', { path }))).toMatchObject({ currentBranch: null });
  repository.write('a.txt', 'four\n');
  expect(await call('git_commit', { message: 'x', files })).toMatchObject(refusal('detached-head', 'CONFLICT'));
  expect(await call('git_status', {})).toMatchObject(refusal('not-a-repository', 'NOT_FOUND'));
}, 30_000);

test('a rebase that stopped is in conflict, then under way, and no detached head', async () => {
  const repository = repositoryAt('rebased');
  for (const [branch, text] of [
    ['main', 'one\n'],
    ['topic', 'two\n'],
  ] as const) {
    repository.git('checkout', '-q', '-B', branch);
    repository.write('a.txt', text);
    repository.commit(text);
  }
  repository.git('checkout', '-q', 'main');
  repository.write('a.txt', 'three\n');
  repository.commit('three');
  repository.git('checkout', '-q', 'topic');
  expect(() => repository.git('rebase', '-q', 'main')).toThrow('git rebase');
  const commit = { message: 'x', files: ['rebased/a.txt'] };
  expect(await call('git_commit', commit)).toMatchObject(refusal('conflicts', 'CONFLICT'));
  repository.write('a.txt', 'six\n');
  repository.git('add', 'a.txt');
  expect(await call('git_commit', commit)).toMatchObject(refusal('rebase-in-progress', 'CONFLICT'));
});

test('files that were moved and removed by git are committed by their old names too', async () => {
  const repository = repositoryAt('moved');
  for (const it of ['a', 'd/1', 'd/2', 'kept', 'e/1', 'e/2']) repository.write(it, `${it}\n`);
  repository.commit('first');
  repository.git('mv', 'a', 'b');
  repository.git('rm', '-q', '-r', 'd', 'e/1');
  const commit = (...files: string[]) => call('git_commit', { message: 'x', files: files.map((it) => `moved/${it}`) });
  expect(await commit('d', 'kept')).toMatchObject({ data: { filesChanged: 2, deletions: 2 } });
  expect(await commit('a', 'b')).toMatchObject({ data: { filesChanged: 2, insertions: 1, deletions: 1 } });
  expect(await commit('e')).toMatchObject({ data: { filesChanged: 1, deletions: 1 } });
  expect(repository.git('status', '--porcelain')).toBe('');
  repository.write('kept', 'changed\n');
  expect(await commit('kept', 'no\nsuch')).toMatchObject(refusal('no-such-file', 'NOT_FOUND'));
});

test('a repository that is named beside a part of it is shown without its hidden files', async () => {
  const repository = repositoryAt('named-twice');
  for (const it of ['a', '.env']) repository.write(it, 'one\n');
  repository.commit('first');
  for (const it of ['a', '.env']) repository.write(it, 'two\n');
  const done = await dataOf(call('git_commit', { message: 'x', files: ['named-twice', 'named-twice/a'] }));
  expect(done).toMatchObject({ filesChanged: 1 });
  // Once the daemon's watcher has masked the file, git takes it for unchanged, and there is nothing to name.
  expect([[], ['named-twice/.env']]).toContainEqual(done.hidden);
  expect(repository.git('show', 'HEAD:.env')).toBe('one\n');
});

test('branches are created, switched to and told', async () => {
  const repository = repositoryAt('branches');
  repository.write('a.txt', 'one\n');
  repository.commit('first');
  const path = 'branches';
  expect(await dataOf(call('git_branch', { path, action: 'create', name: 'topic/é' }))).toEqual({
    branches: [
      { name: 'main', current: true },
      { name: 'topic/é', current: false },
    ],
    currentBranch: 'main',
    truncated: false,
  });
  expect(await dataOf(call('git_branch', { path, action: 'switch', name: 'topic/é' }))).toMatchObject({
    currentBranch: 'topic/é',
  });
  expect(await call('git_branch', { path, action: 'create', name: 'topic/é/below' })).toMatchObject(
    refusal('branch-in-the-way', 'CONFLICT'),
  );
  for (const name of ['a..b', 'x.lock', 'HEAD', '/x', 'a//b'])
    expect(await call('git_branch', { path, action: 'create', name }), name).toMatchObject({
      error: { code: 'INPUT_INVALID' },
    });
});

test('submodules and further work trees are repositories of their own', async () => {
  const outer = repositoryAt('outer');
  const inner = createRepository(join(daemon.stateDir, 'inner'));
  inner.write('in.txt', 'one\n');
  const hash = inner.commit('inner');
  outer.git('-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', inner.folder, 'sub');
  outer.commit('outer');
  outer.git('worktree', 'add', '-q', '-b', 'beside', '../tree');
  outer.write('sub/in.txt', 'two\n');
  expect(await dataOf(call('git_status', { path: 'outer' }))).toMatchObject({ branch: 'main', clean: true });
  expect(await dataOf(call('git_status', { path: 'outer/sub' }))).toMatchObject({
    head: hash,
    unstaged: ['outer/sub/in.txt'],
  });
  expect(await dataOf(call('git_diff', { path: 'outer/sub/in.txt' }))).toMatchObject({ files: 1 });
  expect(await dataOf(call('git_status', { path: 'tree' }))).toMatchObject({ branch: 'beside', clean: true });
  expect(await dataOf(call('git_log', { path: 'tree' }))).toMatchObject({ commits: [{ subject: 'outer' }] });
});

test('a policy for thinking lets git be read and branches be listed, and nothing be changed', async () => {
  await using other = await openDaemon({ args: ['--policy', 'read-only'] });
  await using session = await other.connect();
  const repository = createRepository(join(other.workspace, 'r'));
  repository.write('a.txt', 'one\n');
  repository.commit('first');
  for (const [tool, input] of [
    ['git_status', {}],
    ['git_branch', {}],
  ] as const)
    expect(await session.call(tool, { path: 'r', ...input }), tool).toMatchObject({
      success: true,
      metadata: { tier: 'read_only' },
    });
  for (const [tool, input] of [
    ['git_branch', { path: 'r', action: 'create', name: 'x' }],
    ['git_commit', { message: 'x', files: ['r/a.txt'] }],
  ] as const)
    expect(await session.call(tool as string, input), tool).toMatchObject({ error: { code: 'POLICY_DENIED' } });
});

test('a diff is cut at its bound, and its numbers are of all of it', async () => {
  const repository = repositoryAt('large');
  repository.commit('first');
  repository.write('a.txt', 'line\n'.repeat(100_000));
  repository.git('add', '-A');
  const data = await dataOf(call('git_diff', { path: 'large', staged: true }));
  expect(data).toMatchObject({ additions: 100_000, files: 1, truncated: true });
  expect(String(data.diff).length).toBeLessThanOrEqual(256 * 1024);
});

const name = fc.constantFrom('a', 'b', 'd/a', 'd/e/f', 'é', 'a b', '-x', 'q"q', 'n\nl', 't\tt', ':(top)a', '*');
const edit = fc.record({
  name,
  kind: fc.constantFrom('write', 'remove', 'add', 'commit'),
  text: fc.constantFrom('1\n', '2\n3\n', '', 'no end', '\0', 'diff --git a/.env b/.env\n'),
});

function apply(
  { name: path, kind, text }: typeof edit extends fc.Arbitrary<infer E> ? E : never,
  { folder, git, write }: TestRepository,
): void {
  try {
    if (kind === 'write') write(path, text);
    else if (kind === 'remove') rmSync(join(folder, path));
    else if (kind === 'add') git('add', '-A');
    else git('commit', '-q', '-am', text.includes('\0') || text.trim() === '' ? 'x' : text);
  } catch {
    // Nothing to remove or commit, or a directory is in the way of a file.
  }
}

test('status, diff and log are those of git, whatever was done to a repository', async () => {
  let number = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(edit, { minLength: 3, maxLength: 25 }), async (edits) => {
      const path = `random${number++}`;
      const repository = repositoryAt(path);
      repository.commit('first');
      for (const it of edits) apply(it, repository);
      const { git } = repository;
      const names = (...args: string[]) =>
        git(...args)
          .split('\0')
          .slice(0, -1)
          .map((it) => `${path}/${it}`)
          .sort();
      const sorted = (list: unknown) => [...(list as string[])].sort();
      const status = await dataOf(call('git_status', { path }));
      expect(sorted(status.unstaged)).toEqual(names('diff', '-z', '--name-only'));
      expect(sorted(status.staged)).toEqual(names('diff', '-z', '--name-only', '--cached'));
      expect(sorted(status.untracked)).toEqual(
        names('ls-files', '-z', '--others', '--directory', '--no-empty-directory', '--exclude-standard'),
      );
      expect(status.clean).toBe(git('status', '--porcelain') === '');
      for (const args of [[], ['--cached'], ['HEAD']]) {
        const input = {
          path,
          ...(args[0] === '--cached' && { staged: true }),
          ...(args[0] === 'HEAD' && { from: 'HEAD' }),
        };
        expect((await dataOf(call('git_diff', input))).diff).toBe(git('-c', 'core.quotePath=false', 'diff', ...args));
      }
      const log = (await dataOf(call('git_log', { path, maxCount: 1000 }))).commits as {
        hash: string;
        subject: string;
      }[];
      expect(log.map((it) => `${it.hash} ${it.subject}`).join('\n')).toBe(git('log', '--format=%H %s').trimEnd());
    }),
    { numRuns: 12 },
  );
}, 120_000);
