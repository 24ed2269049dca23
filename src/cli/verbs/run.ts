/** Makes a program of verbs, and runs its command line. */
import { Command, CommanderError } from 'commander';
import { version } from '../../base/runtime.ts';
import type { Environment } from '../../daemon/user-dirs.ts';
import { EXIT, say } from '../output.ts';
import { groupVerbs } from './groups.ts';
import { type CliCapability, Verbs } from './verbs.ts';

const helpOf = (examples: string): string => `
\`ringfence help --all\` lists all verbs, \`ringfence VERB --help\` the flags of one.

Examples:${examples}

Exit codes: 0 success, 1 the call failed, 2 usage, 3 no daemon, 4 denied, 5 timed out or limited, 130 interrupted.
If a command ran to its end, ringfence exits with its exit code, or 128 + n if signal n ended it.`;

/** A program with the verbs that `adders` and capabilities add. It throws CommanderError where it would end the process. */
export function programOf(
  env: Environment,
  adders: readonly ((verbs: Verbs) => void)[],
  capabilities: readonly CliCapability[],
  examples: string,
): Verbs {
  const program = new Command('ringfence')
    .description("Runs AI agents' tool calls in processes that the kernel confines.")
    .version(version)
    .exitOverride()
    .enablePositionalOptions()
    .showHelpAfterError('(run `ringfence --help` for usage)')
    .addHelpText('after', helpOf(examples));
  const verbs = new Verbs(program, env, capabilities);
  for (const add of adders) add(verbs);
  for (const it of capabilities) it.addVerbs?.(verbs);
  for (const it of capabilities) it.joinVerbs?.(verbs);
  groupVerbs(program);
  return verbs;
}

/** Runs a command line of this process, and sets its exit code. */
export async function run(verbs: Verbs, argv: readonly string[]): Promise<void> {
  // EPIPE: the reader has closed the pipe (`ringfence audit query | head`). A premature close ends the verb `stdio`, which handles it.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(EXIT.OK);
    if (error.code === 'ERR_STREAM_PREMATURE_CLOSE') return;
    say(`can't write the output: ${error.message}`);
    process.exit(EXIT.FAILED);
  });
  try {
    await verbs.program.parseAsync([...argv]);
    process.exitCode = verbs.exitCode;
  } catch (error) {
    // Help and version, which have been printed, end so as well.
    if (error instanceof CommanderError && error.exitCode === 0) process.exitCode = EXIT.OK;
    else {
      const { explainError } = await import('../explain-error.ts');
      process.exitCode = explainError(error as Error, argv.includes('--json'));
    }
  }
}
