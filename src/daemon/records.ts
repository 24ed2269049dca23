/** The daemon's records: audit log, approvals, costs, calls, tool states. Events of the others are entries of the audit log. */
import { join } from 'node:path';
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import { redactValue } from '../base/redact.ts';
import type { Events } from '../gateway/events.ts';
import type { ApprovalEvent } from '../store/approvals/approval.ts';
import { Approvals } from '../store/approvals/approvals.ts';
import { UntrustedMarks } from '../store/approvals/untrusted-marks.ts';
import { type AuditEntry, AuditLog } from '../store/audit/log.ts';
import { CallStore } from '../store/call-store.ts';
import { CostLedger } from '../store/cost-ledger.ts';
import { DiskRoom } from '../store/disk-room.ts';
import { PanelSessions } from '../store/panel-sessions.ts';
import { ToolStates } from '../store/tool-states.ts';
import { UndoJournal } from '../store/undo/undo-journal.ts';
import { WebCache } from '../store/web-cache.ts';

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
  readonly callStore: CallStore;
  readonly toolStates: ToolStates;
  readonly panelSessions: PanelSessions;
  readonly undoJournal: UndoJournal;
  readonly untrusted: UntrustedMarks;
  readonly webCache: WebCache;
  readonly diskRoom: DiskRoom;
  /** Hides secrets in plain data, found by their form and by the names of their keys: for the log, and for people who decide. */
  redact<T>(value: T): T;
}

/** Opens the records in a state directory. Throws SQLite's error for a file that can't be used. */
export function createRecords({ stateDir, limits, powers, events }: RecordsOptions): Records {
  using parts = new DisposableStack();
  const at = (name: string) => join(stateDir, name);
  const redact = <T>(value: T): T => redactValue(value, { byKey: true }) as T;
  const onWritten = (entry: number) =>
    events.publish({ topic: 'audit', sessionId: '', method: 'audit.appended', params: { entry } });
  const diskRoom = parts.use(new DiskRoom({ stateDir, limits, powers }));
  const makeRoom = () => diskRoom.makeRoom();
  const auditLog = parts.use(new AuditLog(at('audit.db'), limits, powers, { redact, onWritten, makeRoom }));
  // Refused before the append if the log can't be written: a later entry would record something that never happened.
  const record = (event: ApprovalEvent) => {
    if (!auditLog.writable) throw new ToolError('STORE_FAILED', 'the audit log can not be written at the moment');
    auditLog.append(entryOf(event));
    auditLog.flush();
  };
  const onEvent = (event: ApprovalEvent) => {
    if (!isPersons(event)) auditLog.append(entryOf(event));
    if (!isPersons(event) && event.kind !== 'requested') auditLog.flush();
    for (const it of noticesOf(event)) events.publish(it);
  };
  const approvals = parts.use(new Approvals({ path: at('approvals.db'), limits, powers, record, onEvent }));
  const ledger = parts.use(new CostLedger(at('costs.db'), limits, powers));
  const callStore = parts.use(new CallStore(at('calls.db'), limits, powers));
  const toolStates = parts.use(new ToolStates(at('tools.db'), limits, powers));
  const panelSessions = parts.use(new PanelSessions(at('panel.db'), limits, powers));
  const undoJournal = parts.use(new UndoJournal({ stateDir, limits, powers, room: diskRoom }));
  const webCache = new WebCache({ folder: at('web-cache'), limits, powers, room: diskRoom });
  const untrusted = new UntrustedMarks(at('untrusted.json'), powers);
  const openStores = parts.move();
  const state = { toolStates, panelSessions };
  const stores = { auditLog, approvals, ledger, callStore, ...state, undoJournal, untrusted, webCache };
  return { ...stores, diskRoom, redact, [Symbol.dispose]: () => openStores.dispose() };
}

/** Whether the event is written to the audit log before it takes effect. */
function isPersons(event: ApprovalEvent): boolean {
  if (event.kind === 'used') return true;
  return event.kind === 'resolved' && (event.settled.decision === 'approve' || event.settled.decision === 'deny');
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
  const expiresAt = new Date(expiresAtMs).toISOString();
  const revokedBy = event.kind === 'revoked' ? { revokedBy: event.by } : {};
  const detail = { event: kind, grantId, decision, scope, match, by, expiresAt, ...revokedBy };
  const callId = event.kind === 'grant-used' ? event.callId : undefined;
  return { kind: 'approval', sessionId, principal, tool, rule, detail, callId };
}

/** The notices for subscribed operators. */
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
