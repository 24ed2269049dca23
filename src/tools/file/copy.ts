import * as z from 'zod';
import { defineTool, workspacePath } from '../tool.ts';

const input = z.strictObject({
  sourcePath: workspacePath('What is copied: a file, a link or a directory, relative to the workspace root.'),
  destPath: workspacePath('Path of the copy, not the directory to put it in; missing directories are made.'),
  overwrite: z
    .boolean()
    .default(false)
    .describe(
      'Replace a file at destPath. A directory is merged into an existing one: its files replace those of the same name, others stay.',
    ),
});

export default defineTool({
  name: 'file_copy',
  title: 'Copy a file or directory',
  summary:
    'Copy a file, or a directory with all that is in it, with permissions; symbolic links are copied as links. The copy is seen ' +
    'when it is whole. What stands at destPath is kept unless overwrite: true; then files are replaced, and a directory is copied over one ' +
    'that is there as cp -r does it, all of it or nothing. Links are never replaced. ' +
    'A tree that holds secrets or protected files is refused as a whole. At most 128 MB.',
  isExtra: true,
  capabilities: [{ action: 'copy', description: 'Copies a file or a directory.' }],
  category: 'filesystem',
  tier: 'write',
  destructive: true,
  effects: ({ sourcePath, destPath }) => [
    { kind: 'read', target: sourcePath },
    { kind: 'write', target: destPath },
  ],
  input,
  output: z.strictObject({
    copiedItems: z.int().positive().describe('Files, links and directories, including the named one.'),
  }),
  examples: [
    { input: { sourcePath: 'docs', destPath: 'more/docs' }, output: { copiedItems: 2 } },
    { input: { sourcePath: 'notes.txt', destPath: 'docs/guide.md' }, error: 'ALREADY_EXISTS' },
    { input: { sourcePath: 'notes.txt', destPath: 'docs/guide.md', overwrite: true }, output: { copiedItems: 1 } },
    { input: { sourcePath: 'docs', destPath: 'docs/inner' }, error: 'INPUT_INVALID' },
    { input: { sourcePath: '.', destPath: 'all' }, error: 'UNSUPPORTED' },
    { input: { sourcePath: 'notes.txt', destPath: '.env' }, error: 'SENSITIVE_FILE' },
  ],

  async preview({ destPath }, ctx) {
    return { preImages: [{ path: destPath, hash: await ctx.changes.state(destPath) }] };
  },

  async run({ sourcePath, destPath, overwrite }, ctx) {
    return { copiedItems: await ctx.changes.copy(sourcePath, destPath, { overwrite }) };
  },
});
