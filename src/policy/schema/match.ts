/** The schema of what a rule matches. */
import * as z from 'zod';
import { TIERS } from '../../base/result-shapes.ts';
import { globs, oneOrMany, optional, text } from './values.ts';

/** One word of a command: a token or its alternatives; `*` inside a token stands for any characters. */
const token = oneOrMany(text(256));

const principal = optional(globs, 'Principal', 'Who makes the call, as `ringfence audit` shows it.', 'uid:1000', [
  'nightly',
  'ci',
]);
const session = optional(globs, 'Session', 'Names of sessions (`--session`).', 'release-*');

const when = z.strictObject({ principal, session });

/** What holds by itself, without the matches that a match is made of. */
const facts = z.strictObject({
  tool: optional(globs, 'Tool', 'Tool names, aliases included; `*` matches any characters.', 'git_commit', 'file_*'),
  tier: optional(oneOrMany(z.enum(TIERS)), 'Tier', 'How much the tool may touch at most.', 'execute', [
    'write',
    'execute',
  ]),
  category: optional(
    globs,
    'Category',
    'What the tool is for, as `ringfence tools` shows it.',
    'file_system',
    'code_*',
  ),
  path: optional(
    globs,
    'Path',
    'A path that is read, written or deleted. `docs/**` begins at the workspace, `**/x` is at any depth, `/x` is absolute, `~/x` is in the home directory.',
    'docs/**',
    ['**/*.txt', '**/*.md'],
  ),
  read: optional(globs, 'Read', 'A path that is read; written like `path`.', '**/*.key'),
  write: optional(globs, 'Write', 'A path that is created, changed or replaced; written like `path`.', 'migrations/**'),
  delete: optional(globs, 'Delete', 'A path that is removed; written like `path`.', 'src/**'),
  ignoreCase: optional(
    z.literal(true),
    'Ignore case',
    'Letters of path, read, write and delete in the same match stand for either case. Their globs may hold no `[`.',
    true,
  ),
  holds: optional(
    z.literal('credentials'),
    'What it holds',
    'Leaves out folders, each `.npmrc` and `.pypirc` of the workspace in which no credential is found, and keys and certificates whose very bytes its repository holds.',
    'credentials',
  ),
  command: optional(
    z.array(token).min(1).max(32),
    'Command',
    'The first words of a command, each one or a list of alternatives; the program as it is found on PATH. `$` at the end means: no more words.',
    ['npm', 'test', '$'],
    [['ls', 'cat']],
  ),
  publishes: optional(
    z.literal(true),
    'Publishes',
    'Commands that send work to where others see it: git push, npm publish, docker push, gh pr create and their kin.',
    true,
  ),
  host: optional(
    globs,
    'Host',
    'The `host` or `host:port` that a tool connects to.',
    'api.example.org:443',
    '*.example.org',
  ),
  database: optional(
    globs,
    'Database',
    'Names of database connections, as the operator gave them.',
    'production',
    'test-*',
  ),
  principal,
  session,
  'session.sawUntrusted': optional(
    z.literal(true),
    'Session saw untrusted text',
    'Calls of a session that has got a result that strangers wrote: of web_fetch, web_scrape, http_request, or a provider of tier external_api. It stays so when the session is resumed.',
    true,
  ),
  when: optional(when, 'When', 'Principal and session again, apart from what the call does.', {
    principal: 'nightly',
  }),
});

/** A match with `ignoreCase` already applied to its globs. */
export interface MatchSpec extends Omit<z.output<typeof facts>, 'ignoreCase'> {
  all?: MatchSpec[] | undefined;
  any?: MatchSpec[] | undefined;
  not?: MatchSpec | undefined;
}

/** A match as written in a file. */
export interface WrittenMatch extends z.output<typeof facts> {
  all?: WrittenMatch[] | undefined;
  any?: WrittenMatch[] | undefined;
  not?: WrittenMatch | undefined;
}

/** All given keys must hold. An empty match is refused, since it would match everything. */
export const match: z.ZodType<WrittenMatch> = facts
  .extend({
    get all() {
      return optional(z.array(match).min(1).max(32), 'All', 'Holds where each of these matches does.', [
        { tool: 'file_*' },
        { tier: 'write' },
      ]);
    },
    get any() {
      return optional(z.array(match).min(1).max(32), 'Any', 'Holds where one of these matches does.', [
        { write: 'lib/**' },
        { delete: 'lib/**' },
      ]);
    },
    get not() {
      return optional(match, 'Not', 'Holds where this match does not.', { path: 'docs/**' });
    },
  })
  .refine((it) => Object.values(it).some((value) => value !== undefined), 'must name at least one thing to match')
  .refine(
    ({ ignoreCase, path, read, write, delete: deleted }) => {
      const globs = [path ?? [], read ?? [], write ?? [], deleted ?? []].flat();
      return !ignoreCase || (globs.length > 0 && !globs.some((it) => it.includes('[')));
    },
    {
      path: ['ignoreCase'],
      error: 'goes with a path, read, write or delete of the same match, whose globs hold no `[`',
    },
  );
