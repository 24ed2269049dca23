import { spawnSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseCommand } from '../../../../src/policy/shell/command.ts';

const place = {
  workspace: '/ws',
  cwd: '/ws',
  home: '/home/person',
  resolve: (name: string) =>
    name.startsWith('/usr/bin/') || !name.includes('/') ? `/usr/bin/${name.split('/').at(-1)}` : undefined,
};
const parse = (text: string, more = {}) => parseCommand(text, { ...place, ...more });

describe('words', () => {
  const words = (text: string) => parse(text).commands[0]?.words;

  test('words that only the shell knows are undefined', () => {
    expect(words('a $x "$x" b$(c) *.ts [a]b c? ~user "*" \'$x\' d')).toEqual([
      ...['a', undefined, undefined, undefined, undefined, undefined, undefined, undefined],
      ...['*', '$x', 'd'],
    ]);
  });
  test('words are unfolded from braces, and know home', () => {
    expect(words('a {b,c{d,e}}f x{1..3} {} {x} {a,b ~ ~/x a=~/y "~" {,}')).toEqual([
      ...['a', 'bf', 'cdf', 'cef', 'x1', 'x2', 'x3', '{}', '{x}', '{a,b', '/home/person', '/home/person/x'],
      ...['a=/home/person/y', '~'],
    ]);
  });
  test('words with a home behind quotes and a colon are left to the shell', () => {
    expect(words(`a x='b':~ x="b":~/c ~"b":~`)).toEqual(['a', undefined, undefined, undefined]);
    expect(words(`a x='b:'c x="~"`)).toEqual(['a', 'x=b:c', 'x=~']);
  });
  test('words that end with a backslash at the end of the line are left to the shell', () => {
    expect(words('rm a\\\n\\\n\\')).toEqual(['rm', undefined]);
    expect(words('rm a\\')).toEqual(['rm', undefined]);
  });
  test('words whose braces expand to too many are left to the shell', () => {
    expect(words(`a ${'{b,c}'.repeat(12)} {1..9..2}`)).toEqual(['a', undefined, undefined]);
  });

  test('words are the same however they are quoted', () => {
    const quotings: ((word: string) => string)[] = [
      (it) => `'${it.replaceAll("'", `'\\''`)}'`,
      (it) => `"${it.replaceAll(/["\\$`]/g, '\\$&')}"`,
      (it) => `$'${it.replaceAll(/['\\]/g, '\\$&').replaceAll('\n', '\\n')}'`,
      (it) => (it === '' ? "''" : it.replaceAll('\n', "'\n'").replaceAll(/[^\n']|(?<!^|\n)'(?!\n)/gu, '\\$&')),
    ];
    const text = fc.string({ unit: fc.constantFrom(...Array.from('ab$`"\\*?[]{},~!#&|;<>() =-é😀')), maxLength: 12 });
    fc.assert(
      fc.property(fc.array(text, { minLength: 1, maxLength: 4 }), fc.array(fc.nat(3)), (plain, choices) => {
        const quoted = plain.map((it, at) => (quotings[choices[at] ?? 0] as (word: string) => string)(it));
        expect(words(`p ${quoted.join(' ')}`)).toEqual(['p', ...plain]);
      }),
    );
  });

  test('known words are those that bash makes of the text', () => {
    const pieces = ['a', '{', '}', ',', '{a,b}', '"', "'", '\\', "$'", '~', '/', '=', '..', '{1..3}', 'x=', '"a b"'];
    const more = [
      "'c'",
      '\\\n',
      '*',
      '[a]',
      ']',
      '-',
      '$',
      '#',
      '%',
      ':',
      '"\\$"',
      "$'\\0'",
      "$'\\cA'",
      "$'\\xc3\\xa9'",
    ];
    const word = fc.array(fc.constantFrom(...pieces, ...more), { minLength: 1, maxLength: 6 }).map((it) => it.join(''));
    const texts = fc.sample(word, 400).map((it) => `p ${it}`);
    const script = String.raw`p() { printf '%s\0' "$@"; }; HOME=/home/person; set -f
      while IFS= read -r -d '' t; do bash -n -c "$t" && eval "$t"; printf 'END\0'; done 2> /dev/null`;
    const input = texts.map((it) => `${it}\0`).join('');
    const bash = spawnSync('bash', ['--norc', '-c', script], {
      input,
      encoding: 'utf8',
      env: { PATH: process.env.PATH },
    });
    const expected = bash.stdout.split('END\0').map((it) => it.split('\0').slice(0, -1));
    texts.forEach((text, at) => {
      const { commands, unknown } = parse(text);
      const known = commands[0]?.words.slice(1) ?? [];
      const isRefused = expected[at]?.length === 0;
      if (unknown.length > 0 || known.includes(undefined) || isRefused) return;
      expect([text, known.length === 0 ? [''] : known]).toEqual([text, expected[at]]);
    });
  }, 30_000);
});
