/** Verbs that make calls and inspect them. */
import { Option } from 'commander';
import { batch } from '../batch.ts';
import { call } from '../call/call.ts';
import { callIdOf } from '../ids.ts';
import { logs } from '../logs.ts';
import { cancel, ps } from '../ps.ts';
import { result } from '../result.ts';
import { tools } from '../tools.ts';
import { undo } from '../undo.ts';
import type { Verbs } from './verbs.ts';

const WORKSPACE = ['--workspace <dir>', 'the folder to work in (default: this one)'] as const;
const SESSION = [
  '--session <name>',
  'share what you said for the session with command lines of this name (RINGFENCE_SESSION)',
] as const;
const ID = 'Ids may be shortened to their beginning or end, as `ringfence ps` and `ringfence audit` print them.';

export function addCallVerbs(verbs: Verbs): void {
  verbs
    .add('call <tool> [input...]', 'run one tool: input as one JSON object or as key=value words')
    .option(...WORKSPACE)
    .option(...SESSION)
    .option('--timeout <duration>', 'such as 250ms, 5s, 2m')
    .option('--progress', 'show its state on stderr, and with --json its output too')
    .option('--preview', 'show what it would do')
    .option('--detach', 'print the id of the call and return; it goes on, and its result is kept for an hour')
    .addHelpText(
      'after',
      `
A value may be taken from a file or from standard input: content=@notes.txt, content=@-; @@ is a plain @.
So may the whole input, as JSON: @input.json, or - for standard input.
The exit code of a command that ran to its end is its own.`,
    )
    .action(verbs.ending((tool, input, flags) => call(tool, input, flags, verbs.callerIn(flags))));

  verbs
    .add(
      'batch <file>',
      'run the calls of a JSON file (`-` for standard input), each as soon as what it needs is there',
    )
    .option(...WORKSPACE)
    .option(...SESSION)
    .option('--plan', 'show the order and the time it would take, and run nothing')
    .option('--fail-fast', 'begin nothing more once a call fails')
    .option('--concurrency <n>', 'calls under way at once')
    .option('--timeout <duration>', 'of the whole batch')
    .action(verbs.ending((file, flags) => batch(file, flags, verbs.callerIn(flags))));

  verbs
    .add('tools [name]', 'list the tools, or tell about one')
    .option(...WORKSPACE)
    .addOption(
      new Option('--format <format>', 'as an API takes them').choices([
        'ringfence',
        'mcp',
        'openai',
        'openai-chat',
        'anthropic',
      ]),
    )
    .addOption(new Option('--tools <which>', 'for an API, which of them').choices(['default', 'all']))
    .action(verbs.ending((name, flags) => tools(name, flags, verbs.callerIn(flags))));
}

export function addLookVerbs(verbs: Verbs): void {
  verbs
    .add('ps', 'the calls under way, of all sessions')
    .action(verbs.ending((flags) => verbs.asOperator(flags, (client) => ps(flags, client))));

  verbs
    .add('cancel <callId>', 'end a call, whoever made it')
    .option('--session <id>', 'of this session, where several have a call of that id')
    .addHelpText('after', `\n${ID}`)
    .action(verbs.ending((id, flags) => verbs.asOperator(flags, (client) => cancel(id, flags, client))));

  verbs
    .add('result <callId>', 'what came of a call, for an hour')
    .option('--wait', 'until it has ended')
    .addHelpText('after', `\n${ID}`)
    .action(
      verbs.ending((id, flags) =>
        verbs.asOperator(flags, async (client) => result(await callIdOf(id, client), flags, client)),
      ),
    );

  verbs
    .add('logs <callId>', 'the output of a call, as far as it is kept')
    .option('--follow', 'go on until the call ends')
    .addHelpText('after', `\n${ID}`)
    .action(
      verbs.ending((id, flags) =>
        verbs.asOperator(flags, async (client) => logs(await callIdOf(id, client), flags, client, process)),
      ),
    );

  verbs
    .add('undo [callId]', 'take back what a call did to files')
    .option('--last', 'the last one in the folder that is not taken back yet; again for the one before it')
    .option('--workspace <dir>', 'the folder that the call was made in (default: this one)')
    .option('--force', 'also where files were changed since')
    .addHelpText('after', `\n${ID}`)
    .action(verbs.ending((id, flags) => undo(id, flags, verbs.callerIn({ ...flags, autostart: false }))));
}
