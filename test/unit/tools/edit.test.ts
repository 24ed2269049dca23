/** file_edit compared with a model that works on lines, and its error messages. */
import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { applyPatch } from 'diff';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import type { Rule } from '../../../src/policy/schema.ts';
import { nearestTo } from '../../../src/tools/edit/closest-lines.ts';
import { unifiedDiff } from '../../../src/tools/edit/diff.ts';
import { Document, type EditOperation } from '../../../src/tools/edit/document.ts';
import fileEdit from '../../../src/tools/file/edit.ts';
import { builtinToolset } from '../../../src/tools/registry.ts';
import { makeWorkspace, type TestWorkspace } from '../../support/workspace.ts';

let ws: TestWorkspace;
beforeEach(() => {
  ws = makeWorkspace();
});
afterEach(() => ws[Symbol.dispose]());

const put = (name: string, content: string | Buffer, mode = 0o644) =>
  writeFileSync(join(ws.path, name), content, { mode });
const text = (name: string) => readFileSync(join(ws.path, name), 'utf8');
const edit = (operations: object[], rest: object = {}) => ws.run(fileEdit, { path: 'a', operations, ...rest } as never);

const REFUSED = /not there exactly once|past the end|comes after/;

/** The whole model: lines, and whether the last one has an ending. */
function model(content: string, operation: EditOperation): string | undefined {
  const ended = content === '' || content.endsWith('\n');
  const lines = content === '' ? [] : content.replace(/\n$/, '').split('\n');
  const joined = (all: string[]) => (all.length === 0 ? '' : all.join('\n') + (ended ? '\n' : ''));
  switch (operation.type) {
    case 'insert': {
      if (operation.line > lines.length + 1) return undefined;
      lines.splice(operation.line - 1, 0, ...operation.content.replace(/\n$/, '').split('\n'));
      return joined(lines);
    }
    case 'delete': {
      if (operation.startLine > operation.endLine || operation.endLine > lines.length) return undefined;
      lines.splice(operation.startLine - 1, operation.endLine - operation.startLine + 1);
      return joined(lines);
    }
    default: {
      const parts = content.split(operation.search);
      if (parts.length === 1 || (parts.length > 2 && !operation.all)) return undefined;
      return parts.join(operation.replace);
    }
  }
}

const content = fc
  .array(fc.constantFrom('a', 'b', 'ab', '\n', '\n\n', 'é😀'), { maxLength: 30 })
  .map((it) => it.join(''));
const piece = fc.array(fc.constantFrom('a', 'b', '\n', 'é😀'), { minLength: 1, maxLength: 4 }).map((it) => it.join(''));
const lineNumber = fc.integer({ min: 1, max: 12 });
const operation: fc.Arbitrary<EditOperation> = fc.oneof(
  fc.record({ type: fc.constant('replace' as const), search: piece, replace: piece, all: fc.boolean() }),
  fc.record({ type: fc.constant('insert' as const), line: lineNumber, content: piece }),
  fc.record({ type: fc.constant('delete' as const), startLine: lineNumber, endLine: lineNumber }),
);

describe('a document', () => {
  test('edits as a model of lines does, or not at all where the model can not', () => {
    fc.assert(
      fc.property(content, fc.array(operation, { maxLength: 6 }), (before, operations) => {
        const document = new Document(before, 1e6);
        let expected: string | undefined = before;
        for (const it of operations) {
          const next = model(expected, it);
          if (next === undefined) expect(() => document.apply(it)).toThrow(REFUSED);
          else {
            document.apply(it);
            expected = next;
          }
          expect(document.text).toBe(expected);
        }
      }),
      { numRuns: 3000 },
    );
  });

  test('a document with CRLF and BOM is the same document with other line endings', () => {
    fc.assert(
      fc.property(content, fc.array(operation, { maxLength: 4 }), (before, operations) => {
        fc.pre(before.includes('\n'));
        const [plain, windows] = [
          new Document(before, 1e6),
          new Document(`\ufeff${before.replaceAll('\n', '\r\n')}`, 1e6),
        ];
        for (const it of operations) {
          let failed = false;
          try {
            plain.apply(it);
          } catch {
            failed = true; // Not found, or too often.
          }
          if (failed) expect(() => windows.apply(it)).toThrow(REFUSED);
          else windows.apply(it);
          // Text without any line ending has no kind of ending to keep.
          if (!plain.text.includes('\n')) return;
          expect(windows.text).toBe(`\ufeff${plain.text.replaceAll('\n', '\r\n')}`);
        }
      }),
      { numRuns: 2000 },
    );
  });

  test('a document with mixed line endings keeps those that an edit does not touch', () => {
    const document = new Document('a\r\nb\nc\r\nd\r\n', 100);
    document.apply({ type: 'replace', search: 'a\nb\nc', replace: 'x\ny', all: false });
    expect(document.text).toBe('x\r\ny\r\nd\r\n');
    document.apply({ type: 'insert', line: 4, content: 'e\nf\n' });
    expect(document.text).toBe('x\r\ny\r\nd\r\ne\r\nf\r\n');
  });

  test('does not grow over its bound, however few operations ask for it', () => {
    const document = new Document('aaaa', 1000);
    const double = { type: 'replace', search: 'a', replace: 'aa', all: true } as const;
    expect(() => {
      for (let at = 0; at < 64; at++) document.apply(double);
    }).toThrow(expect.objectContaining({ code: 'FILE_LIMIT' }));
    expect(document.text.length).toBeLessThanOrEqual(1000);
  });
});

test('a diff turns what was there into what is there, in small and large files', async () => {
  const line = fc.constantFrom('a', 'b', 'c', '');
  await fc.assert(
    fc.asyncProperty(
      fc.array(line, { maxLength: 60 }),
      fc.array(line, { maxLength: 60 }),
      fc.array(line, { maxLength: 6 }),
      fc.boolean(),
      async (head, tail, middle, ended) => {
        const join = (lines: string[]) => lines.join('\n') + (ended && lines.length > 0 ? '\n' : '');
        const [before, after] = [join([...head, 'x', ...tail]), join([...head, ...middle, ...tail])];
        const diff = await unifiedDiff('f', { before: Buffer.from(before), after: Buffer.from(after) }, defaultLimits);
        expect(applyPatch(before, diff as string)).toBe(after);
      },
    ),
    { numRuns: 500 },
  );
});

describe('file_edit', () => {
  test('keeps mode, BOM, CRLF and the missing final newline', async () => {
    put('a', '\ufeffone\r\ntwo\r\nthree', 0o754);
    const { diff } = await edit([{ type: 'replace', search: 'one\ntwo', replace: 'eins\nzwei' }]);
    expect(text('a')).toBe('\ufeffeins\r\nzwei\r\nthree');
    expect((statSync(join(ws.path, 'a')).mode & 0o777).toString(8)).toBe('754');
    expect(diff).toContain('+zwei');
  });

  test('finds text as file_read gives it, the BOM at its beginning included, and keeps one BOM', async () => {
    put('a', '\ufeffone\r\ntwo\r\n');
    await edit([{ type: 'replace', search: '\ufeffone\r\ntwo', replace: '\ufeff1\n2' }]);
    expect(text('a')).toBe('\ufeff1\r\n2\r\n');
    await edit([{ type: 'replace', search: '\ufeff1', replace: '' }]);
    expect(text('a')).toBe('\ufeff\r\n2\r\n');
    for (const search of ['\ufeff', '\ufeff2'])
      await expect(edit([{ type: 'replace', search, replace: '' }])).rejects.toMatchObject({ code: 'NOT_FOUND' });
  });

  test('writes nothing when the last of its operations fails, and says which', async () => {
    put('a', 'one\ntwo\n');
    const operations = [
      { type: 'replace', search: 'one', replace: '1' },
      { type: 'delete', startLine: 9, endLine: 9 },
    ];
    await expect(edit(operations)).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      message: expect.stringMatching(/operation 2 .* 2 lines/),
    });
    expect(ws.tree()).toEqual({ a: 'one\ntwo\n' });
  });

  test('says where text is that is there several times', async () => {
    put('a', 'x\ny\nx\nx\n');
    await expect(edit([{ type: 'replace', search: 'x', replace: '' }])).rejects.toMatchObject({
      code: 'CONFLICT',
      message: expect.stringMatching(/3 times in `a`, at lines 1, 3, 4/),
    });
  });

  test('shows the nearest lines to text that is not there', async () => {
    put('a', 'function f() {\n\treturn compute(1);\n}\n\nfunction g() {\n\treturn other(2);\n}\n');
    const error = await edit([{ type: 'replace', search: 'function g() {\n  return other(2);\n}', replace: '' }]).catch(
      (it: unknown) => it,
    );
    expect(error).toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringMatching(/lines 5 to 7 are the nearest \(differ in spaces/),
    });
    expect(error).toMatchObject({
      extras: {
        details: {
          nearest: { startLine: 5, endLine: 7, hint: ' function g() {\n-  return other(2);\n+\treturn other(2);\n }' },
        },
      },
    });
  });

  test('finds the nearest lines of 10 MB in two seconds of CPU time, also where all are alike', () => {
    const line = `${'abcdefghij'.repeat(10)}\n`;
    const large = line.repeat(100_000);
    const started = process.cpuUsage();
    expect(nearestTo(`${'abcdefghij'.repeat(9)}x`, large)).toMatchObject({ startLine: 1 });
    expect(nearestTo('x'.repeat(200), '\n'.repeat(10_000_000))).toBeUndefined();
    expect(process.cpuUsage(started).user).toBeLessThan(2_000_000);
  });

  test('previews with the diff and the hash of what would be, and writes nothing', async () => {
    put('a', 'one\n');
    const operations = [{ type: 'replace', search: 'one', replace: 'two' }];
    const shown = await edit(operations, { preview: true });
    expect(ws.tree()).toEqual({ a: 'one\n' });
    expect(await edit(operations)).toEqual(shown);
  });

  test('an edit through a link changes the file to which it leads, and tells that file', async () => {
    mkdirSync(join(ws.path, 'sub'));
    put('sub/AGENTS.md', 'o', 0o755);
    put('.env', 'o');
    symlinkSync('sub/AGENTS.md', join(ws.path, 'CLAUDE.md'));
    symlinkSync('.env', join(ws.path, 'settings'));
    symlinkSync('/etc/hostname', join(ws.path, 'out'));
    const operations = [{ type: 'replace', search: 'o', replace: 'two' }];
    const { path, diff } = await edit(operations, { path: 'CLAUDE.md' });
    expect([path, diff]).toEqual(['sub/AGENTS.md', expect.stringContaining('+++ b/sub/AGENTS.md')]);
    expect(ws.tree()).toMatchObject({ 'CLAUDE.md': '-> sub/AGENTS.md', 'sub/AGENTS.md': 'two' });
    expect(statSync(join(ws.path, 'sub/AGENTS.md')).mode & 0o777).toBe(0o755);
    const asked: Rule = { id: 'r', decision: 'ask', match: { write: '.env' }, reason: 'r', source: 'policy.yaml:1' };
    await expect(
      ws.run(fileEdit, { path: 'settings', operations } as never, { view: { key: 'v', rules: [asked], home: '/h' } }),
    ).rejects.toMatchObject({ code: 'POLICY_DENIED' });
    await expect(edit(operations, { path: 'out' })).rejects.toMatchObject({ code: 'ACCESS_DENIED' });
    expect(text('.env')).toBe('o');
  });

  test.each([
    ['caf\u00e9 x', 'cafe\u0301 x', true],
    ['cafe\u0301 x', 'caf\u00e9 x', true],
    ['\ud55c x', '\u1112\u1161\u11ab x', true],
    ['say \u201chi\u201d, it\u2019s', 'say "hi", it\'s', true],
    ['say "hi"', 'say \u201chi\u201d', true],
    ['10\u00a0km', '10 km', true],
    ['\ud835\udd1e \u2019 \ud835\udd1e', "' \ud835\udd1e", true],
    ['caf\u00e9 x', 'cafe', false],
    ['x \u2019', 'caf\u2019', false],
    ['it\u2019s it\u2018s', "it's", false],
  ])('%j in the file and %j as search match: %s', async (there, search, isAlike) => {
    put('a', `a ${there} \u00fc\r\n`);
    const edited = edit([{ type: 'replace', search, replace: '!' }]);
    if (!isAlike) return expect(edited).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(await edited).toMatchObject({ inexact: 1 });
    expect(text('a')).toMatch(/^a .{0,3}! \u00fc\r\n$/u);
  });

  test('a hint shows characters that look like others as escapes', async () => {
    put('a', 'it\u2019s five\u00a0km\n');
    await expect(edit([{ type: 'replace', search: "it's five kms", replace: '!' }])).rejects.toMatchObject({
      extras: { details: { nearest: { hint: expect.stringContaining('it\\u{2019}s five\\u{a0}km') } } },
    });
  });

  test('numbers, lists and objects as text are taken for what they are, and told', () => {
    const told: string[] = [];
    const parse = (name: string, input: object) =>
      builtinToolset()
        .get(name)
        ?.parse(input, (it) => told.push(it));
    expect(parse('read', { filePath: 'a', start_line: '2', endLine: '3' })).toMatchObject({ startLine: 2, endLine: 3 });
    expect(parse('file_read_many', { paths: '["a", "b"]' })).toMatchObject({ paths: ['a', 'b'] });
    expect(parse('file_read_many', { paths: 'a' })).toMatchObject({ paths: ['a'] });
    expect(parse('file_grep', { pattern: '7', literal: 'true' })).toMatchObject({ pattern: '7', literal: true });
    const operations = '[{"oldText": "a", "newText": "b", "replaceAll": "true"}]';
    expect(parse('file_edit', { path: 'a', operations })).toMatchObject({
      operations: [{ type: 'replace', search: 'a', replace: 'b', all: true }],
    });
    expect(told[0]).toBe('startLine: the text was taken as the number that it holds');
    expect(told).toHaveLength(7);
    for (const startLine of ['', 'x', '1e999', '0x2', '-1', '1.5', '[1]', '2 3'])
      expect(() => parse('file_read', { path: 'a', startLine })).toThrow(/startLine/);
    expect(() => parse('file_read_many', { paths: '[' })).toThrow(/array/);
    expect(() => parse('file_edit', { path: 'a', operations: 'x' })).toThrow(/expected array/);
  });

  test('refuses bytes that are no UTF-8, and a hash that is another', async () => {
    const operations = [{ type: 'replace', search: 'o', replace: '' }];
    put('a', Buffer.from([0x6f, 0xff]));
    await expect(edit(operations)).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    put('a', 'o');
    await expect(edit(operations, { ifHash: `sha256:${'0'.repeat(64)}` })).rejects.toMatchObject({ code: 'CONFLICT' });
    expect(ws.tree()).toEqual({ a: 'o' });
  });

  test('the alias `edit` takes the parameters of that name', () => {
    const alias = builtinToolset().get('edit');
    expect(alias?.parse({ filePath: 'a', oldString: 'b', newString: 'c', replaceAll: true })).toMatchObject({
      path: 'a',
      operations: [{ type: 'replace', search: 'b', replace: 'c', all: true }],
    });
  });
});

test('edits of a latin1 file leave its other bytes as they are, and show the change as text', async () => {
  put('a', Buffer.from('caf\u00e9\nna\u00efve\n\u00ff', 'latin1'));
  await expect(edit([{ type: 'replace', search: 'caf\u00e9', replace: 'th\u00e9' }])).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    extras: { suggestion: expect.stringContaining('latin1') },
  });
  const { diff } = await edit([{ type: 'replace', search: 'caf\u00e9', replace: 'th\u00e9' }], { encoding: 'latin1' });
  expect(readFileSync(join(ws.path, 'a'))).toEqual(Buffer.from('th\u00e9\nna\u00efve\n\u00ff', 'latin1'));
  expect(diff).toContain('-caf\u00e9\n+th\u00e9\n na\u00efve\n');
});

test('edits that would need a character which the encoding does not have change nothing', async () => {
  put('a', Buffer.from('x\n'));
  for (const [encoding, content] of [
    ['latin1', '\u20ac'],
    ['ascii', '\u00e9'],
  ])
    await expect(edit([{ type: 'insert', line: 1, content }], { encoding })).rejects.toThrow(
      `"${content}", which ${encoding} does not have`,
    );
  expect(text('a')).toBe('x\n');
});
