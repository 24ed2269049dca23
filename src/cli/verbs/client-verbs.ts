/** Verbs that need nothing of the daemon but its socket, which the package `ringfence-client` has, too; their code is loaded on demand. */
import { type Command, Option } from 'commander';
import type { Terminal } from '../questions/prompt.ts';
import type { Verbs } from './verbs.ts';

/** Flags of verbs that call tools. */
export const WORKSPACE = ['--workspace <dir>', 'the folder to work in (default: this one)'] as const;
export const SESSION = [
  '--session <name>',
  'use the session of this name, which keeps your answers to questions (or set RINGFENCE_SESSION)',
] as const;
export const MODE = [
  '--mode <name>',
  'read, plan, code, or a mode of the config, which narrows tools and policy',
] as const;

export function addClientVerbs(verbs: Verbs): void {
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
    .action(verbs.here(async () => (await import('../call/call.ts')).call));

  // Only for --help: bin/ringfence.js runs src/entries/mcp-bridge.ts itself, which starts faster.
  verbs
    .add('mcp', 'serve MCP on standard input and output, for clients that start their servers')
    .option('--workspace <dir>', "the folder to work in (default: the client's project)")
    .option('--tools <names>', 'default, all, or names separated by commas, in which * matches anything')
    .option('--read-only', 'offer only tools that change nothing')
    .option('--policy <name>', "a built-in policy that narrows the daemon's")
    .option(...MODE);

  verbs
    .add('status', 'show what the daemon is doing and which policy it follows')
    .option('--health', 'also check that each tool could run')
    .option(
      '--short',
      'print one line for a prompt, `● 2? 1▶`: the state, questions that wait, running calls; nothing without a daemon',
    )
    .action(
      verbs.ending(async (flags) =>
        (await import('../status.ts')).status(flags, verbs.caller({ ...flags, autostart: false }), verbs.capabilities),
      ),
    );

  addApprovalVerbs(verbs);
  addPanelVerbs(verbs);
}

/** The terminal of the person who runs a verb. */
export const terminalOf = (verbs: Verbs, { json, notify }: { json?: unknown; notify?: unknown }): Terminal => ({
  input: process.stdin,
  output: process.stdout,
  isTTY: process.stdout.isTTY && process.stdin.isTTY,
  noColor: verbs.env.NO_COLOR !== undefined,
  json: json === true,
  notify: notify === true,
});

function addApprovalVerbs(verbs: Verbs): void {
  const load = () => import('../approvals.ts');
  const approvals = verbs.addGroup('approvals', 'answer calls that wait for approval, and manage your answers');
  verbs
    .add('answer', 'answer the calls that wait, one after the other; through a pipe they are listed', approvals, {
      isDefault: true,
    })
    .action(verbs.operating(async (client, flags) => (await load()).approvalsAnswer(client, terminalOf(verbs, flags))));
  verbs
    .add('list', 'list the calls that wait for an answer', approvals)
    .action(verbs.operating(async (client, flags) => (await load()).approvalsList(client, flags)));
  verbs
    .add('watch', 'answer questions in this terminal until Ctrl-C; with --json, print them as events', approvals)
    .option('--notify', 'also show each question as a notice of the desktop')
    .action(verbs.operating(async (client, flags) => (await load()).approvalsWatch(client, terminalOf(verbs, flags))));
  verbs
    .add('approve <id>', 'allow a waiting call, once', approvals)
    .addOption(
      new Option(
        '--remember <what>',
        'also allow the same later: exactly this call or the tool, for the session; a host for the session or the project',
      ).choices(['exact', 'tool', 'session', 'project']),
    )
    .option('--always', 'remember the answer for all sessions')
    .action(verbs.operating(async (client, id, flags) => (await load()).approvalsApprove(client, id, flags)));
  verbs
    .add('deny <id>', 'deny a waiting call', approvals)
    .option('--feedback <text>', 'the reason; the agent gets to read it')
    .addOption(
      new Option('--remember <what>', 'refuse the domain of a host for the rest of the session').choices(['session']),
    )
    .action(verbs.operating(async (client, id, flags) => (await load()).approvalsDeny(client, id, flags)));
  verbs
    .add('grants', 'list the answers that also hold for later calls', approvals)
    .action(verbs.operating(async (client, flags) => (await load()).approvalsGrants(client, flags)));
  verbs
    .add('revoke [id]', 'revoke one of these answers, or all of them', approvals)
    .option('--all', 'revoke every remembered answer')
    .action(verbs.operating(async (client, id, flags) => (await load()).approvalsRevoke(client, id, flags)));
  addUntrustedVerb(verbs, approvals);
}

function addUntrustedVerb(verbs: Verbs, approvals: Command): void {
  verbs
    .add('untrusted [folder]', 'list who has read what strangers wrote, for rules with session.sawUntrusted', approvals)
    .option('--clear', 'let them count as not having read it: all, or those of the folder')
    .action(
      verbs.operating(async (client, folder, flags) =>
        (await import('../monitor/untrusted.ts')).untrusted(client, folder, flags),
      ),
    );
}

function addPanelVerbs(verbs: Verbs): void {
  const panel = verbs.addGroup('panel', 'open the web panel, where you answer, watch and stop calls');
  const load = () => import('../monitor/panel.ts');
  verbs
    .add('open', 'open the panel in your browser, and print its address, which works once', panel, { isDefault: true })
    .option('--print', 'only print the address')
    .option('--port <number>', 'the port on this machine to serve it at, if it is not served yet')
    .option('--host <address>', '127.0.0.1: the address by number, for ssh and browsers without *.localhost')
    .action(verbs.operating(async (client, flags) => (await load()).panelOpen(flags, client, verbs.env)));
  verbs
    .add('sessions', 'list the pages that are signed in', panel)
    .action(verbs.operating(async (client, flags) => (await load()).panelSessions(flags, client)));
  verbs
    .add('revoke <id>', 'sign a page out', panel)
    .action(verbs.operating(async (client, id, flags) => (await load()).panelRevoke(id, flags, client)));
}
