/** The reported changes equal the difference of two walks of the tree, before and after. */
import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { defaultLimits, type Limits } from '../../../../src/base/limits.ts';
import { systemPowers } from '../../../../src/base/powers.ts';
import type { ChangedRun } from '../../../../src/hosts/follower/changed-files.ts';
import type { FilesChanged } from '../../../../src/hosts/job.ts';
import { WorkspaceIndex } from '../../../../src/hosts/workspace-index.ts';
import { until } from '../../../support/daemon.ts';

let workspace: string;

/** The changes of a workspace, as the calls of a command begin and end them. Nothing is found by looking at times. */
class Followed implements AsyncDisposable {
  readonly index: WorkspaceIndex;
  #run: ChangedRun | undefined;

  constructor(limits: Partial<Limits> = { filesChangedMax: 1000 }) {
    const never = { indexSweepMs: 3_600_000, watchAnswerMs: 20_000 };
    this.index = new WorkspaceIndex(workspace, { ...defaultLimits, ...never, ...limits }, systemPowers());
  }

  async begin(): Promise<void> {
    await this.index.masks({ key: '', rules: [], home: '/nonexistent' });
    this.#run = this.index.beginChanges();
  }

  end(): Promise<FilesChanged> {
    return (this.#run as ChangedRun).end(() => false);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.index[Symbol.asyncDispose]();
  }
}

beforeEach(() => {
  workspace = mkdtempSync(join(tmpdir(), 'ringfence-watched-'));
});
afterEach(() => rmSync(workspace, { recursive: true }));

/** Files except directories, by path. */
function walk(folder = '', found = new Map<string, string>()): Map<string, string> {
  for (const entry of readdirSync(join(workspace, folder), { withFileTypes: true })) {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    if (entry.isDirectory()) walk(path, found);
    else {
      const { dev, ino, size, mtimeNs, ctimeNs, mode } = lstatSync(join(workspace, path), { bigint: true });
      found.set(path, [dev, ino, size, mtimeNs, ctimeNs, mode].join());
    }
  }
  return found;
}

function difference(before: Map<string, string>, after: Map<string, string>): string[] {
  const paths = new Set([...before.keys(), ...after.keys()]);
  return [...paths]
    .filter((it) => before.get(it) !== after.get(it))
    .map((it) => `${!before.has(it) ? 'create' : after.has(it) ? 'modify' : 'delete'} ${it}`)
    .toSorted();
}

/** The changes reported for a run, in the form of `difference`. */
async function changesOf(names: Followed, work: () => unknown): Promise<string[]> {
  await names.begin();
  await work();
  const changed = await names.end();
  if ('unknown' in changed) throw new Error(changed.unknown);
  return changed.files.map(({ kind, path }) => `${kind} ${path}`).toSorted();
}

// Directories and files share names, and a directory may hold a file of its own name.
const name = fc.constantFrom('a', 'b', 'c');
const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((it) => it.join('/'));
const kind = fc.constantFrom('write', 'append', 'mkdir', 'rm', 'chmod', 'link', 'replace', 'mv', 'mv-in-shell');
const steps = fc.array(fc.tuple(kind, path, path), { minLength: 1, maxLength: 12 });

function take(kind: string, from: string, to: string): void {
  const [a, b] = [join(workspace, from), join(workspace, to)];
  try {
    if (kind === 'write') writeFileSync(a, `${Math.random()}`);
    else if (kind === 'append') appendFileSync(a, 'x');
    else if (kind === 'mkdir') mkdirSync(a, { recursive: true });
    else if (kind === 'rm') rmSync(a, { recursive: true, force: true });
    else if (kind === 'chmod') chmodSync(a, Math.random() < 0.5 ? 0o700 : 0o755);
    else if (kind === 'link') symlinkSync('a', a);
    else if (kind === 'mv') renameSync(a, b);
    else if (kind === 'replace') {
      writeFileSync(`${a}.new`, 'new');
      renameSync(`${a}.new`, a);
    } else
      execFileSync('/bin/sh', ['-c', 'mkdir -p "$2" && mv "$1" "$2" && echo x > "$2/a"', '-', a, b], {
        stdio: 'ignore',
      });
  } catch {
    // A path through a file, or to itself: nothing happens, as in a shell.
  }
}

/**
 * Whether the report covers the real changes. A directory that was moved away and back counts as fully rewritten, so
 * it may report more.
 */
function isToldOf(told: readonly string[], real: readonly string[]): boolean {
  const more = told.filter((it) => !real.includes(it));
  return real.every((it) => told.includes(it)) && more.every((it) => it.startsWith('modify '));
}

test('random changes are told as two walks tell them', { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(steps, steps, async (first, second) => {
      rmSync(workspace, { recursive: true });
      mkdirSync(workspace);
      await using names = new Followed();
      for (const round of [first, second]) {
        const before = walk();
        const told = await changesOf(names, () => {
          for (const [kind, from, to] of round) take(kind, from, to);
        });
        const real = difference(before, walk());
        const isMoved = round.some(([kind]) => kind.startsWith('mv'));
        if (isMoved) expect({ told, real, isToldOf: isToldOf(told, real) }).toMatchObject({ isToldOf: true });
        else expect(told).toEqual(real);
      }
    }),
    { numRuns: 100 },
  );
});

test('changes of before a run are not told of it', async () => {
  await using names = new Followed();
  for (let i = 0; i < 50; i++) writeFileSync(join(workspace, `${i}`), 'x');
  expect(await changesOf(names, () => writeFileSync(join(workspace, 'mine'), 'x'))).toEqual(['create mine']);
});

test('a file that is created and removed again does not count as changed', async () => {
  await using names = new Followed();
  const told = await changesOf(names, () => {
    mkdirSync(join(workspace, 'a/b'), { recursive: true });
    writeFileSync(join(workspace, 'a/b/c'), 'x');
    rmSync(join(workspace, 'a'), { recursive: true });
  });
  expect(told).toEqual([]);
});

test('a directory of the same name and inode as one that was removed is followed', async () => {
  const folder = join(workspace, 'd');
  mkdirSync(folder);
  await using names = new Followed();
  for (let i = 0; i < 5; i++) {
    await changesOf(names, () => {
      rmSync(folder, { recursive: true });
      mkdirSync(folder);
    });
    expect(await changesOf(names, () => writeFileSync(join(folder, `${i}`), 'x'))).toEqual([`create d/${i}`]);
  }
});

test('a changed directory is not taken for the file in it that has its name', async () => {
  mkdirSync(join(workspace, 'd'));
  writeFileSync(join(workspace, 'd/d'), 'x');
  await using names = new Followed();
  expect(await changesOf(names, () => chmodSync(join(workspace, 'd'), 0o700))).toEqual([]);
  expect(await changesOf(names, () => appendFileSync(join(workspace, 'd/d'), 'y'))).toEqual(['modify d/d']);
});

test('changes in .git are not reported', async () => {
  mkdirSync(join(workspace, '.git'));
  await using names = new Followed();
  const told = await changesOf(names, () => {
    writeFileSync(join(workspace, '.git/index'), 'x');
    writeFileSync(join(workspace, '.gitignore'), 'x');
  });
  expect(told).toEqual(['create .gitignore']);
});

test('more events than the kernel keeps make a run unknown, and not the next one', { timeout: 120_000 }, async () => {
  await using names = new Followed();
  await names.begin();
  const max = Number(readFileSync('/proc/sys/fs/inotify/max_queued_events', 'utf8'));
  for (let i = 0; i < 1.3 * max; i++) writeFileSync(join(workspace, `${i % 100}`), 'x');
  expect(await names.end()).toEqual({ unknown: 'flood' });
  await until(() => names.index.watched);
  expect(await changesOf(names, () => writeFileSync(join(workspace, '7'), 'y'))).toEqual(['modify 7']);
});

test('more changes than are counted make a run unknown', async () => {
  await using names = new Followed({ watchedNamesMax: 10 });
  await names.begin();
  for (let i = 0; i < 20; i++) writeFileSync(join(workspace, `${i}`), 'x');
  expect(await names.end()).toEqual({ unknown: 'flood' });
});

test('changes in a workspace of more folders than are followed are unknown', async () => {
  for (let i = 0; i < 20; i++) mkdirSync(join(workspace, `${i}`));
  await using names = new Followed({ watchedDirectoriesMax: 10 });
  await names.begin();
  expect(await names.end()).toEqual({ unknown: 'unwatched' });
});

test('outer files are told first, and all are counted', async () => {
  await using names = new Followed();
  await names.begin();
  mkdirSync(join(workspace, 'a'));
  for (let i = 0; i < 1200; i++) writeFileSync(join(workspace, `a/${i}`), 'x');
  writeFileSync(join(workspace, 'z'), 'x');
  const changed = await names.end();
  expect(changed).toMatchObject({ total: 1201, files: { length: 1000, 0: { path: 'z', kind: 'create' } } });
});
