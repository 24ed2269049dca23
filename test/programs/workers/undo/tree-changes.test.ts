/** Deleting, renaming and copying trees: like node:fs if that is harmless, never outside, never partially. */
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ToolError } from '../../../../src/base/errors.ts';
import type { ToolContext } from '../../../../src/tools/tool.ts';
import type { Change } from '../../../../workers/undo/changes.ts';
import { ruleOf } from '../../../support/policy.ts';
import { makeWorkspace, type TestWorkspace, treeOf } from '../../../support/workspace.ts';

let ws: TestWorkspace;
beforeEach(() => {
  ws = makeWorkspace();
});
afterEach(() => ws[Symbol.dispose]());

const at = (path: string) => join(ws.path, path);
function put(tree: Record<string, string>, root = ws.path): void {
  for (const [path, content] of Object.entries(tree)) {
    fs.mkdirSync(join(root, path, '..'), { recursive: true });
    if (content === '/') fs.mkdirSync(join(root, path), { recursive: true });
    else if (content.startsWith('-> ')) fs.symlinkSync(content.slice(3), join(root, path));
    else fs.writeFileSync(join(root, path), content);
  }
}
const codeOf = async (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'done',
    (error: Error & { code?: string }) => error.code ?? error.message,
  );

describe('as node:fs', () => {
  const name = fc.constantFrom('a', 'b', 'c', 'é');
  const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((it) => it.join('/'));
  const step = fc.oneof(
    fc.record({ do: fc.constant('write' as const), path }),
    fc.record({ do: fc.constant('mkdir' as const), path }),
    fc.record({ do: fc.constant('link' as const), path }),
    fc.record({ do: fc.constant('remove' as const), path, recursive: fc.boolean() }),
    fc.record({ do: fc.constant('rename' as const), path, to: path, overwrite: fc.boolean() }),
    fc.record({ do: fc.constant('copy' as const), path, to: path, overwrite: fc.boolean() }),
  );
  type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

  const ours = (it: Step, changes: ToolContext['changes']): Promise<unknown> => {
    if (it.do === 'remove') return changes.remove(it.path, it);
    if (it.do === 'rename') return changes.rename(it.path, it.to, it);
    return it.do === 'copy' ? changes.copy(it.path, it.to, it) : Promise.resolve();
  };
  const present = (root: string, path: string) => fs.lstatSync(join(root, path), { throwIfNoEntry: false });

  /** The same step with full paths and checks beforehand, which is safe only in an otherwise untouched tree. */
  function theirs(root: string, it: Step): void {
    if (it.do === 'write' || it.do === 'mkdir' || it.do === 'link') return;
    const from = join(root, it.path);
    const stat = present(root, it.path);
    if (!stat) throw new Error('ENOENT');
    if (it.do === 'remove') {
      if (stat.isDirectory() && !it.recursive) return fs.rmdirSync(from);
      return fs.rmSync(from, { recursive: true });
    }
    const to = join(root, it.to);
    const there = present(root, it.to);
    if (it.to === it.path || (stat.isDirectory() && it.to.startsWith(`${it.path}/`))) throw new Error('EINVAL');
    if (it.do === 'copy' && it.overwrite && stat.isDirectory() && there?.isDirectory()) {
      if (it.path.startsWith(`${it.to}/`)) throw new Error('EINVAL');
      assertMergeable(from, to);
      return merge(from, to);
    }
    if (there && (!it.overwrite || !there.isFile() || stat.isDirectory())) throw new Error('EEXIST');
    const made = fs.mkdirSync(join(to, '..'), { recursive: true });
    try {
      if (it.do === 'rename') fs.renameSync(from, to);
      else if (stat.isSymbolicLink()) fs.symlinkSync(fs.readlinkSync(from), to);
      else fs.cpSync(from, to, { recursive: true, verbatimSymlinks: true });
    } catch (error) {
      if (made) fs.rmSync(made, { recursive: true });
      throw error;
    }
  }

  const insideOf = (from: string, to: string) =>
    fs.readdirSync(from).map((it) => {
      const [a, b] = [join(from, it), join(to, it)];
      return { a, b, is: fs.lstatSync(a), there: fs.lstatSync(b, { throwIfNoEntry: false }) };
    });

  /**
   * Like `cp -r --no-dereference`, which replaces no directory by a file and no file by a directory; ours does not
   * overwrite links either.
   */
  function assertMergeable(from: string, to: string): void {
    for (const { a, b, is, there } of insideOf(from, to)) {
      if (!there) continue;
      if (is.isDirectory() !== there.isDirectory()) throw new Error('EEXIST');
      if (there.isSymbolicLink() && !is.isSymbolicLink()) throw new Error('ELOOP');
      if (is.isDirectory()) assertMergeable(a, b);
    }
  }

  function merge(from: string, to: string): void {
    for (const { a, b, is, there } of insideOf(from, to)) {
      if (is.isDirectory() && there) merge(a, b);
      else {
        fs.rmSync(b, { force: true });
        fs.cpSync(a, b, { recursive: true, verbatimSymlinks: true });
      }
    }
  }

  test('any steps on any tree give the same tree, or fail and change nothing', { timeout: 60_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 14 }), async (steps) => {
        using other = makeWorkspace();
        using own = makeWorkspace();
        for (const [number, it] of steps.entries()) {
          for (const root of [other.path, own.path]) {
            try {
              if (it.do === 'write') fs.writeFileSync(join(root, it.path), `${number}`);
              if (it.do === 'mkdir') fs.mkdirSync(join(root, it.path), { recursive: true });
              if (it.do === 'link') fs.symlinkSync('/nowhere/at/all', join(root, it.path));
            } catch {
              // EEXIST, ENOENT, ENOTDIR in both trees.
            }
          }
          let failed = false;
          try {
            theirs(other.path, it);
          } catch {
            failed = true; // Expected here.
          }
          const before = own.tree();
          const code = await codeOf(ours(it, own.context().changes));
          expect(code === 'done', `${JSON.stringify(it)}: ${code}`).toBe(!failed);
          if (failed) expect(own.tree()).toEqual(before);
          expect(own.tree()).toEqual(other.tree());
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe('what is refused', () => {
  test.each(['.git/HEAD', '.vscode/tasks.json', 'deep/er/.envrc', '.husky/x'])(
    'a tree that holds %s is neither moved, deleted nor copied, and named',
    async (inside) => {
      put({ [`t/${inside}`]: 'x', 't/plain': 'y' });
      const before = ws.tree();
      const { changes } = ws.context();
      for (const call of [
        changes.rename('t', 'u', { overwrite: false }),
        changes.remove('t', { recursive: true }),
        changes.copy('t', 'u', { overwrite: false }),
      ]) {
        await expect(call).rejects.toMatchObject({ code: 'ACCESS_DENIED', message: expect.stringMatching(/`[tu]\//) });
      }
      expect(ws.tree()).toEqual(before);
    },
  );

  test('a tree that holds a secret keeps its name, and one gets no secret name', async () => {
    using held = makeWorkspace({
      rules: [ruleOf('deny', { path: ['**/.env*', 'vault/**/key'] }, { code: 'SENSITIVE_FILE' })],
    });
    put({ 't/.env': 'x', 'plain/key': 'y', note: 'z' }, held.path);
    const before = held.tree();
    const { changes } = held.context();
    for (const [from, to] of [
      ['t', 'u'],
      ['t/.env', 'env.txt'],
      ['note', 't/.env.local'],
      ['plain', 'vault/plain'],
    ] as const) {
      expect(await codeOf(changes.rename(from, to, { overwrite: true })), from).toBe('SENSITIVE_FILE');
      expect(await codeOf(changes.copy(from, to, { overwrite: true })), from).toBe('SENSITIVE_FILE');
    }
    expect(await codeOf(changes.remove('t', { recursive: true }))).toBe('SENSITIVE_FILE');
    expect(held.tree()).toEqual(before);
  });

  test('a question about a tree does not cover a path in it that a rule asks about', async () => {
    using held = makeWorkspace({ rules: [ruleOf('ask', { write: ['**/HEAD'] })] });
    put({ 't/HEAD': 'x' }, held.path);
    for (const call of [
      held.context().changes.rename('t', 'u', { overwrite: false }),
      held.context().changes.remove('t', { recursive: true }),
    ])
      await expect(call).rejects.toMatchObject({ code: 'POLICY_DENIED', message: expect.stringContaining('t/HEAD') });
    expect(await codeOf(held.context().changes.rename('t/HEAD', 'u', { overwrite: false }))).toBe('done');
  });

  test('a protected name behind a link gets not even a directory', async () => {
    put({ '.vscode': '/', l: '-> .vscode', x: '1' });
    const before = ws.tree();
    expect(await codeOf(ws.context().changes.copy('x', 'l/new/tasks.json', { overwrite: false }))).toBe(
      'ACCESS_DENIED',
    );
    expect(ws.tree()).toEqual(before);
  });

  test('a copy of a FIFO, and of more than a call may copy', async () => {
    execFileSync('mkfifo', [at('fifo')]);
    expect(await codeOf(ws.context().changes.copy('fifo', 'g', { overwrite: false }))).toBe('UNSUPPORTED');
    using small = makeWorkspace({ limits: { changeBytesMax: 10, treeEntriesMax: 3, treeDepthMax: 2 } });
    put({ 'b/1': '123456', 'b/2': '123456', 'many/1': '', 'many/2': '', 'many/3': '', 'deep/1/2/3': '' }, small.path);
    const before = small.tree();
    for (const path of ['b', 'many', 'deep'])
      expect(await codeOf(small.context().changes.copy(path, 'to/it', { overwrite: false })), path).toBe('FILE_LIMIT');
    for (const path of ['many', 'deep'])
      expect(await codeOf(small.context().changes.remove(path, { recursive: true })), path).toBe('FILE_LIMIT');
    expect(small.tree()).toEqual(before);
  });
});

test('each change is told to the recorder while the old state is still there, and to the result', async () => {
  put({ a: '1', 'd/x': '2', e: '3' });
  const told: string[] = [];
  const context = ws.context({
    recorder: {
      recordBefore: ({ kind, type, at: spot, from }: Change) => {
        const there = fs.lstatSync(at(spot.realPath), { throwIfNoEntry: false }) ? 'there' : 'free';
        told.push([kind, type, ...(from ? [from.realPath, '>'] : []), spot.realPath, there].join(' '));
      },
    },
  });
  await context.changes.rename('a', 'new/a', { overwrite: false });
  await context.changes.copy('e', 'new/a', { overwrite: true });
  await context.changes.copy('d', 'f', { overwrite: false });
  await context.changes.remove('d', { recursive: true });
  await context.changes.remove('e', { recursive: false });
  expect(told).toEqual([
    'mkdir directory new free',
    'rename file a > new/a free',
    'copy file e > new/a there',
    'copy directory d > f free',
    'delete directory d there',
    'delete file e there',
  ]);
  expect(context.usage(0).filesChanged).toEqual([
    { path: 'new/a', kind: 'rename', from: 'a' },
    { path: 'new/', kind: 'create' },
    { path: 'new/a', kind: 'modify' },
    { path: 'f/', kind: 'create' },
    { path: 'd/', kind: 'delete' },
    { path: 'e', kind: 'delete' },
  ]);
});

test('a file that the recorder cannot keep is not changed', async () => {
  put({ a: '1', 'd/x': '2' });
  const before = ws.tree();
  const recorder = {
    recordBefore: () => {
      throw new ToolError('STORE_FAILED', 'the journal is full');
    },
  };
  const { changes } = ws.context({ recorder });
  await expect(changes.remove('d', { recursive: true })).rejects.toThrow('full');
  await expect(changes.rename('a', 'n/b', { overwrite: false })).rejects.toThrow('full');
  await expect(changes.copy('a', 'b', { overwrite: false })).rejects.toThrow('full');
  expect(ws.tree()).toEqual(before);
});

test('an approved delete and rename are of the very tree that was shown', async () => {
  put({ 'd/x': '1', y: '2' });
  const approve = async (path: string) => [{ path, hash: await ws.context().changes.state(path) }];
  const [d, y] = [await approve('d'), await approve('y')];
  fs.writeFileSync(at('d/new'), '');
  expect(await codeOf(ws.context({ preImages: d }).changes.remove('d', { recursive: true }))).toBe('APPROVAL_STALE');
  const shown = [...y, { path: 'z', hash: null }];
  fs.writeFileSync(at('z'), 'somebody was quicker');
  expect(await codeOf(ws.context({ preImages: shown }).changes.rename('y', 'z', { overwrite: true }))).toBe(
    'APPROVAL_STALE',
  );
  fs.rmSync(at('z'));
  expect(await codeOf(ws.context({ preImages: shown }).changes.rename('y', 'z', { overwrite: true }))).toBe('done');
  expect(await codeOf(ws.context({ preImages: await approve('d') }).changes.remove('d', { recursive: true }))).toBe(
    'done',
  );
  expect(ws.tree()).toEqual({ z: '2' });
});

test('a copy keeps permissions, whatever the umask', async () => {
  put({ 'd/run': 'x', 'd/in/y': 'z' });
  fs.chmodSync(at('d/run'), 0o755);
  fs.chmodSync(at('d/in'), 0o555);
  const before = process.umask(0o077);
  try {
    await ws.context().changes.copy('d', 'e/f', { overwrite: false });
  } finally {
    process.umask(before);
  }
  const modes = ['e', 'e/f/run', 'e/f/in', 'e/f/in/y'].map((it) => (fs.statSync(at(it)).mode & 0o777).toString(8));
  expect(modes).toEqual(['755', '755', '555', '644']);
  for (const path of ['d/in', 'e/f/in']) fs.chmodSync(at(path), 0o755);
});

/** Swaps directories of a tree for links to the outside and back, as fast as a thread can. */
const ATTACKER = `
  const fs = require('node:fs');
  const { tree, outside, stop } = require('node:worker_threads').workerData;
  const flag = new Int32Array(stop);
  while (Atomics.load(flag, 0) === 0) {
    for (const name of [tree + '/a', tree + '/a/b', tree]) {
      try { fs.renameSync(name, tree + '-aside'); } catch {}
      try { fs.symlinkSync(outside, name); } catch {}
      try { fs.unlinkSync(name); } catch {}
      try { fs.renameSync(tree + '-aside', name); } catch {}
    }
    Atomics.add(flag, 1, 1);
  }
`;

test('links that are swapped into a tree never lead out of it, in 30 000 swaps', {
  timeout: 120_000,
}, async () => {
  const outside = makeWorkspace();
  const precious = { b: '/', 'b/c': 'precious', x: 'precious', y: '/', 'y/z': 'precious' };
  put(precious, outside.path);
  const stop = new SharedArrayBuffer(8);
  const flag = new Int32Array(stop);
  const worker = new Worker(ATTACKER, { eval: true, workerData: { tree: at('t'), outside: outside.path, stop } });
  const codes = new Map<string, number>();
  try {
    const { changes } = ws.context();
    // On a busy machine the attacker gets fewer turns, so more tries are needed.
    const deadline = performance.now() + 90_000;
    const isEnough = (tries: number) => tries >= 1500 && Atomics.load(flag, 1) > 10_000;
    for (let tries = 0; !isEnough(tries) && performance.now() < deadline; tries++) {
      try {
        fs.mkdirSync(at('t/a/b'), { recursive: true });
        for (const path of ['t/a/b/c', 't/a/x', 't/y']) fs.writeFileSync(at(path), '', { flag: 'wx' });
      } catch {
        // The attacker moved a directory, or replaced it by a link.
      }
      const calls = [() => changes.remove('t', { recursive: true })];
      if (tries % 10 === 0) calls.unshift(() => changes.copy('t', 'copy', { overwrite: false }));
      for (const call of calls) {
        const code = await codeOf(call());
        codes.set(code, (codes.get(code) ?? 0) + 1);
      }
      // A link in place of the tree is copied as a link.
      if (fs.lstatSync(at('copy'), { throwIfNoEntry: false })?.isDirectory())
        expect(JSON.stringify(treeOf(at('copy')))).not.toContain('precious');
      fs.rmSync(at('copy'), { recursive: true, force: true });
      // Once: anything that the attacker adds meanwhile is removed in the next round.
      await changes.remove('t-aside', { recursive: true }).catch(() => undefined);
    }
    expect(Atomics.load(flag, 1)).toBeGreaterThan(10_000);
    const { 'b/c': c, x, 'y/z': z } = treeOf(outside.path);
    expect([c, x, z]).toEqual(['precious', 'precious', 'precious']);
    expect([...codes.keys()].filter((it) => it === 'INTERNAL')).toEqual([]);
    expect(codes.get('done') ?? 0).toBeGreaterThan(100);
  } finally {
    Atomics.store(flag, 0, 1);
    await new Promise((resolve) => worker.once('exit', resolve));
    outside[Symbol.dispose]();
  }
});

const mayMount = process.getuid?.() === 0;

test.skipIf(!mayMount)('a full disk leaves everything as it was', async () => {
  const disk = fs.mkdtempSync('/tmp/ringfence-disk-');
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=200k', 'tmpfs', disk]);
  try {
    const full = makeWorkspace({ at: disk });
    put({ 'd/one': 'x'.repeat(60_000), 'd/two': 'y'.repeat(60_000), small: 'old' }, disk);
    const before = full.tree();
    const { changes } = full.context();
    expect(await codeOf(changes.copy('d', 'new/e', { overwrite: false }))).toBe('FILE_LIMIT');
    expect(full.tree()).toEqual(before);
    const large = Buffer.alloc(200_000, 'z');
    const ifHash = full.context().target('small', { createDirs: false }).hash() as string;
    expect(() => full.context().target('small', { createDirs: false }).replace(large, { overwrite: true })).toThrow(
      expect.objectContaining({ code: 'FILE_LIMIT' }),
    );
    const files = [
      { path: 'd/one', content: Buffer.from('new'), ifHash: full.context().hashOf(Buffer.from('x'.repeat(60_000))) },
      { path: 'small', content: large, ifHash },
    ];
    expect(await codeOf(changes.replaceAll(files, '.'))).toBe('FILE_LIMIT');
    expect(full.tree()).toEqual(before);
    // Moving and deleting need no room.
    expect(await codeOf(changes.rename('d', 'e', { overwrite: false }))).toBe('done');
    expect(await codeOf(changes.remove('e', { recursive: true }))).toBe('done');
  } finally {
    execFileSync('umount', ['-l', disk]);
    fs.rmdirSync(disk);
  }
});

test.skipIf(!mayMount)('moves from one mount to another are whole too', async () => {
  fs.mkdirSync(at('m'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', at('m')]);
  try {
    put({ 'd/x': '1', 'd/l': '-> x', y: '2', 'm/z': '3' });
    const context = ws.context();
    await context.changes.rename('d', 'm/d', { overwrite: false });
    await context.changes.rename('y', 'm/z', { overwrite: true });
    expect(await codeOf(context.changes.rename('m', 'n', { overwrite: false }))).toBe('SANDBOX_DENIED');
    expect(ws.tree()).toEqual({ m: '/', 'm/d': '/', 'm/d/l': '-> x', 'm/d/x': '1', 'm/z': '2' });
    expect(context.usage(0).filesChanged?.map((it) => it.kind)).toEqual(['rename', 'rename']);
  } finally {
    execFileSync('umount', ['-l', at('m')]);
  }
});

test('the copy of one large file lets an abort in after every 8 MiB', async () => {
  fs.writeFileSync(at('large'), Buffer.alloc(64 * 1024 * 1024, 'x'));
  let turns = 0;
  let next: NodeJS.Immediate;
  const turn = () => {
    turns += 1;
    next = setImmediate(turn);
  };
  next = setImmediate(turn);
  await ws.context().changes.copy('large', 'copy', { overwrite: false });
  clearImmediate(next);
  expect(turns).toBeGreaterThanOrEqual(8);
  expect(fs.statSync(at('copy')).size).toBe(64 * 1024 * 1024);
});
