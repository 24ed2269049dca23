/** What answers about doors are matched by: whose session, which project, which door. */
import { lstatSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname } from 'node:path';
import type { Powers } from '../../base/powers.ts';
import type { ApprovalDraft, DoorTarget, GrantFacts, PersonAnswer } from '../../store/approvals/approval.ts';
import type { Approvals } from '../../store/approvals/approvals.ts';
import { subjectHash } from '../approve/binding.ts';
import { cutValue, withoutDefaults } from '../approve/shown.ts';
import type { ClearedCall, DoorHolder } from '../stage.ts';

export interface DoorParts {
  readonly approvals: Approvals;
  readonly powers: Powers;
  redact<T>(value: T): T;
}

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

/** What a question about a running call says of it, whatever the door. */
export function draftAtDoor(
  call: ClearedCall,
  { level: _, ...facts }: GrantFacts,
  { powers, redact, charsMax }: Pick<DoorParts, 'powers' | 'redact'> & { readonly charsMax: number },
) {
  const { input, tool } = call.checked;
  return {
    ...facts,
    callId: call.id,
    client: call.client,
    parents: call.parents,
    cwd: '.',
    input: cutValue(redact(withoutDefaults(input, tool.input)), charsMax).value,
    rememberMaxMs: call.policy.approvals.rememberMaxMs,
    bindingHash: subjectHash('door question', powers.uuid()),
  };
}

/** Asks a person about a running call, and takes their answer. Rejects if nobody answers in time. */
export async function askAtDoor(
  call: ClearedCall,
  draft: ApprovalDraft,
  { approvals, signal }: Pick<DoorParts, 'approvals'> & { readonly signal: AbortSignal },
): Promise<PersonAnswer> {
  const answer = await approvals.request(draft, {
    signal,
    onRequested: ({ approvalId }) => call.announce({ status: 'blocked-on-user', approvalId }),
  });
  try {
    if (answer.decision === 'approve') approvals.use(answer.approvalId, draft.bindingHash);
    return answer;
  } finally {
    approvals.release(answer.approvalId, { withdraw: true });
  }
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
