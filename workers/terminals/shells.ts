/** The shells for scripts, as programs and arguments. */
import { ToolError } from '../../src/base/errors.ts';
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
  // From 7.4 on; its arguments are $args.
  pwsh: ['pwsh', '-NoProfile', '-NonInteractive', '-CommandWithArgs'],
};

/** The argv that runs `script` with `args` as its positional parameters. Throws UNSUPPORTED if the shell is missing. */
export function toArgv(shell: Shell, script: string, args: readonly string[] = []): string[] {
  const [name = '', ...options] = SHELLS[shell];
  const program = findProgram(name);
  if (program !== undefined) return [program, ...options, script, ...(shell === 'pwsh' ? [] : [shell]), ...args];
  throw new ToolError('UNSUPPORTED', `${shell} is not installed on this machine`, {
    suggestion: 'Use bash or sh; or ask the person to install it.',
  });
}

/**
 * Runs `$1`, then shows the first `$3` bytes of the file `$2`, which is all of its standard output; ends as `$1` did. The file
 * has another name at each run: /tmp is shared by the commands of a session, and an earlier run may have left its own.
 */
const WITH_REPORT =
  'own=$(mktemp -- "$2-XXXXXX") || exit; eval "${1//"$2"/$own}" >&2; code=$?; head -c "$3" -- "$own"; rm -f -- "$own"; exit "$code"';

/** The argv that runs a command line and gives a file that it wrote. */
export const toReportingArgv = (command: string, file: string, bytesMax: number): string[] =>
  toArgv('bash', WITH_REPORT, [command, file, `${bytesMax}`]);
