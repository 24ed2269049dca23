/** Runs calls whose programs go on after them: where each runs, as whose its program is kept, and which network that has. */

import type { Egress, EgressAttachment } from '../../../hosts/egress.ts';
import type { HostKey } from '../../../hosts/hosts.ts';
import type { RetainedSession } from '../../../hosts/retained-sessions.ts';
import type { RunResult } from '../../../hosts/runs.ts';
import { keepsAfter, runsInCommand } from '../../../tools/runs.ts';
import { type Outcome, type RunHooks, succeeded } from '../../outcome.ts';
import type { ClearedCall } from '../../stage.ts';
import { type Job, type JournalParts, runJournalled } from '../journalled.ts';
import type { BackgroundAsker, BackgroundCommand, BackgroundCommands } from './background-commands.ts';

/** Characters of a command line that lists show. */
const COMMAND_CHARS_SHOWN = 200;

/** Whether the call starts a command in the background. */
const isStart = ({ checked: { tool, input } }: ClearedCall): boolean => keepsAfter(tool, input) === 'start';

/** A delegated session reaches only what it started itself. */
const askerOf = ({ sessionId, principal, workspace, budget, policyNow }: ClearedCall): BackgroundAsker => ({
  sessionId,
  workspace,
  policyVersion: policyNow().version,
  ...(!budget && { principal }),
});

/**
 * The host of a call that keeps something there, or reaches what others kept, and as whose; undefined for other calls. Throws
 * NOT_FOUND, QUEUE_FULL.
 */
export function keptPlaceOf(
  call: ClearedCall,
  { place, isStale }: { place: HostKey; isStale(): boolean },
  background: BackgroundCommands,
): { place: HostKey; keeper: RetainedSession } | undefined {
  const { tool, input } = call.checked;
  if (!keepsAfter(tool, input)) return undefined;
  const handle = runsInCommand(tool)?.ofBackground?.(input as never).handle;
  if (handle !== undefined) return background.find(handle, askerOf(call));
  const isDetached = isStart(call) && call.options.detached === true;
  if (isDetached) background.assertRoom(call);
  const session = isDetached ? `detached ${call.sessionId} ${call.id}` : call.sessionId;
  return { place: { ...place, keeps: true }, keeper: { session, isStale } };
}

export interface KeptJob extends Job {
  readonly keeper: RetainedSession;
}

export interface KeptCallParts extends JournalParts {
  readonly background: BackgroundCommands;
  readonly egress: Pick<Egress, 'attach'>;
}

/**
 * Runs such a call. A command in the background holds its access to the proxy until it ends, not only for the call.
 */
export async function runKept(call: ClearedCall, job: KeptJob, parts: KeptCallParts): Promise<RunResult> {
  if (!isStart(call)) return runJournalled(call, job, parts);
  const { network, door, keys, ...request } = job.request;
  const { services } = request;
  const lease = network && parts.egress.attach({ layers: network, door, services, keys });
  let ran: RunResult;
  try {
    ran = await runJournalled(call, { ...job, request: { ...request, lease } }, parts);
  } catch (error) {
    await lease?.close();
    throw error;
  }
  const handle = handleOf(ran);
  if (handle !== undefined) parts.background.add(commandOf(call, { handle, job, lease, parts }), lease);
  else if (lease) return { ...ran, egress: await lease.close() };
  return ran;
}

function handleOf({ result }: RunResult): string | undefined {
  const handle = result.ok ? (result.data as { handle?: unknown } | undefined)?.handle : undefined;
  return typeof handle === 'string' && handle.length <= 64 ? handle : undefined;
}

function commandOf(
  call: ClearedCall,
  {
    handle,
    job,
    lease,
    parts,
  }: { handle: string; job: KeptJob; lease: EgressAttachment | undefined; parts: KeptCallParts },
): BackgroundCommand {
  const { id: callId, sessionId, principal, client, workspace, checked, options } = call;
  return {
    handle,
    callId,
    sessionId,
    principal,
    client,
    workspace,
    command: (checked.tool.commandOf?.(checked.input as never)?.command ?? '').slice(0, COMMAND_CHARS_SHOWN),
    startedAt: new Date(parts.powers.now()).toISOString(),
    isDetached: options.detached === true,
    hasNetwork: job.request.network?.every((it) => it.length > 0) ?? false,
    place: { ...job.place, ...(lease && { egress: lease.line }) },
    keeper: job.keeper,
    policyNow: () => call.policyNow(),
  };
}

/** Answers a call that lists the commands in the background; they may be in several hosts. */
export async function listBackground(
  call: ClearedCall,
  { background, hooks }: { background: BackgroundCommands; hooks: RunHooks },
): Promise<Outcome> {
  await hooks.beforeStart();
  hooks.attempt.started = true;
  const states = await background.list(askerOf(call));
  const commands = states.map(({ handle, command, isDetached, now: { exited, ageMs, seq, ports } }) => ({
    handle,
    command,
    exited,
    ageMs,
    seq,
    ports,
    ...(isDetached && { detached: true }),
  }));
  return succeeded({ commands }, hooks.attempt);
}
