/** The report of a CI job: which calls count as denied or open, and that no text of an agent becomes markup. */
import { expect, test } from 'vitest';
import { CallCounter, type JobReport, toMarkdown } from '../../../src/cli/ci/job-report.ts';
import type { AuditRecord } from '../../../src/store/audit/entry.ts';

const entry = (
  callId: string | undefined,
  kind: AuditRecord['kind'],
  more: Partial<AuditRecord> = {},
): AuditRecord => ({
  ...{ seq: 1, at: '', previousHash: '', hash: 'h', sessionId: 's', principal: 'p', tool: 'file_read', kind },
  ...(callId !== undefined && { callId }),
  ...more,
});
const countOf = (entries: readonly AuditRecord[]) => {
  const counter = new CallCounter();
  for (const it of entries) counter.add(it);
  return counter.end();
};

test('each call counts once, by how it ended', () => {
  const { calls, listed } = countOf([
    entry(undefined, 'session'),
    entry('ok', 'intent'),
    entry('ok', 'outcome'),
    entry('failed', 'outcome', { code: 'FILE_NOT_FOUND' }),
    entry('denied', 'refusal', { code: 'POLICY_DENIED', rule: 'r' }),
    entry('answered', 'approval'),
    entry('answered', 'refusal', { code: 'APPROVAL_DENIED' }),
    entry('waiting', 'approval'),
    entry('lost', 'intent'),
  ]);
  expect(calls).toEqual({ total: 6, failed: 1, denied: 2, open: 2 });
  expect(listed.map((it) => it.code)).toEqual(['POLICY_DENIED', 'APPROVAL_DENIED', 'unanswered', 'outcome unknown']);
});

const report = (more: Partial<JobReport>): JobReport => ({
  policy: { name: 'unattended', version: 'sha256:0' },
  confinement: 'A',
  exitCode: 0,
  durationMs: 1234,
  calls: { total: 1, failed: 0, denied: 1, open: 0 },
  listed: [],
  audit: { ok: true, entries: 3, head: 'abc' },
  ...more,
});

test('text of an agent can neither end a cell nor become markup', () => {
  const what = 'exec x | [a](http://e.vil) `b` <img src=x onerror=y>\n# *c* \u202e';
  const listed = [{ tool: 'terminal_execute', code: 'POLICY_DENIED', what }];
  const row = toMarkdown(report({ listed }))
    .split('\n')
    .find((it) => it.includes('exec')) as string;
  expect(row.match(/\|/g)).toHaveLength(5);
  expect(row.replaceAll(/<\/?code>/g, '')).not.toMatch(/[<>`*[\]()#!]|\u202e/.source.replace('#', '(?<!&)#') as never);
});

test('calls beyond those that are listed are counted, and a broken record stands out', () => {
  const listed = Array.from({ length: 20 }, () => ({ tool: 't', code: 'POLICY_DENIED', what: '' }));
  const many = toMarkdown(report({ listed, calls: { total: 30, failed: 0, denied: 25, open: 0 } }));
  expect(many).toContain('5 more are in the exported record.');
  const broken = toMarkdown(report({ audit: { ok: false, entries: 2, reason: 'entry 3 was changed', head: '' } }));
  expect(broken).toContain('**broken**: entry 3 was changed');
});
