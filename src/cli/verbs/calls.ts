/** Verbs that make calls and inspect them; their code is loaded on demand. */
import { Option } from 'commander';
import type { ConnectFlags } from '../connect.ts';
import { AGENT_NAMES } from '../install/agents.ts';
import { MODE, SESSION, WORKSPACE } from './client-verbs.ts';
import type { VerbFlags, Verbs } from './verbs.ts';

const ID = 'The beginning or end of an id is enough. `ringfence ps` and `ringfence audit` list the ids.';

function addShellVerbs(verbs: Verbs): void {
  verbs
    .add('sh [words...]', 'be a shell for agents: run -c COMMAND, a script or standard input as terminal_execute')
    .option(...WORKSPACE)
    .option(...SESSION)
    .option(...MODE)
    .helpOption('--help', 'display help for command')
    .addHelpText(
      'after',
      `
Takes the options of bash, -c and -lc among them, and exits as bash would: 126 where the policy or a person refused the
command, 127 for a program that is not installed.`,
    )
    .action(
      verbs.ending(async (words, flags) => (await import('../shell/shell.ts')).shell(words, verbs.callerIn(flags))),
    );
  verbs
    .add('wrap <words...>', 'start an agent whose shells (bash, sh, zsh, dash on PATH, and $SHELL) are `ringfence sh`')
    .option(...WORKSPACE)
    .option(...MODE)
    .addOption(
      new Option(
        '--client <name>',
        "also deny this agent's own file, shell and web tools, and give it those of Ringfence (default: by the program's name)",
      ).choices([...AGENT_NAMES, 'none']),
    )
    .option('--trust', "let the agent call Ringfence's tools without asking you by itself; the policy decides")
    .option('--print', 'print what would be started, and what can still go past; start nothing')
    .passThroughOptions()
    .action(verbs.here(async () => (await import('../shell/wrap.ts')).wrap));
}

export function addCallVerbs(verbs: Verbs): void {
  verbs
    .add('commit <previewId> [path...]', 'make the changes of a previewed command: all, or those of the paths')
    .option(...WORKSPACE)
    .option('--force', 'make them even if files were changed since the preview')
    .action(verbs.here(async () => (await import('../call/commit.ts')).commit));

  verbs
    .add('discard <previewId>', 'forget what a previewed command would change')
    .option(...WORKSPACE)
    .action(verbs.here(async () => (await import('../call/commit.ts')).discard));

  verbs
    .add(
      'batch <file>',
      'run the calls of a JSON file (`-` for standard input), each as soon as the calls it depends on have ended',
    )
    .option(...WORKSPACE)
    .option(...SESSION)
    .option(...MODE)
    .option('--plan', 'show the order of the calls and the time they would take, without running them')
    .option('--fail-fast', 'start no further call after one fails')
    .option('--concurrency <n>', 'how many calls may run at once')
    .option('--timeout <duration>', 'end the whole batch after this time, such as 30s')
    .action(verbs.here(async () => (await import('../batch.ts')).batch));

  addShellVerbs(verbs);

  addToolsVerb(verbs);
}

function addToolsVerb(verbs: Verbs): void {
  verbs
    .add('tools [name]', 'list the tools, or describe one')
    .option(...WORKSPACE)
    .option(...MODE)
    .addOption(
      new Option('--format <format>', 'print the definitions in the format of this API').choices([
        'ringfence',
        'mcp',
        'openai',
        'openai-chat',
        'anthropic',
      ]),
    )
    .option('--search <words>', 'find tools by words; exit code 1 if none matches')
    .addOption(new Option('--tools <which>', 'which tools to print for an API').choices(['default', 'all']))
    .option('--stats', 'show how the tools were used: calls, failures, times and costs; for operators')
    .option('--hours <number>', 'how far back --stats counts (default: 24)')
    .action(
      verbs.ending(async (name, flags) =>
        flags.stats
          ? verbs.asOperator(flags, async (client) =>
              (await import('../monitor/tool-stats.ts')).toolStats(name, flags, client),
            )
          : (await import('../tools.ts')).tools(name, flags, verbs.callerIn(flags)),
      ),
    );
}

export function addLookVerbs(verbs: Verbs): void {
  verbs
    .add('ps', 'list the running calls of all sessions, and what they left running in the background')
    .action(verbs.operating(async (client, flags) => (await import('../ps.ts')).ps(flags, client)));

  verbs
    .add('cancel <callId>', 'cancel a running call of any session, or end what it left running in the background')
    .option('--session <id>', 'the session of the call, if several sessions have a call with this id')
    .addHelpText('after', `\n${ID}`)
    .action(verbs.operating(async (client, id, flags) => (await import('../ps.ts')).cancel(id, flags, client)));

  verbs
    .add('forward <callId> <port>', 'open a port of a command in the background on 127.0.0.1, until Ctrl-C')
    .option('--port <n>', 'the port on 127.0.0.1 (default: any that is free)')
    .addHelpText('after', `\n${ID}`)
    .action(
      verbs.operating(async (client, id, port, flags) =>
        (await import('../call/forward.ts')).forward(id, port, flags, client),
      ),
    );

  verbs
    .add('result <callId>', 'show the result of a call; results are kept for an hour')
    .option('--wait', 'wait until the call ends')
    .addHelpText('after', `\n${ID}`)
    .action(verbs.operating(async (client, id, flags) => (await import('../result.ts')).result(id, flags, client)));

  verbs
    .add('logs <callId>', 'print the output of a call, as much of it as is kept')
    .option('--follow', 'keep printing until the call ends')
    .addHelpText('after', `\n${ID}`)
    .action(
      verbs.operating(async (client, id, flags) => (await import('../logs.ts')).logs(id, flags, client, process)),
    );

  verbs
    .add('undo [callId]', 'undo the changes that a call made to files')
    .option('--last', 'undo the last call of the folder that is not undone yet; repeat to undo the one before it')
    .option('--workspace <dir>', 'the folder in which the call was made (default: this one)')
    .option('--force', 'undo even if the files were changed since the call')
    .addHelpText('after', `\n${ID}`)
    .action(
      verbs.ending(async (id, flags) =>
        (await import('../call/undo.ts')).undo(id, flags, verbs.callerIn({ ...flags, autostart: false })),
      ),
    );

  addChangesVerbs(verbs);
  addCheckpointVerbs(verbs);
}

function addChangesVerbs(verbs: Verbs): void {
  const group = verbs.addGroup('changes', 'decide about what commands left at names that your programs run');
  const add = (name: string, description: string, options = {}) =>
    verbs.add(name, description, group, options).option('--workspace <dir>', 'the folder (default: this one)');
  const changes = async (asked: { keep?: string[]; drop?: string[] }, flags: VerbFlags) =>
    (await import('../call/changes.ts')).changes(asked, flags, verbs.callerIn({ ...flags, autostart: false }));
  add('list', 'list what was moved out of the folder, and changed files that your tools run or agents obey', {
    isDefault: true,
  }).action(verbs.ending((flags) => changes({}, flags)));
  add('keep <path...>', 'put paths back where commands made them').action(
    verbs.ending((keep, flags) => changes({ keep }, flags)),
  );
  add('drop <path...>', 'remove paths for good').action(verbs.ending((drop, flags) => changes({ drop }, flags)));
}

function addCheckpointVerbs(verbs: Verbs): void {
  const group = verbs.addGroup('checkpoint', 'name points of a folder, and return to them by undoing all calls since');
  const add = (name: string, description: string) =>
    verbs.add(name, description, group).option('--workspace <dir>', 'the folder (default: this one)');
  const one = ['--session <id>', 'only the calls of this session'] as const;
  const load = () => import('../call/checkpoint.ts');
  const caller = (flags: ConnectFlags) => verbs.callerIn({ ...flags, autostart: false });
  add('list', 'list the checkpoints of the folder, and how many calls changed it since').action(
    verbs.ending(async (flags) => (await load()).checkpointList(flags, caller(flags))),
  );
  add('name <name>', 'name the present point').action(
    verbs.ending(async (name, flags) => (await load()).checkpointName(name, flags, caller(flags))),
  );
  add('diff <name>', 'show which calls and files changed since a checkpoint')
    .option(...one)
    .action(
      verbs.ending(async (name, { session, ...flags }) =>
        (await load()).checkpointDiff(name, { ...flags, session }, caller(flags)),
      ),
    );
  add('return <name>', 'undo all calls since a checkpoint; with a conflict nothing changes')
    .option(...one)
    .option('--force', 'return even if files were changed since by others')
    .action(
      verbs.ending(async (name, { session, ...flags }) =>
        (await load()).checkpointReturn(name, { ...flags, session }, caller(flags)),
      ),
    );
}
