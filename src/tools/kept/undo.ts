/** The tool that `calls.undo` runs: in no session's toolset, but under the same stages as any call. */
import * as z from 'zod';
import { undoOutcome } from '../context/undo.ts';
import { defineTool, workspacePath } from '../tool.ts';

/** The input of the internal tool; the gateway writes it, never a caller. */
const input = z.strictObject({
  callId: z.string().max(128).describe('The call to undo.'),
  keys: z
    .array(z.string().regex(/^[0-9a-f]{64}$/))
    .min(1)
    .max(10_000)
    .describe('Name its journal, and those of older calls that are undone after it.'),
  checkpoint: z.string().max(64).optional().describe('The checkpoint to return to.'),
  paths: z.array(workspacePath('Changed by the call.')).min(1).max(100_000).describe('The only paths that may change.'),
  force: z.boolean().describe('Also undo files that were changed since, losing those changes.'),
});

export const undoTool = defineTool({
  name: 'calls_undo',
  title: 'Undo a call',
  summary: 'Undoes the file changes of a call.',
  capabilities: [{ action: 'undo', description: 'Undoes the file changes of a call.' }],
  category: 'filesystem',
  tier: 'write',
  destructive: true,
  // Removing a file that the call made counts as a write, not a delete: the content is the call's own and can be restored.
  effects: ({ paths }) => paths.map((target) => ({ kind: 'write', target }) as const),
  input,
  output: undoOutcome,
  run: ({ keys, paths, force }, ctx) => ctx.undo({ keys, paths, force }),
});
