import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compilePath,
  compileSegment,
  matchGlob,
  matchText,
  parseGlob,
  unfoldBraces,
} from '../../../src/base/text/glob.ts';

const matches = (pattern: string, path: string) =>
  matchGlob(parseGlob(pattern), path.replace(/\/$/, '').split('/').at(-1) as string, path);

test.each([
  ['*.ts', 'src/a.ts', true],
  ['*.ts', 'a.tsx', false],
  ['src/*.ts', 'src/a.ts', true],
  ['src/*.ts', 'src/x/a.ts', false],
  ['src/**/*.ts', 'src/x/y/a.ts', true],
  ['src/**/*.ts', 'src/a.ts', true],
  ['**/test/**', 'a/test/b/c', true],
  ['**', 'a/b', true],
  ['a?c', 'abc', true],
  ['a?c', 'ac', false],
  ['[a-c]x', 'bx', true],
  ['[!a-c]x', 'bx', false],
  ['*.{ts,js}', 'a.js', true],
  ['{a,b{c,d}}', 'bd', true],
  ['\\*', '*', true],
  ['\\*', 'x', false],
  ['*', 'a', true],
  ['*', '.a', true],
  ['a*', 'a', true],
  ['*a*', 'bab', true],
  ['*a', 'ab', false],
  ['a*b*c', 'a-b-b-c', true],
  ['a*b*c', 'a-c-b', false],
  ['?', 'é', true],
  ['?', 'ab', false],
  ['A', 'a', false],
  ['[abc]', 'b', true],
  ['[abc]', 'd', false],
  ['[^a-c]x', 'bx', false],
  ['[!a-c]x', 'dx', true],
  ['[a-cx-z]', 'y', true],
  ['[a-]', '-', true],
  ['[-a]', '-', true],
  ['[]]', ']', true],
  ['[!]]', ']', false],
  ['[!]]', 'a', true],
  ['[*]', '*', true],
  ['[*]', 'a', false],
  ['[z-a]', 'm', false],
  ['[aA][bB]', 'aB', true],
  ['[aA][bB]', 'aBc', false],
  ['[aA][bB]', 'xaB', false],
  ['.[sS]*[hH]', '.SSH', true],
  ['[kK]', '\u212a', false],
  ['a[', 'a[', true],
  ['a{b', 'a{b', true],
  ['a}', 'a}', true],
  ['a\\?', 'a?', true],
  ['a\\?', 'ab', false],
  ['a{,b}', 'a', true],
  ['a{,b}', 'ab', true],
  ['{a,b}{c,d}', 'bc', true],
  ['{a,b}{c,d}', 'ab', false],
  ['{src,test}/**/*.ts', 'test/x/a.ts', true],
  ['{src,test}/**/*.ts', 'docs/a.ts', false],
  ['a.b', 'axb', false],
  ['a+', 'aa', false],
  ['(a|b)', 'a', false],
  ['src/**', 'src/a/b', true],
  ['src/**', 'srcs/a', false],
  ['**/a', 'a', true],
  ['**/a', 'x/y/a', true],
  ['**/a', 'x/ba', false],
  ['a/**/**/b', 'a/b', true],
  ['a/*/b', 'a/x/y/b', false],
  ['a/**/b/**/c', 'a/1/b/2/3/c', true],
  ['a/**/b/**/c', 'a/1/c/2/b', false],
  ['a/*', 'a', false],
  ['./a', 'a', true],
  ['./a', 'x/a', false],
  ['/a', 'a', true],
  ['/a', 'x/a', false],
  ['{./,x/}a', 'x/a', true],
  ['{./,x/}a', 'y/a', false],
  ['a', 'x/a', true],
  ['a/', 'a', false],
  ['a/', 'a/', true],
  ['a/', 'x/a/', true],
  ['/a/', 'x/a/', false],
  ['a/b/', 'a/b/', true],
  ['a/b/', 'a/b', false],
  ['a', 'a/', true],
  ['a/*', 'a/b/', true],
  ['**/', 'a/', true],
  ['**/', 'a', false],
  ['?', '😀', true],
  ['??', '😀', false],
  ['😀', '😀', true],
  ['*😀?', 'a😀b', true],
  ['?*?', '😀', false],
  ['*[!😀]', 'a😀', false],
  ['?*?', '😀😀', true],
  ['[😀-😎]', '😃', true],
  ['[😀-😎]', '😏', false],
  ['[!😀]', '😀', false],
  ['\\{a,b\\}', '{a,b}', true],
  ['\\{a,b\\}', 'a', false],
  ['{a\\,b,c}', 'a,b', true],
  ['{a\\,b,c}', 'b', false],
  ['{a\\}b,c}', 'a}b', true],
  ['{a,{b}', '{a,b', true],
  ['a,b', 'a,b', true],
  ['{a}', 'a', true],
  ['a\\', 'a\\', true],
  ['[a', '[a', true],
  ['[]', '[]', true],
  ['[!]', '[!]', true],
  ['[a]]', 'a]', true],
  ['*.*', 'a.b.c', true],
  ['a*ab', 'ab', false],
  ['a*b*b', 'ab', false],
])('%s and %s: %s', (pattern, path, expected) => {
  expect(matches(pattern, path)).toBe(expected);
});

test('a name without special characters matches itself and nothing else', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z0-9._-]{1,20}$/), fc.stringMatching(/^[a-z0-9._-]{1,20}$/), (a, b) => {
      expect(matches(a, a)).toBe(a !== '.');
      if (a !== '.') expect(matches(a, b)).toBe(a === b);
    }),
  );
});

test('patterns that hang other matchers end at once', () => {
  expect(matches(`${'*a'.repeat(200)}b`, 'a'.repeat(4000))).toBe(false);
  expect(matches(`${'**/'.repeat(50)}b`, Array(200).fill('a').join('/'))).toBe(false);
});

test('many braces of one alternative are unfolded as one text, beside a group of several', () => {
  expect(unfoldBraces(`{a,b}${'{.Ts}x'.repeat(3)}`)).toEqual(['a.Tsx.Tsx.Tsx', 'b.Tsx.Tsx.Tsx']);
  expect(unfoldBraces('{a,ab}{b,}{c}')).toEqual(['abc', 'ac', 'abbc']);
  expect(unfoldBraces(`{a,b,c}${'{.Ts}'.repeat(10_000)}`).map((it) => it.length)).toEqual([30_001, 30_001, 30_001]);
});

test('`**` costs no more than its segments times those of the path', () => {
  const asked: string[] = [];
  const path = Array.from({ length: 100 }, (_, at) => `${at}`);
  const spied = new Proxy(path, {
    get(target, key) {
      if (typeof key === 'string' && /^\d+$/.test(key)) asked.push(key);
      return Reflect.get(target, key);
    },
  });
  const glob = Array.from({ length: 20 }, () => ['**', '*']).flat();
  expect(compilePath([...glob, 'x'])(spied)).toBe(false);
  expect(asked.length).toBeLessThan(100 * 41);
});

test('a glob says what it always ends with, and what it is alone', () => {
  const told = ['*.tar.gz', 'a*', 'abc', 'a\\*b', '[a]b', '*'].map((it) => {
    const { literal, ending } = compileSegment(it);
    return [literal, ending];
  });
  expect(told).toEqual([
    [undefined, '.tar.gz'],
    [undefined, ''],
    ['abc', 'abc'],
    ['a*b', 'a*b'],
    [undefined, 'b'],
    [undefined, ''],
  ]);
});

describe('plain texts', () => {
  test.each([
    ['file_*', 'file_read', true],
    ['file_*', 'xfile_read', false],
    ['*', '', true],
    ['?', '', false],
    ['?', '😀', true],
    ['*', 'a/b', true],
    ['a*c', 'a/b/c', true],
    ['a?c', 'a/c', true],
    ['*.org', 'a.b.org', true],
    ['[a]', 'a', false],
    ['[a]', '[a]', true],
    ['{a,b}', 'a', false],
    ['\\*', '*', true],
    ['\\*', 'a', false],
    ['\\$', '$', true],
    ['\\\\', '\\', true],
    ['\\.ts', '\\.ts', true],
    ['a\\', 'a\\', true],
    ['A', 'a', false],
  ])('%s and %s: %s', (pattern, text, expected) => {
    expect(matchText(pattern, text)).toBe(expected);
  });

  test('match themselves when what is special in them is escaped, and then nothing else', () => {
    const text = fc.string({ unit: fc.constantFrom('a', '*', '?', '$', '\\', '[', '😀') });
    fc.assert(
      fc.property(text, text, (a, b) => {
        const escaped = a.replaceAll(/[*?$\\]/g, '\\$&');
        expect(matchText(escaped, a)).toBe(true);
        expect(matchText(escaped, b)).toBe(a === b);
      }),
    );
  });
});

/** The regular expression for a glob of letters, `?` and `*`; for short globs only, since it backtracks. */
const oracle = (glob: string): RegExp => new RegExp(`^${glob.replaceAll('?', '.').replaceAll(/\*+/g, '.*')}$`);

test('a segment of letters, ? and * matches what the same regular expression does', () => {
  const segment = fc.string({ unit: fc.constantFrom('a', 'b', '?', '*'), minLength: 1, maxLength: 8 });
  const name = fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(segment, name, (glob, it) => {
      fc.pre(glob !== '**'); // `**` means any number of segments.
      expect(matches(glob, it)).toBe(oracle(glob).test(it));
    }),
    { numRuns: 2000 },
  );
});

test('** matches as many segments as the same expression over segments does', () => {
  const glob = fc.array(fc.constantFrom('a', 'b', '**'), { minLength: 2, maxLength: 6 });
  const path = fc.array(fc.constantFrom('a', 'b'), { minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(glob, path, (segments, it) => {
      const expression = segments.map((segment) => (segment === '**' ? '(?:[ab]/)*' : `${segment}/`)).join('');
      expect(matches(segments.join('/'), it.join('/'))).toBe(new RegExp(`^${expression}$`).test(`${it.join('/')}/`));
    }),
    { numRuns: 2000 },
  );
});

test('a name whose special characters are escaped matches itself', () => {
  const special = fc.string({ unit: fc.constantFrom('a', '*', '?', '[', ']', '\\', '!', '-'), minLength: 1 });
  fc.assert(
    fc.property(special, (name) => {
      expect(matches(name.replaceAll(/[*?[\]\\]/g, '\\$&'), name)).toBe(true);
    }),
  );
});

test('a segment with emoji and brackets matches what the same regular expression does', () => {
  const segment = fc.string({
    unit: fc.constantFrom('a', '😀', '?', '*', '[a😎]', '[!a]'),
    minLength: 1,
    maxLength: 6,
  });
  const name = fc.string({ unit: fc.constantFrom('a', '😀', '😎'), minLength: 1, maxLength: 6 });
  fc.assert(
    fc.property(segment, name, (glob, it) => {
      fc.pre(glob !== '**');
      const expression = glob.replaceAll('?', '.').replaceAll('[!', '[^').replaceAll(/\*+/g, '.*');
      expect(matches(glob, it)).toBe(new RegExp(`^${expression}$`, 'u').test(it));
    }),
    { numRuns: 2000 },
  );
});

test('four times as long a hostile name takes about four times as long, not exponentially longer', () => {
  const glob = parseGlob(`${'*a'.repeat(20)}b`);
  const timeOf = (length: number): number => {
    const name = 'a'.repeat(length);
    const runs = Array.from({ length: 5 }, () => {
      const start = process.hrtime.bigint();
      for (let i = 0; i < 20; i++) matchGlob(glob, name, name);
      return Number(process.hrtime.bigint() - start);
    });
    return Math.min(...runs);
  };
  timeOf(20_000);
  expect(timeOf(80_000) / timeOf(20_000)).toBeLessThan(16);
});

describe('braces', () => {
  test('braces that unfold without end are refused as INPUT_INVALID', () => {
    expect(() => parseGlob('{a,b}'.repeat(30))).toThrow(
      expect.objectContaining({ code: 'INPUT_INVALID', message: 'pattern expands to more than 64 alternatives' }),
    );
  });

  test('braces may unfold to 64 alternatives, in one brace or in several, and not to more', () => {
    const flat = (count: number) => `{${Array.from({ length: count }, (_, i) => i).join(',')}}`;
    expect(parseGlob(flat(64))).toHaveLength(64);
    expect(parseGlob('{a,b}'.repeat(6))).toHaveLength(64);
    expect(() => parseGlob('{a,b}'.repeat(7))).toThrow(/more than 64/);
  });

  test('inside braces are told apart each once, not multiplied by what is beside them', () => {
    expect(unfoldBraces('{a,b{c,d}}')).toEqual(['a', 'bc', 'bd']);
    expect(unfoldBraces('{a,a,{a,b}}x')).toEqual(['ax', 'bx']);
    const nested = `${'{a,b'.repeat(30)}${'}'.repeat(30)}`;
    expect(unfoldBraces(nested)).toHaveLength(31);
  });

  test('without an escape unfold as the shell does', () => {
    expect(unfoldBraces('a{,b}c{d,{e,f}g}')).toEqual(['acd', 'aceg', 'acfg', 'abcd', 'abceg', 'abcfg']);
  });

  test('within braces cost no stack', () => {
    expect(unfoldBraces(`${'{'.repeat(100_000)}a${'}'.repeat(100_000)}`)).toEqual(['a']);
    expect(unfoldBraces(`${'{'.repeat(100_000)}a`)).toHaveLength(1);
  });

  test.each(['{'.repeat(1024), '}'.repeat(1024), '{,'.repeat(512), `${'{'.repeat(512)}${'}'.repeat(512)}`])(
    'without a partner, or with nothing in them, end at once (%#)',
    (pattern) => {
      expect(parseGlob(pattern)).toHaveLength(1);
    },
  );
});

test('sets of a letter in both cases match it in any case between stars, and no other letter that lowers to it', () => {
  const { test: matches } = compileSegment('*[sS][eE][cC]-[kK]*.[pP][eE][mM]');
  for (const it of ['sec-k.pem', 'aSEC-KEYb.PeM', '\u0130sec-k\u0130.pem']) expect(matches(it), it).toBe(true);
  for (const it of ['sec-\u212a.pem', 'sec-k.pe', 'k-sec.pem', 'se-ck.pem']) expect(matches(it), it).toBe(false);
  expect(compileSegment('*[kK]\u03a3*').test('aK\u03a3')).toBe(true);
});

describe('the text that a glob holds', () => {
  const PARTS = ['a', 'B', 'ab', '.env', '*', '?', '[aA]', '[bB]', '[ab]', '[!a]', 'Ä', 'Σ', '.', '\\*'];
  const TEXTS = ['a', 'A', 'b', 'B', 'ab', 'AB', '.env', '.ENV', 'ä', 'Ä', 'Σ', 'σ', '*', '.', 'x'];
  const joined = (of: readonly string[]) => fc.array(fc.constantFrom(...of), { maxLength: 6 }).map((it) => it.join(''));

  test('the text that a glob holds is in each text that it matches, in any case', () => {
    fc.assert(
      fc.property(joined(PARTS), joined(TEXTS), (glob, text) => {
        const { test: matches, held } = compileSegment(glob);
        expect(matches(text) && !text.toLowerCase().includes(held)).toBe(false);
      }),
      { numRuns: 20_000 },
    );
  });

  test.each([
    ['[pP][aA][sS][sS]*', 'pass'],
    ['*.[pP][eE][mM]', '.pem'],
    ['id_rsa', 'id_rsa'],
    ['*', ''],
    ['Ä[!a]', ''],
  ])('the text that the glob %s holds is %j', (glob, held) => {
    expect(compileSegment(glob).held).toBe(held);
  });
});
