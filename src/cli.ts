/** `ringfence`: the command line, a thin client. Verbs are in cli/, one file each. */
import { Command, CommanderError, Option } from 'commander';
import { call } from './cli/call.ts';
import { type Caller, type ConnectFlags, connect } from './cli/connect.ts';
import { CliError, EXIT, say } from './cli/output.ts';
import { serve } from './cli/serve.ts';
import { status } from './cli/status.ts';
import { stop } from './cli/stop.ts';
import { tools } from './cli/tools.ts';
import { RemoteError } from './client.ts';
import { ConfigError, findPlaces } from './config.ts';
import { RPC_CODES } from './errors.ts';
import { version } from './runtime.ts';
import { pipeStdio } from './transport/stdio.ts';
import { connectUnix, SocketError } from './transport/unix-socket.ts';

let exitCode: number = EXIT.OK;
const env = { ...process.env };
const callerOf = (flags: ConnectFlags): Caller => ({ flags, env, cwd: process.cwd() });
const collect = (value: string, before: string[] = []) => [...before, value];

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

Exit codes: 0 success, 1 the call failed, 2 usage, 3 no daemon, 4 denied, 5 timed out or limited, 130 interrupted.`,
  );

/** An action whose number is the exit code. */
const ending =
  <A extends unknown[]>(action: (...args: A) => Promise<number>) =>
  async (...args: A): Promise<void> => {
    exitCode = await action(...args);
  };

/** A verb that talks to a daemon. */
const verb = (name: string, description: string) =>
  program
    .command(name)
    .description(description)
    .option('--socket <path>', "the daemon's socket")
    .option('--state <dir>', "the daemon's state directory")
    .option('--no-autostart', 'fail rather than start a daemon');

verb('serve', 'run the daemon')
  .option('--listen <[host:]port>', 'also listen for WebSockets on loopback; 0 lets the system choose')
  .option('--workspace <dir>', 'a folder that agents may work in; again for more', collect)
  .option('--policy <file|name>', 'what calls may do')
  .option('--foreground', 'stay in the foreground (the default)')
  .option('--detach', 'return when the daemon is ready')
  .action(ending(async (flags) => serve(flags, callerOf(flags))));

verb('call <tool> [input...]', 'run one tool: input as one JSON object or as key=value words')
  .option('--workspace <dir>', 'the folder to work in (default: this one)')
  .option('--timeout <duration>', 'such as 250ms, 5s, 2m')
  .option('--json', 'print exactly the result')
  .option('--progress', 'show state and output on stderr while it runs')
  .option('--preview', 'show what it would do')
  .action(ending(async (tool, input, flags) => call(tool, input, flags, callerOf(flags))));

verb('tools [name]', 'list the tools, or tell about one')
  .option('--workspace <dir>', 'the folder to work in (default: this one)')
  .addOption(
    new Option('--format <format>', 'as an API takes them').choices(['ringfence', 'mcp', 'openai', 'anthropic']),
  )
  .option('--json', 'print JSON')
  .action(ending(async (name, flags) => tools(name, flags, callerOf(flags))));

verb('status', 'what the daemon is doing')
  .option('--json', 'print JSON')
  .action(ending(async (flags) => status(flags, callerOf({ ...flags, autostart: false }))));

verb('stop', 'end the daemon').action(ending(async (flags) => stop(callerOf(flags))));

verb('stdio', 'speak the protocol on standard input and output').action(async (flags: ConnectFlags) => {
  const caller = callerOf(flags);
  await (await connect(caller))[Symbol.asyncDispose](); // Starts a daemon when none runs.
  const { socket } = await connectUnix(findPlaces(flags, env).socket);
  await pipeStdio(socket, process.stdin, process.stdout);
});

try {
  await program.parseAsync();
} catch (error) {
  exitCode = explain(error);
}
process.exitCode = exitCode;

function explain(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.OK : EXIT.USAGE;
  say((error as Error).message);
  if (error instanceof CliError) return error.exitCode;
  if (error instanceof ConfigError || error instanceof SocketError) return EXIT.USAGE;
  if (error instanceof RemoteError)
    return error.code === RPC_CODES.FORBIDDEN || error.code === RPC_CODES.UNAUTHENTICATED ? EXIT.DENIED : EXIT.FAILED;
  return EXIT.UNREACHABLE;
}
