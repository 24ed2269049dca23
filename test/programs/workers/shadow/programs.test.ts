/** What programs did is undone byte for byte and with its modes, or told with exactly the paths that differ. */
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ShadowBench } from '../../../support/shadow.ts';

/** A project with a history, an ignored build, links, modes, an empty directory. */
const PROJECT = `
git init -q -b main .
mkdir -p src/deep empty bin node_modules/pkg data
for i in $(seq 1 30); do echo "line $i of a" > src/f$i.txt; done
printf 'one\\ntwo\\n' > src/deep/a.txt; printf '\\000\\001\\002' > data/blob
printf '#!/bin/sh\\necho hi\\n' > bin/run; chmod 755 bin/run; chmod 700 empty
ln -s ../src/f1.txt bin/link; ln -s /nonexistent dangling
echo node_modules/ > .gitignore; echo dep > node_modules/pkg/index.js
echo 'int main(){return 0;}' > main.c
printf 'out: main.c\\n\\tcp main.c out\\nall: out o1 o2 o3\\no%%:\\n\\techo $@ > $@\\n' > Makefile
git add -A; git commit -qm first
git checkout -q -b side; echo side > side.txt; git add -A; git commit -qm side; git checkout -q main
echo two > second.txt; git add -A; git commit -qm second
echo untracked > own.txt; echo changed >> src/f2.txt; echo staged > staged.txt; git add staged.txt
`;

interface State {
  readonly [path: string]: string;
}

/** Everything but the object store, whose unreachable rest is git's to collect. */
function stateOf(folder: string, inside = ''): State {
  const found: Record<string, string> = {};
  for (const name of readdirSync(join(folder, inside)).sort()) {
    const path = inside === '' ? name : `${inside}/${name}`;
    const stat = lstatSync(join(folder, path));
    if (stat.isSymbolicLink()) found[path] = `-> ${readlinkSync(join(folder, path))}`;
    else if (stat.isDirectory()) {
      if (path === '.git/objects') continue;
      found[`${path}/`] = (stat.mode & 0o7777).toString(8);
      Object.assign(found, stateOf(folder, path));
    } else if (stat.isFile())
      found[path] = `${(stat.mode & 0o7777).toString(8)} ${readFileSync(join(folder, path)).toString('latin1')}`;
    else found[path] = 'special';
  }
  return found;
}

const differing = (a: State, b: State): string[] =>
  [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((it) => a[it] !== b[it]).sort();

const has = (program: string) => ['/usr/bin', '/bin', '/usr/local/bin'].some((it) => existsSync(join(it, program)));

/** What `rm -rf .git` removes in a sandbox, where the rest is mounted. */
const RM_GIT = 'find .git -mindepth 1 -maxdepth 1 ! -name config ! -name hooks ! -name info -exec rm -rf {} +';

/** A clone whose packs are hard links, as git makes them. */
const CLONE = 'git gc -q; git clone -q . copy';
/** One file by three names. */
const PAIRS = 'mkdir pairs; echo pair > pair1; ln pair1 pair2; ln pair1 pairs/pair3';

const FULL: [string, string, string?][] = [
  ['rm -rf .git', RM_GIT],
  ['rm -rf .git with packs', `${RM_GIT}; rm -rf src`, 'git gc -q; git commit -qm loose --allow-empty'],
  ['rm -rf .git with two packs of the same', RM_GIT, 'git repack -qad; git repack -qa; git commit -qm x --allow-empty'],
  ['rm of the objects', 'rm -rf .git/objects; echo x > own.txt'],
  ['rm of a pack', 'rm -f .git/objects/pack/*.pack; echo x > own.txt', 'git gc -q'],
  ['rm of loose objects and of files that are in them', `find .git/objects -type f -delete; rm -rf src .gitignore`],
  ['chmod of .git', 'chmod go-rwx .git; chmod -R go-rwx src .git/refs .git/objects'],
  [
    'find -delete',
    'find . -mindepth 1 ! -path "./.git/*" ! -path "./node_modules*" ! -name .git ! -name .gitignore -delete',
  ],
  ['rm of loose objects', 'find .git/objects -type f -delete; echo x > own.txt'],
  ['rm of the refs', 'rm -rf .git/refs .git/packed-refs .git/HEAD .git/logs', 'git pack-refs --all'],
  [
    'git gc that prunes',
    'git update-ref -d refs/heads/side; git reflog expire --expire=now --all; git gc -q --prune=now; echo x > own.txt',
  ],
  ['git commit', 'git commit -qam third'],
  ['git commit --amend', 'git commit -q --amend -m other'],
  ['git rebase', 'git stash -q; git checkout -q side; git rebase -q main'],
  [
    'git merge with a conflict',
    'git stash -q; echo x > side.txt; git add -A; git commit -qm x; git merge -q side || true',
  ],
  ['git stash', 'git stash -q -u'],
  ['git stash and pop', 'git stash -q; git stash pop -q'],
  ['git checkout of a branch', 'git stash -q; git checkout -q side'],
  ['git checkout of files', 'git checkout -q -- src/f2.txt'],
  ['git reset --hard', 'git reset -q --hard HEAD~1'],
  ['git clean', 'git clean -fdq'],
  ['git gc', 'git gc -q'],
  ['git branch and tag', 'git branch feature/one; git tag v1; git update-ref -d refs/heads/side'],
  ['git rm', 'git rm -rq --cached src; rm -rf src'],
  ['git mv', 'git mv src lib'],
  ['git worktree and pack-refs', 'git pack-refs --all'],
  ['sed -i', "sed -i 's/line/LINE/' src/*.txt"],
  ['mv of directories', 'mv src lib; mkdir src; mv lib/deep src/'],
  ['mv over a file', 'mv own.txt second.txt'],
  ['ln', 'ln own.txt hard; ln -s own.txt soft; echo more >> hard'],
  ['a hard link that was there', 'echo more >> pair1', PAIRS],
  ['a hard link that is written and replaced', 'echo more >> pair1; echo third > n; mv n pair1', PAIRS],
  ['a hard link that is written and removed', 'echo more >> pair1; rm pair1', PAIRS],
  ['a hard link that is written and goes with its folder', 'echo more >> pairs/pair3; rm -r pairs', PAIRS],
  ['a second name that is made, written and removed', 'ln own.txt t; echo new > t; rm t'],
  ['a second name that is replaced', 'echo 1 > n; ln own.txt t; echo new > t; mv n t'],
  ['a second name that is moved and removed', 'ln own.txt t; echo new > t; mv t u; rm u'],
  ['a second name in a folder that goes', 'mkdir d; ln own.txt d/t; echo new > d/t; rm -r d'],
  ['a second name in a new folder', 'mkdir d; ln own.txt d/t; echo new > d/t; rm d/t'],
  ['a second name with the times of the first', 'touch -r own.txt c; ln own.txt t; echo abc > t; touch -r c t; rm t'],
  ['a hard link whose folder is made anew', 'echo more >> pairs/pair3; mv pairs p; rm -r p; mkdir pairs', PAIRS],
  ['a hard link whose folder becomes a file', 'echo more >> pairs/pair3; rm -r pairs; echo file > pairs', PAIRS],
  ['a hard link that is moved, written and removed', 'mv pair1 p; echo more >> p; rm p', PAIRS],
  ['a clone that shares packs', 'touch .git/objects/pack/* copy/.git/objects/pack/*; echo x > own.txt', CLONE],
  ['a hard link that gets other permissions and is removed', 'chmod 600 pair1; rm pair1', PAIRS],
  ['rm -rf', 'rm -rf src bin data'],
  ['rm -rf of everything but git', 'rm -rf src bin data empty *.txt main.c Makefile dangling .gitignore'],
  ['tar', 'tar cf all.tar src; mkdir x; tar xf all.tar -C x; rm all.tar'],
  ['tar over', 'tar cf a.tar src; sed -i s/line/x/ src/*.txt; tar xf a.tar'],
  ['make -j8', 'make -sj8 all'],
  ['cc', 'cc -o prog main.c'],
  ['chmod', 'chmod 600 src/f1.txt; chmod 755 empty; chmod -R go-rwx bin; chmod 500 src/deep'],
  ['chmod that opens', 'chmod 755 closed; echo x > closed/new', 'mkdir closed; echo a > closed/a; chmod 555 closed'],
  ['chmod that closes', 'echo x > src/deep/a.txt; rm src/f3.txt; chmod 500 src/deep src'],
  ['symlink swap', 'mv src/deep away; ln -s ../away src/deep; rm bin/link; echo file > bin/link'],
  ['a link becomes a directory', 'rm dangling; mkdir -p dangling/a; echo x > dangling/a/b'],
  ['a file becomes a directory', 'rm own.txt; mkdir own.txt; echo x > own.txt/in; ln -s in own.txt/link'],
  ['a directory becomes a file', 'rm -rf src; echo src > src'],
  ['a directory is made anew', 'rm -rf src; mkdir src; echo x > src/f1.txt; mkdir src/new'],
  [
    'mmap',
    `python3 -c "
import mmap
f=open('src/f5.txt','r+b');m=mmap.mmap(f.fileno(),0);m[0:4]=b'LINE'"`,
  ],
  ['truncate', 'truncate -s 3 src/f7.txt; truncate -s 100000 src/f8.txt; : > second.txt'],
  ['rename in place', 'for i in src/*.txt; do cp $i $i.new; echo more >> $i.new; mv $i.new $i; done'],
  ['files made and removed', 'mkdir t; for i in 1 2 3; do echo $i > t/$i; done; rm -rf t'],
  ['empty directories', 'mkdir -p a/b/c; rmdir empty'],
  ['odd names', "echo x > 'a b'; echo y > $'new\\nline'; mkdir ' '; echo z > ' /-rf'"],
  ['patch', 'cp src/f1.txt o; echo x >> o; diff -u src/f1.txt o > p || true; patch -s src/f1.txt p; rm o p'],
  ['nothing', 'true'],
  ['the same content again', 'cp own.txt o; cat o > own.txt; rm o; touch src/f1.txt'],
];

const SQLITE = `sqlite3 app.db "pragma journal_mode=wal; create table if not exists t(a); insert into t values(1);" > /dev/null`;
if (has('sqlite3'))
  FULL.push(
    ['sqlite in WAL mode', `${SQLITE.replace('values(1)', 'values(2)')}`, SQLITE],
    [
      'sqlite with its log left',
      `cp app.db-wal w 2>/dev/null; ${SQLITE}; cp w app.db-wal 2>/dev/null; rm -f w`,
      SQLITE,
    ],
  );

test.each(
  FULL.filter(([name]) => has(name.split(' ')[0] === 'cc' ? 'cc' : 'git') && (name !== 'make -j8' || has('make'))),
)('undo of %s is full, and so is the undo of the undo', { timeout: 60_000 }, async (_, script, before) => {
  using bench = new ShadowBench();
  bench.sh(PROJECT);
  if (before) bench.sh(before);
  await bench.build();
  const start = stateOf(bench.ws.path);
  const { key, report } = await bench.command(script);
  const end = stateOf(bench.ws.path);
  if (differing(start, end).length === 0) {
    expect(report).toBeUndefined();
    return;
  }
  expect(report).toMatchObject({ undo: 'full', missing: [], total: 0 });
  const undone = await bench.undo(key, report?.paths ?? []);
  expect(undone.conflicts).toEqual([]);
  expect(differing(start, stateOf(bench.ws.path))).toEqual([]);
  if (existsSync(bench.at('.git')))
    bench.sh('git fsck --connectivity-only 2>&1 && GIT_OPTIONAL_LOCKS=0 git status --short');
  const again = await bench.undo(undone.key, undone.paths);
  expect(again.conflicts).toEqual([]);
  expect(differing(end, stateOf(bench.ws.path))).toEqual([]);
});

const PARTIAL: [string, string, Record<string, string>, string?][] = [
  ['an ignored tree', 'echo x > own.txt; echo new > node_modules/pkg/index.js', { 'node_modules/': 'ignored' }],
  ['an ignored tree that is gone', 'rm -rf node_modules own.txt', { 'node_modules/': 'ignored' }],
  [
    'a new ignored tree',
    'echo x > own.txt; echo dist/ >> .gitignore; mkdir dist; echo x > dist/a',
    { 'dist/': 'ignored' },
  ],
  [
    'a second name in a folder that is not kept',
    'echo new > node_modules/own',
    { 'node_modules/': 'ignored' },
    'ln own.txt node_modules/own',
  ],
  [
    'a second name that goes from a folder that is not kept',
    'echo new > node_modules/own; rm node_modules/own',
    { 'node_modules/': 'ignored' },
    'ln own.txt node_modules/own',
  ],
  ['a special file', 'mkfifo pipe; echo x > own.txt', { pipe: 'special' }],
  ['bits for foreign rights', 'chmod u+s bin/run; echo x > own.txt', { 'bin/run': 'special' }],
  ['all of git', 'rm -rf .git; echo x > own.txt', { '.git/': 'git-objects' }],
  ['a hook', 'echo x > .git/hooks/post-commit; echo x > own.txt', { '.git/hooks/': 'protected' }],
  ['trusted files', 'mkdir .vscode; echo x > .vscode/a; echo x > own.txt', { '.vscode/': 'protected' }],
];

test.each(PARTIAL)(
  'undo of %s is partial, with exactly the paths that differ',
  { timeout: 60_000 },
  async (_, script, missing, before) => {
    using bench = new ShadowBench();
    bench.sh(PROJECT);
    if (before) bench.sh(before);
    await bench.build();
    const start = stateOf(bench.ws.path);
    const { key, report } = await bench.command(script);
    expect(report?.undo).toBe('partial');
    expect(Object.fromEntries((report?.missing ?? []).map(({ path, why }) => [path, why]))).toEqual(missing);
    const undone = await bench.undo(key, report?.paths ?? []);
    expect(undone.conflicts).toEqual([]);
    const left = differing(start, stateOf(bench.ws.path));
    expect(left.length).toBeGreaterThan(0);
    const told = Object.keys(missing);
    for (const it of left)
      expect(
        told.some((path) => it === path || (path.endsWith('/') && it.startsWith(path))),
        it,
      ).toBe(true);
    for (const path of told)
      expect(
        left.some((it) => it === path || it.startsWith(path)),
        path,
      ).toBe(true);
  },
);
