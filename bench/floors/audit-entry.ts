import type { AuditEntry } from '../../src/store/audit/log.ts';

let made = 0;

/** Gives intents and outcomes of successive calls in a few sessions. */
export function auditEntry(): AuditEntry {
  made += 1;
  return {
    kind: made % 2 ? 'intent' : 'outcome',
    sessionId: `0193-session-${made % 5}`,
    principal: 'agent',
    callId: `01930000-aaaa-7bbb-8ccc-${String(made >> 1).padStart(12, '0')}`,
    tool: 'file_write',
    decision: 'allow',
    durationMs: 1.25,
    input: { path: 'docs/notes.md', content: 'x'.repeat(100) },
    effects: [{ kind: 'write', target: 'docs/notes.md' }],
    resources: { cpuMs: 1, outputBytes: 40, verdict: 'ok', enforcedBy: 'cgroup' },
  };
}
