/** Verbs for setup: the daemon itself, its folders, the programs that use it. */
import { Option } from 'commander';
import { findUserDirs } from '../../daemon/user-dirs.ts';
import { MCP_CLIENTS } from '../install/mcp-clients.ts';
import { collect, type Verbs } from './verbs.ts';

const STATE = ['--state <dir>', "the daemon's state directory"] as const;

export function addServeVerb(verbs: Verbs): void {
  verbs
    .add('serve', 'run the daemon')
    .option('--listen <[host:]port>', 'also listen for WebSockets on loopback; port 0 picks a free port')
    .option('--listen-http <[host:]port>', 'also serve MCP over HTTP on loopback')
    .option('--workspace <dir>', 'a folder that agents may work in; repeatable', collect)
    .option('--policy <file|name>', 'the policy that decides calls: a file or the name of a built-in policy')
    .option(
      '--fleet <nats://host:port>',
      'link the daemon to its fleet, which `ringfence fleet join` made it a node of',
    )
    .option('--foreground', 'stay in the foreground (the default)')
    .option('--detach', 'run in the background; return when the daemon is ready')
    .addHelpText(
      'after',
      `
The daemon logs to standard error, and in the background to <state>/daemon.log: JSON, or plain lines at a terminal.
Set RINGFENCE_LOG to the level: trace, debug, info (the default), warn, error, fatal or silent.`,
    )
    .action(verbs.here(async () => (await import('../serve.ts')).serveDetached));
}

export function addFolderVerbs(verbs: Verbs): void {
  const workspace = verbs.addGroup(
    'workspace',
    'manage the folders that agents may work in, besides those in config.yaml',
  );
  const load = () => import('../workspace.ts');
  verbs
    .addOffline('list', 'list the folders of config.yaml and those that were added', workspace, { isDefault: true })
    .option(...STATE)
    .action(verbs.anywhere(async () => (await load()).workspaceList));
  verbs
    .addOffline('add <dir>', 'let agents work in a folder; a running daemon follows at once', workspace)
    .option(...STATE)
    .action(verbs.here(async () => (await load()).workspaceAdd));
  verbs
    .addOffline('remove <dir>', 'let agents open no more sessions in a folder', workspace)
    .option(...STATE)
    .action(verbs.anywhere(async () => (await load()).workspaceRemove));
}

/** Loads the code of probes and policies on demand, since it would slow down other verbs. */
export function addMachineVerbs(verbs: Verbs): void {
  verbs
    .addOffline('doctor', 'check that calls can run on this machine, and say what to do if not; exit code 0 or 1')
    .option('--socket <path>', "the daemon's socket")
    .option(...STATE)
    .option('--workspace <dir>', 'a folder that agents would work in (default: this one)', collect)
    .option('--policy <file|name>', 'the policy to check: a file or the name of a built-in policy')
    .action(async ({ workspace, ...flags }) => {
      const { doctor } = await import('../doctor/doctor.ts');
      // A hanging daemon would keep its connection open, and this process alive.
      process.exit(await doctor({ ...flags, workspace }, verbs.callerIn({ ...flags, autostart: false })));
    });
  verbs
    .addOffline('install', 'add Ringfence to the configuration of an MCP client; shows the change first')
    .addOption(new Option('--client <name>', 'the MCP client').choices(Object.keys(MCP_CLIENTS)).makeOptionMandatory())
    .addOption(
      new Option('--scope <scope>', 'whose configuration to change').choices(['user', 'project']).default('user'),
    )
    .option('--exclusive', "also deny the client's own file, shell and web tools (claude, codex, gemini, opencode)")
    .option('--print', 'print the changes without writing them')
    .option('--undo', 'restore what install changed')
    .option('--yes', 'write the changes without asking')
    .option('--socket <path>', "the daemon's socket")
    .option(...STATE)
    .action(verbs.here(async () => (await import('../install/install.ts')).install));
  verbs
    .add('version', 'print the version of this program, and of the daemon if one runs')
    .action(
      verbs.ending(async (flags) =>
        (await import('../monitor/version.ts')).tellVersion(flags, verbs.caller({ ...flags, autostart: false })),
      ),
    );
  verbs.program
    .command('completion <shell>')
    .description('print a script that completes verbs and flags in bash, zsh or fish')
    .addHelpText(
      'after',
      `
bash: source <(ringfence completion bash)          in ~/.bashrc
zsh:  source <(ringfence completion zsh)           in ~/.zshrc, after compinit
fish: ringfence completion fish > ~/.config/fish/completions/ringfence.fish`,
    )
    .action(verbs.ending(async (shell) => (await import('../completion.ts')).completion(shell, verbs.program)));
}

export function addPipeVerbs(verbs: Verbs): void {
  verbs.add('stdio', 'speak the Ringfence protocol on standard input and output').action(async (flags) => {
    const { connect } = await import('../connect.ts');
    await (await connect(verbs.callerIn(flags)))[Symbol.asyncDispose](); // Starts a daemon if none runs.
    const { connectUnix } = await import('../../wire/transport/unix-socket.ts');
    const { socket } = await connectUnix(findUserDirs(flags, verbs.env).socket);
    const { pipeStdio } = await import('../../wire/transport/stdio.ts');
    await pipeStdio(socket, process.stdin, process.stdout);
  });
}
