/** What git ignores, and what is too large for a copy: a deletion or a replacement comes back, a change in place does not. */
import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { until } from '../../../support/daemon.ts';
import { ShadowBench, type ShadowBenchOptions } from '../../../support/shadow.ts';
import { treeWithModes } from '../../../support/workspace.ts';

const FILES = {
  '.gitignore': 'data/\n*.sqlite\n.env.local\nnode_modules/\n',
  'src.txt': 'source\n',
  'data/a/1.bin': 'one'.repeat(50_000),
  'data/a/2.bin': 'two',
  'data/notes.md': 'by hand\n',
  'own.sqlite': 'rows',
  '.env.local': 'A=1\n',
  'node_modules/pkg/index.js': 'module\n',
};

async function benchWith(options: ShadowBenchOptions = {}): Promise<ShadowBench> {
  const bench = new ShadowBench(options);
  bench.sh('git init -q .');
  for (const [path, text] of Object.entries(FILES)) {
    fs.mkdirSync(dirname(bench.at(path)), { recursive: true });
    fs.writeFileSync(bench.at(path), text);
  }
  await bench.build();
  return bench;
}

const tree = (bench: ShadowBench) => treeWithModes(bench.ws.path);
const openFiles = () => fs.readdirSync('/proc/self/fd').length;

/** What a command could not undo, after which everything else was as before. */
async function missingAfterUndo(bench: ShadowBench, script: string): Promise<Record<string, string>> {
  const before = tree(bench);
  const { key, report } = await bench.command(script);
  if (report?.undo !== 'none') expect(await bench.undo(key, report?.paths ?? [])).toMatchObject({ conflicts: [] });
  const missing = Object.fromEntries((report?.missing ?? []).map(({ path, why }) => [path, why]));
  const isMissing = (path: string) => Object.keys(missing).some((it) => path === it || `${path}/`.startsWith(it));
  const known = (all: object) => Object.fromEntries(Object.entries(all).filter(([path]) => !isMissing(path)));
  expect(known(tree(bench))).toEqual(known(before));
  return missing;
}

test.each([
  ['a data set that is deleted', 'rm -rf data'],
  ['its parts one by one', 'find data -delete'],
  ['an ignored file that is deleted', 'rm own.sqlite .env.local'],
  ['one that is replaced', 'sed -i s/1/2/ .env.local; echo other > new; mv new own.sqlite'],
  ['one that is moved away', 'mv data/a/1.bin data/notes.md .'],
  ['all with its rules', 'rm -rf .gitignore data *.sqlite src.txt .env.local'],
])('undo brings back %s', async (_, script) => {
  using bench = await benchWith();
  expect(await missingAfterUndo(bench, script)).toEqual({});
});

test('git clean -fdx is undone but for what an installation makes again', async () => {
  using bench = await benchWith();
  bench.sh('git add .gitignore src.txt; git commit -qm one');
  expect(await missingAfterUndo(bench, 'git clean -qfdx')).toEqual({ 'node_modules/': 'ignored' });
});

test('a change in place of an ignored file is told, and the rest undone', async () => {
  using bench = await benchWith();
  const missing = await missingAfterUndo(
    bench,
    'echo 3 >> own.sqlite; chmod 600 data/notes.md; rm -r data/a; echo x > src.txt',
  );
  expect(missing).toEqual({ 'own.sqlite': 'ignored', 'data/notes.md': 'ignored' });
});

test('a new file in an ignored place stays, and can be undone from the next command on', async () => {
  using bench = await benchWith();
  expect(await missingAfterUndo(bench, 'mkdir data/b; echo x > data/b/new; echo y > other.sqlite')).toEqual({
    'data/': 'ignored',
    'other.sqlite': 'ignored',
  });
  expect(await missingAfterUndo(bench, 'rm -r data/b other.sqlite')).toEqual({});
});

test('an ignored file that was written again since is left alone, and is no conflict', async () => {
  using bench = await benchWith();
  const { key, report } = await bench.command('rm own.sqlite data/notes.md; echo x > src.txt');
  fs.writeFileSync(bench.at('own.sqlite'), 'newer');
  expect(await bench.undo(key, report?.paths ?? [])).toMatchObject({ conflicts: [] });
  expect(fs.readFileSync(bench.at('own.sqlite'), 'utf8')).toBe('newer');
  expect(fs.readFileSync(bench.at('data/notes.md'), 'utf8')).toBe(FILES['data/notes.md']);
  expect(fs.readFileSync(bench.at('src.txt'), 'utf8')).toBe('source\n');
});

test('a file too large for a copy comes back when it is deleted', async () => {
  using bench = await benchWith({ limits: { shadowFileBytesMax: 3 } });
  expect(await missingAfterUndo(bench, 'rm src.txt')).toEqual({});
  expect(await missingAfterUndo(bench, 'echo more >> src.txt')).toEqual({ 'src.txt': 'too-large' });
});

test('an ignored folder with more names than are held is not kept, and takes none of their room', async () => {
  using bench = await benchWith({ limits: { shadowHeldFilesMax: 5 } });
  expect(await missingAfterUndo(bench, 'rm -r data')).toEqual({ 'data/a/': 'ignored' });
  expect(await missingAfterUndo(bench, 'rm own.sqlite')).toEqual({});
});

test('a file for which the journal has no room is told', async () => {
  using bench = await benchWith({ limits: { journalBytesMax: 100_000, journalCallBytesMax: 1_000 } });
  expect(await missingAfterUndo(bench, 'rm -r data')).toEqual({ 'data/a/1.bin': 'no-room' });
});

test('a result waits for open files half of its time; what is not kept by then is told', async () => {
  using bench = await benchWith({ limits: { shadowEndMs: 0 } });
  expect(await missingAfterUndo(bench, 'rm -r data')).toEqual({ 'data/a/1.bin': 'late' });
});

test('files that are gone are closed when no command needs them, and all at the end', async () => {
  const before = openFiles();
  {
    using bench = await benchWith();
    const open = openFiles();
    await bench.command('rm -r data');
    expect(openFiles()).toBe(open - 3);
    await bench.command('echo 1 > .env.local; echo 2 > .env.local');
    expect(openFiles()).toBe(open - 3);
  }
  await until(() => openFiles() <= before);
});

test('a file that the policy hides is not opened', async () => {
  using bench = await benchWith({ isRefused: (path) => path === 'data/notes.md' });
  const { report } = await bench.command('rm data/notes.md');
  expect(report).toMatchObject({ undo: 'none', missing: [{ path: '.', why: 'policy' }] });
});
