/** Which of a command's config changes reach the repository. */
import { describe, expect, test } from 'vitest';
import { merge } from '../../../../../src/sandbox/git/config/changes.ts';
import { whyRefused } from '../../../../../src/sandbox/git/config/keys.ts';

const GIVEN = '[core]\n\tbare = false\n[remote "o"]\n\turl = https://example.org/x\n[branch "main"]\n\tremote = o\n';

test('a setting that the person changed meanwhile stays', () => {
  const now = `${GIVEN}[alias]\n\tst = status\n`;
  const merged = merge(GIVEN, `${GIVEN}[user]\n\tname = Ada\n`, now);
  expect(merged).toEqual({ text: `${now}[user]\n\tname = Ada\n`, taken: ['user.name'], refused: [] });
});

test('each of several keys is judged by itself', () => {
  const after = `${GIVEN}[user]\n\tname = Ada\n[alias]\n\tx = !id\n[core]\n\tfsmonitor = id\n`;
  const { text, refused } = merge(GIVEN, after, GIVEN);
  expect(text).toBe(`${GIVEN}[user]\n\tname = Ada\n`);
  expect(refused.map((it) => it.key)).toEqual(['alias.x', 'core.fsmonitor']);
});

test('a branch may follow only a remote with an address, since another name would be a path', () => {
  const evil = `${GIVEN}[branch "side"]\n\tremote = sub/evil\n`;
  expect(merge(GIVEN, evil, GIVEN)).toMatchObject({ taken: [], refused: [{ key: 'branch.side.remote' }] });
  const half = `${GIVEN}[remote "e"]\n\turl = ../evil\n\tfetch = +a:b\n`;
  expect(merge(GIVEN, half, GIVEN).refused.map((it) => it.key)).toEqual(['remote.e.url', 'remote.e.fetch']);
  const added = `${evil}[remote "sub/evil"]\n\turl = https://example.org/y\n`;
  expect(merge(GIVEN, added, GIVEN)).toMatchObject({ text: added, refused: [] });
});

test('the push target of the person stays as it is', () => {
  const other = 'https://evil.example/x';
  for (const after of [
    GIVEN.replace('https://example.org/x', other),
    GIVEN.replace('remote "o"', 'remote "p"'),
    GIVEN.replace('\turl', `\tpushurl = ${other}\n\turl`),
    GIVEN.replace('\turl', `\turl = ${other}\n\turl`),
    GIVEN.replace('remote = o', 'remote = .'),
    `${GIVEN}\tpushRemote = .\n`,
    `${GIVEN}[remote]\n\tpushDefault = o\n`,
  ]) {
    const { text = GIVEN, refused } = merge(GIVEN, after, GIVEN);
    expect([after, refused.length]).not.toEqual([after, 0]);
    expect(text).toContain(GIVEN);
    expect(text).not.toContain(other);
  }
});

test('a copy that git does not read, or with too many changes, is refused as a whole', () => {
  expect(merge(GIVEN, '[core', GIVEN)).toMatchObject({ taken: [], refused: [{ key: 'all keys' }] });
  const many = Array.from({ length: 200 }, (_, i) => `[branch "b${i}"]\n\tremote = o\n`).join('');
  expect(merge(GIVEN, GIVEN + many, GIVEN)).toMatchObject({ taken: [], refused: [{ key: 'all keys' }] });
});

test('a remote may be given the other address of its repository, and no other one', () => {
  const at = (url: string) => GIVEN.replace('https://example.org/x', url);
  const before = at('https://github.com/a/b.git');
  for (const url of [
    'git@github.com:a/b.git',
    'ssh://git@github.com/a/b',
    'https://GitHub.com/a/b',
    'https://ada@github.com/a/b/',
  ])
    expect([url, merge(before, at(url), before)]).toEqual([
      url,
      { text: at(url), taken: ['remote.o.url'], refused: [] },
    ]);
  for (const url of [
    'http://github.com/a/b.git',
    'git://github.com/a/b.git',
    'https://github.com/evil/b.git',
    'https://github.com.evil.example/a/b.git',
    'https://github.com:8443/a/b.git',
    'https://github.com@evil.example/a/b.git',
    'https://github.com/a/b/../../evil/b',
    'https://github.com/a/b?x',
    'evil@github.com:a/b.git',
    'git@evil.example:github.com/a/b.git',
    'git@github.com:/a/b.git',
    'ssh://github.com/a/b',
    'ssh://git@github.com:22/a/b',
  ])
    expect([url, merge(before, at(url), before)]).toEqual([
      url,
      { taken: [], refused: [{ key: 'remote.o.url', why: expect.stringContaining('no other') }] },
    ]);
});

test('a remote that is given another name keeps its old one too, and its branches follow the new one', () => {
  const renamed = GIVEN.replace('"o"', '"p"').replace('remote = o', 'remote = p');
  const { taken, refused, text } = merge(GIVEN, renamed, GIVEN);
  expect([taken.toSorted(), refused.map((it) => it.key)]).toEqual([
    ['branch.main.remote', 'remote.p.url'],
    ['remote.o.url'],
  ]);
  expect(text).toContain('[remote "o"]\n\turl = https://example.org/x\n');
  const pushed = GIVEN.replace('\turl', '\tpushurl = https://mine.example/x\n\turl');
  const moved = merge(pushed, pushed.replace('"o"', '"p"').replace('remote = o', 'remote = p'), pushed);
  expect(moved.refused.map((it) => it.key)).toContain('branch.main.remote');
});

test('a remote that a command removes stays whole, with the branches that follow it', () => {
  const merged = merge(GIVEN, '[core]\n\tbare = false\n', GIVEN);
  expect([merged.text, merged.taken]).toEqual([undefined, []]);
  expect(merged.refused.map((it) => it.key)).toEqual(['remote.o.url', 'branch.main.remote']);
});

test('no remote beside another becomes `origin`, to which git pushes by itself', () => {
  const origin = (url: string) => `${GIVEN}[remote "origin"]\n\turl = ${url}\n`;
  expect(merge(GIVEN, origin('https://evil.example/x'), GIVEN)).toMatchObject({
    taken: [],
    refused: [{ key: 'remote.origin.url' }],
  });
  expect(merge(GIVEN, origin('https://example.org/x'), GIVEN).refused).toEqual([]);
  expect(merge('', '[remote "origin"]\n\turl = https://example.org/y\n', '').refused).toEqual([]);
  const two = `${GIVEN}[remote "z"]\n\turl = https://evil.example/x\n`;
  const third = `${two}[remote "origin"]\n\turl = https://evil.example/x\n`;
  expect(merge(two, third, two).taken).toEqual([]);
});

describe('settings of one work tree', () => {
  const ON = '[extensions]\n\tworktreeConfig = true\n';
  const SPARSE = '[core]\n\tsparseCheckout = true\n';

  test("work-tree settings of a command become the repository's, and git is not set to read work-tree config", () => {
    const { text, taken, refused } = merge(GIVEN, GIVEN + ON, GIVEN, { worktree: SPARSE });
    expect([taken, refused]).toEqual([['core.sparsecheckout'], []]);
    expect(text).toBe(GIVEN.replace('bare = false\n', 'bare = false\n\tsparsecheckout = true\n'));
    for (const worktree of [
      '[core]\n\tfsmonitor = id\n',
      '[remote "o"]\n\turl = https://evil.example/\n',
      '[remote "o"]\n\tpushurl = https://evil.example/\n',
    ])
      expect(merge(GIVEN, GIVEN + ON, GIVEN, { worktree })).toMatchObject({ taken: [], refused: [{}] });
    expect(merge(GIVEN, GIVEN + ON, GIVEN).refused.map((it) => it.key)).toEqual(['extensions.worktreeconfig']);
    expect(merge(GIVEN, GIVEN, GIVEN, { worktree: '[user]\n\tname = x\n' })).toEqual({ taken: [], refused: [] });
  });

  test('work-tree settings may only be a sparse checkout, since git adds what it reads last', () => {
    const of = (text: string) => merge('', text, '', { isOfWorktree: true });
    expect(of(SPARSE)).toMatchObject({ taken: ['core.sparsecheckout'], refused: [] });
    expect(of('[index]\n\tsparse = id\n').taken).toEqual([]);
    for (const it of [
      '[remote "o"]\n\turl = https://evil.example/x\n',
      '[core]\n\tworktree = /etc\n',
      '[user]\n\tname = x\n',
    ])
      expect(of(it)).toMatchObject({ taken: [], refused: [{}] });
  });
});

describe('a value', () => {
  test.each([
    ['remote.o.url', 'ext::sh -c id'],
    ['remote.o.url', 'ext://x'],
    ['remote.o.url', '../evil'],
    ['remote.o.url', '/tmp/evil'],
    ['remote.o.url', 'file:///tmp/evil'],
    ['remote.o.url', '-u'],
    ['remote.o.url', '--upload-pack=id'],
    ['remote.o.url', 'ssh://-oProxyCommand=id/x'],
    ['remote.o.url', 'ssh://-oProxyCommand=id@host/x'],
    ['remote.o.url', '-oProxyCommand=id:x'],
    ['remote.o.url', 'host:-x'],
    ['remote.o.url', 'https://example.org/x\n[alias]'],
    ['remote.o.pushurl', './x'],
    ['remote.-x.url', 'https://example.org/x'],
    // The person's next plain push or fetch would overwrite branches, there or here.
    ['remote.o.mirror', 'true'],
    ['remote.o.push', '+refs/heads/*:refs/heads/*'],
    ['remote.o.push', 'refs/heads/private:refs/heads/public'],
    ['remote.o.fetch', '+refs/heads/*:refs/heads/*'],
    ['remote.o.fetch', '+refs/*:refs/*'],
    ['push.default', 'matching'],
    ['branch.main.remote', 'ext::id'],
    ['branch.main.remote', '/tmp/evil'],
    ['branch.main.remote', '../evil'],
    ['branch.main.merge', '--x'],
    ['user.name', 'x\n[core]\n\tfsmonitor = id'],
    ['submodule.s.update', '!id'],
    ['submodule.s.url', './evil'],
    ['core.autocrlf', 'id'],
    ...['core.fsmonitor', 'core.hookspath', 'core.worktree', 'core.bare', 'core.sshcommand', 'core.pager'].map((it) => [
      it,
      'false',
    ]),
    ...['core.editor', 'core.attributesfile', 'core.excludesfile', 'core.gitproxy', 'core.askpass'].map((it) => [
      it,
      'x',
    ]),
    ...['alias.st', 'include.path', 'includeif.onbranch:x.path', 'url.https://e/.insteadof', 'filter.x.clean'].map(
      (it) => [it, 'x'],
    ),
    ...['diff.external', 'diff.x.textconv', 'merge.x.driver', 'gpg.program', 'credential.helper', 'http.proxy'].map(
      (it) => [it, 'x'],
    ),
    ...['remote.o.uploadpack', 'remote.o.receivepack', 'remote.o.vcs', 'remote.o.proxy', 'protocol.ext.allow'].map(
      (it) => [it, 'x'],
    ),
    ...[
      'extensions.worktreeconfig',
      'safe.directory',
      'branch.x.mergeoptions',
      'user.signingkey',
      'sequence.editor',
    ].map((it) => [it, 'true']),
    ...[
      'pager.log',
      'man.x.cmd',
      'browser.x.cmd',
      'trailer.x.command',
      'sendemail.sendmailcmd',
      'lfs.customtransfer.x.path',
    ].map((it) => [it, 'x']),
  ] as [string, string][])('a value that could name a program is refused: %s = %j', (key, value) => {
    expect(whyRefused(key, [value])).toBeDefined();
  });

  test.each([
    ['remote.o.url', 'https://user@example.org:8443/a/b.git'],
    ['remote.o.url', 'git@github.com:a/b.git'],
    ['remote.o.url', 'ssh://git@example.org/~a/b'],
    ['remote.o.url', 'ssh://[::1]:22/x'],
    ['remote.o.url', 'git://example.org/x'],
    ['remote.o.fetch', '+refs/heads/*:refs/remotes/o/*'],
    ['remote.o.fetch', 'refs/heads/main'],
    ['remote.o.fetch', '^refs/heads/wip'],
    ['remote.o.fetch', '+refs/tags/*:refs/tags/*'],
    ['branch.ä/b.merge', 'refs/heads/ä/b'],
    ['branch.x.description', 'two\nlines\n'],
    ['branch.x.remote', '.'],
    ['core.sparsecheckoutcone', 'true'],
    ['submodule.lib/x.active', 'true'],
    ['user.email', 'a@example.org'],
  ])('a value that names no program is taken: %s = %j', (key, value) => {
    expect(whyRefused(key, [value])).toBeUndefined();
  });

  test('the removal of a value is judged as its setting is', () => {
    expect(whyRefused('core.fsmonitor', [])).toBeDefined();
    expect(whyRefused('user.name', [])).toBeUndefined();
  });
});
