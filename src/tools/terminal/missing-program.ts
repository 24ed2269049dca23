/** Names the program that a command lacked, and what brings it, beside its exit code 127. */
import * as z from 'zod';
import { holds } from '../context/file-presence.ts';
import type { CommandResult, ToolContext } from '../tool.ts';
import { type ProgramSource, sourcesOf } from './program-packages.ts';

/** The exit code by which shells and `env` say that a program was not found. */
const NOT_FOUND = 127;

const NAME = '([\\w.+@-]{1,64})';
/** The words of bash, dash, zsh and `env`, in this order. */
const WORDS = [
  new RegExp(`: ${NAME}: command not found$`),
  new RegExp(`^\\S+: \\d+: ${NAME}: not found$`),
  new RegExp(`: command not found: ${NAME}$`),
  new RegExp(`^(?:/usr/bin/)?env: [‘']${NAME}[’']: No such file or directory$`),
];

const LINES_READ = 20;

/** `missing` in the output of a command. */
export const missingProgram = z
  .strictObject({
    program: z.string(),
    hint: z.string().describe('What to do instead.'),
    suggestions: z.array(
      z.strictObject({
        from: z.string(),
        run: z.string().describe('A line for a person; from `workspace`: for the agent.'),
        request: z.strictObject({ tool: z.string(), input: z.strictObject({ name: z.string() }) }).optional(),
      }),
    ),
  })
  .optional()
  .describe('The program that the command did not find, where it ended with 127.');

/**
 * The output of a command with the program that it did not find, if it ended by that. A program can print the same words
 * and end with 127: then the hint names a program that is there.
 */
export function withMissing(result: CommandResult, cwd: string, ctx: ToolContext) {
  const output = { ...result, timedOut: false as const };
  const program = missingIn(result);
  if (program === undefined) return output;
  const suggestions = [...installedBy(program, cwd, ctx), ...sourcesOf(program)];
  return { ...output, missing: { program, hint: hintOf(program, suggestions), suggestions } };
}

function missingIn({ exitCode, stderr }: CommandResult): string | undefined {
  if (exitCode !== NOT_FOUND) return undefined;
  const lines = stderr.trimEnd().split('\n').slice(-LINES_READ).reverse();
  for (const line of lines)
    for (const words of WORDS) {
      const [, program] = words.exec(line.trimEnd()) ?? [];
      if (program !== undefined) return program;
    }
  return undefined;
}

/** The program of a package that the workspace has installed for itself. */
function installedBy(program: string, cwd: string, ctx: ToolContext): ProgramSource[] {
  const folders = [...new Set([cwd, '.'])];
  const at = folders.find((it) => holds(`${it}/node_modules/.bin/${program}`, ctx));
  return at === undefined ? [] : [{ from: 'workspace', run: `npx --no-install ${program}` }];
}

function hintOf(program: string, [best]: readonly ProgramSource[]): string {
  if (best === undefined)
    return `Use another program, or ask the person to install the package that has \`${program}\`.`;
  if (best.from === 'workspace') return `The workspace has it installed; run \`${best.run}\`.`;
  if (best.request)
    return `Use another program, or ask by \`toolchain_request\` with \`name: ${best.request.input.name}\`; a person sees what it installs.`;
  return `Use another program, or ask the person to run \`${best.run}\`.`;
}
