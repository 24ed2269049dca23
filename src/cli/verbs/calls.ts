/** Verbs that make calls and inspect them. */
import { Option } from 'commander';
import { batch } from '../batch.ts';
import { call } from '../call/call.ts';
import { checkpointDiff, checkpointList, checkpointName, checkpointReturn } from '../call/checkpoint.ts';
import { commit, discard } from '../call/commit.ts';
import { forward } from '../call/forward.ts';
import { undo } from '../call/undo.ts';
import { callIdOf } from '../ids.ts';
import { AGENT_NAMES } from '../install/agents.ts';
import { logs } from '../logs.ts';
import { cancel, ps } from '../ps.ts';
import { result } from '../result.ts';
import { tools } from '../tools.ts';
import type { Verbs } from './verbs.ts';

const WORKSPACE = ['--workspace <dir>', 'the folder to work in (default: this one)'] as const;
const SESSION = [
  '--session <name>',
  'use the session of this name, which keeps your answers to questions (or set RINGFENCE_SESSION)',
] as const;
const MODE = ['--mode <name>', 'read, plan, code, or a mode of the config, which narrows tools and policy'] as const;
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
    .action(
      verbs.ending(async (words, flags) =>
        (await import('../shell/wrap.ts')).wrap(words, flags, verbs.callerIn(flags)),
      ),
    );
}

export function addCallVerbs(verbs: Verbs): void {
  verbs
    .add('call <tool> [input...]', 'run one tool; write its input as one JSON object or as key=value words')
    .option(...WORKSPACE)
    .option(...SESSION)
    .option(...MODE)
    .option('--timeout <duration>', 'end the call after this time, such as 250ms, 5s or 2m')
    .option('--progress', 'print the progress of the call on stderr; with --json also its output')
    .option(
      '--preview',
      'show what the call would do, without doing it; a command runs over an overlay of the workspace',
    )
    .option('--detach', 'print the id of the call and return; the call goes on, and its result is kept for an hour')
    .addHelpText(
      'after',
      `
To read a value from a file, write content=@notes.txt; from standard input, content=@-. Write @@ for a plain @.
To read the whole input as JSON, write @input.json, or - for standard input.
If the tool ran a command to its end, ringfence exits with the exit code of that command.`,
    )
    .action(verbs.ending((tool, input, flags) => call(tool, input, flags, verbs.callerIn(flags))));

  verbs
    .add('commit <previewId> [path...]', 'make the changes of a previewed command: all, or those of the paths')
    .option(...WORKSPACE)
    .option('--force', 'make them even if files were changed since the preview')
    .action(verbs.ending((id, paths, flags) => commit(id, paths, flags, verbs.callerIn(flags))));

  verbs
    .add('discard <previewId>', 'forget what a previewed command would change')
    .option(...WORKSPACE)
    .action(verbs.ending((id, flags) => discard(id, flags, verbs.callerIn(flags))));

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
    .action(verbs.ending((file, flags) => batch(file, flags, verbs.callerIn(flags))));

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
      verbs.ending((name, flags) =>
        flags.stats
          ? verbs.asOperator(flags, async (client) =>
              (await import('../monitor/tool-stats.ts')).toolStats(name, flags, client),
            )
          : tools(name, flags, verbs.callerIn(flags)),
      ),
    );
}

export function addLookVerbs(verbs: Verbs): void {
  verbs
    .add('ps', 'list the running calls of all sessions, and what they left running in the background')
    .action(verbs.ending((flags) => verbs.asOperator(flags, (client) => ps(flags, client))));

  verbs
    .add('cancel <callId>', 'cancel a running call of any session, or end what it left running in the background')
    .option('--session <id>', 'the session of the call, if several sessions have a call with this id')
    .addHelpText('after', `\n${ID}`)
    .action(verbs.ending((id, flags) => verbs.asOperator(flags, (client) => cancel(id, flags, client))));

  verbs
    .add('forward <callId> <port>', 'open a port of a command in the background on 127.0.0.1, until Ctrl-C')
    .option('--port <n>', 'the port on 127.0.0.1 (default: any that is free)')
    .addHelpText('after', `\n${ID}`)
    .action(verbs.ending((id, port, flags) => verbs.asOperator(flags, (client) => forward(id, port, flags, client))));

  verbs
    .add('result <callId>', 'show the result of a call; results are kept for an hour')
    .option('--wait', 'wait until the call ends')
    .addHelpText('after', `\n${ID}`)
    .action(
      verbs.ending((id, flags) =>
        verbs.asOperator(flags, async (client) => result(await callIdOf(id, client), flags, client)),
      ),
    );

  verbs
    .add('logs <callId>', 'print the output of a call, as much of it as is kept')
    .option('--follow', 'keep printing until the call ends')
    .addHelpText('after', `\n${ID}`)
    .action(
      verbs.ending((id, flags) =>
        verbs.asOperator(flags, async (client) => logs(await callIdOf(id, client), flags, client, process)),
      ),
    );

  verbs
    .add('undo [callId]', 'undo the changes that a call made to files')
    .option('--last', 'undo the last call of the folder that is not undone yet; repeat to undo the one before it')
    .option('--workspace <dir>', 'the folder in which the call was made (default: this one)')
    .option('--force', 'undo even if the files were changed since the call')
    .addHelpText('after', `\n${ID}`)
    .action(verbs.ending((id, flags) => undo(id, flags, verbs.callerIn({ ...flags, autostart: false }))));

  addCheckpointVerbs(verbs);
}

function addCheckpointVerbs(verbs: Verbs): void {
  const group = verbs.addGroup('checkpoint', 'name points of a folder, and return to them by undoing all calls since');
  const add = (name: string, description: string) =>
    verbs.add(name, description, group).option('--workspace <dir>', 'the folder (default: this one)');
  const one = ['--session <id>', 'only the calls of this session'] as const;
  const caller = (flags: Parameters<Verbs['callerIn']>[0]) => verbs.callerIn({ ...flags, autostart: false });
  add('list', 'list the checkpoints of the folder, and how many calls changed it since').action(
    verbs.ending((flags) => checkpointList(flags, caller(flags))),
  );
  add('name <name>', 'name the present point').action(
    verbs.ending((name, flags) => checkpointName(name, flags, caller(flags))),
  );
  add('diff <name>', 'show which calls and files changed since a checkpoint')
    .option(...one)
    .action(verbs.ending((name, { session, ...flags }) => checkpointDiff(name, { ...flags, session }, caller(flags))));
  add('return <name>', 'undo all calls since a checkpoint; with a conflict nothing changes')
    .option(...one)
    .option('--force', 'return even if files were changed since by others')
    .action(
      verbs.ending((name, { session, ...flags }) => checkpointReturn(name, { ...flags, session }, caller(flags))),
    );
}
