/** What makes a daemon a node of a fleet. */

import type { Powers } from '../base/powers.ts';
import { fleetProgram } from '../base/runtime.ts';
import { FleetProcess } from '../fleet/process.ts';
import { FleetWorkspaces } from '../fleet/workspaces/workspaces.ts';
import type { Egress } from '../hosts/egress.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { Config } from './config.ts';
import type { Records } from './records.ts';
import type { UserDirs } from './user-dirs.ts';
import type { Workspaces } from './workspaces.ts';

/** Links the daemon to the fleet whose bus is at `url`, if it has one, until `parts` end. Throws FleetError. */
export async function linkToFleet(
  url: string | undefined,
  {
    parts,
    dirs: { stateDir, socket, mcpSocket },
    powers,
  }: { parts: AsyncDisposableStack; dirs: UserDirs; powers: Powers },
): Promise<void> {
  if (url === undefined) return;
  parts.use(await FleetProcess.start({ program: fleetProgram, stateDir, socket, mcpSocket, url, powers }));
}

export interface FleetParts {
  readonly parts: AsyncDisposableStack;
  readonly sandbox: Sandbox;
  readonly egress: Egress;
  readonly workspaces: Workspaces;
  readonly records: Records;
  readonly powers: Powers;
}

/** What makes workspaces for sessions of a fleet, until `parts` end; undefined if the config allows none. */
export function createFleetWorkspaces(
  { fleet: settings, limits }: Config,
  { parts, workspaces: { lent }, records: { auditLog }, sandbox, egress, powers }: FleetParts,
): FleetWorkspaces | undefined {
  const record = (detail: Record<string, unknown>) =>
    auditLog.append({ kind: 'policy', sessionId: '', principal: 'fleet', detail });
  return settings && parts.use(new FleetWorkspaces({ sandbox, egress, powers, settings, lent, limits, record }));
}
