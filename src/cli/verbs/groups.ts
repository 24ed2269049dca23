/** The verbs by what they are for. `ringfence --help` lists the first of each group, `ringfence help --all` the others, too. */
import type { Command } from 'commander';

/** One line for each verb. */
type Lines = Readonly<Record<string, string>>;

const GROUPS: readonly { readonly heading: string; readonly first: Lines; readonly more: Lines }[] = [
  {
    heading: 'Start:',
    first: {
      init: 'propose a workspace, policy and toolchains for this folder',
      install: 'add Ringfence to an MCP client; shows the change first',
      doctor: 'check that calls can run here, and say what to do if not',
      panel: 'open the web panel: answer, watch and stop calls',
      status: 'show what the daemon is doing, and under which policy',
    },
    more: {
      config: 'find, check and show the configuration',
      version: 'print the versions of this program and of the daemon',
      completion: 'print a script that completes verbs in bash, zsh or fish',
    },
  },
  {
    heading: 'Answer:',
    first: {
      approvals: 'answer calls that wait for approval, manage your answers',
      pause: 'keep calls from beginning; those that run go on',
      resume: 'let calls begin again',
    },
    more: {},
  },
  {
    heading: 'Watch:',
    first: {
      top: 'watch sessions, calls and hosts; q ends it',
      ps: 'list the running calls, and what they left running',
      logs: 'print the output of a call',
      audit: 'read the record: calls, decisions and results',
      cancel: 'cancel a running call, or end what it left running',
      changes: 'decide about what commands left at protected names',
    },
    more: {
      result: 'show the result of a call; kept for an hour',
      tasks: 'list the tasks of sub-agents, show or cancel one',
      costs: 'show what calls have cost, and the limits',
      metrics: 'print the metrics of the daemon for Prometheus',
    },
  },
  {
    heading: 'Take back:',
    first: {
      undo: 'undo the changes that a call made to files',
      checkpoint: 'name points of a folder, and return to them',
    },
    more: {
      commit: 'make the changes of a previewed command',
      discard: 'forget what a previewed command would change',
    },
  },
  {
    heading: 'Rules:',
    first: {
      policy: 'check, explain, test and compare the rules for calls',
      workspace: 'manage the folders that agents may work in',
      secret: 'store, list and remove the keys that services need',
    },
    more: { token: 'replace the tokens with which clients sign in' },
  },
  {
    heading: 'Run:',
    first: {
      call: 'run one tool (`run` gives a task to a sub-agent)',
      batch: 'run the calls of a JSON file, as their dependencies end',
      run: 'give a task to a sub-agent (`call` runs one tool)',
      wrap: 'start an agent whose shells run in the sandbox',
    },
    more: {
      tools: 'list the tools, or describe one (`tool` begins your own)',
      sh: 'be a shell for agents: run -c COMMAND or a script',
      query: 'run one SQL statement on a database connection',
      forward: 'open a port of a background command on 127.0.0.1',
      ci: 'run the command of a CI job beside a daemon of its own',
      mcp: 'serve MCP on standard input and output',
      stdio: 'speak the Ringfence protocol on standard input and output',
    },
  },
  {
    heading: 'Extend:',
    first: {
      plugin: 'check, add, list and remove plugins: more tools',
      connector: 'check, add, list and remove connectors to services',
      database: 'add, check and remove databases that agents may query',
      toolchain: 'install and remove programs that only commands see',
    },
    more: {
      tool: 'begin a tool of your own (`tools` lists those there are)',
      providers: 'list external tool servers, accept changes of their tools',
      protocol: 'test clients of the protocol',
    },
  },
  {
    heading: 'Operate:',
    first: {
      serve: 'run the daemon',
      stop: 'stop the daemon',
      service: 'run the daemon as a service of systemd',
    },
    more: {
      upgrade: 'replace the daemon by the version on disk; no call is lost',
      state: 'inspect the state directory',
      backup: 'write the state directory to a new file',
      restore: 'replace the state directory by a backup',
      gateway: 'run a gateway that places sessions on nodes',
      fleet: 'run many daemons as one fleet',
    },
  },
];

/** Groups the verbs of the program in its help, and adds the verb `help`. Each verb of the table must be there. */
export function groupVerbs(program: Command): void {
  let listsAll = false;
  const listed = GROUPS.flatMap(({ heading, first, more }) =>
    [first, more].flatMap((lines) =>
      Object.entries(lines).map(([name, line]) => {
        const verb = verbOf(program, name).summary(line).helpGroup(heading);
        return { verb, isFirst: lines === first };
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
