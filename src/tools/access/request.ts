import * as z from 'zod';
import { defineTool } from '../tool.ts';

const TIMEOUT_MS = 600_000;

export default defineTool({
  name: 'access_request',
  title: 'Ask to see a path',
  summary:
    'Ask the person to show a path that calls lack: a file of the workspace that the policy hides (`.env` for a test), ' +
    'or a folder outside of the workspace, which commands may then read.',
  notes:
    'A person is asked, whatever the policy says, and answers for the session or the project. Calls that begin after it see the path. ' +
    'A folder outside is read-only; keys, sockets and homes of the person are never shown.',
  isExtra: true,
  version: '1.0.0',
  capabilities: [{ action: 'request', description: 'Asks the person to show a path.' }],
  category: 'development',
  tier: 'execute',
  asks: true,
  // What a command has read can't be taken back from it.
  destructive: true,
  runs: { by: 'doors', request: ({ path }) => ({ path }) },
  timeoutMs: () => TIMEOUT_MS,
  effects: ({ path }) => [{ kind: 'exec', target: `show ${path} to commands` }],
  input: z.strictObject({
    path: z.string().min(1).max(4096).describe('In the workspace, or absolute.'),
  }),
  output: z.strictObject({ path: z.string(), opened: z.literal(true) }),
  examples: [
    // Nobody is there to be asked about the examples.
    { input: { path: '.env' }, error: 'APPROVAL_DENIED' },
    { input: { path: '' }, error: 'INPUT_INVALID' },
  ],
  aliases: [],
});
