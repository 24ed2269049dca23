import { toToolError } from '../errors.ts';
import type { Powers } from '../powers.ts';
import type { AuditEntry, AuditLog } from '../store/audit-log.ts';
import type { Call, Stage } from './stage.ts';

/**
 * Records each call and what came of it. Where a call may change something, its intent is on disk before anything else
 * happens, and a log that can't be written refuses it (STORE_FAILED); reading goes on without.
 */
export const audit =
  (log: AuditLog, powers: Powers): Stage =>
  (next) =>
  async (call) => {
    const startedAt = powers.monotonicMs();
    const tool = call.toolset.get(call.name)?.tool;
    if (tool && tool.tier !== 'read_only') {
      log.append(entryOf(call, 'intent'));
      log.flush();
    }
    const end = (kind: 'outcome' | 'refusal', extra: Partial<AuditEntry> = {}) =>
      log.append({ ...entryOf(call, kind), durationMs: powers.monotonicMs() - startedAt, ...extra });
    try {
      const data = await next(call);
      end('outcome');
      return data;
    } catch (thrown) {
      const error = toToolError(thrown);
      end(call.decision === 'allow' ? 'outcome' : 'refusal', { code: error.code });
      throw error;
    }
  };

function entryOf(call: Call, kind: AuditEntry['kind']): AuditEntry {
  const { id, sessionId, principal, checked, decision, rule, name, toolset } = call;
  return {
    kind,
    sessionId,
    principal,
    callId: id,
    tool: toolset.get(name)?.tool.name ?? name,
    ...(checked && { effects: checked.effects }),
    ...(decision && { decision }),
    ...(rule !== undefined && { rule }),
  };
}
