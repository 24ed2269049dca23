/** Undo restores what tools changed, whatever it was and wherever it was interrupted. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import type { UndoOutcome } from '../../../../src/tools/context/undo.ts';
import fileCopy from '../../../../src/tools/file/copy.ts';
import fileDelete from '../../../../src/tools/file/delete.ts';
import fileMultiEdit from '../../../../src/tools/file/multi-edit.ts';
import fileRename from '../../../../src/tools/file/rename.ts';
import fileWrite from '../../../../src/tools/file/write.ts';
import { Spool } from '../../../../workers/undo/spool.ts';
import { cutOffAt } from '../../../support/cut-off.ts';
import { temporaryDir } from '../../../support/daemon.ts';
import { ruleOf } from '../../../support/policy.ts';
import { makeWorkspace, type TestWorkspace, treeWithModes, type WorkspaceOptions } from '../../../support/workspace.ts';

const TOOLS = { fileCopy, fileDelete, fileMultiEdit, fileRename, fileWrite } as const;
type Operation = { [T in keyof typeof TOOLS]: [T, object] }[keyof typeof TOOLS];

class Bench implements Disposable {
  readonly ws: TestWorkspace;
  readonly folder = temporaryDir('spool');
  #calls = 0;

  constructor(options?: WorkspaceOptions) {
    this.ws = makeWorkspace(options);
  }

  newKey(): string {
    return (++this.#calls).toString(16).padStart(64, '0');
  }

  at(path: string): string {
    return join(this.ws.path, path);
  }

  tree(): Record<string, string> {
    return treeWithModes(this.ws.path);
  }

  /** Runs a tool like a worker; gives its journal's report. */
  async run([tool, input]: Operation, key = this.newKey()) {
    const context = this.ws.context({ journal: { folder: this.folder, key } });
    try {
      const spec = TOOLS[tool] as typeof fileWrite;
      await spec.run?.(spec.input.parse(input), context);
    } finally {
      this.report = context.endJournal();
    }
    return { key, report: this.report };
  }
  report: ReturnType<ReturnType<TestWorkspace['context']>['endJournal']>;

  async undo(key: string, { force = false, own = this.newKey(), paths = this.paths(key) } = {}) {
    const context = this.ws.context({ journal: { folder: this.folder, key: own } });
    try {
      return { ...(await context.undo({ keys: [key], paths, force })), key: own } as UndoOutcome & { key: string };
    } finally {
      this.report = context.endJournal();
    }
  }

  paths(key: string): string[] {
    return new Spool(this.folder, key).entries().flatMap(({ entry: { path, from } }) => (from ? [path, from] : [path]));
  }

  rollBack(key: string): Promise<void> {
    return this.ws.context().rollBack(new Spool(this.folder, key));
  }

  [Symbol.dispose](): void {
    this.ws[Symbol.dispose]();
    fs.rmSync(this.folder, { recursive: true, force: true });
  }
}

function fill({ ws }: Bench): void {
  fs.mkdirSync(join(ws.path, 'd/e'), { recursive: true });
  for (const it of ['a', 'b', 'd/a', 'd/e/b']) fs.writeFileSync(join(ws.path, it), `${it} x\nx\n`);
  fs.chmodSync(join(ws.path, 'd/a'), 0o755);
  fs.symlinkSync('../a', join(ws.path, 'd/link'));
  fs.mkdirSync(join(ws.path, 'empty'), { mode: 0o700 });
  fs.mkdirSync(join(ws.path, 'full/e'), { recursive: true, mode: 0o750 });
  for (const it of ['full/a', 'full/own', 'full/e/own'])
    fs.writeFileSync(join(ws.path, it), `${it}\n`, { mode: 0o600 });
}

const path = fc.constantFrom(
  'a',
  'b',
  'c',
  'd',
  'd/a',
  'd/e',
  'd/e/b',
  'd/link',
  'empty',
  'full',
  'full/e',
  'n/e/w',
  'n',
);
const overwrite = fc.boolean();
const operation: fc.Arbitrary<Operation> = fc.oneof(
  fc
    .record({ path, content: fc.string({ maxLength: 8 }), mode: fc.constantFrom('0644', '0700') })
    .map((it): Operation => ['fileWrite', it]),
  fc
    .record({
      pattern: fc.constantFrom('*', 'a', 'b'),
      find: fc.constantFrom('x', 'a'),
      replace: fc.string({ maxLength: 3 }),
    })
    .map((it): Operation => ['fileMultiEdit', it]),
  fc.record({ oldPath: path, newPath: path, overwrite }).map((it): Operation => ['fileRename', it]),
  fc.record({ sourcePath: path, destPath: path, overwrite }).map((it): Operation => ['fileCopy', it]),
  fc.record({ path, recursive: fc.boolean() }).map((it): Operation => ['fileDelete', it]),
  fc
    .record({
      sourcePath: fc.constantFrom('d', 'd/e', 'full', 'n'),
      destPath: fc.constantFrom('d/e', 'empty', 'full', 'n', 'n/e'),
    })
    .map((it): Operation => ['fileCopy', { ...it, overwrite: true }]),
);

test('undoing random calls in reverse order restores every earlier tree, and so does undoing the undos', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 8 }), async (operations) => {
      using bench = new Bench();
      fill(bench);
      const made: { key: string; before: object; after: object }[] = [];
      for (const it of operations) {
        const before = bench.tree();
        try {
          const { key, report } = await bench.run(it);
          if (report) made.push({ key, before, after: bench.tree() });
          else expect(bench.tree()).toEqual(before);
          expect(report?.undo ?? 'full').toBe('full');
        } catch (error) {
          if ((error as { code?: string }).code === undefined || error instanceof TypeError) throw error;
          expect(bench.tree()).toEqual(before);
        }
      }
      for (const { key, before, after } of made.reverse()) {
        const undone = await bench.undo(key);
        expect(undone.conflicts).toEqual([]);
        expect(bench.tree()).toEqual(before);
        // The call wrote the same content again.
        if (undone.restored.length === 0) {
          expect(after).toEqual(before);
          continue;
        }
        expect((await bench.undo(undone.key)).conflicts).toEqual([]);
        expect(bench.tree()).toEqual(after);
        expect((await bench.undo(key)).conflicts).toEqual([]);
        expect(bench.tree()).toEqual(before);
      }
    }),
    { numRuns: 150 },
  );
}, 60_000);

// A test that runs out of time would go on behind those that follow, with its file system.
describe('a process killed at any file system call', { timeout: 120_000 }, () => {
  const calls: [string, Operation][] = [
    ['a new file in new directories', ['fileWrite', { path: 'n/e/w', content: 'new' }]],
    ['a file that is replaced', ['fileWrite', { path: 'a', content: 'new', mode: '0600' }]],
    ['many files', ['fileMultiEdit', { pattern: '*', find: 'x', replace: 'y' }]],
    ['a tree that is deleted', ['fileDelete', { path: 'd', recursive: true }]],
    ['a tree that is moved', ['fileRename', { oldPath: 'd', newPath: 'n/d' }]],
    ['a file that is moved onto another', ['fileRename', { oldPath: 'd/a', newPath: 'b', overwrite: true }]],
    ['a tree that is copied', ['fileCopy', { sourcePath: 'd', destPath: 'copy' }]],
    ['a tree that is copied over another', ['fileCopy', { sourcePath: 'd', destPath: 'full', overwrite: true }]],
  ];

  test.each(calls)('leaves the old state of %s, or the complete new one', async (_, call) => {
    for (let n = 1; ; n++) {
      using bench = new Bench();
      fill(bench);
      const before = bench.tree();
      const key = bench.newKey();
      const how = await cutOffAt(n, () => bench.run(call, key));
      await bench.rollBack(key);
      expect(bench.tree(), `step ${n}`).toEqual(before);
      if (how === 'whole') return expect(n).toBeGreaterThan(5);
    }
  });

  test.each(calls)('leaves the undo of %s either not begun or repeatable', async (_, call) => {
    for (let n = 1; ; n++) {
      using bench = new Bench();
      fill(bench);
      const before = bench.tree();
      const { key } = await bench.run(call);
      const after = bench.tree();
      const own = bench.newKey();
      const paths = bench.paths(key);
      const how = await cutOffAt(n, () => bench.undo(key, { own, paths }));
      await bench.rollBack(own);
      expect(bench.tree(), `step ${n}`).toEqual(after);
      expect((await bench.undo(key)).conflicts).toEqual([]);
      expect(bench.tree(), `again, step ${n}`).toEqual(before);
      if (how === 'whole') return expect(n).toBeGreaterThan(5);
    }
  });
});

describe('a change made after the call', () => {
  const TEXT = Array.from({ length: 12 }, (_, line) => `line ${line}\n`).join('');

  async function changed(bench: Bench, since: (text: string) => string) {
    fs.writeFileSync(bench.at('t'), TEXT);
    const { key } = await bench.run(['fileMultiEdit', { pattern: 't', find: 'line 2', replace: 'LINE 2' }]);
    fs.writeFileSync(bench.at('t'), since(fs.readFileSync(bench.at('t'), 'utf8')));
    return key;
  }

  test('a change elsewhere in the text is kept', async () => {
    using bench = new Bench();
    const key = await changed(bench, (text) => text.replace('line 9', 'nine').concat('more\n'));
    expect(await bench.undo(key)).toMatchObject({ restored: ['t'], merged: ['t'], conflicts: [] });
    expect(bench.ws.tree().t).toBe(TEXT.replace('line 9', 'nine').concat('more\n'));
  });

  test('a change in the same lines is a conflict; a forced undo overwrites it and can itself be undone', async () => {
    using bench = new Bench();
    const key = await changed(bench, (text) => text.replace('LINE 2', 'something else'));
    const now = bench.tree();
    expect(await bench.undo(key)).toMatchObject({ restored: [], conflicts: ['t'] });
    expect(bench.tree()).toEqual(now);
    expect(bench.report).toBeUndefined();
    const forced = await bench.undo(key, { force: true });
    expect(forced).toMatchObject({ restored: ['t'], conflicts: ['t'] });
    expect(bench.ws.tree().t).toBe(TEXT);
    await bench.undo(forced.key);
    expect(bench.tree()).toEqual(now);
  });

  test('prevents the undo of every file of the call if it conflicts in one', async () => {
    using bench = new Bench();
    fill(bench);
    const { key } = await bench.run(['fileMultiEdit', { pattern: '*', find: 'x', replace: 'y' }]);
    fs.writeFileSync(bench.at('d/a'), 'x\0 of somebody else');
    const now = bench.tree();
    expect(await bench.undo(key)).toMatchObject({ restored: [], conflicts: ['d/a'] });
    expect(bench.tree()).toEqual(now);
  });

  test('conflicts if it changes only the permissions or the kind of a file', async () => {
    using bench = new Bench();
    fill(bench);
    const { key } = await bench.run(['fileWrite', { path: 'a', content: 'new\0' }]);
    fs.chmodSync(bench.at('a'), 0o777);
    expect((await bench.undo(key)).conflicts).toEqual(['a']);
    fs.rmSync(bench.at('a'));
    fs.mkdirSync(bench.at('a'));
    fs.writeFileSync(bench.at('a/in'), '');
    expect((await bench.undo(key)).conflicts).toEqual(['a']);
    expect((await bench.undo(key, { force: true })).restored).toEqual(['a']);
    expect(bench.ws.tree().a).toBe('a x\nx\n');
  });

  test('keeps a directory that the call made if it adds a file there', async () => {
    using bench = new Bench();
    const { key } = await bench.run(['fileWrite', { path: 'n/e/w', content: '' }]);
    fs.writeFileSync(bench.at('n/own'), '');
    expect(await bench.undo(key)).toMatchObject({ conflicts: [] });
    expect(bench.ws.tree()).toEqual({ n: '/', 'n/own': '' });
  });

  test('a change inside a moved tree is a conflict; a forced undo moves the tree back with the change', async () => {
    using bench = new Bench();
    fill(bench);
    const { key } = await bench.run(['fileRename', { oldPath: 'd', newPath: 'm' }]);
    fs.writeFileSync(bench.at('m/new'), 'since');
    fs.writeFileSync(bench.at('d'), 'in the way');
    expect((await bench.undo(key)).conflicts.sort()).toEqual(['d', 'm']);
    const forced = await bench.undo(key, { force: true });
    expect(bench.ws.tree()).toMatchObject({ d: '/', 'd/new': 'since', 'd/link': '-> ../a' });
    await bench.undo(forced.key);
    expect(bench.ws.tree()).toMatchObject({ d: 'in the way', 'm/new': 'since' });
  });

  test('never makes the merge of thousands of equal lines exceed its time bound', async () => {
    using bench = new Bench();
    fs.writeFileSync(bench.at('t'), 'x\n'.repeat(3990));
    const { key } = await bench.run(['fileWrite', { path: 't', content: `${'y\n'.repeat(5)}${'x\n'.repeat(3900)}` }]);
    fs.writeFileSync(bench.at('t'), 'x\nz\n'.repeat(1990));
    const from = performance.now();
    await bench.undo(key);
    expect(performance.now() - from).toBeLessThan(5000);
  });
});

describe('bounds', () => {
  test('a tree above the journal bound is reported as not undoable, while other changes of the call are undone', async () => {
    using bench = new Bench({ limits: { journalTreeEntriesMax: 3 } });
    fill(bench);
    const { key, report } = await bench.run(['fileDelete', { path: 'd', recursive: true }]);
    expect(report).toMatchObject({ undo: 'none' });
    expect(await bench.undo(key)).toMatchObject({ restored: [], conflicts: ['d'] });
    expect((await bench.run(['fileDelete', { path: 'a' }])).report).toMatchObject({ undo: 'full' });
  });

  test('a call that changes more bytes than the journal keeps can be undone in part', async () => {
    using bench = new Bench({ limits: { journalCallBytesMax: 12 } });
    fill(bench);
    const { report } = await bench.run(['fileMultiEdit', { pattern: '*', find: 'x', replace: 'y' }]);
    expect(report).toMatchObject({ undo: 'partial' });
  });

  test('a large file counts into the journal and is restored with its full content', async () => {
    using bench = new Bench();
    const content = Buffer.alloc(3 * 1024 * 1024, 'ab');
    fs.writeFileSync(bench.at('big'), content);
    const { key, report } = await bench.run(['fileWrite', { path: 'big', content: '' }]);
    expect(report?.bytes).toBeGreaterThan(content.length);
    await bench.undo(key);
    expect(fs.readFileSync(bench.at('big')).equals(content)).toBe(true);
  });

  test('an unusable spool folder does not prevent writes to files', async () => {
    using bench = new Bench();
    fs.rmSync(bench.folder, { recursive: true });
    fs.writeFileSync(bench.folder, 'no folder');
    expect((await bench.run(['fileWrite', { path: 'a', content: 'new' }])).report).toMatchObject({ undo: 'none' });
    expect(bench.ws.tree()).toEqual({ a: 'new' });
  });
});

describe('a journal that was planted or changed', () => {
  const entry = (rest: object) => ({
    kind: 'modify',
    tail: 4,
    pre: { type: 'file', mode: 0o755, bytes: 4, hash: '', blob: { at: 0, bytes: 4 } },
    post: { type: 'none' },
    ...rest,
  });

  function plant(bench: Bench, rest: object): string {
    const key = bench.newKey();
    fs.writeFileSync(join(bench.folder, key), `${JSON.stringify(entry(rest))}\nevil`);
    return key;
  }

  const outside = temporaryDir('outside');
  afterAll(() => fs.rmSync(outside, { recursive: true }));

  test.each([
    ['above the workspace', '../planted', 'ACCESS_DENIED'],
    ['at an absolute path', join(outside, 'planted'), 'ACCESS_DENIED'],
    ['through a link that leads out', 'out/planted', 'ACCESS_DENIED'],
    ['where programs outside run it', '.git/hooks/pre-commit', 'ACCESS_DENIED'],
    ['where the policy refuses it', 'secret/planted', 'POLICY_DENIED'],
    ['through a link to where the policy refuses it', 'alias/planted', 'POLICY_DENIED'],
  ])('puts nothing %s', async (_, path, code) => {
    using bench = new Bench({ rules: [ruleOf('deny', { write: ['secret/**'] })] });
    for (const it of ['secret', '.git/hooks']) fs.mkdirSync(bench.at(it), { recursive: true });
    fs.symlinkSync(outside, bench.at('out'));
    fs.symlinkSync('secret', bench.at('alias'));
    const before = bench.tree();
    const key = plant(bench, { path });
    for (const force of [false, true]) await expect(bench.undo(key, { force })).rejects.toMatchObject({ code });
    await bench.rollBack(key).catch(() => undefined);
    expect(bench.tree()).toEqual(before);
    expect(fs.readdirSync(outside)).toEqual([]);
  });

  test('changes no path outside the requested ones', async () => {
    using bench = new Bench();
    const key = plant(bench, { path: 'a' });
    await expect(bench.undo(key, { paths: ['b'] })).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(bench.tree()).toEqual({});
  });

  test.each(['../x', 'a/../../x', '/x', 'l/x', '', 'no/parent'])(
    'makes no tree with a path %j in it',
    async (inside) => {
      using bench = new Bench();
      const leaf = { type: 'file', mode: 0o644, bytes: 4, hash: '', blob: { at: 0, bytes: 4 } };
      const entries = [
        ['l', { type: 'symlink', target: outside }],
        [inside, leaf],
      ];
      const key = plant(bench, { path: 'd', pre: { type: 'directory', mode: 0o755, hash: '', entries } });
      await expect(bench.undo(key)).rejects.toMatchObject({ code: 'CONFLICT' });
      expect(bench.tree()).toEqual({});
      expect(fs.readdirSync(outside)).toEqual([]);
    },
  );

  test('a journal that is a link or has another format is rejected', async () => {
    using bench = new Bench();
    await expect(bench.undo(plant(bench, { path: 'a', kind: 'chown' }))).rejects.toMatchObject({ code: 'CONFLICT' });
    await expect(bench.undo(plant(bench, { path: 'a', passing: ['../../etc/passwd'] }))).rejects.toMatchObject({
      code: 'CONFLICT',
    });
    expect(bench.tree()).toEqual({});
  });
});

test('a directory later replaced by a link is a conflict, and nothing is written through the link', async () => {
  using bench = new Bench();
  fill(bench);
  const { key } = await bench.run(['fileWrite', { path: 'd/a', content: 'new\0' }]);
  fs.renameSync(bench.at('d'), bench.at('real'));
  fs.symlinkSync('empty', bench.at('d'));
  fs.chmodSync(bench.at('empty'), 0o755);
  expect((await bench.undo(key)).conflicts).toEqual(['d/a']);
  await expect(bench.undo(key, { force: true })).rejects.toMatchObject({ code: 'CONFLICT' });
  expect(fs.readdirSync(bench.at('empty'))).toEqual([]);
});
