/** Exports audit entries for other programs: as our own JSON lines, or as OCSF API Activity (https://schema.ocsf.io). */
import type { Effect } from '../../base/call.ts';
import { escapeUnseenInLine } from '../../base/text/shown-text.ts';
import { type AuditRecord, fromRecord, toLine } from './entry.ts';

export const EXPORT_FORMATS = ['jsonl', 'ocsf'] as const;
export type ExportFormat = (typeof EXPORT_FORMATS)[number];

/** One line without its newline. For `jsonl` the hash covers the text before `,"hash":`, closed by `}`. */
export const toExportLine = (format: ExportFormat, record: AuditRecord): string =>
  format === 'jsonl'
    ? toLine(fromRecord(record), record.outcome === 'unknown')
    : escapeUnseenInLine(JSON.stringify(toOcsf(record)));

const OCSF_VERSION = '1.3.0';
const API_ACTIVITY = 6003;
const ACTIVITIES = {
  write: [3, 'Update'],
  delete: [4, 'Delete'],
  read: [2, 'Read'],
  exec: [99, 'Other'],
  connect: [99, 'Other'],
  query: [99, 'Other'],
} as const satisfies Record<Effect['kind'], unknown>;
/** Effects by strength; the strongest one names the activity. */
const STRENGTH = ['exec', 'connect', 'delete', 'write', 'query', 'read'] as const;
/** Codes of refusals, which get a higher severity than failures. */
const REFUSALS: ReadonlySet<string> = new Set([
  ...['ACCESS_DENIED', 'SENSITIVE_FILE', 'POLICY_DENIED', 'SANDBOX_DENIED', 'APPROVAL_DENIED', 'APPROVAL_STALE'],
]);

/** `record` as an event of class 6003; `unmapped` holds what OCSF has no field for. */
export function toOcsf(record: AuditRecord): object {
  const { kind, callId, code, decision, rule, durationMs, tool } = record;
  const effects = Array.isArray(record.effects) ? record.effects : [];
  const strongest = STRENGTH.find((it) => effects.some(({ kind: of }) => of === it));
  const [activityId, activity] = strongest ? ACTIVITIES[strongest] : ([99, 'Other'] as const);
  const { input, detail, resources, previousHash, hash, outcome } = record;
  return {
    class_uid: API_ACTIVITY,
    class_name: 'API Activity',
    category_uid: 6,
    category_name: 'Application Activity',
    activity_id: activityId,
    activity_name: activity === 'Other' ? (strongest ?? kind) : activity,
    type_uid: API_ACTIVITY * 100 + activityId,
    time: Date.parse(record.at),
    ...severityOf(record),
    ...statusOf(record),
    duration: durationMs && Math.round(durationMs),
    metadata: {
      version: OCSF_VERSION,
      product: { name: 'Ringfence', vendor_name: 'Ringfence' },
      uid: hash,
      sequence: record.seq,
      event_code: kind,
      log_name: 'audit',
      original_time: record.at,
      correlation_uid: callId,
      profiles: ['security_control'],
    },
    actor: { user: { name: record.principal, type_id: 0 }, session: { uid: record.sessionId } },
    api: {
      operation: tool ?? kind,
      service: { name: 'ringfence' },
      ...(callId !== undefined && { request: { uid: callId } }),
      ...(code !== undefined && { response: { error: code } }),
    },
    src_endpoint: { name: 'localhost' },
    resources: effects.map(({ kind: type, target }) => ({ type, name: target })),
    ...actionOf(record),
    ...(decision && { authorizations: [{ decision, ...(rule !== undefined && { policy: { uid: rule } }) }] }),
    unmapped: { input, detail, resources, previousHash, outcome },
  };
}

function severityOf({ code }: AuditRecord): object {
  if (code === undefined) return { severity_id: 1, severity: 'Informational' };
  return REFUSALS.has(code) ? { severity_id: 3, severity: 'Medium' } : { severity_id: 2, severity: 'Low' };
}

function statusOf({ kind, code }: AuditRecord): object {
  if (code !== undefined) return { status_id: 2, status: 'Failure', status_code: code };
  return kind === 'intent' ? { status_id: 0, status: 'Unknown' } : { status_id: 1, status: 'Success' };
}

function actionOf({ kind, decision }: AuditRecord): object {
  if (kind === 'refusal' || decision === 'deny') return { action_id: 2, action: 'Denied' };
  return decision === 'allow' ? { action_id: 1, action: 'Allowed' } : { action_id: 0, action: 'Unknown' };
}
