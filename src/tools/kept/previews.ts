/** The tools that `calls.diff` and `calls.commit` run: in no session's toolset, but under the same stages as any call. */
import * as z from 'zod';
import { previewChange } from '../../base/preview.ts';
import { commitOutcome } from '../context/kept-changes.ts';
import { defineTool, workspacePath } from '../tool.ts';

const previewId = z.uuid().describe('The preview.');

export const diffTool = defineTool({
  name: 'calls_diff',
  title: 'Show a change of a preview',
  summary: 'Shows what a previewed command changed in one file.',
  capabilities: [{ action: 'diff', description: 'Shows what a previewed command changed in one file.' }],
  category: 'filesystem',
  tier: 'read_only',
  // Only hosts of commands see what they wrote.
  runs: { in: 'command', keptPreview: (it) => it.previewId },
  effects: ({ path }) => [{ kind: 'read', target: path }],
  input: z.strictObject({ previewId, path: workspacePath('One of its changes.') }),
  output: previewChange,
  run: ({ path }, ctx) => ctx.kept.change(path),
});

/** The input of the internal tool; the gateway writes it, never a caller. */
const input = z.strictObject({
  previewId,
  command: z.string().describe('The command that made the changes.'),
  changes: z
    .array(z.strictObject({ path: workspacePath('What changes.'), kind: z.enum(['write', 'delete']) }))
    .min(1)
    .max(100_000),
  only: z.array(workspacePath('To commit, with all below it.')).max(1_000).optional(),
  merges: z.boolean().default(false).describe('Merge texts that others changed since in other lines.'),
  force: z.boolean().default(false).describe('Replace what changed since the preview, too.'),
});

export const commitTool = defineTool({
  name: 'calls_commit',
  title: 'Commit a preview',
  summary: 'Makes the changes of a previewed command in the workspace.',
  capabilities: [{ action: 'commit', description: 'Makes the changes of a previewed command in the workspace.' }],
  category: 'filesystem',
  tier: 'write',
  destructive: true,
  runs: { in: 'host', keptPreview: (it) => it.previewId },
  effects: ({ changes }) => changes.map(({ path: target, kind }) => ({ kind, target }) as const),
  input,
  output: commitOutcome,
  run: ({ changes, only, merges, force }, ctx) =>
    ctx.kept.commit({ paths: changes.map(({ path }) => path), merges, force, only }),
});
