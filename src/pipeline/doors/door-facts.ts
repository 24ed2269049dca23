/** What answers about doors are matched by: whose session, which project, which door. */
import { lstatSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname } from 'node:path';
import type { DoorTarget, GrantFacts } from '../../store/approvals/approval.ts';
import { subjectHash } from '../approve/binding.ts';
import type { DoorHolder } from '../stage.ts';

/** The facts of a question about a door. */
export function factsAtDoor(
  { sessionId, sessionName, principal, workspace, isDelegated }: DoorHolder,
  door: DoorTarget,
  { tool, rule, policyVersion }: Pick<GrantFacts, 'tool' | 'rule' | 'policyVersion'>,
): GrantFacts {
  const projectIs = projectIdentity(workspace);
  return {
    sessionId,
    sessionName,
    principal,
    ...(isDelegated && { delegated: true as const }),
    workspace,
    tool,
    subjectHash: subjectHash(`door ${door.kind}`, door.target),
    rule,
    askingRules: [rule],
    level: 'medium',
    unknown: false,
    policyVersion,
    door,
    ...(projectIs !== undefined && { project: workspace, projectIs }),
  };
}

/**
 * Identifies a workspace for answers that last: its folder, whatever comes to be at its path later. Undefined for folders that are no
 * project: a home, and the root of a mount.
 */
function projectIdentity(workspace: string): string | undefined {
  try {
    const { dev, ino, birthtimeNs } = lstatSync(workspace, { bigint: true });
    const isRoot = workspace === '/' || lstatSync(dirname(workspace), { bigint: true }).dev !== dev;
    return isRoot || workspace === homedir() ? undefined : `${dev}:${ino}:${birthtimeNs}`;
  } catch {
    return undefined; // ENOENT: it is gone.
  }
}
