import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { defineTool, workspacePath } from '../tool.ts';

const input = z.strictObject({
  oldPath: workspacePath('File, link or directory.'),
  newPath: workspacePath('Its new path, not the directory to put it in.'),
  overwrite: z.boolean().default(false).describe('Replace a file at newPath.'),
});

export default defineTool({
  name: 'file_rename',
  title: 'Rename or move a file or directory',
  summary: 'Rename or move a file, a link or a directory.',
  notes:
    'Missing directories are made. A symbolic link is moved itself. What stands at `newPath` is kept unless `overwrite: true`, and then only files are replaced. ' +
    'Secrets and protected files are refused by both names, also inside a directory.',
  capabilities: [{ action: 'rename', description: 'Renames or moves a file or a directory.' }],
  category: 'filesystem',
  tier: 'write',
  destructive: 'deletes',
  effects: ({ oldPath, newPath, overwrite }) => [
    { kind: 'read', target: oldPath },
    { kind: 'delete', target: oldPath },
    { kind: 'write', target: newPath },
    ...(overwrite ? [{ kind: 'delete', target: newPath } as const] : []),
  ],
  input,
  output: z.strictObject({ newPath: z.string() }),
  examples: [
    { input: { oldPath: 'notes.txt', newPath: 'archive/notes.txt' }, output: { newPath: 'archive/notes.txt' } },
    { input: { oldPath: 'notes.txt', newPath: 'docs/guide.md' }, error: 'ALREADY_EXISTS' },
    {
      input: { oldPath: 'notes.txt', newPath: 'docs/guide.md', overwrite: true },
      output: { newPath: 'docs/guide.md' },
    },
    { input: { oldPath: 'docs', newPath: 'docs/inner' }, error: 'INPUT_INVALID' },
    { input: { oldPath: '.env', newPath: 'env.txt' }, error: 'SENSITIVE_FILE' },
    { input: { oldPath: 'notes.txt', newPath: '../notes.txt' }, error: 'ACCESS_DENIED' },
  ],

  async preview({ oldPath, newPath }, ctx) {
    const hash = await ctx.changes.state(oldPath);
    // Nobody is asked about what is not there.
    if (hash === null) throw new ToolError('NOT_FOUND', `\`${oldPath}\` does not exist`);
    const undo = [await ctx.changes.undoOf(oldPath), await ctx.changes.undoOf(newPath)];
    return {
      undo: undo.includes('none') ? 'none' : 'full',
      preImages: [
        { path: oldPath, hash },
        { path: newPath, hash: await ctx.changes.state(newPath) },
      ],
    };
  },

  async run({ oldPath, newPath, overwrite }, ctx) {
    await ctx.changes.rename(oldPath, newPath, { overwrite });
    return { newPath };
  },
});
