import * as z from 'zod';
import { ToolError } from '../../base/errors.ts';
import { asWord } from '../../base/paths.ts';
import type { ImageToRun } from '../runs.ts';
import { defineTool, workspacePath } from '../tool.ts';

const WORDS_MAX = 256;
const word = z
  .string()
  .max(32 * 1024)
  .refine((it) => !it.includes('\0'), 'must not hold a NUL byte');

export default defineTool({
  name: 'docker_run',
  title: 'Run a program of a container image',
  summary:
    'Run a program on the files of a container image, in the sandbox of commands: the workspace at its own path and writable, the ' +
    "image's files read-only, /tmp, and only hosts that the policy lists. Gives output and exit code.",
  notes:
    'No container engine runs it, so it has no root, no ports, no other containers and no Docker socket. An image of this machine ' +
    "(Podman's, or Docker's without root's rights) runs unasked; a person is asked about the registry before one is pulled. Folders that the image declares as volumes " +
    'are empty and writable. Changes of the workspace are undone like those of a command.',
  isExtra: true,
  capabilities: [{ action: 'execute', description: 'Runs a program of an image to its end.' }],
  category: 'development',
  tier: 'execute',
  runs: { by: 'containers', request: ({ image }) => ({ image }) },
  destructive: true,
  effects: ({ image, command }) => [
    { kind: 'exec', target: `docker run ${[image, ...command].map(asWord).join(' ')}` },
  ],
  commandOf: ({ command, cwd, env }) => ({ command: command.map(asWord).join(' ') || 'true', cwd, env }),
  timeoutMs: ({ timeout }) => timeout,
  input: z.strictObject({
    image: z
      .string()
      .max(512)
      .regex(/^[a-z0-9][\w.:/@-]*$/i)
      .describe('Its name, as `python:3.12`.'),
    command: z.array(word).max(WORDS_MAX).default([]).describe("Program and arguments; the image's own if empty."),
    entrypoint: z.array(word).max(WORDS_MAX).optional().describe("In place of the image's; [] for none."),
    cwd: workspacePath('Directory to run in.').default('.'),
    env: z
      .record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/), word)
      .default({})
      .refine((it) => Object.keys(it).length <= 64, 'must hold at most 64 variables')
      .describe("Environment variables besides the image's."),
    timeout: z
      .int()
      .min(1)
      .max(3_600_000)
      .default(300_000)
      .describe('Milliseconds, with the time to unpack the image.'),
  }),
  output: z.strictObject({
    stdout: z.string(),
    stderr: z.string(),
    exitCode: z.int().optional().describe('128 + n when signal n ended it.'),
    signal: z.string().optional(),
    timedOut: z.literal(false),
    durationMs: z.number(),
  }),
  examples: [
    { input: { image: 'busybox', command: ['rm', '-rf', '/'] }, error: 'POLICY_DENIED' },
    { input: { image: '' }, error: 'INPUT_INVALID' },
    { input: { image: '--privileged' }, error: 'INPUT_INVALID' },
  ],

  async run({ command, entrypoint, cwd, env }, ctx) {
    const { folder, volumes, env: own, ...image } = ctx.planned as ImageToRun;
    const words = command.length > 0 || entrypoint ? command : image.command;
    const argv = [...(entrypoint ?? image.entrypoint), ...words];
    if (argv.length === 0)
      throw new ToolError('INPUT_INVALID', 'the image names no program', { suggestion: 'Give a `command`.' });
    const program = { folder, volumes, env: own, argv };
    const ran = await ctx.run(ctx.command({ command: argv.map(asWord).join(' '), cwd, env, image: program }));
    return { ...ran, timedOut: false as const };
  },
});
