/** `policy.set`: an operator sees how the policy file would change, and then writes just that. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon } from '../support/daemon.ts';

const POLICY = '# Mine.\nversion: 1\ntiers:\n  read_only: { decision: allow }\n';
let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
let file: string;
beforeAll(async () => {
  daemon = await openDaemon({ policy: POLICY, ownRates: true });
  file = join(daemon.stateDir, 'policy.yaml');
  writeFileSync(join(daemon.workspace, 'a.txt'), 'one\n');
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
const set = (tool: string, level: string, seen?: string, by = operator) =>
  by.request('policy.set', { tool, level, ...(seen !== undefined && { seen }) } as never) as Promise<{
    diff: string;
    isWritten: boolean;
  }>;
const read = () => agent.call('file_read', { path: 'a.txt' });

test('a level is shown, then written, and holds for the next call; default takes it back', async () => {
  const before = readFileSync(file, 'utf8');
  const shown = await set('file_read', 'deny');
  expect(shown).toMatchObject({ isWritten: false, isInForce: true, path: file });
  expect(shown.diff).toContain('+  - id: level-of-file-read');
  expect(readFileSync(file, 'utf8')).toBe(before);
  expect(await read()).toMatchObject({ success: true });

  expect(await set('file_read', 'deny', shown.diff)).toMatchObject({ isWritten: true });
  expect(readFileSync(file, 'utf8')).toContain('# Mine.');
  expect(await read()).toMatchObject({ error: { code: expect.stringMatching(/POLICY_DENIED|TOOL_DISABLED/) } });
  expect(await set('file_read', 'deny')).toMatchObject({ diff: '', isWritten: false });
  const { entries } = (await operator.request('audit.query', { kind: 'policy' })) as { entries: object[] };
  expect(entries).toContainEqual(
    expect.objectContaining({ detail: { event: 'level-set', tool: 'file_read', level: 'deny', file } }),
  );

  await set('file_read', 'default', (await set('file_read', 'default')).diff);
  expect(await read()).toMatchObject({ success: true });
});

test('a change that was not seen is not written', async () => {
  const { diff } = await set('file_read', 'deny');
  writeFileSync(file, `${POLICY}# More.\n`);
  expect(await set('file_read', 'ask', diff)).toMatchObject({ isWritten: false });
  expect(await set('file_read', 'deny', `${diff} `)).toMatchObject({ isWritten: false });
  expect(readFileSync(file, 'utf8')).toBe(`${POLICY}# More.\n`);
});

test('an agent can not set a level, and a tool that there is not is named', async () => {
  await expect(set('file_read', 'auto', undefined, agent)).rejects.toThrow('operator');
  await expect(set('file_reed', 'auto')).rejects.toThrow('did you mean file_read?');
});
