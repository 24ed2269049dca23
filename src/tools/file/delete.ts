import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { defineTool, workspacePath } from '../tool.ts';

const input = z.strictObject({
  path: workspacePath('File, link or directory.'),
  recursive: z.boolean().default(false).describe('Also what is in a directory.'),
});

export default defineTool({
  name: 'file_delete',
  title: 'Delete a file or directory',
  summary:
    'Delete a file, a link (not what it points to) or a directory. A tree with secrets or protected files (.git, .vscode …) ' +
    'is refused as a whole.',
  notes: 'Without `recursive` a directory must be empty. All of it is gone in one step.',
  capabilities: [
    {
      action: 'delete',
      description: 'Removes a file, a symbolic link or a directory; `ringfence undo` brings it back.',
    },
  ],
  category: 'filesystem',
  tier: 'write',
  destructive: 'deletes',
  effects: ({ path }) => [{ kind: 'delete', target: path }],
  input,
  output: z.strictObject({
    deletedItems: z.int().positive().describe('Files, links and directories, including the named one.'),
  }),
  examples: [
    { input: { path: 'docs', recursive: true }, output: { deletedItems: 2 } },
    { input: { path: 'docs' }, error: 'UNSUPPORTED' },
    { input: { path: 'out' }, output: { deletedItems: 1 } },
    { input: { path: 'missing.txt' }, error: 'NOT_FOUND' },
    { input: { path: '.', recursive: true }, error: 'UNSUPPORTED' },
    { input: { path: '../other', recursive: true }, error: 'ACCESS_DENIED' },
  ],
  aliases: [{ name: 'delete_file', input }],

  async preview({ path }, ctx) {
    const hash = await ctx.changes.state(path);
    // Nobody is asked about what is not there.
    if (hash === null) throw new ToolError('NOT_FOUND', `\`${path}\` does not exist`);
    return { preImages: [{ path, hash }], undo: await ctx.changes.undoOf(path) };
  },

  async run({ path, recursive }, ctx) {
    return { deletedItems: await ctx.changes.remove(path, { recursive }) };
  },
});
