/** Shells that a script may be for, as programs and their arguments. */
import { ToolError } from '../src/errors.ts';
import { findProgram } from '../src/sandbox/bubblewrap.ts';
import type { CommandAsked } from '../src/tools/tool.ts';

type Shell = NonNullable<CommandAsked['shell']>;

/** None reads a file of its own first. `sh` is bash in its POSIX mode: policies read scripts as bash does, and dash runs `((x))`. */
const SHELLS: Readonly<Record<Shell, readonly string[]>> = {
  bash: ['bash', '--norc', '--noprofile', '-c'],
  sh: ['bash', '--norc', '--noprofile', '--posix', '-c'],
  zsh: ['zsh', '-f', '-c'],
};

/** Runs `script` with `args` as its positional parameters. Throws UNSUPPORTED where there is no such shell. */
export function toArgv(shell: Shell, script: string, args: readonly string[] = []): string[] {
  const [name = '', ...options] = SHELLS[shell];
  const program = findProgram(name);
  if (program !== undefined) return [program, ...options, script, shell, ...args];
  throw new ToolError('UNSUPPORTED', `${shell} is not installed on this machine`, {
    suggestion: 'Use bash or sh; or ask the person to install it.',
  });
}
