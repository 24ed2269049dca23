/** Starts a process in a control group of its own, which is removed when the process ends. */
import type { ChildProcess } from 'node:child_process';
import { ToolError } from '../../base/errors.ts';
import type { Cgroups, HostGroup, HostGroupRequest } from './cgroup.ts';

/**
 * Starts a process in a group, which is removed with everything in it when the process ends; starts it without a group if there
 * are no control groups. Throws SANDBOX_UNAVAILABLE if the group can't be made.
 */
export function inGroup<Started extends { readonly child: ChildProcess }>(
  cgroups: Cgroups | undefined,
  request: HostGroupRequest,
  start: (group: HostGroup | undefined) => Started,
): Started {
  if (!cgroups) return start(undefined);
  const group = openGroup(cgroups, request);
  try {
    const started = start(group);
    for (const event of ['exit', 'error']) started.child.once(event, () => cgroups.close(group));
    return started;
  } catch (error) {
    cgroups.close(group);
    throw error;
  }
}

function openGroup(cgroups: Cgroups, request: HostGroupRequest): HostGroup {
  try {
    return cgroups.open(request);
  } catch (error) {
    throw new ToolError('SANDBOX_UNAVAILABLE', `can't create a control group for a host: ${(error as Error).message}`);
  }
}
