import { ToolError } from '../../errors.ts';
import { type Egress, type EgressDoor, NO_HOSTS } from '../../hosts/egress.ts';
import type { HostKey } from '../../hosts/hosts.ts';
import type { Isolates } from '../../hosts/isolates.ts';
import type { RetainedSession } from '../../hosts/retained-sessions.ts';
import type { RunOptions, RunResult } from '../../hosts/runs.ts';
import { decide } from '../../policy/decide.ts';
import type { NetworkLayer } from '../../policy/network.ts';
import { type Policy, unixSocketsOf } from '../../policy/schema.ts';
import type { CommandPreview } from '../../preview.ts';
import type { Previews } from '../../store/previews.ts';
import type { ToolStates } from '../../store/tool-states.ts';
import type { UndoJournal } from '../../store/undo-journal.ts';
import type { PackageSettings } from '../../tools/package/settings.ts';
import { hostTierOf, keepsAfter, type Preview, readsUncheckedBy, type Tool } from '../../tools/tool.ts';
import type { Upstream } from '../../tools/upstream.ts';
import type { HostDoors } from '../doors/host-doors.ts';
import { type OpeningParts, runOpening } from '../doors/openings.ts';
import { type Attempt, failed, type Outcome, succeeded, trafficOf } from '../outcome.ts';
import { decideAgain, isUndoByOperator, type PermissionParts } from '../permission.ts';
import { networkFor, type PreparedCalls } from '../prepared.ts';
import type { WritesByPrincipal } from '../principal-writes.ts';
import type { ClearedCall, Handler, JudgedCall } from '../stage.ts';
import type { ToolHealth } from '../tool-health.ts';
import type { BackgroundCommands } from './background/background-commands.ts';
import { keptPlaceOf, listBackground, runKept } from './background/kept-calls.ts';
import { commandBoundsOf, heapOf, homeOf, mayPreviewConnect, networkOf, threadCpuOf } from './bounds.ts';
import { ConcurrentCalls } from './concurrent-changes.ts';
import { type Connections, runConnected } from './connected.ts';
import { estimateAtServer, runServer, type ServerParts } from './database-server.ts';
import { denialsOf, warningsOf, withDenials } from './denials.ts';
import type { FetchParts } from './exchanges.ts';
import { runJournalled, runShadowed, type ShadowedJob } from './journalled.ts';
import { type LeftNames, leftWarnings } from './left-names.ts';
import { runOfTools } from './of-tools.ts';
import { runPreviewed } from './previewed.ts';
import { runProgram } from './program.ts';
import { errorOf, inTime, type ReadOnlyRunParts, runReadOnly, timeout } from './read-only-run.ts';
import { askServers } from './requests.ts';
import type { Tasks } from './tasks/run-task.ts';
import { runToolchain, type ToolchainRequests } from './toolchains.ts';
import { runUpstream, type Upstreams } from './upstream.ts';
import { runFetch } from './web/fetch.ts';
import { runPage } from './web/page.ts';
import { runVisit, type VisitParts } from './web/visit.ts';
import { withheldOf } from './withheld.ts';

export interface ExecuteParts extends ReadOnlyRunParts {
  readonly tasks: Tasks;
  readonly isolates: Isolates;
  readonly upstreams: Upstreams;
  readonly connectors: Connections;
  readonly databaseServers: ServerParts['databaseServers'];
  /** Hosts of plugins that share a JavaScript realm. */
  readonly compartments: Isolates;
  readonly egress: Egress;
  readonly doors: HostDoors;
  readonly browsers: VisitParts['browsers'];
  readonly permission: PermissionParts;
  readonly toolStates: ToolStates;
  readonly webCache: FetchParts['webCache'];
  readonly undoJournal: UndoJournal;
  readonly packages: PackageSettings;
  readonly prepared: PreparedCalls;
  readonly background: BackgroundCommands;
  readonly toolchains: ToolchainRequests;
  readonly outsideProblem: OpeningParts['outsideProblem'];
  readonly previews: Previews;
  readonly leftNames: Pick<LeftNames, 'ask' | 'ownerOf'>;
  /** Records the start and the end of each call. */
  readonly writes: WritesByPrincipal;
  readonly health: ToolHealth;
}

/** Runs the call in its tier host, under its time limit. The innermost stage: there is no next. */
export const execute = (parts: ExecuteParts): Handler<ClearedCall> => {
  const concurrentCalls = new ConcurrentCalls();
  return async (call) => {
    const { tool, input } = call.checked;
    // What goes on in the background would outlive its overlay.
    const runs = tool.previewsByRunning && !keepsAfter(tool, input);
    if (call.options.preview && !runs) return shownPreviewOf(call, parts);
    const attempt: Attempt = {};
    call.enter?.('starting');
    try {
      return await runInTier(call, { attempt, parts, concurrentCalls });
    } catch (error) {
      return failed(error, attempt);
    } finally {
      call.enter?.('settling');
      parts.writes.end(call);
    }
  };
};

/** Runs the call, and warns if the changes that were seen may be those of another call. */
async function runInTier(
  call: ClearedCall,
  { attempt, parts, concurrentCalls }: { attempt: Attempt; parts: ExecuteParts; concurrentCalls: ConcurrentCalls },
): Promise<Outcome> {
  const { tool, tier } = call.checked;
  if (tool.isolated) return isolated(call, attempt, parts);
  const hooks = { attempt, beforeStart: () => lastWord(call, parts) };
  if (tool.delegates) return parts.tasks.run(call, hooks);
  if (tool.ofTools) return inTime(call, parts, () => runOfTools(call, hooks));
  if (tool.toolchain) return inTime(call, parts, () => runToolchain(call, parts.toolchains, hooks));
  if (tool.opens) return inTime(call, parts, () => runOpening(call, hooks));
  const of = tool.ofBackground?.(call.checked.input as never);
  if (of && of.handle === undefined) return listBackground(call, { ...parts, hooks });
  const { connected, upstream: to } = tool;
  if (connected) return inTime(call, parts, () => runConnected(connected, call, parts, hooks));
  const statement = tool.toServer?.(call.checked.input as never);
  if (statement) return inTime(call, parts, () => runServer(statement, call, parts, hooks));
  const visit = tool.toVisit?.(call.checked.input as never);
  if (visit) return inTime(call, parts, () => runVisit(visit, call, { parts, hooks }));
  const request = tool.toRequest?.(call.checked.input as never);
  if (request) {
    const runIt = tool.readPage ? runPage : runFetch;
    return inTime(call, parts, () => runIt(request, call, { parts, hooks }));
  }
  if (tool.requests && tier === 'external_api') return runAnswered(call, attempt, parts);
  if (to) return inTime(call, parts, () => upstream(to, call, { attempt, parts }));
  if (tier === 'read_only' || call.options.preview) return inTime(call, parts, () => run(call, attempt, parts));
  using entry = concurrentCalls.enter(call.root);
  const isAlone = () => entry.isAlone;
  const outcome = await inTime(call, parts, () => run(call, attempt, parts, isAlone));
  const isSeen = hostTierOf(tool, tier) === 'execute' && outcome.usage?.filesChanged?.length;
  return isSeen && !entry.isAlone ? { ...outcome, warnings: [...outcome.warnings, NOT_ALONE] } : outcome;
}

const NOT_ALONE = 'other calls ran beside it; filesChanged may hold their changes, too';

/** Runs a program in an isolate host. No path rules apply: the program sees no paths. */
async function isolated(call: ClearedCall, attempt: Attempt, parts: ExecuteParts): Promise<Outcome> {
  const ran = await runProgram(call, parts, {
    attempt,
    timeout: (limitMs) => timeout(call.checked, limitMs),
    beforeStart: () => lastWord(call, parts),
  });
  return toOutcome(ran, call, { attempt, parts });
}

/** Runs a call of a provider's tool. The provider's own sandbox applies the workspace's masks. */
async function upstream(
  to: Upstream,
  call: ClearedCall,
  { attempt, parts }: { attempt: Attempt; parts: ExecuteParts },
): Promise<Outcome> {
  const ran = await runUpstream(to, call, { ...parts, attempt, beforeStart: () => lastWord(call, parts) });
  return toOutcome(ran, call, { attempt, parts });
}

/** Runs a call that needs answers of servers: the read_only host says what to ask, and reads what they answered. */
async function runAnswered(call: ClearedCall, attempt: Attempt, parts: ExecuteParts): Promise<Outcome> {
  const policy = policyOfStart(call, parts);
  const planned = await runReadOnly('plan', call, parts, policy);
  if (planned.error) return planned;
  const asked = await inTime(call, parts, async () => {
    await lastWord(call, parts);
    attempt.started = true;
    call.announce({ status: 'in-progress', startedAt: new Date(parts.powers.now()).toISOString() });
    const layers = networkOf(policy, 'external_api');
    return askServers(planned.data, { call, layers }, parts);
  });
  const outcome = await runReadOnly({ planned: asked.answered }, call, parts, policy);
  return { ...outcome, ...attempt, ...(asked.connected.length > 0 && { connected: asked.connected }) };
}

/** The last checks before a call starts that needs no tier host. */
async function lastWord(call: ClearedCall, parts: ExecuteParts): Promise<void> {
  policyOfStart(call, parts);
  call.onStart?.();
  await call.approval?.confirm?.();
  parts.writes.begin(call);
}

/** Runs the call under the policy in force now; starts over if the policy changes while a host is made ready. */
async function run(call: ClearedCall, attempt: Attempt, parts: ExecuteParts, isAlone = () => false): Promise<Outcome> {
  for (;;) {
    const policy = policyOfStart(call, parts);
    try {
      return await runUnder(policy, call, { attempt, parts, isAlone });
    } catch (error) {
      // The call's time limit ends this loop.
      if (error !== POLICY_MOVED) throw error;
    }
  }
}

const POLICY_MOVED = new Error('the policy changed while a host was made ready');

/** The policy in force now, if it lets the call run as it is. Throws POLICY_DENIED, APPROVAL_STALE. */
function policyOfStart(call: ClearedCall, { permission }: ExecuteParts): Policy {
  const policy = call.policyNow();
  // An approval of this call is bound to the policy, and `confirm` refuses it itself.
  if (policy.version === call.policy.version) return policy;
  if (decideAgain(call, policy, permission) !== 'ask' || call.approval?.confirm) return policy;
  const { tool } = call.checked;
  throw new ToolError('APPROVAL_STALE', `the policy changed and now asks a person about \`${tool.name}\``, {
    suggestion: 'Call again to ask the person.',
    details: { changed: ['the policy'] },
  });
}

async function runUnder(
  policy: Policy,
  call: ClearedCall,
  { attempt, parts, isAlone }: { attempt: Attempt; parts: ExecuteParts; isAlone(): boolean },
): Promise<Outcome> {
  const { tier, tool, input } = call.checked;
  const { signal } = call.controller;
  const { workspace } = call;
  const view = parts.viewOf({ ...call, policy });
  const isCommand = hostTierOf(tool, tier) === 'execute';
  const { place, keeper, network, door } = placeOf(call, { policy, view }, parts);
  const job = {
    tool: tool.name,
    input,
    ...(call.approval?.preImages && { preImages: call.approval.preImages }),
    ...((call.approval ?? isUndoByOperator(call)) && { lifted: shownTargets(call) }),
    ...(isCommand
      ? {
          bounds: commandBoundsOf(policy, parts.limits, tier),
          // A home outlives the preview.
          ...(!call.options.preview && { home: homeOf({ ...call, policy }) }),
          unixSockets: unixSocketsOf(policy),
        }
      : threadCpuOf(policy, tier)),
    ...(isCommand && { owner: parts.leftNames.ownerOf(call) }),
    ...(network && { network, door }),
    ...(tier === 'read_only' && { readOnly: true }),
    ...(tier === 'read_only' && readsUncheckedBy(tool, input) && { isSealed: true }),
    ...(tool.state && { state: parts.toolStates.get(tool.state.name, workspace) }),
    ...(tool.keptPreview && { kept: tool.keptPreview(input as never) }),
    ...(keeper && { keeper }),
  };
  const options: RunOptions = {
    signal,
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
  const planned = await planOf(call, parts, policy);
  if (planned?.error) return planned;
  const request = { ...job, ...(planned && { planned: planned.data }) };
  const writer: HostKey = { tier: 'write', workspace, view, principal: call.principal, ...heapOf(policy, 'write') };
  const placed = { place, request, options, attempt, writer, isAlone, ...(keeper && { keeper }) };
  const { ran, preview } = await runPlaced(call, placed, parts);
  parts.health.note(tool, workspace, ran.result);
  const moved = ran.left?.moved.length ? parts.leftNames.ask(ran.left.moved, call) : undefined;
  const plain = toOutcome(ran, call, { attempt, network, parts });
  const outcome = {
    ...plain,
    ...(preview && { preview }),
    ...(moved && { quarantined: moved }),
    warnings: [...plain.warnings, ...leftWarnings(moved ?? [], ran.left?.stayed ?? [])],
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

/** The host of a call, the owner of what it keeps there, and the network of its commands. Throws NOT_FOUND, QUEUE_FULL. */
function placeOf(
  call: ClearedCall,
  { policy, view }: { policy: Policy; view: HostKey['view'] },
  parts: ExecuteParts,
): { place: HostKey; keeper?: RetainedSession; network?: readonly NetworkLayer[]; door?: EgressDoor | undefined } {
  const { tier, tool } = call.checked;
  const hostTier = hostTierOf(tool, tier);
  const heap = hostTier === 'execute' ? {} : heapOf(policy, tier);
  const { workspace, principal } = call;
  const own: HostKey = { tier: hostTier, workspace, view, principal, ...heap };
  const isStale = () => call.policyNow().version !== policy.version;
  const kept = keptPlaceOf(call, { place: own, isStale }, parts.background);
  // A terminal has no network: nobody judges what is typed in it.
  const mayKeep = !kept || tool.keepsFor !== undefined;
  const mayConnect = !call.options.preview || mayPreviewConnect(policy, call);
  const network = mayConnect ? networkFor(call.checked, policy, parts.packages) : undefined;
  if (tier !== 'execute' || !mayKeep) return { place: own, ...kept };
  const door = mayConnect ? parts.doors.of(call, 'execute') : undefined;
  return { place: own, ...kept, network: network ?? NO_HOSTS, door };
}

/** Runs a job; what a command changes is kept by a shadow, what other calls change by their journal. Previews change nothing. */
async function runPlaced(
  call: ClearedCall,
  job: ShadowedJob & { readonly keeper?: RetainedSession },
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
  if (tool.prepare) return succeeded(await parts.prepared.plannedOf(call));
  return tool.plan && tier !== 'read_only' ? runReadOnly('plan', call, parts, policy) : undefined;
}

/** The outcome of a run that gave a result. */
function toOutcome(
  ran: RunResult,
  call: ClearedCall,
  { attempt, network, parts }: { attempt: Attempt; network?: readonly NetworkLayer[] | undefined; parts: ExecuteParts },
): Outcome {
  const { result, pid, egress } = ran;
  const denied = denialsOf(ran);
  const withheld = withheldOf(ran, network, (it) => parts.outsideProblem(it) === undefined);
  const brought = {
    ...attempt,
    hostPid: pid,
    usage: result.usage,
    ...(denied.length > 0 && { denied }),
    ...trafficOf(egress),
    ...(withheld && { withheld }),
    warnings: warningsOf(ran),
  };
  return result.ok ? succeeded(result.data, brought) : failed(withDenials(errorOf(result, call), denied), brought);
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

/** The preview for the caller: without the diff unless the policy allows its principal to read the files in it. */
async function shownPreviewOf(call: ClearedCall, parts: ExecuteParts): Promise<Outcome> {
  const outcome = await previewed(call, parts);
  if (outcome.error) return outcome;
  const { diff, ...hashes } = outcome.data as Preview;
  const { question } = call;
  if (diff === undefined) return succeeded(hashes, outcome);
  const effects = question.effects.map(
    ({ kind, target }) => ({ kind: kind === 'write' ? 'read' : kind, target }) as const,
  );
  const reading = decide(call.policy, { ...question, tier: 'read_only', effects });
  return succeeded(reading.decision === 'allow' ? { ...hashes, diff } : hashes, outcome);
}

/**
 * What the call would do, computed by a host that can change nothing, within the call's time limit. Throws
 * UNSUPPORTED for tools without a preview, and what the tool throws.
 */
export async function previewOf(call: JudgedCall, parts: ExecuteParts): Promise<Preview> {
  const { data, error } = await previewed(call, parts);
  if (error) throw error;
  return data as Preview;
}

async function previewed(call: JudgedCall, parts: ExecuteParts): Promise<Outcome> {
  const { tool, input } = call.checked;
  if (tool.prepare) return succeeded(await parts.prepared.preview(call), {});
  const statement = tool.toServer?.(input as never);
  if (statement) return succeeded(await inTime(call, parts, () => estimateAtServer(statement, call, parts)), {});
  if (!tool.preview) throw new ToolError('UNSUPPORTED', `\`${tool.name}\` has no preview; call it without preview`);
  return runReadOnly('preview', call, parts);
}
