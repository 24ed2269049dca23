/** The verbs by what they are for. `ringfence --help` lists the first of each group, `ringfence help --all` the others, too. */
import type { Command } from 'commander';

/** The verbs of a first look, and the others. */
const GROUPS: readonly { readonly heading: string; readonly first: string; readonly more: string }[] = [
  { heading: 'Start:', first: 'init install doctor panel status', more: 'config version completion' },
  { heading: 'Answer:', first: 'approvals pause resume', more: '' },
  { heading: 'Watch:', first: 'top ps logs audit cancel changes', more: 'result tasks costs metrics' },
  { heading: 'Take back:', first: 'undo checkpoint', more: 'commit discard' },
  { heading: 'Rules:', first: 'policy workspace secret', more: 'token' },
  { heading: 'Run:', first: 'call batch run wrap', more: 'tools sh query forward ci mcp stdio' },
  { heading: 'Extend:', first: 'plugin connector database toolchain', more: 'tool providers' },
  { heading: 'Operate:', first: 'serve stop service', more: 'vm upgrade state backup restore gateway fleet' },
];

/** Shorter descriptions for verbs whose own would need more than a line, and for pairs that sound alike; capabilities bring theirs. */
const LINES: Readonly<Record<string, string>> = {
  init: 'propose a workspace, policy and toolchains for this folder',
  install: 'add Ringfence to an MCP client; shows the change first',
  doctor: 'check that calls can run here, and say what to do if not',
  version: 'print the versions of this program and of the daemon',
  completion: 'print a script that completes verbs in bash, zsh or fish',
  pause: 'keep calls from beginning; those that run go on',
  ps: 'list the running calls, and what they left running',
  cancel: 'cancel a running call, or end what it left running',
  costs: 'show what calls have cost, and the limits',
  checkpoint: 'name points of a folder, and return to them',
  commit: 'make the changes of a previewed command',
  workspace: 'manage the folders that agents may work in',
  secret: 'store, list and remove the keys that services need',
  token: 'replace the tokens with which clients sign in',
  call: 'run one tool (`run` gives a task to a sub-agent)',
  batch: 'run the calls of a JSON file, as their dependencies end',
  wrap: 'start an agent whose shells run in the sandbox',
  tools: 'list the tools, or describe one (`tool` begins your own)',
  sh: 'be a shell for agents: run -c COMMAND or a script',
  forward: 'open a port of a background command on 127.0.0.1',
  ci: 'run the command of a CI job beside a daemon of its own',
  mcp: 'serve MCP on standard input and output',
  tool: 'begin a tool of your own (`tools` lists those there are)',
  service: 'run the daemon as a service of systemd',
  upgrade: 'replace the daemon by the version on disk; no call is lost',
  backup: 'write the state directory to a new file',
  restore: 'replace the state directory by a backup',
  gateway: 'run a gateway that places sessions on nodes',
  fleet: 'run many daemons as one fleet',
};

/** Groups the verbs of the program in its help, and adds the verb `help`. Verbs of capabilities that are not there are left out. */
export function groupVerbs(program: Command): void {
  let listsAll = false;
  const listed = GROUPS.flatMap(({ heading, first, more }) =>
    [first, more].flatMap((names) =>
      names.split(' ').flatMap((name) => {
        const verb = program.commands.find((it) => it.name() === name)?.helpGroup(heading);
        return verb
          ? { verb: verb.summary(LINES[name] ?? (verb.summary() || verb.description())), isFirst: names === first }
          : [];
      }),
    ),
  );
  // Help lists groups in the order of the verbs.
  const order = listed.map(({ verb }) => verb);
  (program.commands as Command[]).sort((a, b) => order.indexOf(a) - order.indexOf(b));
  program.configureHelp({
    visibleCommands: () => listed.filter(({ isFirst }) => isFirst || listsAll).map(({ verb }) => verb),
    subcommandTerm: (verb) => verb.name(),
  });
  program
    .helpCommand(false)
    .command('help')
    .description('list the verbs, or show the flags of one')
    .argument('[verb...]', 'the verb')
    .option('--all', 'list all verbs, those for rarer needs included')
    .action((words: string[], { all = false }: { all?: boolean }) => {
      listsAll = all;
      words.reduce(verbOf, program).help();
    });
}

function verbOf(parent: Command, name: string): Command {
  const found = parent.commands.find((it) => it.name() === name);
  return found ?? parent.error(`error: unknown command '${name}'`);
}
