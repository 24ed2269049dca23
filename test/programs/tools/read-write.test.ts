/** file_read and file_write: ranges compared with a model, encodings round-tripped, guards, bounds, names, and changing files. */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { builtinTools as tools } from '../../../src/tools/builtin.ts';
import { textOf } from '../../../src/tools/edit/text.ts';
import { hashOf } from '../../../workers/context/files.ts';
import { toolRunner } from '../../support/search.ts';
import { makeWorkspace, type TestWorkspace } from '../../support/workspace.ts';

let ws: TestWorkspace;
beforeEach(() => {
  ws = makeWorkspace();
});
afterEach(() => ws[Symbol.dispose]());

const at = (path: string) => join(ws.path, path);
const read = (more: object = {}) => ws.run(tools.file_read, { path: 'a', ...more });
const write = (more: object = {}) => ws.run(tools.file_write, { path: 'a', content: 'new', ...more });
const errorOf = (code: string, message = /./) =>
  expect.objectContaining({ code, message: expect.stringMatching(message) });

describe('a range', () => {
  const ending = fc.constantFrom('\n', '\r\n', '\r', '\u2028');
  const file = fc
    .tuple(
      fc.constantFrom('', '\uFEFF'),
      fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), ending), { maxLength: 6 }),
      fc.string(),
    )
    .map(([bom, lines, rest]) => `${bom}${lines.flat().join('')}${rest}`.replaceAll('\0', '0'));
  const place = fc.option(fc.integer({ min: 1, max: 8 }), { nil: undefined });

  test('a range of lines is that of a model, and single lines together are the file', async () => {
    await fc.assert(
      fc.asyncProperty(file, place, place, place, async (text, startLine, endLine, maxLines) => {
        fs.writeFileSync(at('a'), text);
        const all = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
        const [first, last] = [startLine ?? 1, endLine ?? Infinity];
        const reading = read({
          ...(startLine && { startLine }),
          ...(endLine && { endLine }),
          ...(maxLines && { maxLines }),
        });
        if (last < first || first > Math.max(all.length, 1)) {
          await expect(reading).rejects.toEqual(errorOf('INPUT_INVALID'));
          return;
        }
        const wanted = all.slice(first - 1, Math.min(last, all.length));
        expect(await reading).toMatchObject({
          content: wanted.slice(0, maxLines).join(''),
          lines: all.length,
          size: Buffer.byteLength(text),
          hash: hashOf(Buffer.from(text)),
          truncated: maxLines !== undefined && maxLines < wanted.length,
        });
        const each = await Promise.all(all.map((_, line) => read({ startLine: line + 1, endLine: line + 1 })));
        expect(each.map((it) => it.content).join('')).toBe(text);
      }),
      { numRuns: 200 },
    );
  });

  test('a range that ends before it begins, or begins behind the end, is refused with the reason', async () => {
    fs.writeFileSync(at('a'), '1\n2\n3\n');
    await expect(read({ startLine: 3, endLine: 2 })).rejects.toEqual(
      errorOf('INPUT_INVALID', /2 is before startLine 3/),
    );
    await expect(read({ startLine: 4 })).rejects.toEqual(errorOf('INPUT_INVALID', /past the end: `a` has 3 lines/));
  });
});

describe('an encoding', () => {
  test.each(['base64', 'latin1', 'ascii', 'utf-8'] as const)(
    '%s gives back every file that it can write',
    async (encoding) => {
      const highest = { 'utf-8': 0x10ffff, latin1: 0xff, ascii: 0x7f, base64: 0xff }[encoding];
      const codes = fc.array(fc.integer({ min: encoding === 'base64' ? 0 : 1, max: highest }));
      await fc.assert(
        fc.asyncProperty(codes, async (points) => {
          const text = points.map((it) => String.fromCodePoint(it >= 0xd800 && it < 0xe000 ? 0xfffd : it)).join('');
          const content = encoding === 'base64' ? Buffer.from(points).toString('base64') : text;
          const { hash, bytesWritten } = await write({ content, encoding });
          expect(await read({ encoding })).toMatchObject({ content, encoding, hash, size: bytesWritten });
        }),
        { numRuns: 100 },
      );
    },
  );

  test.each([
    ['utf-8', Buffer.from([0x63, 0xe9]), /does not have/, /latin1/],
    ['ascii', Buffer.from([0x63, 0xe9]), /byte 1 is 0xe9/, /latin1/],
    ['utf-8', Buffer.from([0x63, 0]), /NUL/, /base64/],
    ['latin1', Buffer.from([0x63, 0]), /NUL/, /base64/],
  ])(
    '%s that does not fit the bytes %j is refused with one that does',
    async (encoding, bytes, message, suggestion) => {
      fs.writeFileSync(at('a'), bytes);
      const error = await read({ encoding }).catch((it: unknown) => it);
      expect(error).toEqual(errorOf('UNSUPPORTED', message));
      expect(error).toMatchObject({ extras: { suggestion: expect.stringMatching(suggestion) } });
      expect((await read({ encoding: 'base64' })).content).toBe(bytes.toString('base64'));
    },
  );

  const mark = Buffer.from([0xff, 0xfe]);
  const wide = Buffer.from('\ufeffé\r\n日本\n', 'utf16le');
  // 日本語のテスト and a newline in Shift-JIS.
  const japanese = Buffer.from('93fa967b8cea82cc8365835883670a', 'hex');
  const cyrillic = Buffer.from('8ff0a8a2a5e20a', 'hex'); // Привет in code page 866.

  test.each([
    ['utf-16le', wide, 'é\r\n日本\n', /^utf-16le, .*byte order mark/],
    ['utf-16be', Buffer.from(wide).swap16(), 'é\r\n日本\n', /^utf-16be, .*byte order mark/],
    ['Shift-JIS', japanese, '日本語のテスト\n', /^shift_jis, .*assumption/],
  ])('a file in %s is read as text with its encoding, and its edit is refused', async (_, bytes, content, decoded) => {
    fs.writeFileSync(at('a'), bytes);
    const whole = { content, lines: content.split('\n').length - 1, size: bytes.length };
    expect(await read({})).toMatchObject({ ...whole, decoded: expect.stringMatching(decoded) });
    expect(() => textOf('a', bytes)).toThrow(errorOf('UNSUPPORTED', /only UTF-8 text can be edited/));
    await expect(read({ encoding: 'ascii' })).rejects.toEqual(errorOf('UNSUPPORTED'));
  });

  test.each([
    ['an odd number of bytes behind the mark of UTF-16', Buffer.concat([wide, Buffer.from([0x41])])],
    ['UTF-32', Buffer.concat([mark, Buffer.from([0, 0, 0x41, 0, 0, 0])])],
    ['latin1', Buffer.from('décor naïf\n', 'latin1')],
    ['Cyrillic of code page 866', cyrillic],
    ['Chinese of GBK', Buffer.from('d6d0cec4b2e2cad40a', 'hex')],
  ])('%s is not taken for UTF-16 or Shift-JIS', async (_, bytes) => {
    fs.writeFileSync(at('a'), bytes);
    await expect(read({})).rejects.toEqual(errorOf('UNSUPPORTED', /is not utf-8 text/));
  });

  test.each([
    ['latin1', '€'],
    ['ascii', 'é'],
    ['base64', 'abc'],
    ['base64', 'ab*='],
  ])('%s that has no bytes for %j writes nothing', async (encoding, content) => {
    await expect(write({ encoding, content })).rejects.toEqual(errorOf('INPUT_INVALID'));
    expect(ws.tree()).toEqual({});
  });
});

describe('a write', () => {
  test('goes over nothing that it was not to go over', async () => {
    fs.writeFileSync(at('a'), 'old');
    await expect(write({ overwrite: false })).rejects.toEqual(errorOf('ALREADY_EXISTS'));
    await expect(write({ ifHash: hashOf(Buffer.from('other')) })).rejects.toEqual(errorOf('CONFLICT'));
    await expect(write({ path: 'none', ifHash: hashOf(Buffer.from('old')) })).rejects.toEqual(
      errorOf('CONFLICT', /not there/),
    );
    await expect(write({ path: 'no/dir', createDirs: false })).rejects.toEqual(errorOf('NOT_FOUND'));
    await expect(write({ path: 'a/b' })).rejects.toEqual(errorOf('NOT_FOUND'));
    expect(ws.tree()).toEqual({ a: 'old' });
    expect(await write({ ifHash: hashOf(Buffer.from('old')) })).toMatchObject({ created: false });
    expect(await write({ path: 'no/dir', overwrite: false })).toMatchObject({ created: true });
    expect(ws.tree()).toEqual({ a: 'new', no: '/', 'no/dir': 'new' });
  });

  test('gives a file the mode that it says, else that of what was there', async () => {
    const mode = () => fs.statSync(at('a')).mode & 0o7777;
    await write();
    expect(mode()).toBe(0o644);
    await write({ mode: '0755' });
    expect(mode()).toBe(0o755);
    await write();
    expect(mode()).toBe(0o755);
    await expect(write({ mode: '4755' })).rejects.toThrow('mode');
  });

  test('a write of more than may be written is refused with the bound', async () => {
    fs.writeFileSync(at('a'), 'old');
    const content = Buffer.alloc(10 * 2 ** 20 + 1).toString('base64');
    await expect(write({ content, encoding: 'base64' })).rejects.toEqual(
      errorOf('FILE_LIMIT', /10485761 bytes; at most 10485760/),
    );
    expect(ws.tree()).toEqual({ a: 'old' });
  });
});

test('a file of 200 MB is refused with the bound by whatever would read it, and is moved and deleted all the same', async () => {
  fs.writeFileSync(at('a'), 'x');
  fs.truncateSync(at('a'), 200 * 2 ** 20);
  const said = errorOf('FILE_LIMIT', /209715200 bytes; at most \d+/);
  await expect(read()).rejects.toEqual(said);
  await expect(read({ encoding: 'base64' })).rejects.toEqual(said);
  const operations = [{ type: 'delete' as const, startLine: 1, endLine: 1 }];
  await expect(ws.run(tools.file_edit, { path: 'a', operations })).rejects.toEqual(said);
  await expect(ws.run(tools.data_validate, { path: 'a' })).rejects.toEqual(said);
  await expect(write({ ifHash: hashOf(Buffer.from('x')) })).rejects.toEqual(said);
  await expect(ws.run(tools.file_copy, { sourcePath: 'a', destPath: 'b' })).rejects.toEqual(
    errorOf('FILE_LIMIT', /134217728/),
  );
  expect(await ws.run(tools.file_read_many, { paths: ['a'] })).toMatchObject({ errors: [{ code: 'FILE_LIMIT' }] });
  const found = ws.run(tools.file_multi_edit, { pattern: '*', find: 'x', replace: 'y' });
  expect(await found).toMatchObject({ files: [], skipped: [{ path: 'a', code: 'FILE_LIMIT' }] });
  expect(fs.readdirSync(ws.path)).toEqual(['a']);
  await ws.run(tools.file_rename, { oldPath: 'a', newPath: 'b' });
  await ws.run(tools.file_delete, { path: 'b' });
  expect(ws.tree()).toEqual({});
});

describe('a name', () => {
  test('a name of more than 255 bytes is INPUT_INVALID in every parameter', async () => {
    fs.writeFileSync(at('a'), 'x');
    const long = 'é'.repeat(128);
    for (const [tool, input] of [
      ['file_read', { path: long }],
      ['file_write', { path: long, content: '' }],
      ['file_write', { path: `${long}/x`, content: '' }],
      ['file_edit', { path: long, operations: [{ type: 'delete', startLine: 1, endLine: 1 }] }],
      ['file_delete', { path: long }],
      ['file_rename', { oldPath: long, newPath: 'b' }],
      ['file_rename', { oldPath: 'a', newPath: long }],
      ['file_copy', { sourcePath: long, destPath: 'b' }],
      ['file_copy', { sourcePath: 'a', destPath: long }],
      ['file_list', { path: long }],
    ] as const)
      await expect(ws.run(tools[tool] as never, input as never), tool).rejects.toEqual(
        errorOf('INPUT_INVALID', /too long/),
      );
    expect(ws.tree()).toEqual({ a: 'x' });
  });

  const name = fc
    .string({ unit: 'binary', minLength: 1, maxLength: 40 })
    .map((it) => it.toWellFormed().replaceAll(/[/\0]/g, '_'))
    .filter((it) => !it.startsWith('.') && Buffer.byteLength(it) <= 240);

  test('a name in any Unicode is found, read, changed, moved, copied and deleted unchanged', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(name, { minLength: 1, maxLength: 12 }), async (names) => {
        using own = makeWorkspace();
        const runner = toolRunner({ workspace: own.path });
        for (const path of names) await own.run(tools.file_write, { path, content: 'needle\n', overwrite: false });
        const sorted = (list: readonly string[]) => [...list].sort();
        expect(sorted((await own.run(tools.file_list, {})).entries.map((it) => it.path))).toEqual(sorted(names));
        expect(sorted((await runner.run<{ paths: string[] }>('file_glob', { pattern: '*' })).paths)).toEqual(
          sorted(names),
        );
        const { matches } = await runner.run<{ matches: { file: string }[] }>('file_grep', { pattern: 'needle' });
        expect(sorted(matches.map((it) => it.file))).toEqual(sorted(names));
        expect(await own.run(tools.file_read_many, { paths: names })).toMatchObject({ errors: [] });
        const edited = await own.run(tools.file_multi_edit, { pattern: '*', find: 'needle', replace: 'pin' });
        expect(edited.files).toHaveLength(names.length);
        for (const path of names) {
          const operations = [{ type: 'replace' as const, search: 'pin', replace: 'x' }];
          await own.run(tools.file_edit, { path, operations });
          await own.run(tools.file_copy, { sourcePath: path, destPath: `.copy/${path}` });
          await own.run(tools.file_rename, { oldPath: path, newPath: `.moved/${path}` });
          expect((await own.run(tools.file_read, { path: `.moved/${path}` })).content).toBe('x\n');
          await own.run(tools.file_delete, { path: `.copy/${path}` });
        }
        const moved = Object.fromEntries(names.map((it) => [`.moved/${it}`, 'x\n']));
        expect(own.tree()).toEqual({ '.copy': '/', '.moved': '/', ...moved });
      }),
      { numRuns: 10, examples: [[['__proto__', 'constructor', 'e\u0301', '\u00e9', 'a\nb', '-x', '*']]] },
    );
  }, 60_000);
});

/** Appends to, truncates, replaces and overwrites a file as fast as a thread can. */
const WRITER = `
  const fs = require('node:fs');
  const { path, stop } = require('node:worker_threads').workerData;
  const flag = new Int32Array(stop);
  for (let turn = 0; Atomics.load(flag, 0) === 0; turn++) {
    if (turn % 4 === 0) fs.appendFileSync(path, 'b'.repeat(100_000));
    else if (turn % 4 === 1) fs.writeFileSync(path, 'e');
    else if (turn % 4 === 2) fs.writeFileSync(path, 'd'.repeat(300_000));
    else {
      fs.writeFileSync(path + '.new', 'c'.repeat(200_000));
      fs.renameSync(path + '.new', path);
    }
    Atomics.add(flag, 1, 1);
  }
`;

test('a read of a changing file gives one version of it, and an edit applies to that version or is refused', async () => {
  fs.writeFileSync(at('a'), 'a');
  const stop = new SharedArrayBuffer(8);
  const flag = new Int32Array(stop);
  const worker = new Worker(WRITER, { eval: true, workerData: { path: at('a'), stop } });
  const codes = new Set<string>();
  try {
    for (let tries = 0; tries < 200 || Atomics.load(flag, 1) < 200; tries++) {
      const { content, size, hash } = await read();
      expect([size, hash]).toEqual([Buffer.byteLength(content), hashOf(Buffer.from(content))]);
      const operations = [{ type: 'insert' as const, line: 1, content: 'x' }];
      await ws.run(tools.file_edit, { path: 'a', operations, ifHash: hash }).catch((it) => codes.add(it.code));
    }
  } finally {
    Atomics.store(flag, 0, 1);
    await new Promise((resolve) => worker.once('exit', resolve));
  }
  expect([...codes].filter((it) => it !== 'CONFLICT')).toEqual([]);
  expect(fs.readdirSync(ws.path).filter((it) => !it.startsWith('a'))).toEqual([]);
}, 60_000);

test('a copied link leads where it did, also where that is no UTF-8', async () => {
  const target = Buffer.from([0x61, 0xff, 0x62]);
  fs.mkdirSync(at('tree'));
  fs.symlinkSync(target, at('tree/link'));
  await ws.run(tools.file_copy, { sourcePath: 'tree', destPath: 'copy' });
  expect(fs.readlinkSync(at('copy/link'), { encoding: 'buffer' })).toEqual(target);
});
