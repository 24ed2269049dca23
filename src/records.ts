/** What the daemon keeps of its doings: the audit log, approvals, costs. Each event of one is an entry of the other. */
import { join } from 'node:path';
import type { Limits } from './limits.ts';
import type { Powers } from './powers.ts';
import { redactValue } from './redact.ts';
import type { Events } from './session/events.ts';
import type { ApprovalEvent } from './store/approval.ts';
import { Approvals } from './store/approvals.ts';
import { type AuditEntry, AuditLog } from './store/audit-log.ts';
import { CostLedger } from './store/cost-ledger.ts';

export interface RecordsOptions {
  readonly stateDir: string;
  readonly limits: Limits;
  readonly powers: Powers;
  readonly events: Events;
}

export interface Records extends Disposable {
  readonly auditLog: AuditLog;
  readonly approvals: Approvals;
  readonly ledger: CostLedger;
  /** Plain data without secrets, by their form and by the names of their keys: for the log, and for people who decide. */
  redact<T>(value: T): T;
}

/** Opens what a daemon of this state directory has kept. Throws what SQLite throws when a file can't be used. */
export function createRecords({ stateDir, limits, powers, events }: RecordsOptions): Records {
  using parts = new DisposableStack();
  const at = (name: string) => join(stateDir, name);
  const redact = <T>(value: T): T => redactValue(value, { byKey: true }) as T;
  const onWritten = (entry: number) =>
    events.publish({ topic: 'audit', sessionId: '', method: 'audit.appended', params: { entry } });
  const auditLog = parts.use(new AuditLog(at('audit.db'), limits, powers, { redact, onWritten }));
  const onEvent = (event: ApprovalEvent) => {
    auditLog.append(entryOf(event));
    if (event.kind !== 'requested') auditLog.flush(); // An answer that is not on record has no effect.
    for (const it of noticesOf(event)) events.publish(it);
  };
  const approvals = parts.use(new Approvals({ path: at('approvals.db'), limits, powers, onEvent }));
  const ledger = parts.use(new CostLedger(at('costs.db'), limits, powers));
  const whole = parts.move();
  return { auditLog, approvals, ledger, redact, [Symbol.dispose]: () => whole.dispose() };
}

function entryOf(event: ApprovalEvent): AuditEntry {
  const { kind } = event;
  if ('approval' in event) {
    const { sessionId, principal, callId, tool, rule, effects, approvalId, impact } = event.approval;
    const settled = event.kind === 'resolved' ? event.settled : undefined;
    const detail = { event: kind, approvalId, impact: impact.level, ...settled };
    return { kind: 'approval', sessionId, principal, callId, tool, rule, effects, detail };
  }
  const { grantId, decision, scope, match, by, expiresAtMs, sessionId, principal, tool, rule } = event.grant;
  const detail = { event: kind, grantId, decision, scope, match, by, expiresAt: new Date(expiresAtMs).toISOString() };
  const callId = event.kind === 'grant-used' ? event.callId : undefined;
  return { kind: 'approval', sessionId, principal, tool, rule, detail, ...(callId !== undefined && { callId }) };
}

/** What operators who listen are told. */
function noticesOf(event: ApprovalEvent): Parameters<Events['publish']>[0][] {
  if (!('approval' in event)) return [];
  const { approval } = event;
  const { sessionId, approvalId, callId } = approval;
  const base = { topic: 'approvals', sessionId } as const;
  if (event.kind === 'requested' || event.kind === 'attached')
    return [{ ...base, method: 'approval.requested', params: { approval } }];
  if (event.kind !== 'resolved') return [];
  const { decision, by } = event.settled;
  return [{ ...base, method: 'approval.resolved', params: { approvalId, callId, decision, by } }];
}
