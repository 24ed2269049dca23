/** `ringfence`: the command line, a thin client. Verbs are in cli/, one file each. */
import { Command, CommanderError, type CommandOptions, Option } from 'commander';
import {
  approvalsApprove,
  approvalsDeny,
  approvalsGrants,
  approvalsList,
  approvalsRevoke,
  approvalsWatch,
} from './cli/approvals.ts';
import { type AuditQueryFlags, auditExport, auditQuery, auditVerify } from './cli/audit.ts';
import type { BacktestFlags } from './cli/backtest.ts';
import { batch } from './cli/batch.ts';
import { call } from './cli/call.ts';
import { type Caller, type ConnectFlags, connect } from './cli/connect.ts';
import { policyExplain, policyReload } from './cli/explain.ts';
import { logs } from './cli/logs.ts';
import { MCP_CLIENTS } from './cli/mcp-clients.ts';
import { CliError, EXIT, say } from './cli/output.ts';
import { result } from './cli/result.ts';
import { serve } from './cli/serve.ts';
import { status } from './cli/status.ts';
import { stop } from './cli/stop.ts';
import { tools } from './cli/tools.ts';
import { undo } from './cli/undo.ts';
import { type Client, RemoteError } from './client.ts';
import { ConfigError } from './config.ts';
import { RPC_CODES } from './errors.ts';
import { findPlaces, StateDirError } from './places.ts';
import { PolicyError } from './policy/policy-error.ts';
import { systemPowers } from './powers.ts';
import { version } from './runtime.ts';
import { pipeStdio } from './transport/stdio.ts';
import { connectUnix, SocketError } from './transport/unix-socket.ts';

let exitCode: number = EXIT.OK;
const env = { ...process.env };
const callerOf = (flags: ConnectFlags): Caller => ({ flags, env, cwd: thisFolder() });
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

/** Throws CliError where it was removed under us. */
function thisFolder(): string {
  try {
    return process.cwd();
  } catch {
    throw new CliError(EXIT.USAGE, 'the folder that this was started in is gone; go to one that is there');
  }
}

/** An action whose number is the exit code. */
const ending =
  <A extends unknown[]>(action: (...args: A) => Promise<number>) =>
  async (...args: A): Promise<void> => {
    exitCode = await action(...args);
  };

/** What a person who runs the daemon does in it, over a connection with the operator's role. */
async function asOperator(flags: ConnectFlags, action: (client: Client) => Promise<number>): Promise<number> {
  await using client = await connect({ ...callerOf({ ...flags, autostart: false }), role: 'operator' });
  return await action(client); // Before the connection is closed.
}

/** A verb that talks to a daemon. */
const verb = (name: string, description: string, parent = program, options: CommandOptions = {}) =>
  parent
    .command(name, options)
    .description(description)
    .option('--socket <path>', "the daemon's socket")
    .option('--state <dir>', "the daemon's state directory")
    .option('--no-autostart', 'fail rather than start a daemon');

verb('serve', 'run the daemon')
  .option('--listen <[host:]port>', 'also listen for WebSockets on loopback; 0 lets the system choose')
  .option('--listen-http <[host:]port>', 'also serve MCP over HTTP on loopback')
  .option('--workspace <dir>', 'a folder that agents may work in; again for more', collect)
  .option('--policy <file|name>', 'what calls may do')
  .option('--foreground', 'stay in the foreground (the default)')
  .option('--detach', 'return when the daemon is ready')
  .addHelpText(
    'after',
    `
The log is standard error, and <state>/daemon.log of a daemon in the background: JSON, or plain lines at a terminal.
RINGFENCE_LOG says how much of it there is: trace, debug, info (the default), warn, error, fatal, silent.`,
  )
  .action(ending(async (flags) => serve(flags, callerOf(flags))));

verb('call <tool> [input...]', 'run one tool: input as one JSON object or as key=value words')
  .option('--workspace <dir>', 'the folder to work in (default: this one)')
  .option('--timeout <duration>', 'such as 250ms, 5s, 2m')
  .option('--json', 'print exactly the result')
  .option('--progress', 'show state and output on stderr while it runs')
  .option('--preview', 'show what it would do')
  .option('--detach', 'print the id of the call and return; it goes on, and its result is kept for an hour')
  .action(ending(async (tool, input, flags) => call(tool, input, flags, callerOf(flags))));

verb('result <callId>', 'what came of a call, detached ones for an hour')
  .option('--wait', 'until it has ended')
  .option('--json', 'print exactly the result')
  .action(ending(async (id, flags) => asOperator(flags, (client) => result(id, flags, client))));

verb('undo <callId>', 'take back what a call did to files')
  .option('--workspace <dir>', 'the folder that the call was made in (default: this one)')
  .option('--force', 'also where files were changed since')
  .option('--json', 'print JSON')
  .action(ending(async (id, flags) => undo(id, flags, callerOf({ ...flags, autostart: false }))));

verb('batch <file>', 'run the calls of a JSON file (`-` for standard input), each as soon as what it needs is there')
  .option('--workspace <dir>', 'the folder to work in (default: this one)')
  .option('--plan', 'show the order and the time it would take, and run nothing')
  .option('--fail-fast', 'begin nothing more once a call fails')
  .option('--concurrency <n>', 'calls under way at once')
  .option('--timeout <duration>', 'of the whole batch')
  .option('--json', 'print exactly the result')
  .action(ending(async (file, flags) => batch(file, flags, callerOf(flags))));

verb('logs <callId>', 'the output of a call, as far as it is kept')
  .option('--follow', 'go on until the call ends')
  .action(ending(async (id, flags) => asOperator(flags, (client) => logs(id, flags, client, process))));

verb('tools [name]', 'list the tools, or tell about one')
  .option('--workspace <dir>', 'the folder to work in (default: this one)')
  .addOption(
    new Option('--format <format>', 'as an API takes them').choices(['ringfence', 'mcp', 'openai', 'anthropic']),
  )
  .addOption(new Option('--tools <which>', 'for an API, which of them').choices(['default', 'all']))
  .option('--json', 'print JSON')
  .action(ending(async (name, flags) => tools(name, flags, callerOf(flags))));

const approvals = program.command('approvals').description('what waits for your answer, and your answers');
verb('list', 'what waits', approvals, { isDefault: true })
  .option('--json', 'print JSON')
  .action(ending(async (flags) => asOperator(flags, (client) => approvalsList(client, flags))));
verb('watch', 'be asked, here, until Ctrl-C', approvals).action(
  ending(async (flags) =>
    asOperator(flags, (client) => {
      const { stdin: input, stdout: output } = process;
      return approvalsWatch(client, { input, output, isTTY: output.isTTY, noColor: env.NO_COLOR !== undefined });
    }),
  ),
);
verb('approve <id>', 'say yes, once', approvals).action(
  ending(async (id, flags) => asOperator(flags, (client) => approvalsApprove(client, id))),
);
verb('deny <id>', 'say no', approvals)
  .option('--feedback <text>', 'why; it reaches the agent')
  .action(ending(async (id, flags) => asOperator(flags, (client) => approvalsDeny(client, id, flags))));

verb('grants', 'answers that stand for further calls', approvals)
  .option('--json', 'print JSON')
  .action(ending(async (flags) => asOperator(flags, (client) => approvalsGrants(client, flags))));
verb('revoke <id>', 'take such an answer back', approvals).action(
  ending(async (id, flags) => asOperator(flags, (client) => approvalsRevoke(client, id))),
);

const providers = program.command('providers').description('external tool servers, and what changed in their tools');
verb('list [name]', 'all of them, or one with its tools', providers)
  .option('--json', 'print JSON')
  .action(
    ending(async (name, flags) =>
      asOperator(flags, async (client) => (await import('./cli/providers.ts')).providersList(client, name, flags)),
    ),
  );
verb(
  'accept <name> [tools...]',
  'take changed or new tools, each as TOOL@CODE; without any, show what waits',
  providers,
).action(
  ending(async (name, tools, flags) =>
    asOperator(flags, async (client) => (await import('./cli/providers.ts')).providersAccept(client, name, tools)),
  ),
);
verb('check', 'whether all are there and nothing waits; exit code 0 or 1', providers).action(
  ending(async (flags) =>
    asOperator(flags, async (client) => (await import('./cli/providers.ts')).providersCheck(client)),
  ),
);

const audit = program.command('audit').description('the record of what was asked and what came of it');
const filtered = (command: Command) =>
  command
    .option('--tool <name>', 'calls of this tool')
    .option('--session <id>', 'of this session')
    .option('--call-id <id>', 'of this call')
    .addOption(
      new Option('--kind <kind>', 'of entries').choices([
        ...['session', 'intent', 'outcome', 'refusal', 'approval', 'policy'],
      ]),
    )
    .option('--since <time>', 'ISO 8601, or an age such as 30d or 12h')
    .option('--until <time>', 'ISO 8601, or an age');
filtered(verb('query', 'the newest entries', audit, { isDefault: true }))
  .addOption(new Option('--success', 'calls that succeeded').conflicts('failed'))
  .option('--failed', 'calls that failed or were refused')
  .option('--limit <n>', 'entries wanted', Number)
  .option('--json', 'print JSON')
  .action(ending(async (flags) => asOperator(flags, (client) => auditQuery(toQuery(flags), client))));
verb('verify', 'whether the record is whole and in order', audit)
  .option('--json', 'print JSON')
  .action(ending(async (flags) => asOperator(flags, (client) => auditVerify(client, flags))));
filtered(verb('export', 'all entries, a line each', audit))
  .addOption(new Option('--format <format>', 'of the lines').choices(['jsonl', 'ocsf']).default('jsonl'))
  .action(ending(async (flags) => asOperator(flags, (client) => auditExport(flags.format, toQuery(flags), client))));

/** Flags as the query takes them: nothing of the connection's. */
function toQuery(flags: AuditQueryFlags & { failed?: boolean }): AuditQueryFlags {
  const { tool, session, callId, kind, since, until, limit, json, success, failed } = flags;
  const all = { tool, session, callId, kind, since, until, limit, json, success: failed ? false : success };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

// Reading policies takes the YAML library and the built-in ones; verbs that don't are quicker without.
const policy = program.command('policy').description('what calls may do: check, explain, test, compare');
policy
  .command('check <file>')
  .description('whether a policy file would be taken, and every reason why not')
  .action(ending(async (file) => (await import('./cli/policy.ts')).policyCheck(file)));
policy
  .command('test <file>')
  .description('how each example of its rules comes out')
  .action(ending(async (file) => (await import('./cli/policy.ts')).policyTest(file)));
policy
  .command('diff <old> <new>')
  .description('what one says and the other does not')
  .action(ending(async (old, fresh) => (await import('./cli/policy.ts')).policyDiff(old, fresh)));
verb('explain <tool> [json]', 'how a call would be decided, and by which rules', policy)
  .option('--workspace <dir>', 'the folder to work in (default: this one)')
  .option('--json', 'print JSON')
  .action(
    ending(async (tool, json, flags) => {
      await using client = await connect(callerOf(flags));
      return await policyExplain({ tool, json }, flags, client);
    }),
  );
verb('reload', 'read the policy anew', policy).action(
  ending(async (flags) => asOperator(flags, (client) => policyReload(client))),
);
verb('backtest <old> <new>', 'recorded calls that the two would decide differently', policy)
  .option('--since <time>', 'ISO 8601, or an age (default: 30d)')
  .option('--json', 'print JSON')
  .action(
    ending(async (old, fresh, flags: BacktestFlags & ConnectFlags) => {
      const { policyBacktest } = await import('./cli/backtest.ts');
      const { home } = findPlaces(flags, env);
      return asOperator(flags, (client) => policyBacktest({ old, new: fresh }, flags, { client, home }));
    }),
  );

const workspace = program
  .command('workspace')
  .description('folders that agents may work in, beside those of the config');
const place = (name: string, description: string) =>
  workspace.command(name).description(description).option('--state <dir>', "the daemon's state directory");
place('add <dir>', 'allow work in it; a running daemon knows at once').action(
  ending(async (dir, flags) => (await import('./cli/workspace.ts')).workspaceAdd(dir, callerOf(flags))),
);
place('remove <dir>', 'open no more sessions there').action(
  ending(async (dir, flags) => (await import('./cli/workspace.ts')).workspaceRemove(dir, callerOf(flags))),
);
place('list', 'those of the config file, and those that were added')
  .option('--json', 'print JSON')
  .action(ending(async (flags) => (await import('./cli/workspace.ts')).workspaceList(flags, callerOf(flags))));

// Needs no daemon, and much that other verbs are quicker without.
const plugin = program
  .command('plugin')
  .description('tools of others: look at a plugin, add it, list them, remove one');
const pluginVerb = (name: string, description: string) =>
  plugin.command(name).description(description).option('--json', 'print JSON');
pluginVerb('check <folder>', 'whether a plugin would be taken, and what it asks for').action(
  ending(async (folder, flags) => (await import('./cli/plugin.ts')).pluginCheck(folder, flags)),
);
pluginVerb('add <folder>', 'copy a plugin as it is now, for all sessions from now on')
  .option('--state <dir>', "the daemon's state directory")
  .option('--sha256 <hash>', 'only if that is what it is')
  .action(
    ending(async (folder, flags) => {
      const { stateDir } = findPlaces(flags, env);
      return (await import('./cli/plugin.ts')).pluginAdd(folder, flags, { stateDir, nowMs: systemPowers().now() });
    }),
  );
pluginVerb('list', 'the plugins that were added; exit code 1 where one is off')
  .option('--state <dir>', "the daemon's state directory")
  .action(
    ending(async (flags) => (await import('./cli/plugin.ts')).pluginList(flags, findPlaces(flags, env).stateDir)),
  );
pluginVerb('remove <name>', 'take a plugin away')
  .option('--state <dir>', "the daemon's state directory")
  .action(
    ending(async (name, flags) =>
      (await import('./cli/plugin.ts')).pluginRemove(name, findPlaces(flags, env).stateDir),
    ),
  );

verb('status', 'what the daemon is doing')
  .option('--json', 'print JSON')
  .action(ending(async (flags) => status(flags, callerOf({ ...flags, autostart: false }))));

// Probing and reading policies takes much that other verbs are quicker without.
program
  .command('doctor')
  .description('whether calls would run on this machine, and what to do where not; exit code 0 or 1')
  .option('--socket <path>', "the daemon's socket")
  .option('--state <dir>', "the daemon's state directory")
  .option('--workspace <dir>', 'a folder that agents would work in (default: this one)', collect)
  .option('--policy <file|name>', 'what calls would be allowed to do')
  .option('--json', 'print JSON')
  .action(async ({ workspace, ...flags }) => {
    const { doctor } = await import('./cli/doctor.ts');
    // A daemon that hangs would keep its connection open, and us with it.
    process.exit(await doctor({ ...flags, workspace }, callerOf({ ...flags, autostart: false })));
  });

program
  .command('install')
  .description('tell a program that speaks MCP of Ringfence, in its own configuration; the change is shown first')
  .addOption(new Option('--client <name>', 'which').choices(Object.keys(MCP_CLIENTS)).makeOptionMandatory())
  .addOption(new Option('--scope <scope>', 'for whom').choices(['user', 'project']).default('user'))
  .option('--print', 'show what would be written, and write nothing')
  .option('--undo', 'take it back')
  .option('--yes', 'do not ask')
  .option('--socket <path>', "the daemon's socket")
  .option('--state <dir>', "the daemon's state directory")
  .action(ending(async (flags) => (await import('./cli/install.ts')).install(flags, callerOf(flags))));

verb('stop', 'end the daemon').action(ending(async (flags) => stop(callerOf(flags))));

// Only for --help: bin/ringfence.js runs src/mcp-bridge.ts itself, which starts faster.
verb('mcp', 'be an MCP server on standard input and output, for clients that start their servers')
  .option('--workspace <dir>', "the folder to work in (default: the client's project)")
  .option('--tools <names>', 'default, all, or names with commas in between, in which * stands for anything')
  .option('--read-only', 'only tools that change nothing')
  .option('--policy <name>', "a built-in policy that narrows the daemon's");

verb('stdio', 'speak the protocol on standard input and output').action(async (flags: ConnectFlags) => {
  const caller = callerOf(flags);
  await (await connect(caller))[Symbol.asyncDispose](); // Starts a daemon when none runs.
  const { socket } = await connectUnix(findPlaces(flags, env).socket);
  await pipeStdio(socket, process.stdin, process.stdout);
});

// Whoever reads has enough (`ringfence audit query | head`), or the pipe of stdio ended, which that verb knows of.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(EXIT.OK);
  if (error.code === 'ERR_STREAM_PREMATURE_CLOSE') return;
  say(`the output could not be written: ${error.message}`);
  process.exit(EXIT.FAILED);
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
  if ([ConfigError, SocketError, PolicyError, StateDirError].some((it) => error instanceof it)) return EXIT.USAGE;
  if (error instanceof RemoteError)
    return error.code === RPC_CODES.FORBIDDEN || error.code === RPC_CODES.UNAUTHENTICATED ? EXIT.DENIED : EXIT.FAILED;
  return EXIT.UNREACHABLE;
}
