/** The start of a process in a control group of its own, which goes when the process does. */
import type { ChildProcess } from 'node:child_process';
import { ToolError } from '../../errors.ts';
import type { Cgroups, HostGroup, HostGroupRequest } from './cgroup.ts';

/**
 * Starts a process in a group, which is removed with all that is in it when the process has ended; without one where there
 * are no groups. Throws SANDBOX_UNAVAILABLE where there should be one.
 */
export function inGroup(
  cgroups: Cgroups | undefined,
  request: HostGroupRequest,
  start: (group: HostGroup | undefined) => ChildProcess,
): ChildProcess {
  if (!cgroups) return start(undefined);
  const group = openGroup(cgroups, request);
  try {
    const child = start(group);
    for (const event of ['exit', 'error']) child.once(event, () => cgroups.close(group));
    return child;
  } catch (error) {
    cgroups.close(group);
    throw error;
  }
}

function openGroup(cgroups: Cgroups, request: HostGroupRequest): HostGroup {
  try {
    return cgroups.open(request);
  } catch (error) {
    throw new ToolError('SANDBOX_UNAVAILABLE', `no control group for a host: ${(error as Error).message}`);
  }
}
