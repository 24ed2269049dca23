import * as z from 'zod';
import { defineTool, workspacePath } from '../tool.ts';

const input = z.strictObject({
  path: workspacePath('File, link or directory, relative to the workspace root.'),
  recursive: z.boolean().default(false).describe('Whether a directory is deleted with all that is in it.'),
});

export default defineTool({
  name: 'file_delete',
  title: 'Delete a file or directory',
  summary:
    'Delete a file, a symbolic link (not what it points to) or an empty directory; with recursive: true a directory with all that ' +
    'is in it, which is gone in one step. A tree that holds secrets or protected files (.git, .vscode …) is refused as a whole.',
  version: '1.0.0',
  capabilities: [
    {
      action: 'delete',
      description: 'Removes a file, a symbolic link or a directory; `ringfence undo` brings it back.',
    },
  ],
  category: 'filesystem',
  tier: 'write',
  destructive: true,
  effects: ({ path }) => [{ kind: 'delete', target: path }],
  input,
  output: z.strictObject({
    deletedItems: z.int().positive().describe('Files, links and directories, the one that was named included.'),
  }),
  examples: [
    { input: { path: 'docs', recursive: true }, output: { deletedItems: 2 } },
    { input: { path: 'docs' }, error: 'UNSUPPORTED' },
    { input: { path: 'out' }, output: { deletedItems: 1 } },
    { input: { path: 'missing.txt' }, error: 'NOT_FOUND' },
    { input: { path: '.', recursive: true }, error: 'UNSUPPORTED' },
    { input: { path: '../other', recursive: true }, error: 'ACCESS_DENIED' },
  ],
  aliases: [{ name: 'delete_file', input, toInput: (it) => input.parse(it) }],

  async preview({ path }, ctx) {
    return { preImages: [{ path, hash: await ctx.changes.state(path) }], undo: await ctx.changes.undoOf(path) };
  },

  async run({ path, recursive }, ctx) {
    return { deletedItems: await ctx.changes.remove(path, { recursive }) };
  },
});
