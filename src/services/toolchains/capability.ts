/** Toolchains that agents ask a person to have installed, by `toolchain_request`. */

import { cliProgram } from '../../base/runtime.ts';
import { capabilityOf } from '../capability.ts';
import { ToolchainRequests, toolchainRunner } from './requests.ts';

export const toolchains = capabilityOf((daemon) => {
  const { registry } = daemon.packages;
  const requests = new ToolchainRequests({ ...daemon, program: cliProgram, registry });
  return { runners: { toolchains: toolchainRunner({ ...daemon, toolchains: requests }) } };
});
