import * as z from 'zod';
import { defineTool } from '../tool.ts';

const TIMEOUT_MS = 600_000;

export default defineTool({
  name: 'toolchain_request',
  title: 'Ask for a toolchain',
  summary:
    'Ask the person to install a toolchain that commands lack: node, npm, pnpm, yarn, typescript or pyright. ' +
    'The person sees the exact package, version and hash; exactly that is installed, and no script of it runs.',
  notes:
    'A person is asked about each call, whatever the policy or an earlier answer says. Commands that begin after it find it. ' +
    'The registry is that of `packages` in config.yaml; it hears the name before anybody is asked.',
  isExtra: true,
  capabilities: [{ action: 'install', description: 'Installs a toolchain for commands, once a person has said yes.' }],
  category: 'development',
  tier: 'execute',
  asks: true,
  // The version that is installed is replaced.
  destructive: true,
  runs: { by: 'toolchains', request: ({ name, version }) => ({ name, version }) },
  timeoutMs: () => TIMEOUT_MS,
  effects: ({ name, version }) => [
    { kind: 'exec', target: `ringfence toolchain add ${name}${version === undefined ? '' : `@${version}`}` },
  ],
  input: z.strictObject({
    name: z.enum(['node', 'npm', 'pnpm', 'yarn', 'typescript', 'pyright']).describe('The toolchain.'),
    version: z
      .string()
      .regex(/^\d{1,6}(\.\d{1,6}){0,2}$/, 'takes a version or its beginning, such as 24 or 24.15.1')
      .optional()
      .describe('Version, or its beginning: the newest such; absent: the latest.'),
  }),
  output: z.strictObject({
    name: z.string(),
    version: z.string(),
    package: z.string().describe('Its npm package.'),
    integrity: z.string(),
    programs: z.array(z.string()),
  }),
  examples: [
    // Nobody is there to be asked about the examples.
    { input: { name: 'node', version: '24' }, error: 'APPROVAL_DENIED' },
    { input: { name: 'node', version: 'latest' }, error: 'INPUT_INVALID' },
  ],
});
