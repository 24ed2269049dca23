/** `ringfence`, the command-line client. Each verb is a file in cli/; cli/verbs/ lists them. */
import { CommanderError } from 'commander';
import { CliError, codeNameOf, EXIT, printJson, say } from './cli/output.ts';
import { withShellApart } from './cli/shell/arguments.ts';
import { createProgram } from './cli/verbs/program.ts';
import { RemoteError } from './client.ts';
import { ConfigError } from './daemon/config.ts';
import { StateDirError } from './daemon/user-dirs.ts';
import { RPC_CODES } from './errors.ts';
import { PolicyError } from './policy/policy-error.ts';
import { SocketError } from './transport/unix-socket.ts';

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
  process.exitCode = explain(error as Error);
}

/** Reports an error, also as JSON with --json. Gives the exit code. */
function explain(error: Error): number {
  const exitCode = exitCodeFor(error);
  // Commander has printed it already; help and version are no errors.
  if (!(error instanceof CommanderError)) say(error.message);
  if (exitCode !== EXIT.OK && process.argv.includes('--json'))
    printJson({ success: false, error: { code: codeNameOf(exitCode), message: error.message, exitCode } });
  return exitCode;
}

function exitCodeFor(error: Error): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.OK : EXIT.USAGE;
  if (error instanceof CliError) return error.exitCode;
  if ([ConfigError, SocketError, PolicyError, StateDirError].some((it) => error instanceof it)) return EXIT.USAGE;
  if (error instanceof RemoteError)
    return error.code === RPC_CODES.FORBIDDEN || error.code === RPC_CODES.UNAUTHENTICATED ? EXIT.DENIED : EXIT.FAILED;
  return EXIT.UNREACHABLE;
}
