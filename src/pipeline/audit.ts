import { ToolError, toToolError } from '../errors.ts';
import type { Powers } from '../powers.ts';
import type { AuditEntry, AuditLog } from '../store/audit-log.ts';
import type { Call, Stage } from './stage.ts';

/**
 * Records each call and what came of it. Where a call may change something, its intent is on disk before anything else
 * happens, and a log that can't be written refuses it (STORE_FAILED); reading goes on, with a warning.
 */
export const audit =
  (log: AuditLog, powers: Powers): Stage =>
  (next) =>
  async (call) => {
    const startedAt = powers.monotonicMs();
    const tool = call.toolset.get(call.name)?.tool;
    const changes = tool !== undefined && tool.tier !== 'read_only' && call.options.preview !== true;
    if (changes) recordIntent(call, log);
    else if (!log.writable) warn(call);
    const end = (kind: 'outcome' | 'refusal', error?: ToolError) =>
      log.append({
        ...entryOf(call, kind),
        // An intent has told it already.
        ...(!changes && { input: call.rawInput }),
        durationMs: Math.round((powers.monotonicMs() - startedAt) * 1000) / 1000,
        ...(error && { code: error.code }),
        ...detailOf(call),
      });
    try {
      const data = await next(call);
      end('outcome');
      return data;
    } catch (thrown) {
      const error = toToolError(thrown);
      end(call.decision === 'allow' || call.approvalGranted ? 'outcome' : 'refusal', error);
      throw error;
    }
  };

/** Throws STORE_FAILED when it is not on disk. */
function recordIntent(call: Call, log: AuditLog): void {
  try {
    // A log that can't be written may hold up the daemon for a second at each attempt; it tries again by itself.
    if (!log.writable) throw new ToolError('STORE_FAILED', 'the audit log can not be written at the moment');
    log.append({ ...entryOf(call, 'intent'), input: call.rawInput });
    log.flush();
  } catch (error) {
    log.append({ ...entryOf(call, 'refusal'), code: 'STORE_FAILED' });
    throw error;
  }
}

function warn(call: Call): void {
  call.warnings = [...(call.warnings ?? []), 'the audit log could not be written; this call may not be in it'];
}

function detailOf({ costUsd, redactions }: Call): Pick<AuditEntry, 'detail'> {
  if (costUsd === undefined && redactions === undefined) return {};
  return { detail: { ...(costUsd !== undefined && { costUsd }), ...(redactions !== undefined && { redactions }) } };
}

function entryOf(call: Call, kind: AuditEntry['kind']): AuditEntry {
  const { id, sessionId, principal, decided, checked, decision, rule, name, toolset } = call;
  const effects = decided?.effects ?? checked?.effects;
  return {
    kind,
    sessionId,
    principal,
    callId: id,
    tool: toolset.get(name)?.tool.name ?? name,
    ...(effects && { effects }),
    ...(decision && { decision }),
    ...(rule !== undefined && { rule }),
  };
}
