/** Starts hosts before calls need them: a start takes a tenth of a second, and longer on a busy machine. */

import type { Limits } from '../base/limits.ts';
import { type Powers, settlesWithin } from '../base/powers.ts';
import { TIERS } from '../base/result-shapes.ts';
import { principalOf } from '../gateway/authenticate.ts';
import type { Policies } from '../gateway/policies.ts';
import type { Session } from '../gateway/session.ts';
import type { Hosts } from '../hosts/hosts.ts';
import { heapOf } from '../pipeline/execute/bounds.ts';
import { type JournalParts, takeBack } from '../pipeline/execute/journalled.ts';
import { layersOf } from '../policy/decide.ts';
import { indexOf } from '../policy/rule-index.ts';
import type { Policy } from '../policy/schema.ts';
import { toolsOf } from '../tools/registry.ts';
import type { Workspaces } from './workspaces.ts';

interface WarmParts {
  readonly hosts: Hosts;
  readonly policies: Policies;
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'after'>;
}

/** Longest time in ms that a daemon waits before it listens for the walk of a large workspace, which its first host needs. */
const BEGIN_MS_MAX = 100;

type StartParts = JournalParts & WarmParts & { readonly workspaces: Workspaces };

/**
 * Prepares the daemon's first calls, before it listens: the host of reads is begun, and calls in which an earlier daemon was killed are
 * rolled back, so that all or none of a call's changes is ever seen. Never rejects.
 */
export async function warmAhead(parts: StartParts): Promise<void> {
  const { undoJournal, limits, powers } = parts;
  const rolling = undoJournal.cutOffWorkspaces.map((it) => rollBackIn(it, parts));
  await settlesWithin(Promise.all(rolling), limits.callTimeoutMs.write, powers);
  await beginReads(parts);
}

/** If it can't be done now, the next change in the workspace tries again. */
async function rollBackIn(folder: string, { policies, workspaces, ...parts }: StartParts): Promise<void> {
  try {
    const place = workspaces.resolve(folder);
    const policy = policies.policyOf(place)();
    const view = policies.viewOf({ policy, principal: principalOf({ kind: 'unix' }), sessionId: '', ...place });
    await takeBack({ tier: 'write', workspace: place.workspace, view, ...heapOf(policy, 'write') }, parts);
  } catch (error) {
    // The workspace is gone, its policy is not valid, or no host can be started.
    parts.powers.log.error({ error, workspace: folder }, 'interrupted calls are not rolled back yet');
  }
}

/**
 * Starts the host of reads as the first session of the daemon's user in the first workspace will need it, before that
 * session is there, and compiles the rules meanwhile; resolves when its process runs. The process then starts beside the
 * first session, not after it. A session that other path rules apply to gets another host, and this one is ended as idle.
 */
async function beginReads({ hosts, policies, workspaces, powers }: StartParts): Promise<void> {
  const place = workspaces.forOperator();
  let policy: Policy;
  try {
    policy = policies.policyOf(place)();
  } catch {
    return; // The workspace's own policy file is not valid, which each session is told.
  }
  if (!allows(policy, 'read_only')) return;
  const principal = principalOf({ kind: 'unix' });
  const view = policies.viewOf({ policy, principal, sessionId: '', ...place });
  const begun = hosts.begin({ tier: 'read_only', workspace: place.workspace, view, ...heapOf(policy, 'read_only') });
  for (const { rules } of layersOf(policy)) indexOf(rules);
  // If it fails, the first call that needs the host tries again, and is told why.
  await settlesWithin(begun, BEGIN_MS_MAX, powers);
}

/**
 * Starts the hosts for a new session's tools that need no approval: that of reads at once, the others soon. A first call
 * has the processors to itself, and a session for one call starts no host that it does not use.
 */
export function warmFor(session: Session, { hosts, policies, limits, powers }: WarmParts): void {
  const policy = session.policy();
  const { id: sessionId, principal, workspace, root, toolset } = session.options;
  const view = policies.viewOf({ policy, principal, sessionId, workspace, root });
  const hosted = toolsOf(toolset).filter(({ runs }) => !runs || 'in' in runs || runs.by === 'databases');
  const tiers = new Set(hosted.map((it) => it.tier));
  const [first, ...others] = [...tiers]
    .filter((tier) => allows(policy, tier))
    .sort((a, b) => TIERS.indexOf(a) - TIERS.indexOf(b))
    .map((tier) => ({ tier, workspace, view, principal, ...heapOf(policy, tier) }));
  if (!first) return;
  const warming = hosts.warm([first]);
  powers.after(limits.hostsAheadMs, async () => {
    await warming;
    if (session.isEnding) return;
    await hosts.warm(others);
    if (!tiers.has('execute') || !allows(policy, 'execute')) return;
    // After the hosts, whose start it must not slow down.
    await hosts.prepareShadow({ tier: 'write', workspace, view, principal, ...heapOf(policy, 'write') });
  });
}

const allows = (policy: Policy, tier: keyof Policy['tiers']): boolean =>
  [policy, ...policy.and].every((it) => it.tiers[tier].decision === 'allow');
