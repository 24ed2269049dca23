/** `ringfence fleet approvals`: the questions of all nodes, answered in one place. */
import { type ApprovalsClient, approvalsApprove, approvalsDeny, approvalsList, approvalsWatch } from '../approvals.ts';
import type { CliCaller } from '../connect.ts';
import type { Terminal } from '../questions/prompt.ts';
import { FleetInbox } from './inbox.ts';
import { Nodes } from './nodes.ts';
import { type FleetFlags, folderOf } from './operator.ts';

async function withInbox(flags: FleetFlags, caller: CliCaller, action: (inbox: ApprovalsClient) => Promise<number>) {
  await using nodes = await Nodes.connect(folderOf(flags, caller));
  return await action(new FleetInbox(nodes));
}

export const fleetApprovals = (flags: FleetFlags, caller: CliCaller): Promise<number> =>
  withInbox(flags, caller, (inbox) => approvalsList(inbox, flags));

export const fleetApprovalsWatch = (flags: FleetFlags, caller: CliCaller, io: Terminal): Promise<number> =>
  withInbox(flags, caller, (inbox) => approvalsWatch(inbox, io));

export const fleetApprove = (id: string, flags: FleetFlags, caller: CliCaller): Promise<number> =>
  withInbox(flags, caller, (inbox) => approvalsApprove(inbox, id, flags));

export const fleetDeny = (id: string, flags: FleetFlags & { feedback?: string }, caller: CliCaller): Promise<number> =>
  withInbox(flags, caller, (inbox) => approvalsDeny(inbox, id, flags));
