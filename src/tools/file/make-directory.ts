import * as z from 'zod';
import { defineTool, workspacePath } from '../tool.ts';

const input = z.strictObject({ path: workspacePath('Directory to make, relative to the workspace root.') });

export default defineTool({
  name: 'file_make_directory',
  title: 'Make a directory',
  summary:
    'Make a directory of the workspace, and those above it that are missing. A directory that is already there is no error. ' +
    'Not needed before file_write, which makes missing directories itself.',
  isExtra: true,
  category: 'filesystem',
  capabilities: [{ action: 'create', description: 'Makes a directory, with those above it.' }],
  tier: 'write',
  idempotent: true,
  effects: ({ path }) => [{ kind: 'write', target: path }],
  input,
  output: z.strictObject({
    path: z.string(),
    created: z.boolean().describe('Whether there was no such directory before.'),
  }),
  examples: [
    { input: { path: 'new/folder' }, output: { path: 'new/folder', created: true } },
    { input: { path: 'docs' }, output: { path: 'docs', created: false } },
    { input: { path: 'notes.txt' }, error: 'ALREADY_EXISTS' },
    { input: { path: '../beside' }, error: 'ACCESS_DENIED' },
  ],
  aliases: [{ name: 'create_directory', input }],

  run({ path }, ctx) {
    return Promise.resolve({ path, created: ctx.changes.makeDirectory(path) });
  },
});
