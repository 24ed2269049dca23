import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits, type Limits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import type { PathView } from '../../../src/hosts/job.ts';
import { WorkspaceIndex } from '../../../src/hosts/workspace-index.ts';
import { pathDecision } from '../../../src/policy/paths.ts';
import type { Rule } from '../../../src/policy/schema.ts';
import type { Masks } from '../../../src/sandbox/masks.ts';
import { temporaryDir, until } from '../../support/daemon.ts';

let workspace: string;
let stack: AsyncDisposableStack;
beforeEach(() => {
  workspace = temporaryDir('index');
  stack = new AsyncDisposableStack();
  stack.defer(() => rmSync(workspace, { recursive: true, force: true }));
});
afterEach(() => stack.disposeAsync());

/** Every question sweeps all directories, so that no test waits for the kernel's events. */
const EAGER = { indexSweepMs: 1, indexUnwatchedMs: 1 };

const open = (limits: Partial<Limits> = EAGER): WorkspaceIndex =>
  stack.use(new WorkspaceIndex(workspace, { ...defaultLimits, ...limits }, systemPowers()));

const rule = (match: Rule['match'], decision: Rule['decision'] = 'deny', id = 'r'): Rule => ({
  id,
  match,
  decision,
  reason: 'it is a test',
  source: 'test.yaml:1',
});
let views = 0;
const viewOf = (...rules: Rule[]): PathView => ({ key: `${views++}`, rules, home: '/nonexistent' });

const put = (path: string) => {
  mkdirSync(dirname(join(workspace, path)), { recursive: true });
  writeFileSync(join(workspace, path), '');
};
const inOrder = ({ hidden, readOnly, pinned }: Masks) => ({
  hidden: hidden.map((it) => it.path).sort(),
  readOnly: [...readOnly].sort(),
  pinned: [...pinned].sort(),
});

const FILES = [
  '.env',
  'a/.env',
  'a/b/.env',
  'a/b/c.pem',
  'a/x',
  'b/c/x',
  'b/c/d/y',
  'b/.env.old',
  'c/x',
  'c/c/c',
  'x',
  'b.pem',
];
const PATTERNS = [
  '**/.env*',
  'a/**',
  'a/b',
  '**/*.pem',
  'b/*',
  '**/c/**',
  'a/b/.env',
  '{a,b}/c',
  '**/x',
  '*/c/d/**',
  'c',
];

describe('masks', () => {
  test('hide every file that a rule denies or asks about, and no other', async () => {
    for (const it of FILES) put(it);
    const index = open();
    const patterns = fc.subarray(PATTERNS, { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(
        patterns,
        fc.option(patterns, { nil: undefined }),
        fc.constantFrom('ask' as const, 'deny' as const),
        async (read, except, decision) => {
          const view = viewOf(rule(except ? { read, not: { read: except } } : { read }, decision));
          const { hidden } = await index.masks(view);
          for (const file of FILES) {
            const isHidden = hidden.some((it) => file === it.path || file.startsWith(`${it.path}/`));
            expect([file, isHidden]).toEqual([file, pathDecision(view.rules, 'read', file, view.home) !== undefined]);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  test('cover a directory as a whole where all that may ever be in it is denied, and only there', async () => {
    for (const it of FILES) put(it);
    const index = open();
    expect(inOrder(await index.masks(viewOf(rule({ read: ['a/**', 'c', 'b/c/*'] }))))).toEqual({
      hidden: ['a', 'b/c/x'],
      readOnly: [],
      pinned: ['b', 'b/c'],
    });
    expect(inOrder(await index.masks(viewOf(rule({ read: 'a/**', not: { read: 'a/b/**' } })))).hidden).toEqual([
      'a/.env',
      'a/x',
    ]);
  });

  test('pin every directory above what is held, but none inside a read-only one', async () => {
    for (const it of ['p/q/r/s', 'docs/a/.env', 'del']) put(it);
    const view = viewOf(rule({ write: ['p/q/r/s', 'docs/**'] }), rule({ read: '**/.env' }), rule({ delete: 'del' }));
    expect(inOrder(await open().masks(view))).toEqual({
      hidden: ['docs/a/.env'],
      readOnly: ['docs', 'p/q/r/s'],
      pinned: ['del', 'p', 'p/q', 'p/q/r'],
    });
  });

  test('keep what other programs trust from being written under any policy', async () => {
    for (const it of [
      '.git/config',
      '.git/hooks/x',
      '.git/HEAD',
      'sub/.git/config',
      'tree/.git',
      '.envrc',
      '.git/modules/m/config',
    ])
      put(it);
    expect(inOrder(await open().masks(viewOf())).readOnly).toEqual(
      ['.envrc', '.git/config', '.git/hooks', '.git/modules/m/config', 'sub/.git/config', 'tree/.git'].sort(),
    );
  });

  test('follow no link', async () => {
    put('real/x');
    symlinkSync('real', join(workspace, 'secret'));
    symlinkSync('.', join(workspace, 'real/loop'));
    expect(inOrder(await open().masks(viewOf(rule({ read: ['secret/**', 'secret', '**/loop/**'] }))))).toEqual({
      hidden: [],
      readOnly: [],
      pinned: [],
    });
  });

  test('hold the whole workspace read-only where all of it is, and are refused where all of it is hidden', async () => {
    put('a/x');
    const index = open();
    expect(inOrder(await index.masks(viewOf(rule({ write: '**' }))))).toEqual({
      hidden: [],
      readOnly: [''],
      pinned: [],
    });
    await expect(index.masks(viewOf(rule({ read: '**' }, 'deny', 'nothing')))).rejects.toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      extras: { rule: 'nothing' },
    });
  });

  test('give a lifted target free from what only asks about it, and nothing beside it', async () => {
    for (const it of ['p/a', 'p/b', 'p/q/c', 'p/q/key.pem', 'p/q/.env', 'z']) put(it);
    const view = viewOf(
      rule({ read: 'p/**' }, 'ask', 'ask'),
      rule({ read: '**/.env' }, 'deny', 'deny'),
      rule({ read: '**/*.pem' }, 'ask', 'keys'),
    );
    const index = open();
    const hidden = async (...lifted: string[]) => inOrder(await index.masks(view, lifted)).hidden;
    expect(await hidden()).toEqual(['p']);
    expect(await hidden('z', 'elsewhere', '/etc/passwd', '../p/a')).toEqual(['p']);
    expect(await hidden('p/a')).toEqual(['p/b', 'p/q']);
    expect(await hidden(`${workspace}/p/q/./c`)).toEqual(['p/a', 'p/b', 'p/q/.env', 'p/q/key.pem']);
    expect(await hidden('p')).toEqual(['p/q/.env', 'p/q/key.pem']);
    expect(await hidden('p', 'p/q/key.pem', 'p/q/.env')).toEqual(['p/q/.env']);
    expect(await hidden()).toEqual(['p']);
  });
});

describe('after changes', () => {
  const place = fc.constantFrom('a', 'b', 'a/b', 'c', 'a/b/c', 'd');
  const change = fc.oneof(
    fc.record({ make: place.map((it) => `${it}/.env`) }),
    fc.record({ remove: place }),
    fc.record({ move: fc.tuple(place, place) }),
  );
  type Change = { make: string } | { remove: string } | { move: readonly [string, string] };
  const apply = (it: Change) => {
    try {
      if ('make' in it) put(it.make);
      else if ('remove' in it) rmSync(join(workspace, it.remove), { recursive: true, force: true });
      else renameSync(join(workspace, it.move[0]), join(workspace, it.move[1]));
    } catch {
      // No such source, or the target is in the way: nothing changed.
    }
  };

  test('the masks are those that a new index finds', async () => {
    const view = viewOf(rule({ read: ['**/.env', 'd/**', 'b'] }), rule({ write: 'c/**' }));
    const index = open();
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(change, { maxLength: 4 }), { maxLength: 6 }), async (rounds) => {
        for (const round of rounds) {
          round.forEach(apply);
          await using fresh = new WorkspaceIndex(workspace, { ...defaultLimits, ...EAGER }, systemPowers());
          expect(inOrder(await index.masks(view))).toEqual(inOrder(await fresh.masks(view)));
        }
      }),
      { numRuns: 15 },
    );
  });

  test('a folder that was replaced by another one of its name is known at once, the kernel not having told yet', async () => {
    // No sweep: finds changes only by checking directories whose names changed.
    const index = open({ indexSweepMs: 60_000, indexUnwatchedMs: 60_000 });
    const view = viewOf();
    put('.git/HEAD');
    put('.git/hooks/one');
    await index.masks(view);
    // Longer than RACY_MS, within which a directory is checked again.
    await new Promise((resolve) => setTimeout(resolve, 150));
    await index.masks(view);
    rmSync(join(workspace, '.git'), { recursive: true });
    for (const path of ['.git/HEAD', '.git/config']) put(path);
    expect((await index.masks(view)).readOnly).toEqual(['.git/config']);
  });

  test('masks follow changes that the kernel reports, also in trees that came with content, without a sweep', async () => {
    const index = open({ indexSweepMs: 3_600_000 });
    const view = viewOf(rule({ read: '**/.env' }));
    const hidden = async () => inOrder(await index.masks(view)).hidden;
    expect(await hidden()).toEqual([]);
    expect(index.watched).toBe(true);
    for (const path of ['.env', 'new/deep/er/.env', 'new/deep/er/still/.env']) {
      put(path);
      await until(async () => (await hidden()).includes(path));
    }
    renameSync(join(workspace, 'new'), join(workspace, 'old'));
    await until(async () => (await hidden()).join() === '.env,old/deep/er/.env,old/deep/er/still/.env');
    rmSync(join(workspace, 'old'), { recursive: true });
    await until(async () => (await hidden()).join() === '.env');
  });
});

describe('a path that cannot be masked', () => {
  const SANDBOX_UNAVAILABLE = { code: 'SANDBOX_UNAVAILABLE' };

  test('a workspace of more names than are kept is refused with the reason', async () => {
    for (let at = 0; at < 30; at++) put(`f${at}`);
    await expect(open({ ...EAGER, indexEntriesMax: 20 }).masks(viewOf())).rejects.toMatchObject({
      ...SANDBOX_UNAVAILABLE,
      message: expect.stringMatching(/more than 20 files/),
    });
  });

  test('a workspace refused for its size is looked at again when it may have become smaller', async () => {
    for (let at = 0; at < 30; at++) put(`f${at}`);
    const index = open({ ...EAGER, indexEntriesMax: 20 });
    await expect(index.masks(viewOf())).rejects.toMatchObject(SANDBOX_UNAVAILABLE);
    for (let at = 0; at < 20; at++) rmSync(join(workspace, `f${at}`));
    await until(() =>
      index.masks(viewOf()).then(
        () => true,
        () => false,
      ),
    );
  });

  test('directories that need the most mounts are hidden as a whole, with a report, if there are too many', async () => {
    for (let at = 0; at < 30; at++) put(`k${at}/x.pem`);
    for (let at = 0; at < 30; at++) put(`many/${at}/x.pem`);
    put('.env');
    put('few/.env');
    const view = viewOf(rule({ read: '**/.env' }, 'deny', 'env'), rule({ read: '**/*.pem' }, 'deny', 'keys'));
    const { coarse, ...masks } = await open({ ...EAGER, masksMax: 70 }).masks(view);
    const hidden = inOrder(masks).hidden;
    expect(coarse).toContainEqual({ path: 'many', why: 'too-many', rule: 'keys', count: 30 });
    for (const path of ['.env', 'many']) expect(hidden).toContain(path);
    for (let at = 0; at < 30; at++) expect(hidden.some((it) => `k${at}/x.pem`.startsWith(it))).toBe(true);
  });

  test('a workspace with too many hidden entries of its own shows some of its entries, but no hidden one', async () => {
    for (let at = 0; at < 60; at++) put(`${at}.env`);
    for (const path of ['plain.txt', 'src/x', 'src/.env']) put(path);
    const view = viewOf(rule({ read: '**/*.env' }, 'deny', 'env'));
    expect(await open({ ...EAGER, masksMax: 50 }).masks(view)).toMatchObject({
      hidden: [{ path: 'src/.env', type: 'file' }],
      pinned: ['src'],
      shown: ['src', 'plain.txt'],
      coarse: [{ path: '', why: 'too-many', rule: 'env' }],
    });
  });

  test('a denied name that is not UTF-8, and what lies in a directory of such a name, is masked by its bytes', async () => {
    const odd = Buffer.concat([Buffer.from(`${workspace}/caf`), Buffer.from([0xe9])]);
    mkdirSync(odd);
    const index = open();
    const view = viewOf(rule({ read: '**/*.env' }));
    expect((await index.masks(view)).hidden).toEqual([]);
    writeFileSync(Buffer.concat([odd, Buffer.from('/x.env')]), '');
    const bytes = Buffer.from('caf\xe9', 'latin1');
    expect((await index.masks(view)).hidden).toEqual([{ path: 'café', type: 'directory', bytes }]);
    rmSync(Buffer.concat([odd, Buffer.from('/x.env')]));
    writeFileSync(Buffer.concat([odd, Buffer.from('.env')]), '');
    expect((await index.masks(view)).hidden).toEqual([
      { path: 'café.env', type: 'file', bytes: Buffer.from('caf\xe9.env', 'latin1') },
    ]);
  });

  test('a directory full of hidden files, or with one whose name no mount takes, is hidden as a whole', async () => {
    for (let at = 0; at < 101; at++) put(`many/${at}.env`);
    put('odd/plain.txt');
    writeFileSync(Buffer.concat([Buffer.from(`${workspace}/odd/`), Buffer.from([0xff]), Buffer.from('.env')]), '');
    put('few/a.env');
    const { hidden } = inOrder(await open().masks(viewOf(rule({ read: '**/*.env' }))));
    expect(hidden).toEqual(['few/a.env', 'many', 'odd']);
  });

  test('a workspace that is gone is refused with the reason', async () => {
    rmSync(workspace, { recursive: true });
    await expect(open().masks(viewOf())).rejects.toMatchObject(SANDBOX_UNAVAILABLE);
  });
});
