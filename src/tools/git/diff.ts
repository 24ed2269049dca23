import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { defineTool, workspacePath } from '../tool.ts';
import { Git } from './git.ts';
import { readsRepository } from './installed.ts';
import { findRepository, pathIn } from './repository.ts';
import { commitOf, revision } from './revision.ts';
import { diffShape, shownDiff } from './shown-diff.ts';

export default defineTool({
  ...readsRepository,
  name: 'git_diff',
  title: 'Differences',
  summary:
    'Show the git diff of the work tree against the index, of the index (staged), or between commits (from, to). Secret files are only named.',
  notes:
    'With `from` the work tree, or `to`, is compared with that commit. Files that the policy keeps from being read are named in `withheld`. The diff is cut at 256 KiB; the numbers are of all of it.',
  capabilities: [{ action: 'diff', description: 'Shows what differs between work tree, index and commits.' }],
  input: z.strictObject({
    path: workspacePath('Only below.').default('.'),
    staged: z.boolean().default(false).describe('The index, against HEAD or from.'),
    from: revision('Commit to compare with.').optional(),
    to: revision('Commit instead of the work tree; needs from.').optional(),
  }),
  output: z.strictObject(diffShape),
  examples: [
    {
      input: { path: '.repo', staged: true },
      output: { diff: '', additions: 0, deletions: 0, files: 0, truncated: false },
    },
    { input: { path: '.env' }, error: 'SENSITIVE_FILE' },
    { input: { path: '.repo', from: 'nowhere' }, error: 'NOT_FOUND' },
    { input: { to: 'HEAD' }, error: 'INPUT_INVALID' },
  ],

  async run({ path, staged, from, to }, ctx) {
    if (to !== undefined && (from === undefined || staged))
      throw new ToolError('INPUT_INVALID', '`to` needs `from` and compares two commits; omit `staged`');
    const repository = findRepository(ctx, path);
    const git = new Git(ctx, repository);
    const revisions = [from, to].filter((it) => it !== undefined).map(commitOf);
    const { shown } = await shownDiff(git, ctx, {
      args: ['diff', ...(staged ? ['--cached'] : []), '--end-of-options', ...revisions],
      path: pathIn(repository, path),
      isRefused: ctx.refusedBelow(path),
      ...(!staged && to === undefined && { workTree: path }),
    });
    return shown;
  },
});
