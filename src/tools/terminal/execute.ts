import * as z from 'zod';
import { rare } from '../rare-parameters.ts';
import { defineTool, workspacePath } from '../tool.ts';
import { missingProgram, withMissing } from './missing-program.ts';
import { commandHealth } from './runs.ts';

const COMMAND_CHARS_MAX = 128 * 1024 - 1;
const STDIN_CHARS_MAX = 8 * 1024 * 1024;
/** Characters of a command line in the list of what runs in the background. */
const COMMAND_CHARS_SHOWN = 200;

const input = z.strictObject({
  command: z
    .string()
    .min(1)
    .max(COMMAND_CHARS_MAX)
    .refine((it) => !it.includes('\0'), 'must not hold a NUL byte')
    .describe('Command line for bash.'),
  cwd: workspacePath('Directory to run in.').default('.'),
  env: rare(
    z
      .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/), z.string().max(32 * 1024))
      .default({})
      .refine((it) => Object.keys(it).length <= 64, 'must hold at most 64 variables')
      .refine((it) => !Object.values(it).some((value) => value.includes('\0')), 'must not hold a NUL byte')
      .describe('Environment variables besides PATH, HOME, LANG, TZ, TERM.'),
  ),
  timeout: z.int().min(1).max(3_600_000).default(120_000).describe('Milliseconds.'),
  shell: rare(z.enum(['bash', 'sh', 'zsh']).default('bash').describe('What runs it; sh is bash in its POSIX mode.')),
  stdin: z.string().max(STDIN_CHARS_MAX).optional().describe('Standard input.'),
  background: rare(
    z
      .boolean()
      .default(false)
      .describe(
        'Return a handle at once and let the command go on, without `timeout`, until it ends or its session does; terminal_output and terminal_kill take the handle.',
      ),
  ),
});

export default defineTool({
  name: 'terminal_execute',
  title: 'Run a command',
  summary:
    'Run a command line in a sandbox: only the workspace is writable, only hosts that the policy lists are reached. ' +
    'Gives output and exit code; long output is cut in its middle. What it leaves running is ended.',
  notes:
    'With `background`, the command is ended with its session, when the policy changes, and at the longest life of a terminal. An exit code that is not zero is no error of the call; beside 127 of a program that is not installed, `missing` names it and what brings it.',
  capabilities: [
    { action: 'execute', description: 'Runs a bash command line to its end.' },
    { action: 'start', description: 'Starts a server, or another command that goes on in the background.' },
  ],
  category: 'development',
  tier: 'execute',
  healthCheck: commandHealth,
  runs: { in: 'command', previewsByRunning: true, keeps: ({ background }) => background && 'start' },
  cleanup: (session) => session.endKept(),
  destructive: true,
  effects: ({ command }) => [{ kind: 'exec', target: command }],
  commandOf: ({ command, cwd, env, shell }) => ({
    command,
    cwd,
    env,
    ...(shell === 'zsh' && { unknown: 'zsh reads it otherwise than bash, by whose grammar it is judged' }),
  }),
  timeoutMs: ({ timeout }) => timeout,
  input,
  output: z.strictObject({
    stdout: z.string(),
    stderr: z.string(),
    exitCode: z.int().optional().describe('128 + n when signal n ended the command; absent with background.'),
    signal: z.string().optional(),
    timedOut: z.literal(false).describe('A command out of time is a TIMEOUT error, whose details hold its output.'),
    durationMs: z.number(),
    handle: z.string().optional().describe('Names the command in the background.'),
    missing: missingProgram,
  }),
  examples: [
    { input: { command: 'printf hi; exit 3' }, output: { stdout: 'hi', exitCode: 3, timedOut: false } },
    { input: { command: 'true', cwd: '../..' }, error: 'ACCESS_DENIED' },
    { input: { command: 'no-such-program' }, output: { stdout: '', exitCode: 127 } },
    { input: { command: 'sleep 60', timeout: 200 }, error: 'TIMEOUT' },
  ],
  spellings: { values: { shell: { '/bin/bash': 'bash', '/bin/sh': 'sh', '/bin/zsh': 'zsh' } } },
  aliases: [
    {
      name: 'bash',
      input: input.extend({
        description: z.string().max(4096).optional().describe('What the command is for; not used.'),
      }),
      toInput: ({ description: _, ...rest }) => rest,
    },
    { name: 'execute_command', input },
  ],

  async run({ command, cwd, env, shell, stdin, background }, ctx) {
    const checked = ctx.command({
      command,
      cwd,
      env,
      ...(shell !== 'bash' && { shell }),
      stdin,
    });
    if (background) {
      const handle = await ctx.background.start(checked, { command: command.slice(0, COMMAND_CHARS_SHOWN) });
      return { stdout: '', stderr: '', timedOut: false as const, durationMs: 0, handle };
    }
    return withMissing(await ctx.run(checked), cwd, ctx);
  },
});
