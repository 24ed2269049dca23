/** The program `ringfence` with all its verbs. */
import type { Environment } from '../../daemon/user-dirs.ts';
import { addAuditVerbs } from './audit.ts';
import { addServiceVerbs } from './background.ts';
import { addCallVerbs, addLookVerbs } from './calls.ts';
import { capabilities } from './capabilities.ts';
import { addClientVerbs } from './client-verbs.ts';
import { addFleetVerbs } from './fleet.ts';
import { addCiVerb, addDaemonVerbs, addPolicyVerbs } from './operator.ts';
import { programOf } from './run.ts';
import { addSettingsVerbs } from './settings.ts';
import { addFolderVerbs, addMachineVerbs, addPipeVerbs, addServeVerb } from './setup.ts';
import { addToolVerb } from './skeletons.ts';
import type { Verbs } from './verbs.ts';

const EXAMPLES = `
  ringfence call file_list                        list this folder (starts a daemon if none runs)
  ringfence call file_read path=README.md maxLines=5
  ringfence serve --detach --policy ~/.config/ringfence/policy.yaml
  ringfence call terminal_execute command='ls -la' --json`;

const daemonVerbs = [
  ...[addClientVerbs, addServeVerb, addCallVerbs, addLookVerbs, addAuditVerbs, addPolicyVerbs, addFolderVerbs],
  ...[addToolVerb, addSettingsVerbs, addDaemonVerbs, addServiceVerbs, addMachineVerbs, addPipeVerbs, addCiVerb],
  addFleetVerbs,
];

/** Makes the program; `env` is the environment of the process. It throws CommanderError where it would end the process. */
export const createProgram = (env: Environment): Verbs => programOf(env, daemonVerbs, capabilities, EXAMPLES);
