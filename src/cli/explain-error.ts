/** What the CLI says of an error that ended it, and its exit code. Loaded on demand. */
import { CommanderError } from 'commander';
import { OperatorError, RPC_CODES, UsageError } from '../base/errors.ts';
import { RemoteError } from '../client/client.ts';
import { StateDirError } from '../daemon/user-dirs.ts';
import { PinError } from '../services/pinned/pin-error.ts';
import { CliError, codeNameOf, EXIT, harmless, printJson, say } from './output.ts';

/** Reports an error, as JSON too if `isJson`. Gives the exit code. */
export function explainError(error: Error, isJson: boolean): number {
  const exitCode = exitCodeFor(error);
  // Commander has printed its own.
  const message = harmless(error instanceof PinError ? `not valid:\n${error.message}` : error.message);
  if (!(error instanceof CommanderError)) say(message);
  if (isJson) printJson({ success: false, error: { code: codeNameOf(exitCode), message, exitCode } });
  return exitCode;
}

function exitCodeFor(error: Error): number {
  if (error instanceof CommanderError) return EXIT.USAGE;
  if (error instanceof CliError) return error.exitCode;
  if (error instanceof StateDirError) return EXIT.USAGE;
  if (error instanceof OperatorError) return error instanceof UsageError ? EXIT.USAGE : EXIT.FAILED;
  if (error instanceof RemoteError)
    return error.code === RPC_CODES.FORBIDDEN || error.code === RPC_CODES.UNAUTHENTICATED ? EXIT.DENIED : EXIT.FAILED;
  return EXIT.UNREACHABLE;
}
