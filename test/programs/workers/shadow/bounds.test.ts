/** What the shadow keeps, what it costs, what it leaves out, and what nobody may get from it. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { defaultLimits } from '../../../../src/base/limits.ts';
import { Anchor } from '../../../../workers/context/anchor.ts';
import { WorkspaceFiles } from '../../../../workers/shadow/workspace-files.ts';
import { until } from '../../../support/daemon.ts';
import { ShadowBench } from '../../../support/shadow.ts';
import { treeWithModes } from '../../../support/workspace.ts';

const tree = (bench: ShadowBench) => treeWithModes(bench.ws.path);
const missingOf = (report: { missing: readonly { path: string; why: string }[] } | undefined) =>
  Object.fromEntries((report?.missing ?? []).map(({ path, why }) => [path, why]));

/** A clean clone, whose objects are all in a pack, some as differences. */
function clone(bench: ShadowBench): void {
  bench.sh(`mkdir ../origin-$$ && cd ../origin-$$ && git init -q -b main . && git config core.autocrlf false
    for i in $(seq 1 60); do seq 1 $((i * 20)) > f$i.txt; done; git add -A; git commit -qm first
    for i in $(seq 1 60); do echo more >> f$i.txt; done; git commit -qam second; git gc -q --aggressive
    cd "$OLDPWD"; git clone -q --no-local ../origin-$$ .; rm -rf ../origin-$$; sleep 0.1; git update-index --refresh -q || true`);
}

test('a clean clone is kept without copies, and undone from the pack, even if the command removes that', async () => {
  using bench = new ShadowBench();
  clone(bench);
  await bench.build();
  const state = fs
    .readdirSync(bench.at('.git'), { recursive: true, encoding: 'utf8' })
    .filter((it) => !it.startsWith('objects') && fs.lstatSync(bench.at(`.git/${it}`)).isFile())
    .reduce((sum, it) => sum + fs.statSync(bench.at(`.git/${it}`)).size, 0);
  expect(bench.shadow.copiedBytes).toBeLessThanOrEqual(state);
  const before = tree(bench);
  const edit = await bench.command("sed -i 's/^1/one/' *.txt; rm f7.txt");
  expect(edit.report).toMatchObject({ undo: 'full' });
  expect(await bench.undo(edit.key, edit.report?.paths ?? [])).toMatchObject({ conflicts: [] });
  expect(tree(bench)).toEqual(before);
  const all = await bench.command('rm -rf .git *.txt');
  expect(missingOf(all.report)).toEqual({ '.git/': 'git-objects' });
  expect(await bench.undo(all.key, all.report?.paths ?? [])).toMatchObject({ conflicts: [] });
  const files = Object.entries(before).filter(([path]) => !path.startsWith('.git'));
  expect(tree(bench)).toEqual(Object.fromEntries(files));
});

test('packs have room of their own beside what else is kept of a command, and beyond it nothing of a repository goes back', async () => {
  for (const [journalBytesMax, undo] of [
    [16_000_000, 'full'],
    [4_000_000, 'partial'],
  ] as const) {
    using bench = new ShadowBench({ limits: { journalCallBytesMax: 1_000_000, journalBytesMax } });
    bench.sh(`git init -q .; head -c 3000000 /dev/urandom > big; git add big; git commit -qm big; git gc -q
      git rm -q big; echo small > small; git add small; git commit -qm small; echo own > own`);
    await bench.build();
    const before = tree(bench);
    const { key, report } = await bench.command('rm -rf .git/[!ch]* .git/COMMIT* small own');
    expect(report).toMatchObject({ undo });
    await bench.undo(key, report?.paths ?? []);
    if (undo === 'full') bench.sh('git fsck --strict');
    if (undo === 'full') expect(tree(bench)).toEqual(before);
    else expect(missingOf(report)).toEqual({ '.git/': 'git-objects' });
  }
});

test('a file that a filter of git writes otherwise than its blob is undone to its own bytes', async () => {
  using bench = new ShadowBench();
  bench.sh(`git init -q . && echo '*.txt eol=crlf' > .gitattributes && printf 'a\\nb\\n' > a.txt && git add -A
    git commit -qm first && rm a.txt && git checkout -q -- a.txt && sleep 0.1 && git update-index --refresh -q`);
  expect(fs.readFileSync(bench.at('a.txt'), 'latin1')).toBe('a\r\nb\r\n');
  await bench.build();
  const { key, report } = await bench.command('echo x > a.txt');
  expect(report).toMatchObject({ undo: 'full' });
  await bench.undo(key, report?.paths ?? []);
  expect(fs.readFileSync(bench.at('a.txt'), 'latin1')).toBe('a\r\nb\r\n');
});

test('a larger file, one too many, and one for which there is no room are told', async () => {
  using large = new ShadowBench({ limits: { shadowFileBytesMax: 1000 } });
  fs.writeFileSync(large.at('large'), 'x'.repeat(1001));
  await large.build();
  expect(missingOf((await large.command('echo y > large; echo z > own')).report)).toEqual({ large: 'too-large' });
  // What is made can be removed without a copy.
  expect((await large.command('seq 1 2000 > made')).report).toMatchObject({ undo: 'full', missing: [] });

  using many = new ShadowBench({ limits: { shadowFilesMax: 2 } });
  for (const it of ['a', 'b', 'c']) fs.writeFileSync(many.at(it), it);
  await many.build();
  expect(missingOf((await many.command('for i in a b c; do echo y > $i; done')).report)).toEqual({ c: 'too-many' });

  using full = new ShadowBench({ limits: { shadowBytesMax: 1000 } });
  for (const it of ['a', 'b']) fs.writeFileSync(full.at(it), it.repeat(600));
  await full.build();
  expect(full.shadow.copiedBytes).toBeLessThanOrEqual(1000);
  expect(Object.values(missingOf((await full.command('echo y > a; echo y > b')).report))).toEqual(['no-room']);

  using wide = new ShadowBench({ limits: { journalPathsMax: 5, undoMissingMax: 3 } });
  await wide.build();
  const { report } = await wide.command('for i in $(seq 1 20); do echo $i > f$i; done');
  expect(report).toMatchObject({ undo: 'partial', total: 15 });
  expect(report?.missing).toHaveLength(3);
});

test('copies that nobody needs any more make room for others', async () => {
  using bench = new ShadowBench({ limits: { shadowBytesMax: 10_000 } });
  fs.writeFileSync(bench.at('a'), '0'.repeat(2000));
  await bench.build();
  for (let round = 1; round < 20; round++) {
    const { key, report } = await bench.command(`printf '%02000d' ${round} > a`);
    expect(report).toMatchObject({ undo: 'full', missing: [] });
    expect(bench.shadow.copiedBytes).toBeLessThanOrEqual(10_000);
    if (round % 5 !== 0) continue;
    await bench.undo(key, report?.paths ?? []);
    expect(Number(fs.readFileSync(bench.at('a'), 'utf8'))).toBe(round - 1);
  }
});

test('events that the kernel drops make one command not undoable, and no more', { timeout: 60_000 }, async () => {
  using bench = new ShadowBench();
  fs.writeFileSync(bench.at('a'), 'a');
  await bench.build();
  expect(await bench.begin(1)).toBe('ready');
  const max = Number(fs.readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
  for (let i = 0; i < max; i++) {
    fs.writeFileSync(bench.at(`f${i % 7}`), '');
    fs.unlinkSync(bench.at(`f${i % 7}`));
  }
  expect(await bench.end(1, bench.newKey())).toBe('lost');
  await until(() => bench.shadow.state === 'ready', 20_000);
  expect((await bench.command('echo b > a')).report).toMatchObject({ undo: 'full' });
});

test('a change of others before a command is not undone with it', async () => {
  using bench = new ShadowBench();
  fs.writeFileSync(bench.at('a'), 'first');
  await bench.build();
  fs.writeFileSync(bench.at('a'), 'second');
  fs.mkdirSync(bench.at('d'));
  fs.writeFileSync(bench.at('d/mine'), 'mine');
  const { key, report } = await bench.command('echo third > a; rm -rf d');
  await bench.undo(key, report?.paths ?? []);
  expect(tree(bench)).toMatchObject({ a: '644 second', 'd/mine': '644 mine' });
});

test('an edit made since is a conflict of its path, and with it nothing changes', async () => {
  using bench = new ShadowBench();
  for (const it of ['file', 'gone', 'moved/in', 'link', 'mode/in']) {
    fs.mkdirSync(join(bench.at(it), '..'), { recursive: true });
    fs.writeFileSync(bench.at(it), it);
  }
  await bench.build();
  const { key, report } = await bench.command(
    'echo x > file; rm gone; mv moved there; rm link; ln -s file link; chmod 700 mode; mkdir empty',
  );
  const edits: [string, () => void, () => void][] = [
    ['file', () => fs.writeFileSync(bench.at('file'), 'mine'), () => fs.writeFileSync(bench.at('file'), 'x\n')],
    ['gone', () => fs.writeFileSync(bench.at('gone'), 'mine'), () => fs.rmSync(bench.at('gone'))],
    [
      'there/in',
      () => fs.writeFileSync(bench.at('there/in'), 'mine'),
      () => fs.writeFileSync(bench.at('there/in'), 'moved/in'),
    ],
    ['moved', () => fs.mkdirSync(bench.at('moved')), () => fs.rmdirSync(bench.at('moved'))],
    ['mode', () => fs.chmodSync(bench.at('mode'), 0o711), () => fs.chmodSync(bench.at('mode'), 0o700)],
  ];
  for (const [path, edit, back] of edits) {
    edit();
    const now = tree(bench);
    expect(await bench.undo(key, report?.paths ?? []), path).toMatchObject({ restored: [], conflicts: [path] });
    expect(tree(bench)).toEqual(now);
    back();
  }
  fs.writeFileSync(bench.at('empty/mine'), 'mine');
  expect(await bench.undo(key, report?.paths ?? [])).toMatchObject({ conflicts: [] });
  expect(fs.readFileSync(bench.at('empty/mine'), 'utf8')).toBe('mine');
});

test('a file that the policy hides is neither copied nor named', async () => {
  using bench = new ShadowBench({ isRefused: (path) => path.includes('secret') });
  fs.writeFileSync(bench.at('secret.txt'), 'TOP-SECRET-1');
  await bench.build();
  const { report } = await bench.command(
    'echo TOP-SECRET-2 > secret.txt; echo TOP-SECRET-3 > more-secret; echo open > open',
  );
  expect(report).toMatchObject({ undo: 'partial', paths: ['open'], missing: [{ path: '.', why: 'policy' }] });
  for (const it of fs.readdirSync(bench.folder))
    expect(fs.readFileSync(join(bench.folder, it), 'latin1')).not.toContain('TOP-SECRET');
  expect(bench.shadow.copiedBytes).toBeLessThan(10);
});

test('copies have no name that another could open, and no path leads through a link', async () => {
  using bench = new ShadowBench();
  fs.writeFileSync(bench.at('a'), 'a');
  fs.writeFileSync(join(bench.folder, 'others'), 'of another session');
  fs.symlinkSync(bench.folder, bench.at('way'));
  await bench.build();
  expect(fs.readdirSync(bench.folder)).toEqual(['others']);
  const files = new WorkspaceFiles(bench.ws.path, new Anchor(bench.ws.path, defaultLimits));
  expect(files.read('way/others', 1000)).toBeUndefined();
  expect(files.read('a', 1000)?.toString()).toBe('a');
  fs.mkdirSync(bench.at('real'));
  fs.symlinkSync('real', bench.at('inner'));
  fs.writeFileSync(bench.at('real/x'), 'x');
  expect(files.read('inner/x', 1000)).toBeUndefined();
});
