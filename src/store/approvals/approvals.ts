/**
 * Questions to a person: stored before they are shown, answered once, used once, and kept across restarts. Architecture invariant: only
 * `use` leads to a run, and it moves exactly one approved row to `used`.
 */
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';
import { leavesQuestion, notAnswerable, SYSTEM, toAnswer, unanswered } from './answers.ts';
import type {
  AnswerResult,
  Approval,
  ApprovalDraft,
  ApprovalEnd,
  ApprovalEvent,
  DoorTarget,
  Grant,
  GrantFacts,
  Openings,
  PersonAnswer,
  Resolution,
  WholeApproval,
} from './approval.ts';
import { type ApprovalRow, ApprovalTable, toApproval, toFacts } from './approval-table.ts';
import { covers, Grants, type ToolCaller } from './grants.ts';
import { assertMayAsk } from './prompt-limit.ts';
import { assertShown, recordAnswer, toClosing, toGrant } from './resolution.ts';

export interface ApprovalsOptions {
  /** Path of the database file, which holds nothing else. */
  readonly path: string;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Records an answer or its use durably before it takes effect. Throws STORE_FAILED, and then it has no effect. */
  record?(event: ApprovalEvent): void;
  /** Called for every event after it was stored; its errors are logged. */
  onEvent(event: ApprovalEvent): void;
}

export interface ApprovalRequestOptions {
  /** Aborted with a ToolError; some errors leave the question open (`leavesQuestion`), others withdraw it. */
  readonly signal: AbortSignal;
  /** Called when the question is stored, before anybody is notified. */
  onRequested?(approval: Approval): void;
}

interface ApprovalWaiter {
  settle(answer: PersonAnswer): void;
  fail(reason: Error): void;
}

const FEEDBACK_CHARS_MAX = 4096;

export class Approvals implements Disposable {
  readonly #options: ApprovalsOptions;
  readonly #table: ApprovalTable;
  readonly #grants: Grants;
  /** Calls that wait now, by approval. */
  readonly #waiters = new Map<string, ApprovalWaiter>();
  /** Approvals held by a live call from its question to its end; another call may attach to any other open approval. */
  readonly #heldByCalls = new Set<string>();
  /** Expiry timers of pending approvals. */
  readonly #timers = new Map<string, Timer>();

  /** Loads the approvals of an earlier daemon. Throws SQLite errors if the file can't be used. */
  constructor(options: ApprovalsOptions) {
    const { path, limits, powers } = options;
    this.#options = options;
    this.#table = new ApprovalTable(path, limits.approvalsKept);
    this.#grants = new Grants(this.#table.database, powers.now(), limits.grantsMax);
    for (const row of this.#table.pending()) this.#expireLater(row);
  }

  /** Pending ones, oldest first. */
  list(): Approval[] {
    return this.#table.pending().map(toApproval);
  }

  get pendingCount(): number {
    return this.#timers.size;
  }

  get(approvalId: string): Approval | undefined {
    const row = this.#table.get(approvalId);
    return row && toApproval(row);
  }

  /** A pending question with all that was cut from it. Throws RpcError INVALID_PARAMS for an approval that is not pending. */
  whole(approvalId: string): WholeApproval {
    const row = this.#answerable(approvalId);
    const approval = toApproval(row);
    const { input, effects, diff } = approval;
    const whole = this.#table.wholeOf(approvalId) ?? { input, effects, diff };
    const { proposedRule } = row.draft;
    return { approval, whole, proposedRule };
  }

  /**
   * Asks a person, or attaches to the same stored question, and waits for the answer. Throws RATE_LIMITED, STORE_FAILED, APPROVAL_TIMEOUT,
   * and the signal's reason. After an answer the caller must call `release` when the call is over.
   */
  async request(draft: ApprovalDraft, { signal, onRequested }: ApprovalRequestOptions): Promise<PersonAnswer> {
    signal.throwIfAborted();
    const { row, isNew } = this.#stored(draft);
    const { approvalId } = row;
    this.#heldByCalls.add(approvalId);
    const approval = toApproval(row);
    if (row.state === 'approved') {
      this.#notify({ kind: 'attached', approval });
      return toAnswer(row);
    }
    const { promise, resolve, reject } = Promise.withResolvers<PersonAnswer>();
    const giveUp = () => {
      const reason = signal.reason as ToolError;
      this.#waiters.delete(approvalId);
      this.#heldByCalls.delete(approvalId);
      if (!leavesQuestion(reason)) this.#endQuietly(row, 'withdrawn');
      reject(reason);
    };
    const done = () => {
      this.#waiters.delete(approvalId);
      signal.removeEventListener('abort', giveUp);
    };
    this.#waiters.set(approvalId, {
      settle(answer) {
        done();
        resolve(answer);
      },
      fail: (reason) => {
        done();
        this.#heldByCalls.delete(approvalId);
        reject(reason);
      },
    });
    signal.addEventListener('abort', giveUp);
    onRequested?.(approval);
    this.#notify({ kind: isNew ? 'requested' : 'attached', approval });
    return promise;
  }

  /**
   * Stores a person's answer. Throws RpcError INVALID_PARAMS for an approval that is unknown, answered, expired or not what the person
   * saw, and for an answer that may not be remembered; STORE_FAILED.
   */
  resolve(approvalId: string, resolution: Resolution): AnswerResult {
    const row = this.#answerable(approvalId);
    assertShown(row, resolution);
    const grant = toGrant(row, resolution, this.#options.powers);
    if ((resolution.feedback?.length ?? 0) > FEEDBACK_CHARS_MAX)
      throw new RpcError('INVALID_PARAMS', `feedback takes at most ${FEEDBACK_CHARS_MAX} characters`);
    const settled = this.#settledNow(resolution);
    this.#table.transaction(() => {
      if (!this.#settle(row, resolution)) throw this.#notAnswerable(approvalId);
      recordAnswer({ kind: 'resolved', approval: toApproval(row), settled }, this.#options);
      // Must come last, since a rollback would not undo the change in memory.
      if (grant) this.#grants.add(grant);
    });
    this.#announce(row, settled);
    if (grant) this.#notify({ kind: 'granted', grant });
    const alsoSettled = grant ? this.#settleOthers(grant) : [];
    const { proposedRule } = row.draft;
    const offers = grant?.scope === 'always' && grant.decision === 'approve' && proposedRule !== undefined;
    return {
      approval: this.get(approvalId) ?? toApproval(row),
      grant,
      ...(offers && { proposedRule }),
      alsoSettled,
    };
  }

  /** The remembered answer for a call with decision `ask`, if there is one. */
  remembered(facts: GrantFacts, callId: string): Grant | undefined {
    const grant = this.#grants.covering(facts, this.#options.powers.now());
    if (grant) this.#notify({ kind: 'grant-used', grant, callId, facts });
    return grant;
  }

  /** Whether a person said no to such calls for good, those that the policy allows included. */
  refuses(of: ToolCaller): boolean {
    return this.#grants.refuses(of, this.#options.powers.now());
  }

  /** How many questions there were of late, by what became of them. */
  counts(): Record<string, number> {
    return this.#table.counts();
  }

  /** A person's recent denial of the identical call, if there is one. */
  deniedLately(facts: GrantFacts): PersonAnswer | undefined {
    const since = this.#options.powers.now() - this.#options.limits.approvalDeniedMs;
    const row = this.#table
      .ofSubject('denied', facts)
      .find(({ settled }) => settled !== undefined && Date.parse(settled.at) > since);
    if (!row) return undefined;
    const { feedback, ...answer } = toAnswer(row);
    // Feedback is meant for one session only.
    return { ...answer, ...(feedback !== undefined && row.draft.sessionId === facts.sessionId && { feedback }) };
  }

  /** Whether an approval for such a call is stored and no live call holds it, so that asking needs no person. */
  isAnswered(facts: GrantFacts): boolean {
    const now = this.#options.powers.now();
    return this.#table
      .ofSubject('approved', facts)
      .some(({ approvalId, expiresMs }) => expiresMs > now && !this.#heldByCalls.has(approvalId));
  }

  /** Uses up the approval of a call that is about to run. Throws APPROVAL_STALE if there is no usable one, STORE_FAILED. */
  use(approvalId: string, bindingHash: string): void {
    const move = { from: 'approved', to: 'used', aliveAtMs: this.#options.powers.now(), bindingHash } as const;
    const used = this.#table.transaction(() => {
      const moved = this.#table.move(approvalId, move);
      const row = moved && this.#table.get(approvalId);
      if (row) this.#options.record?.({ kind: 'used', approval: toApproval(row) });
      return moved;
    });
    if (!used) {
      const state = this.#table.get(approvalId)?.state ?? 'forgotten';
      const why = state === 'approved' ? 'has expired, or was given for another call' : `is already ${state}`;
      throw new ToolError('APPROVAL_STALE', `approval ${approvalId} ${why}`, {
        suggestion: 'Call again to ask the person again.',
        details: { approvalId },
      });
    }
    const row = this.#table.get(approvalId);
    if (row) this.#notify({ kind: 'used', approval: toApproval(row) });
  }

  /** Ends the hold of a call that is over or will not run. An unused approval is withdrawn, or kept for the same call made again. */
  release(approvalId: string, { withdraw }: { withdraw: boolean }): void {
    this.#heldByCalls.delete(approvalId);
    const row = withdraw ? this.#table.get(approvalId) : undefined;
    if (row?.state === 'approved') this.#endQuietly(row, 'withdrawn');
  }

  /** Remembered answers in force, oldest first. */
  readonly grants = (): Grant[] => this.#grants.list(this.#options.powers.now());

  /** What a session may see by answers of a person; `factsAt` gives its facts at a door. */
  readonly opened = (factsAt: (door: DoorTarget) => GrantFacts): Openings =>
    this.#grants.opened(factsAt, this.#options.powers.now());

  /** Has nobody asked about hosts in this session any more, until the answer that says so is revoked. */
  closeDoors(facts: GrantFacts): void {
    const grant = toClosing(facts, this.#options.limits.doorClosedMs, this.#options.powers);
    this.#grants.add(grant);
    this.#notify({ kind: 'granted', grant });
  }

  /** Revokes a remembered answer; `by` is for the record. Throws RpcError INVALID_PARAMS if there is none with this id. */
  revoke(grantId: string, by: string): Grant {
    const grant = this.#grants.revoke(grantId);
    if (!grant) throw new RpcError('INVALID_PARAMS', `no remembered answer has the id ${grantId.slice(0, 64)}`);
    this.#notify({ kind: 'revoked', grant, by });
    return grant;
  }

  /** Revokes all remembered answers; `by` is for the record. */
  revokeAll(by: string): Grant[] {
    const grants = this.#grants.revokeAll();
    for (const grant of grants) this.#notify({ kind: 'revoked', grant, by });
    return grants;
  }

  /** Forgets the answers remembered for this session only. */
  endSession(sessionId: string): void {
    this.#grants.endSession(sessionId);
  }

  /** Stops waiting; pending approvals stay in the store. */
  [Symbol.dispose](): void {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    for (const { fail } of [...this.#waiters.values()])
      fail(new ToolError('SHUTTING_DOWN', 'the daemon is shutting down; the question waits for the next daemon'));
    this.#table[Symbol.dispose]();
  }

  /** The same stored question if no call holds it, otherwise a new one. */
  #stored(draft: ApprovalDraft): { row: ApprovalRow; isNew: boolean } {
    const { powers, limits } = this.#options;
    const found = this.#table.open(draft, powers.now()).find(({ approvalId }) => !this.#heldByCalls.has(approvalId));
    if (found && this.#table.attach(found.approvalId, draft))
      return { row: this.#table.get(found.approvalId) as ApprovalRow, isNew: false };
    assertMayAsk(this.#table, draft, limits, powers.now());
    const row = this.#table.insert(`a_${powers.secret().slice(0, 12)}`, draft, powers.now());
    this.#expireLater(row);
    return { row, isNew: true };
  }

  #answerable(approvalId: string): ApprovalRow {
    const row = this.#table.get(approvalId);
    if (row?.state === 'pending' && row.expiresMs <= this.#options.powers.now()) this.#expire(row);
    else if (row?.state === 'pending') return row;
    throw this.#notAnswerable(approvalId);
  }

  #notAnswerable(approvalId: string): RpcError {
    return notAnswerable(approvalId, this.#table.get(approvalId));
  }

  #settleOthers(grant: Grant): string[] {
    const { decision, feedback, grantId } = grant;
    const resolution: Resolution = { decision, feedback, by: `grant ${grantId}` };
    const now = this.#options.powers.now();
    return this.#table
      .pending()
      .filter((row) => row.expiresMs > now && covers(grant, toFacts(row)) && this.#settleOnRecord(row, resolution))
      .map((row) => {
        this.#announce(row, this.#settledNow(resolution));
        return row.approvalId;
      });
  }

  /** Whether a remembered answer settled the approval; if it can't be recorded, the question is left to the person. */
  #settleOnRecord(row: ApprovalRow, resolution: Resolution): boolean {
    try {
      return this.#table.transaction(() => {
        const settled = this.#settle(row, resolution);
        if (settled)
          recordAnswer(
            { kind: 'resolved', approval: toApproval(row), settled: this.#settledNow(resolution) },
            this.#options,
          );
        return settled;
      });
    } catch {
      return false; // The error is INTERNAL and was logged.
    }
  }

  /** Applies an answer; false if the approval was no longer pending. An approval stays usable for as long as it could have been given. */
  #settle({ approvalId, requestedMs, expiresMs }: ApprovalRow, resolution: Resolution): boolean {
    const approves = resolution.decision === 'approve';
    const now = this.#options.powers.now();
    return this.#table.move(approvalId, {
      from: 'pending',
      to: approves ? 'approved' : 'denied',
      settled: this.#settledNow(resolution),
      aliveAtMs: now,
      ...(approves && { expiresMs: now + (expiresMs - requestedMs) }),
    });
  }

  #settledNow({
    decision,
    by,
    feedback,
  }: Omit<ApprovalEnd, 'at' | 'feedback'> & { feedback?: string | undefined }): ApprovalEnd {
    const at = new Date(this.#options.powers.now()).toISOString();
    return { decision, by, at, ...(feedback !== undefined && feedback !== '' && { feedback }) };
  }

  /** Notifies listeners and the waiting call. */
  #announce(row: ApprovalRow, settled: ApprovalEnd): void {
    const { approvalId } = row;
    this.#timers.get(approvalId)?.cancel();
    this.#timers.delete(approvalId);
    const waiter = this.#waiters.get(approvalId);
    if (settled.decision === 'approve' || settled.decision === 'deny') waiter?.settle(toAnswer({ ...row, settled }));
    else waiter?.fail(unanswered(row));
    this.#notify({ kind: 'resolved', approval: toApproval(row), settled });
  }

  #expireLater(row: ApprovalRow): void {
    const { powers } = this.#options;
    const delayMs = Math.max(0, row.expiresMs - powers.now());
    this.#timers.set(
      row.approvalId,
      powers.after(delayMs, () => this.#expire(row)),
    );
  }

  #expire(row: ApprovalRow): void {
    this.#endQuietly(row, 'expired');
  }

  /** Ends an approval without an answer; store errors are logged, since no caller waits for it. */
  #endQuietly(row: ApprovalRow, to: 'expired' | 'withdrawn'): void {
    const settled = this.#settledNow({ decision: to, by: SYSTEM });
    const { approvalId } = row;
    try {
      const ended =
        this.#table.move(approvalId, { from: 'pending', to, settled }) ||
        (to === 'withdrawn' && this.#table.move(approvalId, { from: 'approved', to, settled }));
      if (ended) this.#announce(this.#table.get(approvalId) ?? row, settled);
    } catch (error) {
      this.#options.powers.log.error({ error, approvalId }, 'an approval could not be ended in the store');
      this.#waiters.get(approvalId)?.fail(unanswered(row));
    }
  }

  #notify(event: ApprovalEvent): void {
    try {
      this.#options.onEvent(event);
    } catch (error) {
      this.#options.powers.log.error({ error, kind: event.kind }, 'an approval event could not be sent');
    }
  }
}
