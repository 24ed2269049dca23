import * as z from 'zod';
import { defineTool, workspacePath } from '../tool.ts';
import { Git } from './git.ts';
import { readsRepository } from './installed.ts';
import { COMMIT_FORMAT, commitShape, parseCommits } from './log-output.ts';
import { findRepository, pathIn } from './repository.ts';
import { commitOf, revision } from './revision.ts';
import { literal } from './shown-diff.ts';

export default defineTool({
  ...readsRepository,
  name: 'git_log',
  title: 'History',
  summary: 'List git commits, the newest first.',
  notes: '`truncated` says whether there are more.',
  capabilities: [{ action: 'list', description: 'Lists commits, the newest first.' }],
  input: z.strictObject({
    path: workspacePath('What the commits touch.').default('.'),
    maxCount: z.int().min(1).max(1000).default(50).describe('Most commits.'),
    ref: revision('Start here.').default('HEAD'),
    since: z
      .string()
      .min(1)
      .max(64)
      .regex(/^[\p{L}\p{N} .:+-]+$/u, 'must be a date')
      .optional()
      .describe('2026-01-31, 2 weeks ago.'),
  }),
  output: z.strictObject({ commits: z.array(z.strictObject(commitShape)), truncated: z.boolean() }),
  examples: [
    { input: { path: '.repo', maxCount: 1 }, output: { truncated: false } },
    { input: { path: '.repo', ref: 'nowhere' }, error: 'NOT_FOUND' },
    { input: { ref: 'HEAD:.env' }, error: 'INPUT_INVALID' },
  ],

  async run({ path, maxCount, ref, since }, ctx) {
    const repository = findRepository(ctx, path);
    const git = new Git(ctx, repository);
    const own = pathIn(repository, path);
    const { stdout, cut } = await git.run([
      ...['log', '-z', `--format=${COMMIT_FORMAT}`, '--encoding=UTF-8', '--no-color', '--no-decorate', '--no-notes'],
      ...['--no-show-signature', '--no-patch', `--max-count=${maxCount + 1}`],
      ...(since === undefined ? [] : [`--since=${since}`]),
      ...['--end-of-options', commitOf(ref), '--', ...(own === '' ? [] : [literal(own)])],
    ]);
    const commits = parseCommits(stdout);
    return { commits: commits.slice(0, maxCount), truncated: cut || commits.length > maxCount };
  },
});
