import * as z from 'zod';
import { defaultLimits } from '../../base/limits.ts';
import { backgroundEntry, backgroundState } from '../terminals.ts';
import { defineTool } from '../tool.ts';
import { commandHealth } from './runs.ts';

export const handleSchema = z.string().min(1).max(64);

export default defineTool({
  name: 'terminal_output',
  title: 'Read background output',
  summary:
    'Read what a command in the background has written since `afterSeq`, and whether it has ended; waits for output up to `waitMs`. ' +
    'Without a handle, lists the commands in the background: those of this session, and detached ones.',
  notes:
    'Standard output and standard error come in the order in which they were written. Old output is dropped first; `missedBytes` tells of it. ' +
    'A command that has ended stays readable until the session starts others, or nobody has asked for it for a while.',
  isExtra: true,
  capabilities: [
    { action: 'read', description: 'Returns the output of a command in the background.' },
    { action: 'list', description: 'Lists the commands in the background, with the ports on which they listen.' },
  ],
  category: 'development',
  // The command was judged when it started.
  tier: 'read_only',
  healthCheck: commandHealth,
  runs: { in: 'command', keeps: () => true, ofBackground: ({ handle }) => ({ handle }) },
  cleanup: (session) => session.endKept(),
  effects: () => [],
  input: z.strictObject({
    handle: handleSchema.optional().describe('From terminal_execute with background; absent: list all.'),
    afterSeq: z.int().min(0).default(0).describe('Only output after this seq of an earlier answer.'),
    waitMs: z.int().min(0).max(defaultLimits.terminalWaitMs).default(0).describe('Longest wait for output or the end.'),
  }),
  output: z.strictObject({
    ...backgroundState.partial({ output: true, seq: true, exited: true }).shape,
    commands: z
      .array(
        backgroundEntry.extend({
          detached: z.literal(true).optional().describe('It goes on when its session ends.'),
        }),
      )
      .optional()
      .describe('Commands of this session, and detached ones of others; without a handle.'),
  }),
  examples: [
    { input: {}, output: { commands: [] } },
    { input: { handle: 'no-such' }, error: 'NOT_FOUND' },
  ],

  async run({ handle = '', afterSeq, waitMs }, { background }) {
    return background.output(handle, { afterSeq, waitMs });
  },
});
