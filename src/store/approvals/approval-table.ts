/** Approvals on disk. Architecture invariant: each state change is one UPDATE that names the previous state. */
import type { DatabaseSync } from 'node:sqlite';
import { ToolError } from '../../base/errors.ts';
import { parseJson } from '../../base/text/json.ts';
import { picked } from '../../base/text/values.ts';
import { openDatabase, type Prepared, prepared } from '../database.ts';
import type { Approval, ApprovalDraft, ApprovalEnd, ApprovalState, GrantFacts, WholeQuestion } from './approval.ts';
import { digestOf, hashOfWhole } from './digest.ts';
import { approval, grantFacts } from './shapes.ts';

const SCHEMA = `CREATE TABLE IF NOT EXISTS approvals (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, approval_id TEXT NOT NULL UNIQUE, state TEXT NOT NULL,
  call_id TEXT NOT NULL, session_id TEXT NOT NULL, principal TEXT NOT NULL, workspace TEXT NOT NULL,
  binding_hash TEXT NOT NULL, subject_hash TEXT NOT NULL, requested_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,
  settled TEXT, body TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS whole_questions (approval_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS approvals_open ON approvals (state) WHERE state IN ('pending', 'approved');
CREATE INDEX IF NOT EXISTS approvals_subject ON approvals (subject_hash);
CREATE INDEX IF NOT EXISTS approvals_session ON approvals (session_id, requested_ms);
CREATE INDEX IF NOT EXISTS approvals_principal ON approvals (principal, requested_ms);`;

const STATEMENTS = {
  insert: `INSERT INTO approvals (approval_id, state, call_id, session_id, principal, workspace, binding_hash, subject_hash,
       requested_ms, expires_ms, body) VALUES (?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  prune: `DELETE FROM approvals WHERE seq <= (SELECT max(seq) FROM approvals) - ?
       AND (state NOT IN ('pending', 'approved') OR expires_ms <= ?)`,
  move: `UPDATE approvals SET state = :to, settled = coalesce(:settled, settled), expires_ms = coalesce(:expires, expires_ms)
       WHERE approval_id = :id AND state = :from AND (:alive IS NULL OR expires_ms > :alive)
       AND (:binding IS NULL OR binding_hash = :binding)`,
  attach: `UPDATE approvals SET call_id = ?, session_id = ?, body = iif(state = 'pending', ?, body)
       WHERE approval_id = ? AND state IN ('pending', 'approved')`,
  keepWhole: 'INSERT OR REPLACE INTO whole_questions VALUES (?, ?)',
  getWhole: 'SELECT body FROM whole_questions WHERE approval_id = ?',
  dropWhole: 'DELETE FROM whole_questions WHERE approval_id = ?',
  get: 'SELECT * FROM approvals WHERE approval_id = ?',
};

/** The part of a draft that has no columns of its own. */
type DraftBody = Omit<
  ApprovalDraft,
  'bindingHash' | 'subjectHash' | 'callId' | 'sessionId' | 'principal' | 'workspace' | 'whole'
> & {
  /** Hash of the whole question, if parts of it were cut. */
  readonly wholeHash?: string;
};

export interface ApprovalRow {
  readonly approvalId: string;
  readonly state: ApprovalState;
  readonly draft: Omit<ApprovalDraft, 'whole'> & DraftBody;
  readonly requestedMs: number;
  readonly expiresMs: number;
  readonly settled?: ApprovalEnd;
}

export interface StateTransition {
  readonly from: ApprovalState;
  readonly to: ApprovalState;
  readonly settled?: ApprovalEnd;
  /** Requires that the approval expires later than this, in milliseconds since the epoch. */
  readonly aliveAtMs?: number;
  readonly expiresMs?: number;
  /** Requires that the approval has this binding. */
  readonly bindingHash?: string;
}

export class ApprovalTable implements Disposable {
  readonly database: DatabaseSync;
  readonly #statements: Prepared<typeof STATEMENTS>;
  readonly #keptMax: number;

  constructor(path: string, keptMax: number) {
    this.database = openDatabase(path, SCHEMA);
    // FULL, since an approval that was used must not become usable again after a power cut.
    this.database.exec('PRAGMA synchronous = FULL');
    this.#keptMax = keptMax;
    this.#statements = prepared(this.database, STATEMENTS);
  }

  /** Stores a pending approval and returns its row. Throws STORE_FAILED; an approval that is not stored must not be shown. */
  insert(approvalId: string, draft: ApprovalDraft, requestedMs: number): ApprovalRow {
    const { bindingHash, subjectHash, callId, sessionId, principal, workspace } = draft;
    const expiresMs = requestedMs + draft.timeoutMs;
    const facts = [callId, sessionId, principal, workspace, bindingHash, subjectHash];
    const body = bodyOf(draft);
    this.#guard(() => {
      this.#statements.insert.run(approvalId, ...facts, requestedMs, expiresMs, JSON.stringify(body));
      if (draft.whole) this.#statements.keepWhole.run(approvalId, JSON.stringify(draft.whole));
      this.#statements.prune.run(this.#keptMax, requestedMs);
    });
    return this.get(approvalId) as ApprovalRow;
  }

  /** Moves an approval from one state to another; false if it was not in the first state. Throws STORE_FAILED. */
  move(approvalId: string, { from, to, settled, aliveAtMs, expiresMs, bindingHash }: StateTransition): boolean {
    const values = {
      id: approvalId,
      from,
      to,
      alive: aliveAtMs ?? null,
      expires: expiresMs ?? null,
      binding: bindingHash ?? null,
      settled: settled ? JSON.stringify(settled) : null,
    };
    return this.#guard(() => {
      const moved = this.#statements.move.run(values).changes === 1;
      if (moved) this.#statements.dropWhole.run(approvalId);
      return moved;
    });
  }

  /** Assigns an open approval to another call that asks the same; false if it is not open. Throws STORE_FAILED. */
  attach(approvalId: string, draft: ApprovalDraft): boolean {
    const { callId, sessionId } = draft;
    const body = JSON.stringify(bodyOf(draft));
    return this.#guard(() => this.#statements.attach.run(callId, sessionId, body, approvalId).changes === 1);
  }

  /** The parts of a pending question that were cut from it; undefined if none were. */
  wholeOf(approvalId: string): WholeQuestion | undefined {
    const body = this.#statements.getWhole.get(approvalId)?.body;
    return body === undefined ? undefined : (parseJson(body as string) as WholeQuestion);
  }

  get(approvalId: string): ApprovalRow | undefined {
    const row = this.#statements.get.get(approvalId);
    return row && toRow(row);
  }

  /** Pending approvals, oldest first. */
  pending(): ApprovalRow[] {
    return this.#rows("WHERE state = 'pending' ORDER BY seq");
  }

  /** Open approvals that such a call may take over, answered ones first. */
  open(
    { bindingHash, principal, workspace }: Pick<ApprovalDraft, 'bindingHash' | 'principal' | 'workspace'>,
    nowMs: number,
  ): ApprovalRow[] {
    return this.#rows(
      `WHERE state IN ('pending', 'approved') AND binding_hash = ? AND principal = ? AND workspace = ? AND expires_ms > ?
       ORDER BY state, seq`,
      ...[bindingHash, principal, workspace, nowMs],
    );
  }

  /** How many approvals are kept, by state. */
  counts(): Record<string, number> {
    const rows = this.database.prepare('SELECT state, count(*) AS n FROM approvals GROUP BY state').all();
    return Object.fromEntries(rows.map(({ state, n }) => [state as string, n as number]));
  }

  /** Approvals of the same subject in the given state, newest first. */
  ofSubject(state: ApprovalState, { subjectHash, principal, workspace }: GrantFacts | ApprovalDraft): ApprovalRow[] {
    return this.#rows(
      'WHERE subject_hash = ? AND state = ? AND principal = ? AND workspace = ? ORDER BY seq DESC LIMIT 16',
      ...[subjectHash, state, principal, workspace],
    );
  }

  /** Times after `sinceMs` at which approvals were requested, oldest first. */
  requestedSince(of: { session_id: string } | { principal: string }, sinceMs: number): number[] {
    const [[column, value]] = Object.entries(of) as [[string, string]];
    const sql = `SELECT requested_ms FROM approvals WHERE ${column} = ? AND requested_ms > ? ORDER BY requested_ms`;
    return this.database
      .prepare(sql)
      .all(value, sinceMs)
      .map((it) => it.requested_ms as number);
  }

  /** Runs `work` in one transaction. Throws what `work` throws. */
  transaction<T>(work: () => T): T {
    this.#guard(() => this.database.exec('BEGIN IMMEDIATE'));
    try {
      const result = work();
      this.#guard(() => this.database.exec('COMMIT'));
      return result;
    } catch (error) {
      if (this.database.isTransaction) this.database.exec('ROLLBACK');
      throw error;
    }
  }

  [Symbol.dispose](): void {
    if (this.database.isOpen) this.database.close();
  }

  #rows(where: string, ...values: (string | number)[]): ApprovalRow[] {
    return this.database
      .prepare(`SELECT * FROM approvals ${where}`)
      .all(...values)
      .map(toRow);
  }

  #guard<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw new ToolError('STORE_FAILED', 'the store of approvals could not be written', { cause: error });
    }
  }
}

function toRow(row: Record<string, unknown>): ApprovalRow {
  const text = (column: string) => row[column] as string;
  const draft: ApprovalDraft = {
    ...(parseJson(text('body')) as DraftBody),
    callId: text('call_id'),
    sessionId: text('session_id'),
    principal: text('principal'),
    workspace: text('workspace'),
    bindingHash: text('binding_hash'),
    subjectHash: text('subject_hash'),
  };
  return {
    approvalId: text('approval_id'),
    state: text('state') as ApprovalState,
    draft,
    requestedMs: row.requested_ms as number,
    expiresMs: row.expires_ms as number,
    ...(row.settled !== null && { settled: parseJson(text('settled')) as ApprovalEnd }),
  };
}

/** The part of a draft that has no columns of its own. */
function bodyOf(draft: ApprovalDraft): DraftBody {
  const { bindingHash, subjectHash, callId, sessionId, principal, workspace, whole, ...body } = draft;
  return whole ? { ...body, wholeHash: hashOfWhole(whole) } : body;
}

const SHOWN = namesOf(approval.omit({ approvalId: true, requestedAt: true, expiresAt: true, digest: true }));
const FACTS = [...namesOf(grantFacts.omit({ level: true })), 'hasInlineCode', 'sessionName'] as const;

/** The public view of a row. */
export function toApproval({ approvalId, draft, requestedMs, expiresMs }: ApprovalRow): Approval {
  const shown = picked(draft, SHOWN);
  return {
    approvalId,
    ...shown,
    requestedAt: new Date(requestedMs).toISOString(),
    expiresAt: new Date(expiresMs).toISOString(),
    digest: digestOf(shown, draft.wholeHash, draft.proposedRule),
  };
}

/** The facts that remembered answers are matched against. */
export function toFacts({ draft }: Pick<ApprovalRow, 'draft'>): GrantFacts {
  const { door, impact } = draft;
  const ofDoor = door && { door: { kind: door.kind, target: door.target } };
  return { ...picked(draft, FACTS), level: impact.level, ...ofDoor };
}

function namesOf<Shape extends object>({ shape }: { readonly shape: Shape }): readonly (keyof Shape)[] {
  return Object.keys(shape) as (keyof Shape)[];
}
