import * as z from 'zod';
import { defineTool } from '../tool.ts';
import { handleSchema } from './output.ts';
import { commandHealth } from './runs.ts';

const SIGNALS = ['INT', 'TERM', 'HUP', 'QUIT', 'USR1', 'USR2', 'STOP', 'CONT', 'KILL'] as const;

/** Longest wait for a command to end by a signal; one that does not goes on. */
const SIGNAL_WAIT_MS = 1_000;

export default defineTool({
  name: 'terminal_kill',
  title: 'End a background command',
  summary:
    'End a command in the background with everything that it started: SIGTERM, and SIGKILL if that is not enough. ' +
    'With `signal`, only send that signal to its process group.',
  notes: 'What it wrote stays readable by terminal_output.',
  isExtra: true,
  capabilities: [
    { action: 'end', description: 'Ends a command in the background.' },
    { action: 'signal', description: 'Sends it a signal.' },
  ],
  category: 'development',
  tier: 'execute',
  // A call ends only commands that its own session started, so it needs no approval of its own.
  tiers: { of: () => 'read_only' },
  healthCheck: commandHealth,
  destructive: true,
  runs: { in: 'command', keeps: () => true, ofBackground: ({ handle }) => ({ handle }) },
  cleanup: (session) => session.endKept(),
  effects: () => [],
  input: z.strictObject({
    handle: handleSchema.describe('From terminal_execute with background.'),
    signal: z.enum(SIGNALS).optional().describe('Absent: end it.'),
  }),
  output: z.strictObject({
    ended: z.boolean().describe('Whether the command and all that it started have ended.'),
    exitCode: z.int().optional(),
    signal: z.string().optional(),
  }),
  examples: [{ input: { handle: 'no-such' }, error: 'NOT_FOUND' }],

  async run({ handle, signal }, { background }) {
    if (signal === undefined || signal === 'KILL') await background.stop(handle);
    else await background.signal(handle, `SIG${signal}`);
    const { exited, exitCode, signal: by } = await background.ended(handle, SIGNAL_WAIT_MS);
    return {
      ended: exited,
      exitCode,
      signal: by,
    };
  },
});
