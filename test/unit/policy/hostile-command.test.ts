/** Texts built to hang, crash or deceive their parser. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { parseCommand } from '../../../src/policy/shell/command.ts';

const place = {
  workspace: '/ws',
  cwd: '/ws',
  home: '/home/person',
  resolve: (name: string) =>
    name.startsWith('/usr/bin/') || !name.includes('/') ? `/usr/bin/${name.split('/').at(-1)}` : undefined,
};
const parse = (text: string, more = {}) => parseCommand(text, { ...place, ...more });
const isKnown = (text: string) => {
  const { commands, unknown } = parse(text);
  return unknown.length === 0 && commands.every((it) => it.unknown === undefined);
};

describe('a hostile text', () => {
  const full = (unit: string, length = 131_072) => unit.repeat(Math.ceil(length / unit.length)).slice(0, length);
  const units = ['(', '$(', '"$(', '`', '{!()', ']<(){', 'a() ', 'coproc ', '<<-$(', 'a;', 'a ', 'cd x;', '{1..64} '];
  const more = ['$((', '${a:-', '<<<', '\\', '[', 'a=b:c@d,e ', '"', '*', 'eval ', "sh -c '", 'if ', '>a ', "<<'E'"];

  test.each([...units, ...more])('a text of only %j ends in time, and is unknown if it can not be read', (unit) => {
    for (const length of [2_000, 5_000, 131_072]) {
      const text = full(unit, length);
      const started = process.cpuUsage();
      parse(text);
      expect(process.cpuUsage(started).user).toBeLessThan(1_000_000);
    }
  });

  test('a text of 100 000 parentheses is unknown', () => {
    expect(parse('('.repeat(100_000)).unknown).not.toEqual([]);
    expect(parse(`${'('.repeat(50_000)}ls${')'.repeat(50_000)}`).unknown).not.toEqual([]);
  });

  test.each([
    ['a'.repeat(200_000), 'characters'],
    [full('a;', 4_000), 'commands'],
    [`ls ${'>f '.repeat(1_001)}`, 'redirections'],
    [full('a ', 30_000), 'words'],
    [Array.from({ length: 5_000 }, (_, at) => `f${at}`).join(' '), 'paths'],
    [full('env ', 100), 'commands within commands'],
    [Array.from({ length: 20 }, (_, at) => `cd d${at};`).join(''), 'directories'],
    [full('{!()', 20_000), 'tangled'],
  ])('a text beyond a bound is unknown and names the bound: %#', (text, reason) => {
    expect(parse(text).unknown.join()).toContain(reason);
  });

  test('a text can not hide a command in what looks like a here-document', () => {
    const padding = `${full('a{(', 40_000)}\n`;
    for (const start of [`echo "<<'E'"\n`, `# <<'E'\n`, `x='\n<<"E"\n`, `echo \\<<'E'\n`, `: $((1<<'E'\n`])
      expect(isKnown(`${start}rm x\n${padding}E\nls`)).toBe(false);
  });

  test.each(['echo ${ ls x', 'echo ${| ls x', 'rm -rf${ ./y\nrm z', 'echo "${ ls x"'])(
    '%j, whose substitution has no end, is unknown',
    (text) => {
      expect(isKnown(text)).toBe(false);
      expect(isKnown('echo ${ ls x; }')).toBe(true);
    },
  );

  test('never throws and always gives lists', () => {
    const piece = fc.constantFrom(
      ...units,
      ...more,
      'ls',
      ' ',
      '\n',
      '}',
      ')',
      ']',
      'fi',
      'done',
      'x=',
      '|',
      '&',
      '$x',
      '>',
      "'",
      '\0',
      '\u{d800}',
    );
    const text = fc.oneof(
      fc.array(piece, { maxLength: 40 }).map((it) => it.join('')),
      fc.string({ unit: 'binary', maxLength: 200 }),
    );
    fc.assert(
      fc.property(text, (it) => {
        const { commands, mentions, unknown } = parse(it);
        expect(commands.every(({ words, text: own }) => Array.isArray(words) && typeof own === 'string')).toBe(true);
        expect(mentions.every((path) => !path.startsWith('./') && !path.includes('//'))).toBe(true);
        expect(unknown.length).toBeLessThanOrEqual(32);
      }),
      { numRuns: 500 },
    );
  });
});
