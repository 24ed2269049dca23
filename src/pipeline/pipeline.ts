/** The order of the stages, in one place; docs/lifecycle.md draws it. */

import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import type { Egress } from '../hosts/egress.ts';
import type { Hosts } from '../hosts/hosts.ts';
import type { IdleHeap } from '../hosts/idle-heap.ts';
import type { Quarantine } from '../hosts/quarantine/quarantine.ts';
import { proposeRule } from '../policy/explain.ts';
import type { PolicyQuestion } from '../policy/question.ts';
import { fingerprint } from '../policy/shell/programs.ts';
import type { Approvals } from '../store/approvals/approvals.ts';
import { memoryOf } from '../store/approvals/grants.ts';
import type { AuditLog } from '../store/audit/log.ts';
import type { CostLedger } from '../store/cost-ledger.ts';
import { pastDurationMs } from '../store/past-durations.ts';
import type { Previews } from '../store/previews.ts';
import type { ResultCache } from '../store/result-cache.ts';
import { CallMetrics } from '../store/telemetry/call-metrics.ts';
import type { Tracer } from '../store/telemetry/tracer.ts';
import type { ToolStates } from '../store/tool-states.ts';
import type { UndoJournal } from '../store/undo/undo-journal.ts';
import { keptPreviewOf } from '../tools/runs.ts';
import type { NamedTool } from '../tools/tool.ts';
import { approvalContextOf } from './approve/approval-context.ts';
import { type ApproveDeps, approve } from './approve/approve.ts';
import { programsOf } from './approve/impact.ts';
import { previewOfCommit } from './approve/preview-text.ts';
import { audit, intent } from './audit.ts';
import { type CachedResult, cache } from './cache.ts';
import { costCap } from './cost-cap.ts';
import type { HostDoors } from './doors/host-doors.ts';
import { type OpeningParts, openingOf, type WithOpenings, withOpenings } from './doors/openings.ts';
import { LocalServices } from './doors/services.ts';
import { SigningDoor } from './doors/signing-door.ts';
import { previewForPerson } from './execute/call-preview.ts';
import { execute } from './execute/execute.ts';
import { LearnedTools } from './execute/learned-tools.ts';
import { LeftNames } from './execute/left-names.ts';
import type { ExecuteParts } from './execute/parts.ts';
import { ownRunners } from './execute/runner.ts';
import { type ValidateParts, validate } from './input/validate.ts';
import { observed } from './observe.ts';
import type { Outcome } from './outcome.ts';
import { type PermissionParts, permission, questionOf } from './permission.ts';
import { PreparedCalls } from './prepared.ts';
import { previewFirst } from './preview-first.ts';
import { WritesByPrincipal } from './principal-writes.ts';
import { FairQueue } from './queue/fair-queue.ts';
import type { JudgingTurns } from './queue/judging-turns.ts';
import { lock } from './queue/lock.ts';
import { rateLimit } from './queue/rate-limit.ts';
import { schedule } from './queue/schedule.ts';
import { resolve } from './resolve.ts';
import { retry } from './retry.ts';
import { sanitize } from './sanitize.ts';
import { type CheckedCall, type Handler, inOrder } from './stage.ts';
import { ToolHealth } from './tool-health.ts';

export type { Toolset } from '../tools/tool.ts';
export type { Call } from './stage.ts';

export interface PipelineParts {
  readonly auditLog: AuditLog;
  readonly approvals: Approvals;
  readonly ledger: CostLedger;
  readonly toolStates: ToolStates;
  readonly undoJournal: UndoJournal;
  readonly packages: ExecuteParts['packages'];
  readonly remoteKeys: ExecuteParts['remoteKeys'];
  readonly setUpOf: ValidateParts['setUpOf'];
  readonly previews: Previews;
  readonly quarantine: Quarantine;
  /** The tool that commits a preview that a rule requires. */
  readonly commitTool: NamedTool;
  readonly outsideProblem: OpeningParts['outsideProblem'];
  readonly hosts: Hosts;
  readonly egress: Egress;
  readonly background: ExecuteParts['background'];
  readonly doors: HostDoors;
  readonly runners: ExecuteParts['runners'];
  readonly limits: Limits;
  readonly powers: Powers;
  readonly permission: PermissionParts;
  readonly turns: JudgingTurns;
  readonly cache: ResultCache<CachedResult>;
  /** Is told of each call that ends. */
  readonly heap: IdleHeap;
  /** Undefined if calls are not traced. */
  readonly tracer: Tracer | undefined;
  viewOf: ExecuteParts['viewOf'];
  /** How many clients could answer a question about a call of this session now. */
  approvers(sessionId: string): number;
  redact<T>(value: T): T;
}

export interface Pipeline {
  readonly leftNames: LeftNames;
  readonly learned: LearnedTools;
  readonly run: Handler;
  readonly withOpenings: WithOpenings;
  readonly queue: FairQueue;
  readonly health: ToolHealth;
  readonly metrics: CallMetrics;
  readonly tracer: Tracer | undefined;
}

/**
 * Audit is around all of them, so that refusals are recorded, too. The rate limit needs only the tool's name, so that it
 * bounds floods of bad input. Policy sees checked input only. Permission comes before the cache, and a person is
 * asked only on a cache miss. The sanitizer is inside the cache, so that secrets are never stored.
 */
export function createPipeline(given: PipelineParts): Pipeline {
  const health = new ToolHealth(given);
  const prepared = new PreparedCalls(given);
  const learned = new LearnedTools(given);
  const parts = {
    ...given,
    learned,
    runners: { ...ownRunners({ ...given, learned }), ...given.runners },
    prepared,
    health,
    services: new LocalServices(given),
    leftNames: new LeftNames(given),
    signingDoor: new SigningDoor(given),
    writes: new WritesByPrincipal(given.powers.uuid()),
  };
  const { auditLog, approvals, ledger, limits, powers, tracer } = parts;
  const queue = new FairQueue(limits);
  const metrics = new CallMetrics(limits);
  const asked: PermissionParts = { ...parts.permission, refused: (call, of) => isRefused(call, of, approvals) };
  const order = [
    audit(auditLog, metrics, powers),
    rateLimit(powers, limits),
    costCap(ledger),
    validate({ ...parts.permission, setUpOf: parts.setUpOf }),
    resolve(parts),
    permission(asked, parts.turns, parts.redact),
    cache({ results: parts.cache, limits, viewKeyOf: (call) => parts.viewOf(call).key }),
    previewFirst({ ...parts, run: (call): Promise<Outcome> => run(call) }),
    approve(approvals, approveDeps(parts)),
    intent(auditLog),
    retry(limits, powers),
    lock(limits),
    schedule(queue, limits, powers),
    sanitize(limits, powers),
  ] as const;
  const run = observed(inOrder(order, execute(parts)), {
    tracer,
    forget: (call) => {
      prepared.forget(call);
      parts.heap.used();
    },
  });
  return {
    queue,
    withOpenings: withOpenings(approvals),
    health,
    metrics,
    tracer,
    run,
    leftNames: parts.leftNames,
    learned,
  };
}

/** Whether a person said no to such calls for good. */
const isRefused = (call: CheckedCall, { command }: PolicyQuestion, approvals: Approvals): boolean =>
  approvals.refuses({
    tool: call.checked.tool.name,
    principal: call.principal,
    workspace: call.workspace,
    sessions: [memoryOf(call), call.accountId],
    // Most calls meet no such answer, and need not be read for it.
    programs: () => command && programsOf(command),
  });

/** What a person is shown, and what their approval is bound to. */
function approveDeps(parts: PipelineParts & ExecuteParts): ApproveDeps {
  const { limits, approvers, redact, writes } = parts;
  return {
    limits,
    approvers,
    redact,
    fingerprint,
    proposeRule,
    openingOf: (call) => openingOf(call, parts),
    questionNow: (call) => questionOf(call, parts.permission),
    preview: async (call) => {
      const { tool, input } = call.checked;
      const id = keptPreviewOf(tool, input);
      if (id !== undefined) return previewOfCommit(parts.previews.find(id, call), limits);
      return previewForPerson(call, parts);
    },
    // `writes` comes last, so that a call that begins while the files are looked at counts.
    context: async (call) => ({
      ...(await approvalContextOf(call, limits)),
      // A record that can't be read is no reason not to ask.
      usualMs: await pastDurationMs(parts.auditLog, call.checked.tool.name).catch(() => undefined),
      writes: writes.stateFor(call),
    }),
  };
}
