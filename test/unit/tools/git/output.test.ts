import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseDiff, shownSections } from '../../../../src/tools/git/diff-output.ts';
import { parseCommits } from '../../../../src/tools/git/log-output.ts';
import { parseStatus } from '../../../../src/tools/git/status-output.ts';

const name = fc
  .string({ unit: 'binary', minLength: 1, maxLength: 12 })
  .filter((it) => it.isWellFormed() && !it.includes('\0'));
const H = '0'.repeat(40);

describe('status', () => {
  test('every name comes back as it went in, whatever is in it', () => {
    const entry = fc.record({ name, from: fc.option(name), kind: fc.constantFrom('1', '2', 'u', '?') });
    fc.assert(
      fc.property(fc.array(entry), (entries) => {
        const records = entries.map(({ name: path, from, kind }) => {
          if (kind === '?') return `? ${path}\0`;
          if (kind === '1') return `1 MD N... 100644 100644 100644 ${H} ${H} ${path}\0`;
          if (kind === 'u') return `u UU N... 100644 100644 100644 100644 ${H} ${H} ${H} ${path}\0`;
          return `2 R. N... 100644 100644 100644 ${H} ${H} R100 ${path}\0${from ?? 'x'}\0`;
        });
        const parsed = parseStatus(Buffer.from(`# branch.oid ${H}\0# branch.head m\0${records.join('')}`));
        const of = (...kinds: string[]) => entries.filter((it) => kinds.includes(it.kind)).map((it) => it.name);
        expect(parsed.untracked).toEqual(of('?'));
        expect(parsed.conflicted).toEqual(of('u'));
        expect(parsed.changed.map((it) => it.path)).toEqual(of('1', '2'));
        expect(parsed.changed.flatMap((it) => it.from ?? [])).toEqual(
          entries.filter((it) => it.kind === '2').map((it) => it.from ?? 'x'),
        );
      }),
    );
  });
  test('a record that is cut is left out', () => {
    expect(parseStatus(Buffer.from('? a\0? b')).untracked).toEqual(['a']);
    expect(parseStatus(Buffer.from(`2 R. N... 1 1 1 ${H} ${H} R100 to\0fr`)).changed).toEqual([]);
  });
  test('a branch that is not born, none at all, and its distance are told', () => {
    const text = '# branch.oid (initial)\0# branch.head (detached)\0# branch.upstream o/m\0# branch.ab +3 -12\0';
    expect(parseStatus(Buffer.from(text))).toMatchObject({ upstream: 'o/m', ahead: 3, behind: 12 });
    expect(parseStatus(Buffer.from(text)).head ?? parseStatus(Buffer.from(text)).branch).toBeUndefined();
  });
  test('anything at all is parsed without a throw', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => void parseStatus(Buffer.from(bytes))));
    fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => void parseDiff(Buffer.from(bytes))));
    fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => void parseCommits(Buffer.from(bytes))));
  });
});

test('a commit that is cut is left out', () => {
  expect(parseCommits(Buffer.from('h\0a\0d\0s\0h2\0a\0d\0'))).toEqual([
    { hash: 'h', author: 'a', date: 'd', subject: 's' },
  ]);
});

/** A name as git prints it after `a/`. */
function quoted(prefix: string, path: string): string {
  const bytes = [...Buffer.from(prefix + path)];
  if (bytes.every((it) => it >= 32 && it !== 34 && it !== 92 && it !== 127)) return prefix + path;
  const text = bytes.map((it) => {
    if (it === 34 || it === 92) return `\\${String.fromCharCode(it)}`;
    return it < 32 || it > 126 ? `\\${it.toString(8).padStart(3, '0')}` : String.fromCharCode(it);
  });
  return `"${text.join('')}"`;
}

describe('sections of a patch', () => {
  const section = (path: string, content: string) => {
    const both = `diff --git ${quoted('a/', path)} ${quoted('b/', path)}\nindex 1..2 100644\n`;
    return `${both}--- ${quoted('a/', path)}\n+++ ${quoted('b/', path)}\n@@ -1 +1 @@\n+${content}\n`;
  };

  test('sections of a refused name are removed, and all others stay whole, whatever the names and the content', () => {
    const line = fc.oneof(
      fc.constantFrom('diff --git a/ok b/ok', '--- a/x', 'rename from x', '* Unmerged path y'),
      name,
    );
    const file = fc.record({
      path: name,
      content: line.map((it) => it.replaceAll('\n', '\n+')),
      refused: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.uniqueArray(file, { selector: (it) => it.path }), (files) => {
        const patch = Buffer.from(files.map((it) => section(it.path, it.content)).join(''));
        const refused = new Set(files.filter((it) => it.refused).map((it) => it.path));
        const kept = files.filter((it) => !it.refused).map((it) => section(it.path, it.content));
        expect(shownSections(patch, (it) => refused.has(it)).toString()).toBe(kept.join(''));
      }),
    );
  });
  test('a rename is gone by either of its names', () => {
    const patch = Buffer.from(
      'diff --git a/.env b/x y\nsimilarity index 90%\nrename from .env\nrename to x y\nindex 1..2\n--- a/.env\n+++ b/x y\n@@ -1 +1 @@\n-K\n+L\n',
    );
    for (const refused of ['.env', 'x y']) expect(shownSections(patch, (it) => it === refused)).toHaveLength(0);
    expect(shownSections(patch, () => false)).toEqual(patch);
  });
  test('a hidden file in conflict is removed by its name', () => {
    const patch = Buffer.from('diff --cc .env\nindex 1,2..3\n--- a/.env\n@@@ -1 @@@\n++K\n* Unmerged path .env\n');
    expect(shownSections(patch, (it) => it === '.env')).toHaveLength(0);
  });
  test('a section with unreadable names is removed', () => {
    for (const text of ['diff --git a/x b/y\n+K\n', 'diff --git a/x b/', 'diff --git \n+K\n'])
      expect(
        shownSections(Buffer.from(text), () => false),
        text,
      ).toHaveLength(0);
  });
});

test('lists of a diff are read with names of any kind, and end where they are cut', () => {
  fc.assert(
    fc.property(name, name, (path, to) => {
      const raw = `:1 1 a b M\0${path}\0:1 1 a b R090\0${path}\0${to}\0`;
      const text = `${raw}1\t2\t${path}\0-\t-\t\0${path}\0${to}\0\0diff`;
      expect(parseDiff(Buffer.from(text))).toEqual({
        files: [
          { path, additions: 1, deletions: 2 },
          { path: to, from: path, additions: 0, deletions: 0 },
        ],
        names: [...new Set([path, to])],
        patch: Buffer.from('diff'),
        combined: false,
      });
    }),
  );
  expect(parseDiff(Buffer.from(':1 1 a b M\0a\0:1 1 a b M\0half')).names).toEqual(['a']);
});
