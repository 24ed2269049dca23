/** git's config text is parsed like git does, and edited only as requested. */
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parseGitConfig, valuesOf, withValues } from '../../../../../src/sandbox/git/config/text.ts';
import { temporaryDir } from '../../../../support/daemon.ts';

const folder = temporaryDir('git-config');
afterAll(() => rmSync(folder, { recursive: true }));

/** The entries that git reads in a text; undefined if git rejects it. */
function gitReads(text: string): { key: string; value: string | undefined }[] | undefined {
  const path = join(folder, 'config');
  writeFileSync(path, text);
  try {
    const listed = execFileSync('git', ['config', '-z', '--file', path, '--list'], { encoding: 'utf8', stdio: 'pipe' });
    return listed
      .split('\0')
      .slice(0, -1)
      .map((it) => {
        const [key = '', ...value] = it.split('\n');
        return { key, value: it.includes('\n') ? value.join('\n') : undefined };
      });
  } catch {
    return undefined;
  }
}

const TEXTS = [
  '',
  '[core]\n\tbare = false\n',
  '[Core] Bare = false\n\tFileMode\n',
  '[remote "O.x"]\n\turl = https://example.org/x ; said\n\tfetch = "+a:b" # c\n',
  '[a "b\\"c\\\\d]"]\n\tk = "x ; y" z\n',
  '[a.B]\n\tk = 1\n[a "B"]\n\tk = 2\n',
  '; nothing\n# here\n\n[a]\n\n\tk=v\n\n\tk = w',
  '[a]\n\tk = one \\\n two\n\tl = "q\\n\\t\\\\\\""\n',
  '[a]\r\n\tk = v\r\n',
  '\uFEFF[a]\n\tk = v\n',
  '[a]\n\tk = "open\n',
  '[a]\n\tk = \\x\n',
  '[a\n\tk = v\n',
  '[a]\n\t1k = v\n',
  '[a]\n\tk v\n',
  '[a "x\ny"]\n\tk = v\n',
  '[a]\n\tk = a"b c"d\n\tempty =\n\te2 = ""\n',
  '[a]#c\n\tk = v#w\n',
  '[a] ; c\n[b]\n\tk = #x\n',
  '[a-b "c d"]\n\tk-l = v\n',
  '[a]\n\tk_l = v\n',
  '[]\n\tk = v\n',
];

test.each(TEXTS)('reads %j as git does', (text) => {
  expect(parseGitConfig(text)?.map(({ key, value }) => ({ key, value }))).toEqual(gitReads(text));
});

test('reads texts made of pieces of others as git does, or refuses what git reads', () => {
  const pieces = [
    '[a]',
    '[a "b"]',
    '\n',
    '\t',
    ' ',
    'k',
    '=',
    '"',
    '\\',
    '#',
    ';',
    'v w',
    '\\\n',
    '\r\n',
    'l = 1\n',
    '\\n',
  ];
  let seed = 7;
  const next = (max: number) => {
    seed = (seed * 48271) % 2147483647;
    return seed % max;
  };
  for (let i = 0; i < 300; i++) {
    const text = `[a]\n${Array.from({ length: 8 }, () => pieces[next(pieces.length)]).join('')}`;
    const read = parseGitConfig(text);
    if (read) expect([text, read.map(({ key, value }) => ({ key, value }))]).toEqual([text, gitReads(text)]);
  }
});

describe('a key that is set', () => {
  const text =
    '# mine\n[core]\n\tbare = false ; so\n[remote "o"]\n\turl = https://example.org/a\n\tfetch = +a:b\n[user]\n\tname = Ada\n';
  test.each([
    ['user.name', ['Grace "H"; #1'], '\tname = "Grace \\"H\\"; #1"\n'],
    ['user.email', ['a@example.org'], '\tname = Ada\n\temail = a@example.org\n'],
    [
      'remote.o.url',
      ['https://example.org/b', 'https://example.org/c'],
      '\turl = https://example.org/b\n\turl = https://example.org/c\n\tfetch',
    ],
    ['branch.x "y".description', ['two\nlines'], '[branch "x \\"y\\""]\n\tdescription = "two\\nlines"\n'],
    ['remote.o.fetch', [], '\turl = https://example.org/a\n[user]'],
    ['user.name', [], '\tfetch = +a:b\n'],
  ])('%s to %j', (key, values, shown) => {
    const changed = withValues(text, key, values) ?? '';
    expect(changed).toContain(shown);
    expect(changed).toContain('# mine\n[core]\n\tbare = false ; so\n');
    const wanted = valuesOf(gitReads(text) ?? []);
    if (values.length > 0) wanted.set(key, [...values]);
    else wanted.delete(key);
    expect(valuesOf(gitReads(changed) ?? [])).toEqual(wanted);
  });

  test('takes its section along where nothing else is in it, and leaves one with a comment', () => {
    expect(withValues('[a]\n\tk = v\n[b]\n\tl = w\n', 'a.k', [])).toBe('[b]\n\tl = w\n');
    expect(withValues('[a]\n\t; kept\n\tk = v\n', 'a.k', [])).toBe('[a]\n\t; kept\n');
  });

  test('a key that shares a line with its section is not set', () => {
    expect(withValues('[a] k = v\n', 'a.k', ['w'])).toBeUndefined();
  });
});
