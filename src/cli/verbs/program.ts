/** The program `ringfence` with all its verbs. */
import { Command } from 'commander';
import { version } from '../../base/runtime.ts';
import type { Environment } from '../../daemon/user-dirs.ts';
import { addAuditVerbs } from './audit.ts';
import { addServiceVerbs } from './background.ts';
import { addCallVerbs, addLookVerbs } from './calls.ts';
import { capabilities } from './capabilities.ts';
import { addFleetVerbs } from './fleet.ts';
import { groupVerbs } from './groups.ts';
import { addApprovalVerbs, addCiVerb, addDaemonVerbs, addPanelVerbs, addPolicyVerbs } from './operator.ts';
import { addSettingsVerbs } from './settings.ts';
import { addFolderVerbs, addMachineVerbs, addPipeVerbs, addServeVerb } from './setup.ts';
import { addToolVerb } from './skeletons.ts';
import { Verbs } from './verbs.ts';

const EXAMPLES = `
\`ringfence help --all\` lists all verbs, \`ringfence VERB --help\` the flags of one.

Examples:
  ringfence call file_list                        list this folder (starts a daemon if none runs)
  ringfence call file_read path=README.md maxLines=5
  ringfence serve --detach --policy ~/.config/ringfence/policy.yaml
  ringfence call terminal_execute command='ls -la' --json

Exit codes: 0 success, 1 the call failed, 2 usage, 3 no daemon, 4 denied, 5 timed out or limited, 130 interrupted.
If a command ran to its end, ringfence exits with its exit code, or 128 + n if signal n ended it.`;

/** Makes the program; `env` is the environment of the process. It throws CommanderError where it would end the process. */
export function createProgram(env: Environment): Verbs {
  const program = new Command('ringfence')
    .description("Runs AI agents' tool calls in processes that the kernel confines.")
    .version(version)
    .exitOverride()
    .enablePositionalOptions()
    .showHelpAfterError('(run `ringfence --help` for usage)')
    .addHelpText('after', EXAMPLES);
  const verbs = new Verbs(program, env);
  for (const add of [
    ...[addServeVerb, addCallVerbs, addLookVerbs, addApprovalVerbs, addAuditVerbs, addPolicyVerbs],
    ...[
      addFolderVerbs,
      addToolVerb,
      addSettingsVerbs,
      addDaemonVerbs,
      addPanelVerbs,
      addServiceVerbs,
      addMachineVerbs,
      addPipeVerbs,
      addCiVerb,
      addFleetVerbs,
    ],
  ])
    add(verbs);
  for (const it of capabilities) it.addVerbs?.(verbs);
  for (const it of capabilities) it.joinVerbs?.(verbs);
  groupVerbs(program);
  return verbs;
}
