import * as z from 'zod';
import { defineTool } from '../tool.ts';

const TIMEOUT_MS = 600_000;

export default defineTool({
  name: 'access_request',
  title: 'Ask for what the sandbox lacks',
  summary:
    'Ask the person for what commands lack: a file of the workspace that the policy hides (`.env` for a test), a folder outside of ' +
    'it to read, or a service that listens on this machine (`service: 5432` for its PostgreSQL).',
  notes:
    'A person is asked, and answers for the session or the project. Calls that begin after it have it. A folder outside is read-only; ' +
    'keys, sockets and homes of the person are never shown. A service is reached at 127.0.0.1 and its port, while the same program ' +
    'of the same user listens; Ringfence, debuggers and container engines are never opened.',
  isExtra: true,
  version: '1.1.0',
  capabilities: [{ action: 'request', description: 'Asks the person to open a path or a service.' }],
  category: 'development',
  tier: 'execute',
  asks: true,
  // What a command has read can't be taken back from it.
  destructive: true,
  runs: { by: 'doors', request: ({ path = '', service }) => (service === undefined ? { path } : { service }) },
  timeoutMs: () => TIMEOUT_MS,
  effects: ({ path, service }) => [
    {
      kind: 'exec',
      target: service === undefined ? `show ${path} to commands` : `connect commands to port ${service}`,
    },
  ],
  input: z
    .strictObject({
      path: z.string().min(1).max(4096).optional().describe('In the workspace, or absolute.'),
      service: z.int().min(1).max(65_535).optional().describe('Port on this machine; in place of `path`.'),
    })
    .refine(
      ({ path, service }) => (path === undefined) !== (service === undefined),
      'give one of `path` and `service`',
    ),
  output: z.strictObject({ path: z.string().optional(), service: z.int().optional(), opened: z.literal(true) }),
  examples: [
    // Nobody is there to be asked about the examples.
    { input: { path: '.env' }, error: 'APPROVAL_DENIED' },
    { input: { path: '' }, error: 'INPUT_INVALID' },
  ],
});
