/** Verbs for setup: the daemon itself, its folders, plugins, the programs that use it. */
import { Option } from 'commander';
import { findUserDirs } from '../../daemon/user-dirs.ts';
import { systemPowers } from '../../powers.ts';
import { pipeStdio } from '../../transport/stdio.ts';
import { connectUnix } from '../../transport/unix-socket.ts';
import { connect } from '../connect.ts';
import { MCP_CLIENTS } from '../install/mcp-clients.ts';
import { serve } from '../serve.ts';
import { tellVersion } from '../version.ts';
import { collect, type Verbs } from './verbs.ts';

const STATE = ['--state <dir>', "the daemon's state directory"] as const;

export function addServeVerb(verbs: Verbs): void {
  verbs
    .add('serve', 'run the daemon')
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
    .action(verbs.ending((flags) => serve(flags, verbs.callerIn(flags))));
}

export function addFolderVerbs(verbs: Verbs): void {
  const workspace = verbs.addGroup('workspace', 'folders that agents may work in, beside those of the config');
  const load = () => import('../workspace.ts');
  verbs
    .addOffline('list', 'those of the config file, and those that were added', workspace, { isDefault: true })
    .option(...STATE)
    .action(verbs.ending(async (flags) => (await load()).workspaceList(flags, verbs.caller(flags))));
  verbs
    .addOffline('add <dir>', 'allow work in it; a running daemon knows at once', workspace)
    .option(...STATE)
    .action(verbs.ending(async (dir, flags) => (await load()).workspaceAdd(dir, flags, verbs.callerIn(flags))));
  verbs
    .addOffline('remove <dir>', 'open no more sessions there', workspace)
    .option(...STATE)
    .action(verbs.ending(async (dir, flags) => (await load()).workspaceRemove(dir, flags, verbs.caller(flags))));
}

export function addPluginVerbs(verbs: Verbs): void {
  const plugin = verbs.addGroup('plugin', 'tools of others: look at a plugin, add it, list them, remove one');
  const load = () => import('../plugin.ts');
  const stateOf = (flags: { state?: string }) => findUserDirs(flags, verbs.env).stateDir;
  verbs
    .addOffline('list', 'the plugins that were added; exit code 1 where one is off', plugin, { isDefault: true })
    .option(...STATE)
    .action(verbs.ending(async (flags) => (await load()).pluginList(flags, stateOf(flags))));
  verbs
    .addOffline('check <folder>', 'whether a plugin would be taken, and what it asks for', plugin)
    .action(verbs.ending(async (folder, flags) => (await load()).pluginCheck(folder, flags)));
  verbs
    .addOffline('add <folder>', 'copy a plugin as it is now, for all sessions from now on', plugin)
    .option(...STATE)
    .option('--sha256 <hash>', 'only if that is what it is')
    .action(
      verbs.ending(async (folder, flags) =>
        (await load()).pluginAdd(folder, flags, { stateDir: stateOf(flags), nowMs: systemPowers().now() }),
      ),
    );
  verbs
    .addOffline('remove <name>', 'take a plugin away', plugin)
    .option(...STATE)
    .action(verbs.ending(async (name, flags) => (await load()).pluginRemove(name, flags, stateOf(flags))));
}

/** Loads the code of probes and policies on demand, since it would slow down other verbs. */
export function addMachineVerbs(verbs: Verbs): void {
  verbs
    .addOffline('doctor', 'whether calls would run on this machine, and what to do where not; exit code 0 or 1')
    .option('--socket <path>', "the daemon's socket")
    .option(...STATE)
    .option('--workspace <dir>', 'a folder that agents would work in (default: this one)', collect)
    .option('--policy <file|name>', 'what calls would be allowed to do')
    .action(async ({ workspace, ...flags }) => {
      const { doctor } = await import('../doctor/doctor.ts');
      // A hanging daemon would keep its connection open, and this process alive.
      process.exit(await doctor({ ...flags, workspace }, verbs.callerIn({ ...flags, autostart: false })));
    });
  verbs
    .addOffline(
      'install',
      'tell a program that speaks MCP of Ringfence, in its own configuration; the change is shown first',
    )
    .addOption(new Option('--client <name>', 'which').choices(Object.keys(MCP_CLIENTS)).makeOptionMandatory())
    .addOption(new Option('--scope <scope>', 'for whom').choices(['user', 'project']).default('user'))
    .option('--print', 'show what would be written, and write nothing')
    .option('--undo', 'take it back')
    .option('--yes', 'do not ask')
    .option('--socket <path>', "the daemon's socket")
    .option(...STATE)
    .action(
      verbs.ending(async (flags) => (await import('../install/install.ts')).install(flags, verbs.callerIn(flags))),
    );
  verbs
    .add('version', 'of this program, and of the daemon where one runs')
    .action(verbs.ending((flags) => tellVersion(flags, verbs.caller({ ...flags, autostart: false }))));
  verbs.program
    .command('completion <shell>')
    .description('a script that completes verbs and flags, for bash, zsh or fish')
    .addHelpText(
      'after',
      `
bash: source <(ringfence completion bash)          in ~/.bashrc
zsh:  source <(ringfence completion zsh)           in ~/.zshrc, behind compinit
fish: ringfence completion fish > ~/.config/fish/completions/ringfence.fish`,
    )
    .action(verbs.ending(async (shell) => (await import('../completion.ts')).completion(shell, verbs.program)));
}

export function addPipeVerbs(verbs: Verbs): void {
  // Only for --help: bin/ringfence.js runs src/mcp-bridge.ts itself, which starts faster.
  verbs
    .add('mcp', 'be an MCP server on standard input and output, for clients that start their servers')
    .option('--workspace <dir>', "the folder to work in (default: the client's project)")
    .option('--tools <names>', 'default, all, or names with commas in between, in which * stands for anything')
    .option('--read-only', 'only tools that change nothing')
    .option('--policy <name>', "a built-in policy that narrows the daemon's");

  verbs.add('stdio', 'speak the protocol on standard input and output').action(async (flags) => {
    await (await connect(verbs.callerIn(flags)))[Symbol.asyncDispose](); // Starts a daemon if none runs.
    const { socket } = await connectUnix(findUserDirs(flags, verbs.env).socket);
    await pipeStdio(socket, process.stdin, process.stdout);
  });
}
