import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compileMatch, LIKELY, partsOf, ruleMatches } from '../../../src/policy/match.ts';
import type { PolicyQuestion } from '../../../src/policy/question.ts';
import type { MatchSpec } from '../../../src/policy/schema/match.ts';
import { effectOf, lineOf, questionOf, ruleOf, simpleOf } from '../../support/policy.ts';

const denies = (match: MatchSpec, question: PolicyQuestion) => ruleMatches(ruleOf('deny', match), question);
const allows = (match: MatchSpec, question: PolicyQuestion) => ruleMatches(ruleOf('allow', match), question);
/** For known parts, strict and allowing rules match the same. */
const both = (match: MatchSpec, question: PolicyQuestion) => {
  expect(allows(match, question)).toBe(denies(match, question));
  return denies(match, question);
};

describe('what is said of the call', () => {
  test.each<[MatchSpec, boolean]>([
    [{ tool: 'file_read' }, true],
    [{ tool: 'file_*' }, true],
    [{ tool: 'read_file' }, true],
    [{ tool: ['x', '*_read'] }, true],
    [{ tool: 'file_rea?' }, true],
    [{ tool: 'file_rea' }, false],
    [{ tool: 'FILE_READ' }, false],
    [{ tool: 'file[_]read' }, false],
    [{ tier: 'read_only' }, true],
    [{ tier: ['write', 'read_only'] }, true],
    [{ tier: 'write' }, false],
    [{ category: 'file*' }, true],
    [{ category: 'net*' }, false],
    [{ principal: 'loc*' }, true],
    [{ principal: 'nightly' }, false],
    [{ session: 's?' }, true],
    [{ session: 's' }, false],
    [{ when: { principal: 'local' } }, true],
    [{ when: { principal: 'nightly' } }, false],
    [{ when: { session: 's1' } }, true],
    [{ when: { session: 's2' } }, false],
    [{ when: { principal: 'local', session: 's2' } }, false],
    [{ tool: 'file_read', tier: 'write' }, false],
    [{ tool: 'file_read', tier: 'read_only' }, true],
    [{ all: [{ tool: 'file_read' }, { tier: 'write' }] }, false],
    [{ all: [{ tool: 'file_read' }, { tier: 'read_only' }] }, true],
    [{ any: [{ tool: 'x' }, { tier: 'read_only' }] }, true],
    [{ any: [{ tool: 'x' }, { tier: 'write' }] }, false],
    [{ not: { tool: 'x' } }, true],
    [{ not: { tool: 'file_*' } }, false],
    [{ tool: 'file_*', not: { tool: 'file_read' } }, false],
  ])('the match %j holds for the call: %s', (match, expected) => {
    expect(both(match, effectOf('read', 'a'))).toBe(expected);
    expect(both(match, questionOf())).toBe(expected);
  });
});

describe('paths', () => {
  test.each<[string, string, boolean]>([
    ['docs/**', 'docs/a', true],
    ['docs/**', 'docs', true],
    ['docs/**', 'x/docs/a', false],
    ['docs/**', 'docs2/a', false],
    ['docs/', 'docs/a/b', true],
    ['docs', 'docs/a', false],
    ['./docs', 'docs', true],
    ['**/docs', 'x/docs', true],
    ['**/docs', 'docs', true],
    ['**/*.pem', 'a/b.pem', true],
    ['**/*.pem', 'b.pem', true],
    ['*.pem', 'a/b.pem', false],
    ['**/.env*', '.env.local', true],
    ['**/.env*', 'a/x.env', false],
    ['**', '.', true],
    ['**', 'a/b', true],
    ['.', '.', true],
    ['*', '.', false],
    ['**/*', '.', false],
    ['a/*/c', 'a/b/c', true],
    ['a/*/c', 'a/c', false],
    ['**/.ssh/**', '.ssh', true],
    ['**/.ssh/**', 'a/.ssh/b/c', true],
    ['**/.ssh/**', 'a/ssh', false],
    ['{a,b/c}/*', 'b/c/d', true],
    ['A', 'a', false],
    ['/etc/**', '/etc/passwd', true],
    ['/etc/**', 'etc/passwd', false],
    ['etc/**', '/etc/passwd', false],
    ['**', '/etc/passwd', false],
    ['/**', '/etc/passwd', true],
    ['/**', 'etc/passwd', false],
    ['/', '/etc', true],
    ['~/.ssh/**', '/home/me/.ssh/id', true],
    ['~/.ssh/**', '/home/you/.ssh/id', false],
    ['~/.ssh/**', '.ssh/id', false],
    ['~/.ssh/**', '/home/me2/.ssh/id', false],
    ['~', '/home/me', true],
    ['~/', '/home/me/x', true],
    ['~x', '~x', true],
    ['./~', '~', true],
    ['~', '~', false],
    ['/home/me/.ssh', '/home/me/.ssh', true],
    ['a', 'x/../a', true],
    ['a', './a/', true],
    ['../a', '../a', true],
    ['/a', '/../a', true],
    ['\\{a\\}', '{a}', true],
  ])('%s and %s: %s', (glob, target, expected) => {
    for (const kind of ['read', 'write', 'delete'] as const) {
      const question = effectOf(kind, target);
      expect(both({ path: glob }, question)).toBe(expected);
      expect(both({ [kind]: ['nothing', glob] }, question)).toBe(expected);
      expect(both({ not: { path: glob } }, question)).toBe(!expected);
    }
  });

  test('read, write and delete are different things', () => {
    const kinds = ['read', 'write', 'delete'] as const;
    for (const asked of kinds)
      for (const kind of kinds) expect(both({ [asked]: 'a' }, effectOf(kind, 'a'))).toBe(asked === kind);
  });

  test('rules on paths match no connections, commands or calls without effects', () => {
    expect(both({ path: '**' }, effectOf('connect', 'a:1'))).toBe(false);
    expect(both({ path: '**' }, questionOf())).toBe(false);
    expect(both({ path: ['**', '/**'] }, lineOf(['cat']))).toBe(false);
    expect(both({ path: ['**', '/**'] }, effectOf('exec', 'cat a'))).toBe(false);
  });

  test('two keys of a match must both hold for the same effect', () => {
    const question = questionOf({
      effects: [
        { kind: 'read', target: 'a' },
        { kind: 'write', target: 'b' },
      ],
    });
    expect(both({ read: 'a', write: 'b' }, question)).toBe(false);
    expect(both({ any: [{ read: 'a' }, { write: 'x' }] }, question)).toBe(true);
    expect(both({ path: 'a', read: '*' }, question)).toBe(true);
  });

  test('patterns from the root and from home reach into a workspace that is known, and relative ones are what is below it', () => {
    const at = (target: string): PolicyQuestion => ({ ...effectOf('read', target), workspace: '/home/me/work' });
    expect(both({ read: '~/work/secret/**' }, at('secret/a'))).toBe(true);
    expect(both({ read: '~/**/.env' }, at('a/.env'))).toBe(true);
    expect(both({ read: '/home/*/work/secret' }, at('secret'))).toBe(true);
    expect(both({ read: '~/secret/**' }, at('secret/a'))).toBe(false);
    expect(both({ read: 'secret' }, at('/home/me/work/secret'))).toBe(true);
    expect(both({ read: 'secret' }, at('/home/me/secret'))).toBe(false);
  });

  test('a brace bomb is refused when the rule is made ready', () => {
    expect(() => compileMatch({ path: '{a,b}'.repeat(7) })).toThrow(/more than 64/);
  });
});

describe('commands', () => {
  test.each<[(string | string[])[], string, boolean]>([
    [['git'], 'git', true],
    [['git'], 'git push', true],
    [['git', 'push'], 'git push origin', true],
    [['git', 'push'], 'git', false],
    [['git', 'push'], 'git -C . push', false],
    [['git', ['status', 'log']], 'git log', true],
    [['git', ['status', 'log']], 'git logs', false],
    [['git', 'log', '$'], 'git log', true],
    [['git', 'log', '$'], 'git log -1', false],
    [['git', 'log', '$'], 'git', false],
    [['git', '$'], 'git', true],
    [['$'], 'git', false],
    [['git', '--*'], 'git --version', true],
    [['git', '--*'], 'git version', false],
    [['git*'], 'git-lfs x', true],
    [['*', '--help'], 'anything --help', true],
    [['echo', '\\*'], 'echo *', true],
    [['echo', '\\*'], 'echo x', false],
    [['echo', '\\$'], 'echo x', false],
    [['GIT'], 'git', false],
  ])('%j and %s: %s', (command, line, expected) => {
    expect(both({ command }, lineOf([line]))).toBe(expected);
    expect(both({ not: { command } }, lineOf([line]))).toBe(!expected);
  });

  test('a rule holds when it does for any command of a line', () => {
    expect(both({ command: ['git', 'push'] }, lineOf(['ls', 'git push']))).toBe(true);
    expect(both({ command: ['ls', 'push'] }, lineOf(['ls', 'git push']))).toBe(false);
  });

  test('the program is what the name resolves to; rules that refuse hold for the name as written too', () => {
    const line = lineOf([simpleOf('/usr/bin/python x', { program: 'python3.11' })]);
    expect([allows({ command: ['python3.11'] }, line), denies({ command: ['python3.11'] }, line)]).toEqual([
      true,
      true,
    ]);
    expect([allows({ command: ['python'] }, line), denies({ command: ['python'] }, line)]).toEqual([false, true]);
    expect(allows({ not: { command: ['python'] } }, line)).toBe(false);
    expect(denies({ command: ['perl'] }, line)).toBe(false);
  });

  test('a program of the workspace is nothing that a rule allows by its name', () => {
    const line = lineOf([simpleOf('./git status', { program: undefined, programPath: '/ws/git' })]);
    expect(allows({ command: ['git', 'status'] }, line)).toBe(false);
    expect(allows({ command: ['*'] }, line)).toBe(false);
    expect(denies({ command: ['git', 'status'] }, line)).toBe(true);
    expect(denies({ not: { command: ['git'] } }, line)).toBe(true);
  });

  test.each([
    ['git $x', ['git', 'push']],
    ['git $x', ['git', '*']],
    ['git $x push', ['git', 'push']],
    ['git $x', ['git', 'push', 'origin']],
    ['git log $x', ['git', 'log', '$']],
    ['git $x', ['git', '$']],
    ['git $x log', ['git', '*', '$']],
    ['$x log', ['git', 'log']],
  ])('%s, of which only the shell knows all, is nothing that %j allows', (line, command) => {
    expect(allows({ command }, lineOf([line]))).toBe(false);
    expect(allows({ not: { command } }, lineOf([line]))).toBe(false);
  });

  test('words after those that a rule names may be unknown', () => {
    expect(both({ command: ['git', 'log'] }, lineOf(['git log $x']))).toBe(true);
  });

  test('a rule for any word holds for one that only the shell knows when it refuses', () => {
    expect(denies({ command: ['rm', '*'] }, lineOf(['rm $x']))).toBe(true);
    expect(denies({ command: ['rm', 'a'] }, lineOf(['rm $x']))).toBe(false);
  });

  test.each<[string, PolicyQuestion]>([
    ['a command of which more is unknown', lineOf([simpleOf('sudo ls', { unknown: 'runs another program' })])],
    ['a program that only the shell knows', lineOf([simpleOf('$x', { unknown: undefined })])],
    ['what a parser could not know', lineOf([], { unknown: ['a syntax error'] })],
  ])('%s is never allowed by a rule', (_, question) => {
    for (const match of [{ command: ['*'] }, { tool: '*' }, { not: { tool: 'x' } }, { not: { command: ['rm'] } }])
      expect(allows(match, question)).toBe(false);
    expect(denies({ tool: 'terminal_*' }, question)).toBe(true);
  });

  test('a rule that allows all but some paths or hosts allows no command, and one that denies them denies it', () => {
    for (const not of [{ path: 'docs/**' }, { host: '*' }]) {
      expect(allows({ not }, lineOf(['ls']))).toBe(false);
      expect(denies({ not }, lineOf(['ls']))).toBe(true);
    }
  });

  test('rules on commands match no tools that run no command', () => {
    expect(both({ command: ['*'] }, effectOf('read', 'a'))).toBe(false);
    expect(both({ not: { command: ['*'] } }, effectOf('read', 'a'))).toBe(true);
  });
});

describe('paths of a command line', () => {
  test('a redirection is an effect like any other', () => {
    const line = lineOf(['ls'], { redirects: [{ kind: 'write', target: 'out/x' }] });
    expect(both({ write: 'out/**' }, line)).toBe(true);
    expect(both({ read: 'out/**' }, line)).toBe(false);
  });

  test('a path among the words is asked about only for rules that refuse, whatever the program does with it', () => {
    const line = lineOf(['cat docs/a'], { mentions: ['docs/a'] });
    for (const key of ['path', 'read', 'write', 'delete']) {
      expect(denies({ [key]: 'docs/**' }, line)).toBe(true);
      expect(ruleMatches(ruleOf('ask', { [key]: 'docs/**' }), line)).toBe(true);
      expect(allows({ [key]: 'docs/**' }, line)).toBe(false);
      expect(denies({ [key]: 'src/**' }, line)).toBe(false);
    }
  });

  test('a rule with a command and a path refuses a line with both, and a path of another command is no excuse', () => {
    const rule = { command: ['rm'], path: 'docs/**' };
    expect(denies(rule, lineOf(['rm docs/a'], { mentions: ['docs/a'] }))).toBe(true);
    expect(denies(rule, lineOf(['rm docs/a', 'ls'], { mentions: ['docs/a'] }))).toBe(true);
    expect(denies(rule, lineOf(['cat docs/a'], { mentions: ['docs/a'] }))).toBe(false);
    expect(denies(rule, lineOf(['rm'], { redirects: [{ kind: 'write', target: 'docs/a' }] }))).toBe(true);
    expect(
      allows(
        { command: ['ls'], write: 'docs/**' },
        lineOf(['ls'], { redirects: [{ kind: 'write', target: 'docs/a' }] }),
      ),
    ).toBe(false);
  });

  test('a rule that excepts a program spares a line of that program alone', () => {
    const rule = { path: 'docs/**', not: { command: ['git'] } };
    expect(denies(rule, lineOf(['git add docs/a'], { mentions: ['docs/a'] }))).toBe(false);
    expect(denies(rule, lineOf(['git add docs/a', 'rm docs/a'], { mentions: ['docs/a'] }))).toBe(true);
  });

  test('a rule that says nothing of paths is not asked for them', () => {
    expect(denies({ not: { command: ['git'] } }, lineOf(['git add a'], { mentions: ['a'] }))).toBe(false);
  });
});

describe('hosts', () => {
  test.each<[string, string, boolean]>([
    ['example.org', 'example.org:443', true],
    ['example.org:443', 'example.org:443', true],
    ['example.org:80', 'example.org:443', false],
    ['example.org:*', 'example.org:443', true],
    ['*.example.org', 'a.b.example.org:443', true],
    ['*.example.org', 'example.org:443', false],
    ['*.example.org', 'badexample.org:443', false],
    ['*.example.org:443', 'a.example.org:443', true],
    ['EXAMPLE.org', 'example.ORG:443', true],
    ['example.org', 'example.org.:443', true],
    ['example.org', 'example.org', true],
    ['example.org', 'example.org.evil:443', false],
    ['[::1]', '[::1]:80', true],
    ['[::1]:80', '[::1]:80', true],
    ['*', 'anything:1', true],
  ])('%s and %s: %s', (host, target, expected) => {
    expect(both({ host }, effectOf('connect', target))).toBe(expected);
    expect(both({ not: { host } }, effectOf('connect', target))).toBe(!expected);
  });

  test('rules on hosts match no files', () => {
    expect(both({ host: '*' }, effectOf('read', 'a:1'))).toBe(false);
  });
});

describe('database connections', () => {
  test.each([
    ['payroll', 'payroll', true],
    ['pay*', 'payroll', true],
    ['pay', 'payroll', false],
    ['*', 'app', true],
  ])('%s and %s: %s', (database, target, expected) => {
    expect(both({ database }, effectOf('query', target))).toBe(expected);
    expect(both({ not: { database } }, effectOf('query', target))).toBe(!expected);
  });

  test('rules on database connections match no files and hosts', () => {
    expect(both({ database: '*' }, effectOf('read', 'app'))).toBe(false);
    expect(both({ host: '*' }, effectOf('query', 'app'))).toBe(false);
    expect(both({ path: '**' }, effectOf('query', 'app'))).toBe(false);
  });
});

describe('the parts of a call', () => {
  const kindsOf = (question: PolicyQuestion) => partsOf(question).map((it) => it.kind);

  test('the parts of a call are its effects, else the call', () => {
    expect(
      kindsOf(
        questionOf({
          effects: [
            { kind: 'read', target: 'a' },
            { kind: 'connect', target: 'b:1' },
          ],
        }),
      ),
    ).toEqual(['read', 'connect']);
    expect(kindsOf(questionOf())).toEqual(['call']);
    expect(kindsOf(effectOf('exec', 'git commit'))).toEqual(['exec']);
  });

  test('the parts of a command line are its commands, redirections and once the unknown ones, never its words', () => {
    const line = lineOf(['a', 'b'], {
      redirects: [{ kind: 'read', target: 'x' }],
      mentions: ['m'],
      unknown: ['u', 'v'],
    });
    expect(kindsOf(line)).toEqual(['read', 'command', 'command', 'unknown']);
    expect(kindsOf(lineOf([]))).toEqual(['call']);
  });
});

describe('laws', () => {
  const leaf = fc.constantFrom<MatchSpec>(
    { tool: 'file_*' },
    { tier: 'execute' },
    { path: 'a/**' },
    { read: '**/b' },
    { write: '/etc/**' },
    { command: ['git', ['push', 'pull']] },
    { command: ['ls', '$'] },
    { host: '*.example.org' },
    { principal: 'local' },
    { when: { session: 'none' } },
  );
  const match = fc.letrec<{ match: MatchSpec }>((tie) => ({
    match: fc.oneof(
      { maxDepth: 3 },
      leaf,
      fc.record({ all: fc.array(tie('match'), { minLength: 1, maxLength: 3 }) }),
      fc.record({ any: fc.array(tie('match'), { minLength: 1, maxLength: 3 }) }),
      fc.record({ not: tie('match') }),
    ),
  })).match;
  const question = fc.constantFrom(
    questionOf(),
    effectOf('read', 'a/b'),
    effectOf('write', '/etc/x'),
    effectOf('delete', 'c'),
    effectOf('connect', 'x.example.org:1'),
    lineOf(['git push']),
    lineOf(['ls', 'git status'], { redirects: [{ kind: 'write', target: 'a/x' }] }),
    lineOf(['git $x'], { unknown: ['eval'] }),
  );

  test('`not` is the complement for a rule that refuses, part by part', () => {
    fc.assert(
      fc.property(match, question, (it, asked) => {
        for (const part of partsOf(asked)) {
          const [holds, opposite] = [it, { not: it }].map((spec) => compileMatch(spec).test(part) >= LIKELY);
          expect(opposite).toBe(!holds);
        }
      }),
    );
  });

  test('a rule that allows never holds where the same rule would not refuse', () => {
    fc.assert(
      fc.property(match, question, (it, asked) => {
        if (allows(it, asked)) expect(denies(it, asked)).toBe(true);
      }),
    );
  });

  test('`all` of one and `any` of one are that one, and their opposites follow De Morgan', () => {
    fc.assert(
      fc.property(match, match, question, (a, b, asked) => {
        for (const part of partsOf(asked)) {
          const level = (it: MatchSpec) => compileMatch(it).test(part) + 0;
          expect([level({ all: [a] }), level({ any: [a] })]).toEqual([level(a), level(a)]);
          expect(level({ not: { all: [a, b] } })).toBe(level({ any: [{ not: a }, { not: b }] }));
        }
      }),
    );
  });
});
