import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compare, policyBacktest } from '../../../src/cli/backtest.ts';
import type { AuditRecord } from '../../../src/store/audit/log.ts';
import { LogFolder } from '../../support/audit.ts';
import { policyOf, ruleOf } from '../../support/policy.ts';

const DAY = 86_400_000;

test('a call whose input was redacted is not judged again', () => {
  const entry = (path: string) =>
    ({ kind: 'outcome', sessionId: 's', principal: 'p', tool: 'file_read', input: { path } }) as AuditRecord;
  const [old, fresh] = [policyOf([]), policyOf([ruleOf('deny', { tool: ['file_read'] })])];
  const { calls, skipped, differences } = compare(
    [entry('a'), entry('keys/[redacted:github-token]')],
    { old, new: fresh },
    '/home/me',
  );
  expect([calls, skipped, differences.length]).toEqual([1, 1, 1]);
});

test('a variable that a policy lets no caller set is refused, as it would be by a call', () => {
  const input = { command: 'ls', env: { FOO: '1' } };
  const entry = { kind: 'outcome', sessionId: 's', principal: 'p', tool: 'terminal_execute', input } as AuditRecord;
  const [old, fresh] = [policyOf([]), { ...policyOf([]), environment: ['PATH'] }];
  const { differences } = compare([entry], { old, new: fresh }, '/home/me');
  expect(differences).toMatchObject([{ new: 'deny', rule: 'environment' }]);
});

test('calls are judged in the workspace of their session, however long ago it began', async () => {
  using folder = new LogFolder();
  const log = folder.open();
  const who = { sessionId: 's', principal: 'p' };
  log.append({ kind: 'session', ...who, detail: { workspace: folder.folder } });
  log.flush();
  folder.powers.nowMs += 40 * DAY;
  log.append({ kind: 'outcome', ...who, tool: 'terminal_execute', input: { command: `${folder.folder}/tool` } });
  const file = (name: string, rules: string) => {
    const path = join(folder.folder, name);
    writeFileSync(path, rules);
    return path;
  };
  const old = file('old.yaml', 'version: 1\n');
  const asked: object[] = [];
  const client = {
    request: (_: string, params: unknown) => {
      asked.push(params as object);
      return log.query(params as object) as Promise<never>;
    },
  };
  expect(await policyBacktest({ old, new: old }, { json: true }, { client, home: '/home/me' })).toBe(0);
  expect(asked).toMatchObject([{ kind: 'session' }, { since: '30d' }]);
  expect(asked[0]).not.toHaveProperty('since');
});
