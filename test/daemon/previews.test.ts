/** Previews of commands through a real daemon: what they show, what a commit does, what they leave alone. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CommitResult, ToolResult } from '../../src/base/call.ts';
import type { CommandPreview } from '../../src/base/preview.ts';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon, removeTree } from '../support/daemon.ts';
import { treeWithModes } from '../support/workspace.ts';

let daemon: OpenDaemon;
let client: Client;

beforeAll(async () => {
  daemon = await openDaemon();
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (path: string) => join(daemon.workspace, path);
const tree = () => treeWithModes(daemon.workspace);

async function preview(command: string, by = client): Promise<CommandPreview> {
  const result = (await by.call('terminal_execute', { command }, { preview: true })) as ToolResult;
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
  expect(result.data, JSON.stringify(result.data)).toMatchObject({ exitCode: 0 });
  return result.preview as CommandPreview;
}
const commit = (previewId: string, paths?: string[], by = client) =>
  by.request('calls.commit', { previewId, ...(paths && { paths }) }) as Promise<CommitResult>;

test('a preview tells what a command would change, and changes nothing', async () => {
  mkdirSync(at('a/deep'), { recursive: true });
  writeFileSync(at('a/one.txt'), 'one\n');
  writeFileSync(at('a/two.txt'), 'two\n');
  writeFileSync(at('a/deep/three.txt'), 'three\n');
  const before = tree();
  const shown = await preview(
    'echo 1 >> a/one.txt; rm -r a/deep; rm a/two.txt; mkdir b; echo x > b/new; chmod 600 a/one.txt',
  );
  expect(tree()).toEqual(before);
  expect(shown).toMatchObject({
    total: 4,
    unsupported: [],
    changes: [
      { path: 'a/deep/', kind: 'delete', entries: 1 },
      { path: 'a/two.txt', kind: 'delete', bytesBefore: 4, bytesAfter: null },
      {
        path: 'a/one.txt',
        kind: 'change',
        bytesBefore: 4,
        bytesAfter: 6,
        diff: expect.stringContaining('+1') as string,
      },
      { path: 'b/new', kind: 'add', bytesBefore: null, bytesAfter: 2 },
    ],
  });
  expect(await client.request('calls.diff', { previewId: shown.id, path: 'a/two.txt' })).toMatchObject({
    kind: 'delete',
    diff: expect.stringContaining('-two') as string,
  });
  const done = await commit(shown.id);
  expect(done).toMatchObject({ conflicts: [], undo: 'full', removed: ['a/deep', 'a/two.txt'] });
  expect(readFileSync(at('a/one.txt'), 'utf8')).toBe('one\n1\n');
  expect(await client.undo(done.callId as string)).toMatchObject({ conflicts: [] });
  expect(tree()).toEqual(before);
});

/** Commands whose commit must leave what the command itself would. */
const PROGRAMS: Record<string, string> = {
  'files made, changed and removed': 'echo new > made; echo more >> a.txt; rm b.txt; : > empty; mkdir -p x/y/z',
  'sed -i': "sed -i s/one/uno/ a.txt && sed -i 's/^/> /' src/*.ts",
  'rm -rf': 'rm -rf src docs',
  'a folder made anew': 'rm -rf src && mkdir src && echo fresh > src/fresh.ts',
  'mv of a folder': 'mv src lib && mv lib/one.ts lib/first.ts',
  'mv over a file': 'mv -f a.txt b.txt',
  'a file becomes a folder': 'rm a.txt && mkdir a.txt && echo in > a.txt/in',
  'a folder becomes a file': 'rm -r docs && echo file > docs',
  'a file becomes a link': 'ln -sf b.txt a.txt && ln -s /nonexistent dangling && ln -sfn docs/deep where',
  chmod: 'chmod 600 a.txt && chmod -R go-rwx docs && chmod 755 b.txt',
  'a swap of links': 'ln -s a.txt here && ln -sfn b.txt here.new && mv -T here.new here',
  tar: 'tar cf all.tar src docs && mkdir out && tar xf all.tar -C out && rm all.tar',
  'hard links': 'ln a.txt hard && cp -l b.txt other',
  truncate: 'truncate -s 100000 sparse && dd if=/dev/zero of=sparse bs=1 count=1 seek=5000 conv=notrunc 2>/dev/null',
  touch: 'touch a.txt src/one.ts && touch fresh',
  'open for writing, and left alone': 'exec 3<>a.txt; cat <&3 >/dev/null',
  'mmap and rename': "perl -e 'rename q(a.txt), q(t); rename q(t), q(a.txt)' && cp b.txt tmp && mv tmp b.txt",
  find: "find . -name '*.ts' -not -path './.git/*' -exec cp {} {}.bak \\;",
  'git commit': 'echo more >> a.txt && git add -A && git commit -qm second',
  'git checkout':
    'git checkout -q -b topic && echo t > topic.txt && git add . && git commit -qm t && git checkout -q -',
  'git rebase, gc': 'git commit -q --allow-empty -m x && git gc -q --prune=now && git pack-refs --all',
  'git stash': 'echo changed >> b.txt && git stash -q && git stash pop -q',
  'git rm, mv': 'git rm -q b.txt && git mv src/one.ts src/uno.ts && git commit -qm moved',
  make: "printf 'all: out.o\\nout.o: a.txt\\n\\tcp a.txt out.o\\n' > Makefile && make -s -j8",
};

const DATES = 'export GIT_AUTHOR_DATE=2026-01-01T00:00:00Z GIT_COMMITTER_DATE=2026-01-01T00:00:00Z;';
const IDENTITY = 'export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b;';

function project(folder: string): void {
  mkdirSync(join(folder, 'src'), { recursive: true });
  mkdirSync(join(folder, 'docs/deep'), { recursive: true });
  writeFileSync(join(folder, 'a.txt'), 'one\ntwo\n');
  writeFileSync(join(folder, 'b.txt'), 'two\n');
  writeFileSync(join(folder, 'src/one.ts'), 'export const one = 1;\n');
  writeFileSync(join(folder, 'src/two.ts'), 'export const two = 2;\n');
  writeFileSync(join(folder, 'docs/deep/page.md'), '# Page\n');
  symlinkSync('deep/page.md', join(folder, 'docs/link'));
  const git = ['init -q -b main', 'add -A', 'commit -q -m first'].map((it) => `git ${it}`).join(' && ');
  execFileSync('/bin/sh', ['-c', `${DATES}${IDENTITY}${git}`], { cwd: folder });
}

/** Content and modes, without what differs by time: the index of git, and packs. */
const compared = (folder: string) =>
  Object.fromEntries(
    Object.entries(treeWithModes(folder)).filter(
      ([path]) => !/\.git\/(index|logs|COMMIT_EDITMSG|objects\/pack|objects\/info)/.test(path),
    ),
  );

test.each(Object.entries(PROGRAMS))('a commit leaves what the command itself would: %s', async (_, command) => {
  const model = at('model');
  project(model);
  try {
    for (const it of ['plain', 'shown'])
      cpSync(model, at(it), { recursive: true, verbatimSymlinks: true, preserveTimestamps: true });
    const line = `${DATES}${IDENTITY}${command}`;
    expect(await client.call('terminal_execute', { command: line, cwd: 'plain' })).toMatchObject({
      data: { exitCode: 0 },
    });
    const shown = await preview(`cd shown && { ${line}; }`);
    expect(compared(at('shown'))).toEqual(compared(model));
    expect(shown.unsupported).toEqual([]);
    const done = await commit(shown.id);
    expect(done).toMatchObject({ conflicts: [] });
    expect(done.error).toBeUndefined();
    expect(compared(at('shown'))).toEqual(compared(at('plain')));
    const status = (folder: string) =>
      execFileSync('git', ['--no-optional-locks', 'status', '--porcelain'], { cwd: at(folder), encoding: 'utf8' });
    expect(status('shown')).toBe(status('plain'));
    expect(() => execFileSync('git', ['fsck', '--strict'], { cwd: at('shown'), stdio: 'pipe' })).not.toThrow();
    if (done.callId) expect(await client.undo(done.callId)).toMatchObject({ conflicts: [] });
    expect(compared(at('shown'))).toEqual(compared(model));
  } finally {
    for (const it of ['model', 'plain', 'shown']) removeTree(at(it));
  }
});
