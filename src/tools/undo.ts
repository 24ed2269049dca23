/** The tool that `calls.undo` runs: in no session's toolset, but under the same stages as any call. */
import * as z from 'zod';
import { defineTool, workspacePath } from './tool.ts';

/** The input of the internal tool; the gateway writes it, never a caller. */
const input = z.strictObject({
  callId: z.string().max(128).describe('The call that is taken back.'),
  key: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .describe('Names its journal.'),
  paths: z.array(workspacePath('Changed by the call.')).min(1).max(100_000).describe('All that may be changed.'),
  force: z.boolean().describe('Whether what was changed since is lost, too.'),
});

export const undoTool = defineTool({
  name: 'calls_undo',
  title: 'Undo a call',
  summary: 'Takes back what a call did to files.',
  version: '1.0.0',
  capabilities: [{ action: 'undo', description: 'Takes back what a call did to files.' }],
  category: 'filesystem',
  tier: 'write',
  destructive: true,
  // Removing a file that the call made counts as a write, not a delete: the content is the call's own and can be restored.
  effects: ({ paths }) => paths.map((target) => ({ kind: 'write', target }) as const),
  input,
  output: z.strictObject({
    restored: z.array(z.string()).describe('Paths that are as they were before the call.'),
    removed: z.array(z.string()).describe('Of those restored: what is not there any more, since the call had made it.'),
    conflicts: z.array(z.string()).describe('Paths that were changed since, or not kept.'),
    merged: z.array(z.string()).describe('Of those restored: where what was changed since is still there, too.'),
  }),
  examples: [],
  aliases: [],
  run: ({ key, paths, force }, ctx) => ctx.undo({ key, paths, force }),
});
