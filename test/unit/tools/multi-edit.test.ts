/** file_multi_edit: the files it selects, the content it writes, and that it is all or nothing. */
import { mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { compileReplacing } from '../../../src/tools/edit/replacing.ts';
import fileMultiEdit from '../../../src/tools/file/multi-edit.ts';
import { ruleOf } from '../../support/policy.ts';
import { makeWorkspace, type TestWorkspace } from '../../support/workspace.ts';

let ws: TestWorkspace;
beforeEach(() => {
  ws = makeWorkspace();
});
afterEach(() => ws[Symbol.dispose]());

function put(tree: Record<string, string | Buffer>, root = ws.path): void {
  for (const [path, content] of Object.entries(tree)) {
    mkdirSync(join(root, path, '..'), { recursive: true });
    writeFileSync(join(root, path), content);
  }
}
const edit = (input: object) => ws.run(fileMultiEdit, { pattern: '**', find: 'x', replace: 'y', ...input });
const paths = async (input: object) => (await edit(input)).files.map((it) => it.path);

describe('the files', () => {
  test('the files are those of the globs, without hidden and ignored ones unless they are named', async () => {
    put({ 'a.ts': 'x', 'b/a.ts': 'x', 'b/c.js': 'x', '.hidden.ts': 'x', 'dist/a.ts': 'x', 'b/gen.ts': 'x' });
    put({ '.gitignore': 'dist/\n*.log\n', 'b/.gitignore': 'gen.ts\n!keep.log\n', 'b/keep.log': 'x', 'c.log': 'x' });
    put({ '.git/x.ts': 'x' });
    const preview = true;
    expect(await paths({ pattern: '**/*.ts', preview })).toEqual(['a.ts', 'b/a.ts']);
    expect(await paths({ pattern: '*.{ts,js,log}', preview })).toEqual(['a.ts', 'b/a.ts', 'b/c.js', 'b/keep.log']);
    expect(await paths({ pattern: '*.ts', exclude: ['b/'], preview })).toEqual(['a.ts']);
    expect(await paths({ pattern: '*.ts', include: ['b/*.js'], exclude: ['a.ts'], preview })).toEqual(['b/c.js']);
    expect(await paths({ pattern: 'dist/a.ts', preview })).toEqual(['dist/a.ts']);
    expect(await paths({ pattern: '.hidden.ts', preview })).toEqual(['.hidden.ts']);
    expect(await paths({ pattern: '*.ts', path: 'b', preview })).toEqual(['b/a.ts']);
    expect(await paths({ pattern: 'a.ts', path: 'dist', preview })).toEqual(['dist/a.ts']);
    expect(await paths({ pattern: '.git/x.ts', preview })).toEqual([]);
  });

  test('files that are binary, or may not be read, are left alone and reported; links are not followed', async () => {
    using held = makeWorkspace({ rules: [ruleOf('deny', { path: ['**/key'] }, { code: 'SENSITIVE_FILE' })] });
    put({ a: 'x', key: 'x', bin: Buffer.from('x\0'), latin: Buffer.from([0x78, 0xe9]) }, held.path);
    symlinkSync('key', join(held.path, 'link'));
    const { files, skipped } = await held.run(fileMultiEdit, { pattern: '*', find: 'x', replace: 'y' });
    expect(files.map((it) => it.path)).toEqual(['a']);
    expect(skipped).toEqual([
      { path: 'bin', code: 'UNSUPPORTED' },
      { path: 'key', code: 'SENSITIVE_FILE' },
      { path: 'latin', code: 'UNSUPPORTED' },
    ]);
  });
});

describe('what is found', () => {
  const found = (find: string, text: string, rest: object = {}) =>
    compileReplacing({ find, replace: '', caseSensitive: true, wholeWord: false, regex: false, ...rest })(text).length;

  test('a search finds the text itself, whatever it would mean in a regular expression', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', minLength: 1, maxLength: 5 }),
        fc.string({ unit: 'binary' }),
        (find, rest) => {
          fc.pre(!find.includes('\r'));
          expect(found(find, find + rest)).toBe((find + rest).split(find).length - 1);
        },
      ),
    );
  });

  test('a search finds only whole words if they are wanted, in any script', () => {
    expect(found('user', 'user userId _user user-x über.user', { wholeWord: true })).toBe(3);
    expect(found('é', 'é caféé é1', { wholeWord: true })).toBe(1);
    expect(found('USER', 'user User', { caseSensitive: false })).toBe(2);
    expect(found('a|b', 'a ab b', { wholeWord: true, regex: true })).toBe(2);
  });

  test.each([
    ['(\\w+)@(\\w+)', '$2 at $1', 'me@home', 'home at me'],
    ['(?<a>\\w)b', '$<a>-$&-$$1-$2', 'xb', 'x-xb-$1-$2'],
    ['^', '// ', 'a\nb', '// a\n// b'],
    ['a$', 'z', 'a\nba\n', 'z\nbz\n'],
    ['a', '$0$10', 'a', '$0$10'],
  ])('the text found by /%s/ becomes %s', async (find, replace, before, after) => {
    put({ a: before });
    await edit({ find, replace, regex: true });
    expect(ws.tree()).toEqual({ a: after });
  });

  test('a search over lines finds CRLF too, which stays', async () => {
    put({ a: 'one\r\ntwo\r\nthree\r\n' });
    await edit({ find: 'one\ntwo', replace: '1\n2' });
    expect(readFileSync(join(ws.path, 'a'), 'utf8')).toBe('1\r\n2\r\nthree\r\n');
  });

  test('an invalid regular expression is refused, also one that would close a group of ours', async () => {
    for (const find of ['(', 'a)(b', '['])
      await expect(edit({ find, regex: true, wholeWord: true })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  });
});

describe('all files or none', () => {
  test('no file is changed if one of them may not be written', async () => {
    using held = makeWorkspace({ rules: [ruleOf('deny', { write: ['z'] })] });
    put({ a: 'x', z: 'x' }, held.path);
    await expect(held.run(fileMultiEdit, { pattern: '*', find: 'x', replace: 'y' })).rejects.toMatchObject({
      code: 'POLICY_DENIED',
    });
    expect(held.tree()).toEqual({ a: 'x', z: 'x' });
  });

  test('no file is changed if one of them is changed, gone or replaced in the middle of it', async () => {
    const disturbances = [
      () => writeFileSync(join(ws.path, 'm'), 'changed'),
      () => rmSync(join(ws.path, 'm')),
      () => {
        rmSync(join(ws.path, 'm'));
        mkdirSync(join(ws.path, 'm'));
      },
      () => renameSync(join(ws.path, 'm'), join(ws.path, 'n')),
    ];
    for (const disturb of disturbances) {
      rmSync(join(ws.path, 'm'), { recursive: true, force: true });
      rmSync(join(ws.path, 'n'), { force: true });
      put({ a: 'x', m: 'x', z: 'x' });
      let told = 0;
      // The last moment before a change becomes visible.
      const recorder = { recordBefore: () => void (++told === 3 && disturb()) };
      const call = ws.run(fileMultiEdit, { pattern: '*', find: 'x', replace: 'y' }, { recorder });
      await expect(call).rejects.toMatchObject({ name: 'ToolError' });
      expect(ws.tree()).toMatchObject({ a: 'x', z: 'x' });
      expect(Object.keys(ws.tree()).filter((it) => it.startsWith('.'))).toEqual([]);
    }
  });

  test('no file is changed if there are more than maxFiles', async () => {
    put(Object.fromEntries(Array.from({ length: 5 }, (_, at) => [`f${at}`, 'x'])));
    const before = ws.tree();
    await expect(edit({ maxFiles: 4 })).rejects.toMatchObject({ code: 'FILE_LIMIT' });
    expect(ws.tree()).toEqual(before);
    expect((await edit({ maxFiles: 5 })).totalReplacements).toBe(5);
  });

  test('any texts become what replaceAll makes of them', async () => {
    const texts = fc.array(
      fc.array(fc.constantFrom('x', 'xx', 'a', '\n', '😀'), { maxLength: 8 }).map((it) => it.join('')),
      {
        minLength: 1,
        maxLength: 5,
      },
    );
    await fc.assert(
      fc.asyncProperty(texts, async (contents) => {
        using own = makeWorkspace();
        put(Object.fromEntries(contents.map((it, at) => [`f${at}`, it])), own.path);
        const { totalReplacements } = await own.run(fileMultiEdit, { pattern: '*', find: 'x', replace: 'yy' });
        const all = contents.join('');
        expect(totalReplacements).toBe(all.split('x').length - 1);
        expect(Object.values(own.tree())).toEqual(contents.map((it) => it.replaceAll('x', 'yy')));
      }),
      { numRuns: 100 },
    );
  });
});
