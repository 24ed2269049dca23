/** `ringfence`, the command-line client. Each verb is a file in cli/; cli/verbs/ lists them. */
import { CommanderError } from 'commander';
import { EXIT, say } from '../cli/output.ts';
import { withShellApart } from '../cli/shell/arguments.ts';
import { createProgram } from '../cli/verbs/program.ts';

const verbs = createProgram({ ...process.env });

// EPIPE: the reader has closed the pipe (`ringfence audit query | head`). A premature close ends the verb `stdio`, which handles it.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT.OK);
  if (error.code === 'ERR_STREAM_PREMATURE_CLOSE') return;
  say(`can't write the output: ${error.message}`);
  process.exit(EXIT.FAILED);
});

try {
  await verbs.program.parseAsync(withShellApart(process.argv));
  process.exitCode = verbs.exitCode;
} catch (error) {
  // Help and version, which have been printed, end so as well.
  if (error instanceof CommanderError && error.exitCode === 0) process.exitCode = EXIT.OK;
  else
    process.exitCode = (await import('../cli/explain-error.ts')).explainError(
      error as Error,
      process.argv.includes('--json'),
    );
}
