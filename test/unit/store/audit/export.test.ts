import { describe, expect, test, vi } from 'vitest';
import { type AuditClient, auditExport, auditQuery, auditVerify } from '../../../../src/cli/audit/audit.ts';
import { toOcsf } from '../../../../src/store/audit/export.ts';
import type { AuditLog, AuditRecord } from '../../../../src/store/audit/log.ts';
import { callsOf, LogFolder } from '../../../support/audit.ts';

const record: AuditRecord = {
  seq: 7,
  at: '2026-01-01T00:00:00.000Z',
  previousHash: 'p',
  hash: 'h',
  kind: 'refusal',
  sessionId: 's',
  principal: 'agent',
  callId: 'c',
  tool: 'terminal_execute',
  decision: 'deny',
  rule: 'no-rm',
  code: 'POLICY_DENIED',
  durationMs: 1.6,
  input: { command: 'rm -rf /' },
  effects: [{ kind: 'exec', target: 'rm -rf /' }],
} as const;

/** A daemon that serves the two methods that the verbs need. */
const serving = (log: AuditLog): AuditClient => ({
  request: (method, params) =>
    (method === 'audit.verify' ? log.verify() : log.query(params as object)) as Promise<never>,
});

/** The output of `run`, and its exit code. */
async function printed(run: () => Promise<number>): Promise<{ code: number; out: string; err: string }> {
  const shown = { out: '', err: '' };
  const into = (name: 'out' | 'err') => (it: string | Uint8Array) => {
    shown[name] += it;
    return true;
  };
  const out = vi.spyOn(process.stdout, 'write').mockImplementation(into('out'));
  const err = vi.spyOn(process.stderr, 'write').mockImplementation(into('err'));
  try {
    return { code: await run(), ...shown };
  } finally {
    out.mockRestore();
    err.mockRestore();
  }
}

describe('OCSF', () => {
  test('a refusal is an API Activity that was denied', () => {
    expect(toOcsf(record)).toMatchObject({
      class_uid: 6003,
      category_uid: 6,
      activity_id: 99,
      type_uid: 600_399,
      time: Date.UTC(2026, 0, 1),
      duration: 2,
      severity_id: 3,
      status_id: 2,
      status_code: 'POLICY_DENIED',
      action_id: 2,
      metadata: {
        version: '1.3.0',
        product: { vendor_name: 'Ringfence' },
        uid: 'h',
        sequence: 7,
        correlation_uid: 'c',
      },
      actor: { user: { name: 'agent' }, session: { uid: 's' } },
      api: { operation: 'terminal_execute', request: { uid: 'c' } },
      resources: [{ type: 'exec', name: 'rm -rf /' }],
      authorizations: [{ decision: 'deny', policy: { uid: 'no-rm' } }],
      unmapped: { input: { command: 'rm -rf /' } },
    });
  });

  test('the activity of an entry says what the entry did', () => {
    const activityOf = (...kinds: string[]) =>
      (toOcsf({ ...record, effects: kinds.map((kind) => ({ kind, target: 'x' })) as never }) as { activity_id: number })
        .activity_id;
    expect([activityOf('read'), activityOf('read', 'write'), activityOf('write', 'delete'), activityOf()]).toEqual([
      2, 3, 4, 99,
    ]);
  });
});

describe('ringfence audit', () => {
  test('query shows the newest entries as a table that no entry can break', async () => {
    using folder = new LogFolder();
    const log = folder.open();
    for (const it of callsOf(30)) log.append(it);
    const effects = [{ kind: 'exec', target: '\u001b[2J\u202egnp\nx' }] as const;
    log.append({ kind: 'refusal', sessionId: 's', principal: 'p', code: 'POLICY_DENIED', rule: 'no', effects });
    const { code, out } = await printed(() => auditQuery({ limit: 5 }, serving(log)));
    const lines = out.trimEnd().split('\n');
    expect([code, lines.length]).toEqual([0, 6]);
    expect(lines[5]).toMatch(/^61 .*POLICY_DENIED \(no\).*exec \\u\{1b\}\[2J\\u\{202e\}gnp x$/);
    expect(out.replaceAll('\n', '')).not.toMatch(/[\p{Bidi_Control}\p{Cc}]/u);
    const json = await printed(() => auditQuery({ limit: 3, kind: 'intent', json: true }, serving(log)));
    expect(JSON.parse(json.out).map((it: AuditRecord) => it.seq)).toEqual([55, 57, 59]);
  });

  test('export gives every entry once, the oldest first, as the log itself does', async () => {
    using folder = new LogFolder();
    const log = folder.open({ auditQueryMax: 7 });
    for (const it of callsOf(30)) log.append(it);
    log.append({ kind: 'session', sessionId: 's', principal: 'p', detail: { text: '\u009b\u202e\n', 2: 1, 1: 2 } });
    for (const format of ['jsonl', 'ocsf'] as const) {
      const lines: string[] = [];
      for await (const line of log.exportEntries(format)) lines.push(line);
      const { out, code } = await printed(() => auditExport(format, {}, serving(log)));
      expect([code, out.trimEnd().split('\n')]).toEqual([0, lines]);
      expect(lines).toHaveLength(61);
    }
  });

  test('verify ends with 0 for a whole log and 1 for a broken one', async () => {
    using folder = new LogFolder();
    const log = folder.open();
    for (const it of callsOf(3)) log.append(it);
    expect(await printed(() => auditVerify(serving(log)))).toMatchObject({
      code: 0,
      out: expect.stringContaining('6 entries'),
    });
    folder.edit((it) => it.exec("UPDATE audit SET tool = 'x' WHERE seq = 2"));
    const { code, err } = await printed(() => auditVerify(serving(log)));
    expect([code, err]).toEqual([1, expect.stringContaining('broken from entry 2: entry 2 was changed')]);
  });
});
