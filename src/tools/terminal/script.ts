import * as z from 'zod';
import { defineTool, workspacePath } from '../tool.ts';
import { missingProgram, withMissing } from './missing-program.ts';
import { commandHealth } from './runs.ts';

/** Bytes of the longest argument that the kernel accepts. */
const ARGUMENT_BYTES_MAX = 128 * 1024 - 1;
const noNul = (it: string) => !it.includes('\0');

const input = z.strictObject({
  script: z
    .string()
    .min(1)
    .max(ARGUMENT_BYTES_MAX)
    .refine(noNul, 'must not hold a NUL byte')
    .refine((it) => Buffer.byteLength(it) <= ARGUMENT_BYTES_MAX, `must have at most ${ARGUMENT_BYTES_MAX} bytes`)
    .describe('The script, as a file would hold it.'),
  shell: z
    .enum(['bash', 'sh', 'zsh', 'pwsh'])
    .default('bash')
    .describe('What runs it, where it is installed; sh is bash in its POSIX mode, pwsh is PowerShell.'),
  cwd: workspacePath('Directory to run in, relative to the workspace root.').default('.'),
  args: z
    .array(
      z
        .string()
        .max(16 * 1024)
        .refine(noNul, 'must not hold a NUL byte'),
    )
    .max(64)
    .default([])
    .describe('Positional parameters $1, $2 …, $args of PowerShell; never parsed as shell text.'),
});

export default defineTool({
  name: 'terminal_script',
  title: 'Run a script',
  summary:
    'Run a script of several lines by bash, sh, zsh or PowerShell, in a sandbox as terminal_execute has it. Values that come from elsewhere go in args ("$1"), never into the text. ' +
    'Standard input is empty. Returns stdout, stderr and the exit code (a non-zero one is not an error).',
  isExtra: true,
  capabilities: [{ action: 'execute', description: 'Runs a script by bash, sh, zsh or PowerShell to its end.' }],
  category: 'development',
  tier: 'execute',
  healthCheck: commandHealth,
  destructive: true,
  effects: ({ script }) => [{ kind: 'exec', target: script }],
  commandOf: ({ script, shell, cwd }) => ({
    command: script,
    cwd,
    env: {},
    ...((shell === 'zsh' || shell === 'pwsh') && {
      unknown: `${shell} reads it otherwise than bash, by whose grammar it is judged`,
    }),
  }),
  input,
  output: z.strictObject({
    stdout: z.string(),
    stderr: z.string(),
    exitCode: z.int().describe('128 + n when signal n ended the script.'),
    signal: z.string().optional(),
    timedOut: z.literal(false).describe('A script out of time is a TIMEOUT error, whose details hold its output.'),
    durationMs: z.number(),
    missing: missingProgram,
  }),
  examples: [
    {
      input: { script: 'for it in "$@"; do\n  printf "%s;" "$it"\ndone\nexit 3', args: ['a b', '$(id)'] },
      output: { stdout: 'a b;$(id);', exitCode: 3, timedOut: false },
    },
    { input: { script: 'echo "$0 $1"', shell: 'sh', args: ['x'] }, output: { stdout: 'sh x\n', exitCode: 0 } },
    { input: { script: 'true', cwd: '../..' }, error: 'ACCESS_DENIED' },
  ],
  spellings: { values: { shell: { powershell: 'pwsh' } } },

  async run({ script, shell, cwd, args }, ctx) {
    const checked = ctx.command({ command: script, cwd, env: {}, shell, args });
    return withMissing(await ctx.run(checked), cwd, ctx);
  },
});
