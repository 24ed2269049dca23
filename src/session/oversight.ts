/** What operators see and decide, and what a session may ask about its own permissions. */
import type { CallRecord } from '../call.ts';
import { RpcError, ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { DENIALS_MAX } from '../pipeline/execute/denials.ts';
import { decideWithEnvironment, type PermissionParts, toQuestion } from '../pipeline/permission.ts';
import type { JudgingRequest, JudgingTurns } from '../pipeline/queue/judging-turns.ts';
import { separate } from '../pipeline/separate-effects.ts';
import type { NamedTool } from '../pipeline/stage.ts';
import { parseInput } from '../pipeline/validate.ts';
import { toDecision } from '../policy/explain.ts';
import type { Params } from '../protocol/messages.ts';
import type { Approval, Resolution } from '../store/approvals/approval.ts';
import type { Approvals } from '../store/approvals/approvals.ts';
import type { AuditLog } from '../store/audit/log.ts';
import { ageMsOf } from '../store/audit/query.ts';
import type { Session } from './session.ts';

export interface OversightParts {
  readonly approvals: Approvals;
  readonly auditLog: AuditLog;
  readonly permission: PermissionParts;
  readonly turns: JudgingTurns;
  readonly limits: Limits;
  /** Loads the daemon's policy again; a bad file changes nothing. */
  reloadPolicy(): { readonly ok: boolean; readonly problems: readonly string[] };
}

export class Oversight {
  readonly #parts: OversightParts;
  /** Aborts requests that still wait for their turn; one controller for each session. */
  readonly #pendingRequests = new Map<string, AbortController>();

  constructor(parts: OversightParts) {
    this.#parts = parts;
  }

  approvals(): object {
    return { approvals: this.#parts.approvals.list() };
  }

  approval(approvalId: string): Approval | undefined {
    return this.#parts.approvals.get(approvalId);
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
    return { call, alsoSettled, ...(grant && { grant }), ...(proposedRule !== undefined && { proposedRule }) };
  }

  grants(): object {
    return { grants: this.#parts.approvals.grants() };
  }

  revoke(grantId: string, by: string): object {
    return { grant: this.#parts.approvals.revoke(grantId, by) };
  }

  async audit(params: Params<'audit.query'>): Promise<object> {
    return this.#parts.auditLog.query(params);
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
    const parsed = parse(named, input);
    const line = named.tool.commandOf?.(parsed as never);
    await this.#turn({ session, line: line?.command, targets: named.tool.effects(parsed as never).length });
    const question = toQuestion(named.tool, parsed, {
      asker: { principal, session, sawUntrusted, workspace, root },
      parts: this.#parts.permission,
    });
    const policy = policyNow();
    const decided = decideWithEnvironment(policy, question, line?.env);
    const separated = separate(policy, named.tool, { input: parsed, question, decided });
    if (!separated) return toDecision(decided, policy, question);
    const { rest, denied } = separated;
    return {
      ...toDecision(rest.decided, policy, rest.question),
      denied: denied.slice(0, DENIALS_MAX).map((it) => it.denial),
    };
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

function parse(named: NamedTool, input: unknown): unknown {
  try {
    return parseInput(named, input);
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    throw new RpcError('INVALID_PARAMS', error.message, error.toWire().details);
  }
}
