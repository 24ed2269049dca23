/** `ringfence`, the command-line client. Each verb is a file in cli/; cli/verbs/ lists them. */
import { Command, CommanderError } from 'commander';
import { CliError, codeNameOf, EXIT, printJson, say } from './cli/output.ts';
import { addAuditVerbs } from './cli/verbs/audit.ts';
import { addCallVerbs, addLookVerbs } from './cli/verbs/calls.ts';
import { addApprovalVerbs, addDaemonVerbs, addPolicyVerbs, addProviderVerbs } from './cli/verbs/operator.ts';
import { addSettingsVerbs } from './cli/verbs/settings.ts';
import { addFolderVerbs, addMachineVerbs, addPipeVerbs, addPluginVerbs, addServeVerb } from './cli/verbs/setup.ts';
import { Verbs } from './cli/verbs/verbs.ts';
import { RemoteError } from './client.ts';
import { ConfigError } from './daemon/config.ts';
import { StateDirError } from './daemon/user-dirs.ts';
import { RPC_CODES } from './errors.ts';
import { PolicyError } from './policy/policy-error.ts';
import { version } from './runtime.ts';
import { SocketError } from './transport/unix-socket.ts';

const program = new Command('ringfence')
  .description("Runs AI agents' tool calls in processes that the kernel confines.")
  .version(version)
  .exitOverride()
  .showHelpAfterError('(ringfence --help says more)')
  .addHelpText(
    'after',
    `
Examples:
  ringfence call file_list                        what is in this folder (starts a daemon when none runs)
  ringfence call file_read path=README.md maxLines=5
  ringfence serve --detach --policy ~/.config/ringfence/policy.yaml
  ringfence call terminal_execute command='ls -la' --json

Exit codes: 0 success, 1 the call failed, 2 usage, 3 no daemon, 4 denied, 5 timed out or limited, 130 interrupted.
A command that ran to its end gives its own exit code, 128 + n where signal n ended it.`,
  );

const verbs = new Verbs(program, { ...process.env });
for (const add of [
  ...[addServeVerb, addCallVerbs, addLookVerbs, addApprovalVerbs, addProviderVerbs, addAuditVerbs, addPolicyVerbs],
  ...[addFolderVerbs, addPluginVerbs, addSettingsVerbs, addDaemonVerbs, addMachineVerbs, addPipeVerbs],
])
  add(verbs);

// EPIPE: the reader has closed the pipe (`ringfence audit query | head`). A premature close ends the verb `stdio`, which handles it.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT.OK);
  if (error.code === 'ERR_STREAM_PREMATURE_CLOSE') return;
  say(`the output could not be written: ${error.message}`);
  process.exit(EXIT.FAILED);
});

try {
  await program.parseAsync();
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
