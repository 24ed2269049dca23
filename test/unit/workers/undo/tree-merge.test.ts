/** Copying a directory over an existing one: what is added, what stays, what is refused, and that nothing is left half done. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ToolError } from '../../../../src/base/errors.ts';
import { ruleOf } from '../../../support/policy.ts';
import { makeWorkspace, type TestWorkspace, treeWithModes } from '../../../support/workspace.ts';

let ws: TestWorkspace;
beforeEach(() => {
  ws = makeWorkspace();
});
afterEach(() => ws[Symbol.dispose]());

const over = { overwrite: true };
function put(tree: Record<string, string>, root = ws.path): void {
  for (const [path, content] of Object.entries(tree)) {
    fs.mkdirSync(join(root, path, '..'), { recursive: true });
    if (content.startsWith('-> ')) fs.symlinkSync(content.slice(3), join(root, path));
    else fs.writeFileSync(join(root, path), content);
  }
}
const copied = (from: string, to: string, held = ws) =>
  held
    .context()
    .changes.copy(from, to, over)
    .then(
      (entries) => `${entries}`,
      (error: ToolError) => error.code ?? error.message,
    );

test('files of the source replace those of the same name, all else stays, and what changed is told', async () => {
  put({ 's/a': 'new a', 's/in/b': 'new b', 's/in/deep/c': 'c', 's/l': '-> a', 's/same': '-> x' });
  put({ 'd/a': 'old', 'd/in/b': 'old', 'd/in/own': 'own', 'd/own': 'own', 'd/same': '-> x' });
  fs.chmodSync(join(ws.path, 's/a'), 0o755);
  fs.chmodSync(join(ws.path, 'd/in'), 0o750);
  const context = ws.context();
  expect(await context.changes.copy('s', 'd', over)).toBe(8);
  expect(treeWithModes(join(ws.path, 'd'))).toEqual({
    a: '755 new a',
    in: '750 /',
    'in/b': '644 new b',
    'in/deep': '755 /',
    'in/deep/c': '644 c',
    'in/own': '644 own',
    l: '-> a',
    own: '644 own',
    same: '-> x',
  });
  expect(context.usage(0).filesChanged).toEqual([
    { path: 'd/a', kind: 'modify' },
    { path: 'd/l', kind: 'create' },
    { path: 'd/in/b', kind: 'modify' },
    { path: 'd/in/deep/', kind: 'create' },
  ]);
  expect(await copied('s', 'd')).toBe('8');
});

describe('a copy that is refused', () => {
  test.each([
    ['a file where a directory is', { 's/x': '1', 'd/x/y': '2' }, 'ALREADY_EXISTS'],
    ['a directory where a file is', { 's/x/y': '1', 'd/x': '2' }, 'ALREADY_EXISTS'],
    ['a directory where a link to one is', { 's/x/y': '1', 'd/x': '-> ../e', 'e/y': '2' }, 'ALREADY_EXISTS'],
    ['a file where a link is', { 's/x': '1', 'd/x': '-> ../e', e: '2' }, 'ACCESS_DENIED'],
    ['a link where another one is', { 's/x': '-> 1', 'd/x': '-> 2' }, 'ACCESS_DENIED'],
    ['a protected file below', { 's/.vscode/tasks.json': '{}', 'd/a': '' }, 'ACCESS_DENIED'],
    ['a protected file below a folder that is there', { 's/.git/config': '', 'd/.git/config': 'x' }, 'ACCESS_DENIED'],
  ])('a copy is refused as a whole, and changes nothing, for %s', async (_, tree, code) => {
    put({ ...tree, 's/0': 'first', 's/z': 'last', 'd/0': 'kept' });
    const before = ws.tree();
    expect(await copied('s', 'd')).toBe(code);
    expect(ws.tree()).toEqual(before);
  });

  test('a copy of a tree onto itself, into a part of it, or over its parent is refused, and changes nothing', async () => {
    put({ 's/in/a': '1' });
    fs.symlinkSync('s', join(ws.path, 'alias'));
    const before = ws.tree();
    expect(await copied('s', 's')).toBe('INPUT_INVALID');
    expect(await copied('s', 's/in')).toBe('INPUT_INVALID');
    expect(await copied('s/in', 's')).toBe('INPUT_INVALID');
    expect(await copied('alias/in', 's')).toBe('INPUT_INVALID');
    expect(ws.tree()).toEqual(before);
  });

  test('a copy that touches a secret, or a path that a rule asks about, is refused; other paths are left alone', async () => {
    using held = makeWorkspace({
      rules: [
        ruleOf('deny', { path: ['**/.env*', 'd/**/key'] }, { code: 'SENSITIVE_FILE' }),
        ruleOf('ask', { write: ['**/HEAD'] }),
      ],
    });
    put(
      { 's/.env': 'x', 'k/key': 'x', 'h/HEAD': 'x', 'plain/a': 'new', 'd/.env': 'secret', 'd/key': 'old' },
      held.path,
    );
    put({ 'd/HEAD': 'old', 'd/a': 'old' }, held.path);
    const before = held.tree();
    expect(await copied('s', 'd', held)).toBe('SENSITIVE_FILE');
    expect(await copied('k', 'd', held)).toBe('SENSITIVE_FILE');
    expect(await copied('h', 'd', held)).toBe('POLICY_DENIED');
    expect(held.tree()).toEqual(before);
    expect(await copied('plain', 'd', held)).toBe('2');
    expect(held.tree()).toEqual({ ...before, 'd/a': 'new' });
  });

  test('a copy of more than one call may copy, counted over all of it, is refused', async () => {
    using small = makeWorkspace({ limits: { changeBytesMax: 10, treeEntriesMax: 4, treeDepthMax: 2 } });
    put({ 'b/1': '123456', 'b/in/2': '123456', 'many/1': '', 'many/in/2': '', 'many/in/3': '' }, small.path);
    put({ 'deep/1/2/3': '', 'd/own': '', 'd/in/x': '', 'd/1x/2/x': '' }, small.path);
    const before = small.tree();
    for (const from of ['b', 'many', 'deep']) expect(await copied(from, 'd', small), from).toBe('FILE_LIMIT');
    expect(small.tree()).toEqual(before);
  });
});

test('a merge that fails or is ended after a part of it was visible is taken back', async () => {
  put({ 's/a': 'new', 's/in/b': 'new', 's/in/c/d': 'new', 's/z': 'new', 'd/a': 'old', 'd/in/b': 'old', 'd/z': 'old' });
  const before = ws.tree();
  const copy = (at: number, fail: (controller: AbortController) => void) => {
    const controller = new AbortController();
    let told = 0;
    const recordBefore = () => told++ === at && fail(controller);
    return ws.context({ signal: controller.signal, recorder: { recordBefore } });
  };
  for (let at = 0; at < 4; at++) {
    const full = copy(at, () => {
      throw new ToolError('STORE_FAILED', 'the journal is full');
    });
    const late = copy(at, (controller) => controller.abort(new ToolError('TIMEOUT', 'late')));
    for (const context of [full, late]) {
      await expect(context.changes.copy('s', 'd', over)).rejects.toThrow(context === full ? 'full' : 'late');
      expect(ws.tree()).toEqual(before);
      expect(context.usage(0).filesChanged).toBeUndefined();
    }
  }
  expect(await copied('s', 'd')).toBe('7');
});

test('a folder that is swapped for a link on the way gets nothing, and neither does what the link names', async () => {
  put({ 's/a': 'new', 's/in/b': 'new', 'd/a': 'old', 'd/in/b': 'old', 'elsewhere/b': 'old' });
  const recorder = {
    recordBefore: () => {
      if (fs.existsSync(join(ws.path, 'gone'))) return;
      fs.renameSync(join(ws.path, 'd/in'), join(ws.path, 'gone'));
      fs.symlinkSync('../elsewhere', join(ws.path, 'd/in'));
    },
  };
  await expect(ws.context({ recorder }).changes.copy('s', 'd', over)).rejects.toMatchObject({ code: 'CONFLICT' });
  expect(ws.tree()).toMatchObject({ 'd/a': 'old', 'elsewhere/b': 'old', 'gone/b': 'old' });
});

test('an approved one replaces only what was shown', async () => {
  put({ 's/a': 'new', 'd/a': 'old' });
  const shown = [{ path: 'd', hash: await ws.context().changes.state('d') }];
  fs.writeFileSync(join(ws.path, 'd/a'), 'other');
  const before = ws.tree();
  const copy = (preImages: typeof shown) => ws.context({ preImages }).changes.copy('s', 'd', over);
  await expect(copy(shown)).rejects.toMatchObject({ code: 'APPROVAL_STALE' });
  expect(ws.tree()).toEqual(before);
  expect(await copy([{ path: 'd', hash: await ws.context().changes.state('d') }])).toBe(2);
});
