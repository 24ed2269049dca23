/** The shells for scripts, as programs and arguments. */
import { ToolError } from '../../src/errors.ts';
import { findProgram } from '../../src/sandbox/find-program.ts';
import type { CommandToRun } from '../../src/tools/tool.ts';

type Shell = NonNullable<CommandToRun['shell']>;

/**
 * No shell reads its startup files. `sh` is bash in POSIX mode: policies parse scripts like bash, and dash would run
 * `((x))` differently.
 */
const SHELLS: Readonly<Record<Shell, readonly string[]>> = {
  bash: ['bash', '--norc', '--noprofile', '-c'],
  sh: ['bash', '--norc', '--noprofile', '--posix', '-c'],
  zsh: ['zsh', '-f', '-c'],
};

/** The argv that runs `script` with `args` as its positional parameters. Throws UNSUPPORTED if the shell is missing. */
export function toArgv(shell: Shell, script: string, args: readonly string[] = []): string[] {
  const [name = '', ...options] = SHELLS[shell];
  const program = findProgram(name);
  if (program !== undefined) return [program, ...options, script, shell, ...args];
  throw new ToolError('UNSUPPORTED', `${shell} is not installed on this machine`, {
    suggestion: 'Use bash or sh; or ask the person to install it.',
  });
}
