/** Runs a call by the tool's `run` in a tier's host. */

import { ToolError } from '../../base/errors.ts';
import type { CommandPreview } from '../../base/preview.ts';
import { NO_HOSTS } from '../../hosts/egress.ts';
import type { HostKey } from '../../hosts/hosts.ts';
import type { RetainedSession } from '../../hosts/retained-sessions.ts';
import type { RunOptions, RunResult, RunTerms } from '../../hosts/runs.ts';
import { type Policy, unixSocketsOf } from '../../policy/schema.ts';
import { keepsAfter, keptPreviewOf, readsUncheckedBy } from '../../tools/runs.ts';
import { hostTierOf, type Tool } from '../../tools/tool.ts';
import { publishedBy } from '../approve/impact.ts';
import { type Attempt, failed, type Outcome, succeeded } from '../outcome.ts';
import { isUndoByOperator } from '../permission.ts';
import { networkFor } from '../prepared.ts';
import type { ClearedCall } from '../stage.ts';
import { keptPlaceOf, runKept } from './background/kept-calls.ts';
import { commandBoundsOf, heapOf, homeOf, mayPreviewConnect, threadCpuOf } from './bounds.ts';
import { runJournalled, runShadowed, type ShadowedJob } from './journalled.ts';
import { remotesOf } from './keys/remotes.ts';
import { signingOf } from './keys/signing.ts';
import { policyOfStart } from './last-word.ts';
import { leftWarnings } from './left-names.ts';
import type { ExecuteParts } from './parts.ts';
import { runPreviewed } from './previewed.ts';
import { ranOutcome } from './ran-outcome.ts';
import { runReadOnly } from './read-only-run.ts';

/** Runs the call under the policy in force now; starts over if the policy changes while a host is made ready. */
export async function runInHost(
  call: ClearedCall,
  attempt: Attempt,
  parts: ExecuteParts,
  { isAlone = () => false, prepared }: Partial<Pick<HostRun, 'isAlone' | 'prepared'>> = {},
): Promise<Outcome> {
  for (;;) {
    const policy = policyOfStart(call, parts);
    try {
      return await runUnder(policy, call, { attempt, parts, isAlone, prepared });
    } catch (error) {
      // The call's time limit ends this loop.
      if (error !== POLICY_MOVED) throw error;
    }
  }
}

interface HostRun {
  readonly attempt: Attempt;
  readonly parts: ExecuteParts;
  /** Whether no other call ran beside it. */
  isAlone(): boolean;
  /** What `run` gets as `ctx.planned`, if a runner has made it. */
  readonly prepared?: { readonly planned: unknown } | undefined;
}

const POLICY_MOVED = new Error('the policy changed while a host was made ready');

async function runUnder(
  policy: Policy,
  call: ClearedCall,
  { attempt, parts, isAlone, prepared }: HostRun,
): Promise<Outcome> {
  const { tier, tool, input } = call.checked;
  const { workspace } = call;
  const view = parts.viewOf({ ...call, policy });
  const isCommand = hostTierOf(tool, tier) === 'execute';
  const { place, keeper, reach } = placeOf(call, { policy, view }, parts);
  const signing = await signingOf(call, parts);
  const job = {
    tool: tool.name,
    input,
    preImages: call.approval?.preImages,
    ...((call.approval ?? isUndoByOperator(call)) && { lifted: shownTargets(call) }),
    ...(isCommand
      ? {
          bounds: commandBoundsOf(policy, parts.limits, tier),
          // A home outlives the preview.
          ...(!call.options.preview && { home: homeOf({ ...call, policy }) }),
          unixSockets: unixSocketsOf(policy),
          owner: parts.leftNames.ownerOf(call),
        }
      : threadCpuOf(policy, tier)),
    ...((await remotesOf(call, parts.remoteKeys)) ?? signing?.terms ?? reach),
    readOnly: tier === 'read_only',
    isSealed: tier === 'read_only' && readsUncheckedBy(tool, input),
    state: tool.state && parts.toolStates.get(tool.state.name, workspace),
    kept: keptPreviewOf(tool, input),
    keeper,
  };
  const options = optionsOf(call, policy, { attempt, parts });
  const planned = prepared ? succeeded(prepared.planned) : await planOf(call, parts, policy);
  if (planned?.error) return planned;
  const request = { ...job, planned: planned?.data };
  const writer: HostKey = { tier: 'write', workspace, view, principal: call.principal, ...heapOf(policy, 'write') };
  const placed = { place, request, options, attempt, writer, isAlone, keeper };
  const { ran, preview } = await runPlaced(call, placed, parts);
  parts.health.note(tool, workspace, ran.result);
  const moved = ran.left?.moved.length ? parts.leftNames.ask(ran.left.moved, call) : undefined;
  const hints = await parts.services.hintsAt(ran.result.usage.command?.refusedPorts, policy);
  const plain = ranOutcome(ran, call, { attempt, network: reach?.network, hints, parts });
  const outcome = {
    ...plain,
    preview,
    quarantined: moved,
    warnings: [
      plain.warnings,
      leftWarnings(moved ?? [], ran.left?.stayed ?? []),
      signing?.warnings(plain) ?? [],
    ].flat(),
  };
  const { result } = ran;
  if (!result.ok || !tool.state || tier === 'read_only') return outcome;
  try {
    keepState(result.state, { call, tool, parts });
    return outcome;
  } catch (error) {
    return failed(error, outcome);
  }
}

/** What a run does about its call while it starts. */
function optionsOf(
  call: ClearedCall,
  policy: Policy,
  { attempt, parts }: { attempt: Attempt; parts: ExecuteParts },
): RunOptions {
  return {
    signal: call.controller.signal,
    onOutput: call.output,
    beforeStart: async () => {
      // The host was chosen for the path rules of `policy`, and applies no others.
      if (call.policyNow().version !== policy.version) throw POLICY_MOVED;
      call.onStart?.();
      await call.approval?.confirm?.();
      parts.writes.begin(call);
    },
    onStarted: () => {
      attempt.started = true;
      call.announce({ status: 'in-progress', startedAt: new Date(parts.powers.now()).toISOString() });
    },
  };
}

/** The host of a call, the owner of what it keeps there, and the network of its commands. Throws NOT_FOUND, QUEUE_FULL. */
function placeOf(
  call: ClearedCall,
  { policy, view }: { policy: Policy; view: HostKey['view'] },
  parts: ExecuteParts,
): { place: HostKey; keeper?: RetainedSession; reach?: Pick<RunTerms, 'network' | 'door' | 'services' | 'keys'> } {
  const { tier, tool } = call.checked;
  const hostTier = hostTierOf(tool, tier);
  const heap = hostTier === 'execute' ? {} : heapOf(policy, tier);
  const { workspace, principal } = call;
  const own: HostKey = { tier: hostTier, workspace, view, principal, ...heap };
  const isStale = () => call.policyNow().version !== policy.version;
  const kept = keptPlaceOf(call, { place: own, isStale }, parts.background);
  // A terminal has no network: nobody judges what is typed in it.
  const mayKeep = !kept || keepsAfter(tool, call.checked.input) === 'start';
  const mayConnect = !call.options.preview || mayPreviewConnect(policy, call);
  const network = mayConnect ? networkFor(call.checked, policy, parts.packages) : undefined;
  if (tier !== 'execute' || !mayKeep) return { place: own, ...kept };
  const door = mayConnect ? parts.doors.of(call, 'execute') : undefined;
  const { ofCommands } = parts.remoteKeys;
  // What a rule allows unasked nobody has seen: it publishes with no key of the person.
  const publishes = call.approval !== undefined && publishedBy(call.question.command).length > 0;
  const keys = ofCommands && (() => ofCommands(publishes));
  // What a package runs when it is installed has its registry alone.
  const services = mayConnect && !tool.before?.prepare ? parts.services.of(call) : undefined;
  return { place: own, ...kept, reach: { network: network ?? NO_HOSTS, door, services, keys } };
}

/** Runs a job; what a command changes is kept by a shadow, what other calls change by their journal. Previews change nothing. */
async function runPlaced(
  call: ClearedCall,
  job: ShadowedJob & { readonly keeper?: RetainedSession | undefined },
  parts: ExecuteParts,
): Promise<{ ran: RunResult; preview?: CommandPreview }> {
  if (call.options.preview) return runPreviewed(call, job, parts);
  const { keeper } = job;
  if (keeper) return { ran: await runKept(call, { ...job, keeper }, parts) };
  // A read changes nothing.
  const isShadowed = job.place.tier === 'execute' && call.checked.tier !== 'read_only';
  return { ran: await (isShadowed ? runShadowed : runJournalled)(call, job, parts) };
}

/** What `run` gets as `ctx.planned`; undefined for tools without a plan. */
async function planOf(call: ClearedCall, parts: ExecuteParts, policy: Policy): Promise<Outcome | undefined> {
  const { tool, tier } = call.checked;
  if (tool.before?.prepare) return succeeded(await parts.prepared.plannedOf(call));
  return tool.before?.plan && tier !== 'read_only' ? runReadOnly('plan', call, parts, policy) : undefined;
}

/** Keeps the state that a tool returned. The state is checked: a compromised host could send anything. Throws INTERNAL, STORE_FAILED. */
function keepState(
  state: unknown,
  { call, tool, parts }: { call: ClearedCall; tool: Tool; parts: ExecuteParts },
): void {
  if (!tool.state || state === undefined) return;
  const checked = tool.state.schema.safeParse(state);
  if (!checked.success)
    throw new ToolError('INTERNAL', `\`${tool.name}\` tried to store data that its schema does not allow`);
  parts.toolStates.set(tool.state.name, call.workspace, checked.data);
}

/** Paths that the person was shown before approving: inside the host, `ask` rules no longer refuse these. */
function shownTargets({ question: { effects, command } }: ClearedCall): string[] {
  return [...effects, ...(command?.redirects ?? [])]
    .map((it) => it.target)
    .concat(command?.mentions ?? [])
    .slice(0, SHOWN_TARGETS_MAX);
}

/** More than one command line can name. */
const SHOWN_TARGETS_MAX = 4096;
