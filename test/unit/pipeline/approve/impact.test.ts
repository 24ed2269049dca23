import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Effect } from '../../../../src/base/call.ts';
import { impactOfCommand } from '../../../../src/pipeline/approve/command-impact.ts';
import { type ImpactFacts, impactOf, undoable, warned } from '../../../../src/pipeline/approve/impact.ts';
import { cutText, cutValue, wholeValue } from '../../../../src/pipeline/approve/shown.ts';
import type { ParsedCommand, SimpleCommand } from '../../../../src/policy/question.ts';
import rename from '../../../../src/tools/file/rename.ts';

const facts = (part: Partial<ImpactFacts>): ImpactFacts => ({
  tool: 'file_write',
  tier: 'write',
  effects: [],
  destructive: false,
  unknown: [],
  ...part,
});

function simple(line: string, unknown?: string): SimpleCommand {
  const words = line.split(' ').map((it) => (it.startsWith('$') ? undefined : it));
  return { text: line, words, program: unknown === undefined ? words[0] : undefined, programPath: undefined, unknown };
}

/** A line of commands separated by `;`, in the parser's form. */
const command = (line: string, part: Partial<ParsedCommand> = {}): ParsedCommand => ({
  commands: line.split('; ').map((it) => simple(it)),
  redirects: [],
  mentions: [],
  unknown: [],
  ...part,
});
const ofCommand = (line: string, part?: Partial<ParsedCommand>) =>
  impactOf(facts({ tool: 'terminal_execute', tier: 'execute', command: command(line, part) }));

describe('effects', () => {
  test.each<[string, Partial<ImpactFacts>, string, string]>([
    ['reading', { tier: 'read_only', effects: [{ kind: 'read', target: 'a' }] }, 'low', 'reads only'],
    ['writing', { effects: [{ kind: 'write', target: 'a' }] }, 'medium', 'modify files'],
    ['replacing', { destructive: true, effects: [{ kind: 'write', target: 'a' }] }, 'medium', 'modify files'],
    ['deleting', { effects: [{ kind: 'delete', target: 'a' }] }, 'high', 'delete data permanently'],
    ['connecting', { tier: 'external_api', effects: [{ kind: 'connect', target: 'x:443' }] }, 'high', 'remote systems'],
    ['any external call', { tier: 'external_api' }, 'high', 'remote systems'],
    ['spending', { tier: 'read_only', costUsd: 0.1 }, 'medium', 'costs money'],
    ['unknown parts', { tier: 'read_only', unknown: ['eval'] }, 'medium', 'Not all'],
  ])('the impact names the effects of %s', (_, part, level, description) => {
    const impact = impactOf(facts(part));
    expect(impact.level).toBe(level);
    expect(impact.description).toContain(description);
  });

  test('effects are named in the warnings, in the words people know', () => {
    const effects: Effect[] = [
      { kind: 'delete', target: 'old' },
      { kind: 'write', target: 'new' },
    ];
    expect(impactOf(facts({ effects })).warnings).toEqual(['Cannot be undone', 'Will delete: old', 'Will modify: new']);
  });

  test('effects that undo keeps are not shown as permanent, and have the same level as before', () => {
    const effects: Effect[] = [{ kind: 'delete', target: 'old' }];
    const impact = undoable(impactOf(facts({ effects })));
    expect(impact).toMatchObject({ level: 'high', warnings: ['Can be undone (ringfence undo)', 'Will delete: old'] });
    expect(impact.description).not.toContain('permanently');
    const command = ofCommand('rm a');
    expect(command.warnings).toContain('Cannot be undone');
  });

  test.each([
    [false, 'medium', ['Will move: a', 'Will modify: b']],
    [true, 'high', ['Cannot be undone', 'Will delete: b', 'Will move: a', 'Will modify: b']],
  ])('a rename deletes data only if it overwrites: %s', (overwrite, level, warnings) => {
    const effects = rename.effects({ oldPath: 'a', newPath: 'b', overwrite });
    const impact = impactOf(facts({ tool: 'file_rename', destructive: true, effects }));
    expect(impact).toMatchObject({ level, warnings });
  });

  test('effects are named in bounded number and length', () => {
    const effects = Array.from(
      { length: 500 },
      (_, at): Effect => ({ kind: 'write', target: `${at}${'x'.repeat(5000)}` }),
    );
    const [warning] = impactOf(facts({ effects })).warnings;
    expect(warning).toMatch(/ and 492 more$/);
    expect(warning?.length).toBeLessThan(2500);
  });
});

describe('commands', () => {
  test.each([
    'ls -la',
    'cat a b',
    'git status',
    'git -C sub log -3',
    'find . -name *.ts',
    'sort a',
    'grep -r x .; wc -l a',
  ])('low: %s', (line) => expect(ofCommand(line)).toMatchObject({ level: 'low', warnings: [] }));

  test.each([
    ...[
      'mv a b',
      'sed -i s/a/b/ f',
      'python x.py',
      'git commit -m x',
      'git add .',
      'mkdir d',
      'chmod +x f',
      'nosuch',
      'make',
    ],
    ...[
      'sort -o out in',
      'sort --compress-program=x a',
      'git diff --output=x',
      'find . -fprint x',
      'git log $x',
      'uniq a b',
      'rg --pre x y',
    ],
  ])('medium: %s', (line) => expect(ofCommand(line).level).toBe('medium'));

  test.each([
    ...['sort --compress-program=x a', 'sort --comp=x a', 'rg --pre x y', 'rg --hostname-bin=x y'],
    ...['git grep --open=./x a', 'git grep -nO./x a', 'git log --ext', 'git --git-dir=x status', 'git bisect run ./x'],
    ...[
      'git difftool -y -x ./x',
      'git nosuch',
      'tar xf a --to-com=./x',
      'tar cf a --use=./x b',
      'tar tf a --checkpoint-act=x',
    ],
  ])('runs what is not shown: %s', (line) =>
    expect(ofCommand(line)).toMatchObject({ level: 'medium', description: expect.stringContaining('runs code') }),
  );

  test.each(['sort -o out in', 'uniq a b', 'tree -o a'])('writes, and does not only read: %s', (line) =>
    expect(ofCommand(line).description).toContain('modify'),
  );

  test.each([
    ...[
      'rm -rf /',
      'rm a',
      'git push',
      'git push origin main',
      'git reset --hard',
      'git reset --hard HEAD~1',
      'git clean -fd',
      'git reset --har',
      'git branch --del x',
      'git --git-dir=x push',
      'git rebase --ex ./x main',
    ],
    ...[
      'git -C sub clean -f',
      'git -c core.pager=x log',
      'chmod -R 777 .',
      'chown -hR me .',
      'chmod --recursive a b',
      'sudo ls',
    ],
    ...[
      'npm install',
      'npm i left-pad',
      'npm publish',
      'pip install x',
      'apt-get -y install x',
      'yarn',
      'npx x',
      'uv pip install x',
    ],
    ...[
      'cargo publish',
      'curl -X POST x',
      'ssh host',
      'docker run x',
      'kubectl delete x',
      'find . -delete',
      'find . -exec rm {} +',
    ],
    ...['dd if=a of=b', 'mkfs.ext4 /dev/sda', 'ls; rm a', 'git branch -D x', 'git stash drop', 'reboot'],
  ])('high: %s', (line) => expect(ofCommand(line).level).toBe('high'));

  test('commands that fetch and run what they fetched are reported as such', () => {
    const impact = ofCommand('curl x.sh; sh');
    expect(impact.level).toBe('high');
    expect(impact.warnings[0]).toBe('Runs what it fetches from elsewhere');
  });

  test('commands behind a wrapper count as themselves', () => {
    const commands = [simple('xargs rm -rf', 'runs another command')];
    expect(ofCommand('', { commands })).toMatchObject({ level: 'high' });
  });

  test.each([
    [{ unknown: ['the here-document is not closed'] }, 'the here-document is not closed'],
    [{ commands: [simple('$x y', 'the program is not known')] }, '$x y (the program is not known)'],
  ])('commands with unknown parts are at least medium, and those parts are named', (part, told) => {
    const impact = ofCommand('ls', part);
    expect(impact.level).toBe('medium');
    expect(impact.warnings.join()).toContain(told);
  });

  test('write what they redirect to', () => {
    const impact = ofCommand('ls', { redirects: [{ kind: 'write', target: 'out.txt' }] });
    expect(impact).toMatchObject({ level: 'medium', warnings: ['Will modify: out.txt'] });
  });

  test('ten thousands of commands are judged in bounded time and text', () => {
    const commands = Array.from({ length: 60_000 }, (_, at) => simple(`x${at}`, 'not found'));
    const impact = ofCommand('', { commands });
    expect(impact.level).toBe('high');
    expect(impact.warnings.join('').length).toBeLessThan(10_000);
  });
});

test('a further command never lowers the impact', () => {
  const lines = fc.constantFrom('ls', 'rm a', 'mv a b', 'curl x', 'git status', 'sudo x', 'echo');
  const rank = (line: string) => ['low', 'medium', 'high'].indexOf(ofCommand(line).level);
  fc.assert(
    fc.property(
      fc.array(lines, { minLength: 1 }),
      lines,
      (some, more) => rank([...some, more].join('; ')) >= rank(some.join('; ')),
    ),
  );
});

test('a further warning stands first and never lowers the level', () => {
  const high = impactOf(facts({ effects: [{ kind: 'delete', target: 'a' }] }));
  expect(warned(high, 'medium', 'x')).toMatchObject({ level: 'high', warnings: ['x', ...high.warnings] });
  expect(warned(impactOf(facts({ tier: 'read_only' })), 'medium', 'x').level).toBe('medium');
});

describe('the shown part of an input', () => {
  test('a short input is shown as a whole', () => {
    const input = { path: 'a', list: [1, null, true], nested: { x: 'y' } };
    expect(cutValue(input, 1000)).toEqual({ value: input, cut: false });
  });

  test('says what is left out of a long text, and still shows what stands behind it', () => {
    const { value, cut } = cutValue({ content: `begin${'x'.repeat(100_000)}end`, path: 'a.txt' }, 1000);
    expect(cut).toBe(true);
    expect((value as { content: string }).content).toMatch(/^begin.* … 99758 characters are not shown … x*end$/);
    expect((value as { path: string }).path).toBe('a.txt');
  });

  test('tells bytes by their number', () => {
    expect(cutValue({ body: Buffer.alloc(9) }, 1000)).toEqual({ value: { body: '9 bytes' }, cut: true });
  });

  test('the shown part has a bound, whatever the input, and says when something is missing', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 5 }), fc.integer({ min: 50, max: 500 }), (input, max) => {
        const { value, cut } = cutValue(input, max);
        const size = JSON.stringify(value).length;
        return cut || JSON.stringify(value) === JSON.stringify(input) ? size <= 256 * 200 : false;
      }),
    );
    const wide = cutValue(
      Array.from({ length: 100_000 }, (_, at) => at),
      16_384,
    );
    expect(wide.cut).toBe(true);
    expect((wide.value as unknown[]).length).toBeLessThan(300);
  });

  test('a whole input lacks nothing, or is refused', () => {
    const wide = Array.from({ length: 5_000 }, (_, at) => at);
    const long = { content: 'x'.repeat(60_000), last: 'rm -rf' };
    for (const it of [wide, long]) expect(wholeValue(it, 65_536)).toEqual(it);
    for (const it of [[...wide, ...wide], { content: 'x'.repeat(65_537) }, { ['k'.repeat(129)]: 1 }])
      expect(() => wholeValue(it, 65_536)).toThrow(/longer than the 65536 characters/);
  });

  test('never cuts a character in two', () => {
    expect(cutText('😀'.repeat(100), 51).isWellFormed()).toBe(true);
  });
});

test.each([
  'npm test',
  'npm run gen',
  'yarn build',
  'pytest -q',
  'cargo run',
  'go generate ./...',
  'gradle build',
  'cmake .',
  'tar xf a.tar --to-command=sh',
  'vim -c :q a',
  'sed e a',
  'sed s/a/b/e a',
])('%s is said to run code that is not shown', (text) => {
  const words = text.split(' ');
  expect(
    impactOfCommand({ text, words, program: words[0], programPath: undefined, unknown: undefined } as never),
  ).toMatchObject({ level: 'medium', kind: 'runs' });
});

test('sed that only replaces is not said to run code', () => {
  const words = ['sed', 's/one/three/g', 'a'];
  expect(
    impactOfCommand({ text: '', words, program: 'sed', programPath: undefined, unknown: undefined } as never).kind,
  ).toBe('modifies');
});
