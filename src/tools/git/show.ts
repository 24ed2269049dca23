import * as z from 'zod';
import { defineTool, workspacePath } from '../tool.ts';
import { Git } from './git.ts';
import { readsRepository } from './installed.ts';
import { commitShape } from './log-output.ts';
import { findRepository, pathIn } from './repository.ts';
import { commitOf, revision } from './revision.ts';
import { diffShape, shownDiff } from './shown-diff.ts';

const FORMAT = '%H%x00%an <%ae>%x00%aI%x00%s%x00%b%x00%P%x00';
const FIELDS = 6;

export default defineTool({
  ...readsRepository,
  name: 'git_show',
  title: 'One commit',
  summary: 'Show a git commit, its message and diff. Secret files are only named.',
  notes:
    'A merge is shown against its first parent. Files that the policy keeps from being read are named in `withheld`. The diff is cut at 256 KiB.',
  capabilities: [{ action: 'show', description: 'Shows the message and the changes of one commit.' }],
  input: z.strictObject({
    ref: revision('Commit, branch or tag.').default('HEAD'),
    path: workspacePath('Only below.').default('.'),
  }),
  output: z.strictObject({
    ...commitShape,
    body: z.string().describe('The message after its subject.'),
    parents: z.array(z.string()),
    ...diffShape,
  }),
  examples: [
    { input: { path: '.repo' }, output: { subject: 'first', parents: [], withheld: ['.repo/.env'] } },
    { input: { path: '.env' }, error: 'SENSITIVE_FILE' },
    { input: { ref: 'HEAD:.env' }, error: 'INPUT_INVALID' },
  ],

  async run({ ref, path }, ctx) {
    const repository = findRepository(ctx, path);
    const { shown, output } = await shownDiff(new Git(ctx, repository), ctx, {
      args: [
        ...['show', `--format=${FORMAT}`, '--encoding=UTF-8', '--no-decorate', '--no-notes', '--no-show-signature'],
        ...['--diff-merges=first-parent', '--end-of-options', commitOf(ref)],
      ],
      path: pathIn(repository, path),
      isRefused: ctx.refusedBelow(path),
      start: diffStart,
    });
    const fields = output.toString('utf8', 0, diffStart(output)).split('\0');
    const [hash = '', author = '', date = '', subject = '', body = '', parents = ''] = fields;
    const commit = { hash, author, date, subject, body: body.trimEnd() };
    return { ...commit, parents: parents.split(' ').filter((it) => it !== ''), ...shown };
  },
});

/** The offset of the diff, after the fields and the NUL and line break that end them. */
function diffStart(output: Buffer): number {
  let at = 0;
  for (let field = 0; field < FIELDS; field++) {
    const end = output.indexOf(0, at);
    if (end < 0) return output.length;
    at = end + 1;
  }
  while (output[at] === 0 || output[at] === 10) at += 1;
  return at;
}
