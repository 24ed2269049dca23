/** What operators see and decide, and what a session may ask about its own permissions. */
import type { CallRecord } from '../base/call.ts';
import { RpcError, ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { TIERS } from '../base/result-shapes.ts';
import { Backtest } from '../pipeline/backtest.ts';
import { limitsOf } from '../pipeline/cost-cap.ts';
import { doorsAhead } from '../pipeline/doors/doors-ahead.ts';
import { DENIALS_MAX } from '../pipeline/execute/denials.ts';
import { narrowInput } from '../pipeline/input/narrow-input.ts';
import { parseInput } from '../pipeline/input/validate.ts';
import { asksAnyway, decideWithEnvironment, type PermissionParts, toQuestion } from '../pipeline/permission.ts';
import type { JudgingRequest, JudgingTurns } from '../pipeline/queue/judging-turns.ts';
import { separate } from '../pipeline/separate-effects.ts';
import { proposeRule, toDecision } from '../policy/explain.ts';
import { PolicyError } from '../policy/policy-error.ts';
import type { Policy } from '../policy/schema.ts';
import type { Approval, Grant, Resolution } from '../store/approvals/approval.ts';
import type { Approvals } from '../store/approvals/approvals.ts';
import { callDays } from '../store/audit/daily.ts';
import type { AuditLog } from '../store/audit/log.ts';
import { ageMsOf } from '../store/audit/query.ts';
import { toolUsage, type Usage } from '../store/audit/tool-usage.ts';
import type { CostLedger } from '../store/cost-ledger.ts';
import type { Params } from '../wire/protocol/messages.ts';
import type { Session } from './session.ts';

/** Counting the record of a day takes longer than a list of tools may. */
const TIMES_MS = 60_000;

export interface OversightParts {
  readonly approvals: Approvals;
  readonly auditLog: AuditLog;
  readonly ledger: Pick<CostLedger, 'byTool' | 'lostReservations' | 'spentUsd'>;
  readonly permission: PermissionParts;
  readonly turns: JudgingTurns;
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'monotonicMs'>;
  /** Reads the text of a policy file. Throws PolicyError. */
  parsePolicy(text: string): Policy;
  /** Loads the daemon's policy again; a bad file changes nothing. */
  reloadPolicy(): { readonly ok: boolean; readonly problems: readonly string[] };
}

export class Oversight {
  readonly #parts: OversightParts;
  /** Aborts requests that still wait for their turn; one controller for each session. */
  readonly #pendingRequests = new Map<string, AbortController>();

  #times: { readonly atMs: number; readonly counted: Promise<ReadonlyMap<string, number>> } | undefined;

  constructor(parts: OversightParts) {
    this.#parts = parts;
  }

  approvals(): object {
    return { approvals: this.#parts.approvals.list() };
  }

  approval(approvalId: string): Approval | undefined {
    return this.#parts.approvals.get(approvalId);
  }

  wholeApproval(approvalId: string): object {
    return this.#parts.approvals.whole(approvalId);
  }

  isPending(approvalId: string): boolean {
    return this.#parts.approvals.list().some((it) => it.approvalId === approvalId);
  }

  /** `recordOf` finds the call of the approval if the call is still known. */
  resolve(
    { approvalId, ...resolution }: Pick<Approval, 'approvalId'> & Omit<Resolution, 'by'>,
    by: string,
    recordOf: (sessionId: string, callId: string) => CallRecord | undefined,
  ): object {
    const { approval, grant, proposedRule, alsoSettled } = this.#parts.approvals.resolve(approvalId, {
      ...resolution,
      by,
    });
    const { callId, sessionId, tool, requestedAt } = approval;
    // A call from before a restart is gone; the answer waits for the same call to be made again.
    const call = recordOf(sessionId, callId) ?? {
      callId,
      tool,
      sessionId,
      createdAt: requestedAt,
      state: { status: 'blocked-on-user', approvalId },
    };
    return { call, alsoSettled, grant, proposedRule };
  }

  grants(): object {
    const { approvals } = this.#parts;
    const grants = approvals.grants();
    const of = (decision: Grant['decision']) => {
      const all = grants.filter((it) => it.decision === decision);
      return { count: all.length, tools: [...new Set(all.map((it) => it.tool))] };
    };
    return { grants, statistics: { approve: of('approve'), deny: of('deny'), questions: approvals.counts() } };
  }

  /** Revokes one remembered answer, or all of them. Throws RpcError INVALID_PARAMS. */
  revoke(params: Params<'approvals.revoke'>, by: string): object {
    const { approvals } = this.#parts;
    return 'all' in params ? { grants: approvals.revokeAll(by) } : { grant: approvals.revoke(params.grantId, by) };
  }

  async audit(params: Params<'audit.query'>): Promise<object> {
    return this.#parts.auditLog.query(params);
  }

  async daily({ days }: Params<'audit.daily'>): Promise<object> {
    return { days: await this.#parts.auditLog.counted((it) => callDays(it, days)) };
  }

  /** How tools were used in the last hours. */
  usage({ hours, tool }: Params<'tools.stats'>): Promise<Usage> {
    const { auditLog, limits } = this.#parts;
    return auditLog.counted((it) => toolUsage(it, { hours, tool, limits }));
  }

  /** The usual time of calls by tool, in milliseconds: counted anew after a minute. */
  usualTimes(): Promise<ReadonlyMap<string, number>> {
    const nowMs = this.#parts.powers.monotonicMs();
    if (this.#times && nowMs - this.#times.atMs < TIMES_MS) return this.#times.counted;
    const counted = this.usage({ hours: 24 }).then(
      ({ tools }) => new Map(tools.flatMap(({ tool, p50Ms }) => (p50Ms === undefined ? [] : [[tool, p50Ms]]))),
    );
    this.#times = { atMs: nowMs, counted };
    return counted;
  }

  async verify(): Promise<object> {
    return this.#parts.auditLog.verify();
  }

  /**
   * Drops old entries; the log records who asked for it. Throws RpcError INVALID_PARAMS for an age that is none or that is less than the
   * log keeps, INTERNAL if the log can't be written.
   */
  async prune(params: Params<'audit.prune'>, by: string): Promise<{ dropped: number; entries: number }> {
    const { auditLog, limits } = this.#parts;
    const olderThanMs = 'olderThan' in params ? ageMsOf(params.olderThan) : undefined;
    if ('olderThan' in params && olderThanMs === undefined)
      throw new RpcError('INVALID_PARAMS', `${params.olderThan} is no age such as 30d or 12h`);
    if (olderThanMs !== undefined && olderThanMs < limits.auditMinAgeMs)
      throw new RpcError(
        'INVALID_PARAMS',
        `entries younger than ${limits.auditMinAgeMs} ms are kept (auditMinAgeMs); ${olderThanMs} ms is less`,
      );
    try {
      const keep = 'keep' in params ? params.keep : undefined;
      const dropped = await auditLog.dropOldest({ by, olderThanMs, keep });
      return { dropped, entries: auditLog.entries };
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      throw new RpcError('INTERNAL', error.message);
    }
  }

  /** What calls have cost, and how near each tier is to its limits. */
  costs({ policy: policyNow }: Session, { days }: Params<'costs.read'>): object {
    const { ledger } = this.#parts;
    const policy = policyNow();
    const today = TIERS.flatMap((tier) => {
      const { day: usd } = ledger.spentUsd({ tier, principal: '', sessionId: '' });
      const { max, dayAskAbove } = limitsOf(policy, tier);
      const limits = {
        ...finite('askAboveUsd', dayAskAbove),
        ...finite('mostUsd', max.day),
        ...finite('mostUsdPerPrincipal', max.principal),
      };
      return usd > 0 || Object.keys(limits).length > 0 ? [{ tier, usd, ...limits }] : [];
    });
    return { costs: ledger.byTool(days), today, lost: ledger.lostReservations() };
  }

  reload(): { readonly ok: boolean; readonly problems: readonly string[] } {
    return this.#parts.reloadPolicy();
  }

  /** The complete policy of the session. */
  policy(session: Session): object {
    return session.policy();
  }

  /** Explains how a call would be decided, without making it. Throws OVERLOADED while too many explanations wait. */
  async explain(
    { options, policy: policyNow, sawUntrusted: hasSeen }: Session,
    { tool: name, input, sawUntrusted = hasSeen }: Params<'policy.explain'>,
  ): Promise<object> {
    const named = options.toolset.get(name);
    if (!named) throw new RpcError('INVALID_PARAMS', `there is no tool ${name} in this session`);
    const { id: session, principal, workspace, root } = options;
    const place = { workspace, home: this.#parts.permission.home };
    const parsed = asParams(() => narrowInput(named.tool, parseInput(named, input, place), policyNow()).input);
    const line = named.tool.commandOf?.(parsed as never);
    await this.#turn({ session, line: line?.command, targets: named.tool.effects(parsed as never).length });
    const question = toQuestion(named.tool, parsed, {
      asker: { principal, session, sawUntrusted, workspace, root },
      parts: this.#parts.permission,
    });
    const policy = policyNow();
    const decided = decideWithEnvironment(policy, question, line?.env);
    const separated = separate(policy, named.tool, { input: parsed, question, decided });
    const doors = question.command && { doors: doorsAhead(question.command, policy) };
    const { rest, denied } = separated ?? { rest: { input: parsed, question, decided } };
    const told = toDecision(rest.decided, policy, rest.question);
    const isAsked = told.decision === 'allow' && asksAnyway(named.tool, rest.input, rest.question);
    // An allow rule opens what only a tier keeps closed; a rule that asks or denies wins over it.
    const isOfTier = told.decision !== 'allow' && !isAsked && told.rules[0]?.id.startsWith('tiers.') === true;
    return {
      ...told,
      ...(isOfTier && { rule: proposeRule(rest.question) }),
      ...(isAsked && { decision: 'ask', suggestion: 'A person is asked about each such call under any policy.' }),
      denied: denied?.slice(0, DENIALS_MAX).map((it) => it.denial),
      ...doors,
    };
  }

  /**
   * Decides the recorded calls again by the text of a policy file, beside the policy in force. Throws RpcError INVALID_PARAMS with the
   * problems of the text.
   */
  async backtest(
    { options, policy: policyNow }: Session,
    { policy: text, since }: Params<'policy.backtest'>,
  ): Promise<object> {
    const { auditLog, permission, limits } = this.#parts;
    const fresh = this.#parsePolicy(text);
    const backtest = new Backtest({ old: policyNow(), new: fresh, toolset: options.toolset, parts: permission });
    const { comparison } = backtest;
    // Sessions may have begun long before the calls.
    for await (const it of auditLog.records({ kind: 'session', order: 'oldest' })) backtest.add(it);
    let entries = 0;
    for await (const it of auditLog.records({ since, order: 'oldest' })) {
      backtest.add(it);
      entries += 1;
      const { length } = comparison.differences;
      if (entries >= limits.backtestEntriesMax || length >= limits.backtestDifferencesMax)
        return { ...comparison, cut: true };
    }
    return { ...comparison, cut: false };
  }

  #parsePolicy(text: string): Policy {
    const { policyFileBytesMax } = this.#parts.limits;
    const bytes = Buffer.byteLength(text);
    if (bytes > policyFileBytesMax)
      throw new RpcError('INVALID_PARAMS', `the policy has ${bytes} bytes; at most ${policyFileBytesMax} are read`);
    try {
      return this.#parts.parsePolicy(text);
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      const { problems } = error;
      throw new RpcError('INVALID_PARAMS', problems[0] ?? 'the policy can not be read', { problems });
    }
  }

  /** Ends the session's requests, since nobody reads their answers any more. */
  sessionEnded({ options }: Session): void {
    this.#parts.approvals.endSession(options.id);
    this.#pendingRequests.get(options.id)?.abort(new ToolError('CANCELLED', 'the connection ended'));
    this.#pendingRequests.delete(options.id);
  }

  async #turn(turn: Omit<JudgingRequest, 'signal'>): Promise<void> {
    const { turns } = this.#parts;
    if (!turns.isHeavy(turn)) return;
    const { session } = turn;
    const end = this.#pendingRequests.get(session) ?? new AbortController();
    this.#pendingRequests.set(session, end);
    try {
      await turns.take({ ...turn, signal: end.signal });
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      throw new RpcError('OVERLOADED', error.message);
    }
  }
}

/** A limit by its name, if there is one. */
const finite = (name: string, usd = Infinity): Record<string, number> => (Number.isFinite(usd) ? { [name]: usd } : {});

function asParams<T>(parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    throw new RpcError('INVALID_PARAMS', error.message, error.toWire().details);
  }
}
