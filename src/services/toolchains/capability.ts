/** Programs that `ringfence toolchain add` installs for commands, and those that agents ask a person for, by `toolchain_request`. */

import { cliProgram } from '../../base/runtime.ts';
import { capabilityOf, type DaemonParts } from '../capability.ts';
import { linkToolchains, programsFolder, shownFolders } from './installed.ts';
import { ToolchainRequests, toolchainRunner } from './requests.ts';

function start(daemon: DaemonParts) {
  const { registry } = daemon.packages;
  const requests = new ToolchainRequests({ ...daemon, program: cliProgram, registry });
  return { runners: { toolchains: toolchainRunner({ ...daemon, toolchains: requests }) } };
}

export const toolchains = capabilityOf(start, {
  forCommands: (stateDir) => ({
    seen: shownFolders(stateDir),
    programs: programsFolder(stateDir),
    make: () => linkToolchains(stateDir),
  }),
});
