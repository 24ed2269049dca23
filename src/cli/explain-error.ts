/** What the CLI says of an error that ended it, and its exit code. Loaded on demand: it knows the errors of all rooms. */
import { CommanderError } from 'commander';
import { RPC_CODES } from '../base/errors.ts';
import { RemoteError } from '../client/client.ts';
import { ConfigError } from '../daemon/config/config-error.ts';
import { StateDirError } from '../daemon/user-dirs.ts';
import { PolicyError } from '../policy/policy-error.ts';
import { SocketError } from '../wire/transport/socket-error.ts';
import { CliError, codeNameOf, EXIT, printJson, say } from './output.ts';

/** Reports an error, as JSON too if `isJson`. Gives the exit code. */
export function explainError(error: Error, isJson: boolean): number {
  const exitCode = exitCodeFor(error);
  // Commander has printed its own.
  if (!(error instanceof CommanderError)) say(error.message);
  if (isJson) printJson({ success: false, error: { code: codeNameOf(exitCode), message: error.message, exitCode } });
  return exitCode;
}

function exitCodeFor(error: Error): number {
  if (error instanceof CommanderError) return EXIT.USAGE;
  if (error instanceof CliError) return error.exitCode;
  if ([ConfigError, SocketError, PolicyError, StateDirError].some((it) => error instanceof it)) return EXIT.USAGE;
  if (error instanceof RemoteError)
    return error.code === RPC_CODES.FORBIDDEN || error.code === RPC_CODES.UNAUTHENTICATED ? EXIT.DENIED : EXIT.FAILED;
  return EXIT.UNREACHABLE;
}
