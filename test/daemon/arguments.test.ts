/** Arguments that a policy, the settings of a provider or the manifest of a plugin rewrite before a call is judged, and its cost. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { differences } from '../../src/policy/compare.ts';
import { parsePolicy } from '../../src/policy/load.ts';
import type { AuditRecord } from '../../src/store/audit/log.ts';
import { addPlugin, writePlugin } from '../support/plugin.ts';
import { ALLOW_PROVIDERS, FIXTURE, type ProviderArena, startProvider } from '../support/providers.ts';

const POLICY = `${ALLOW_PROVIDERS}  write: { decision: ask }
arguments:
  - { tool: bash, atMost: { timeout: 3000 } }
  - { tool: file_copy, set: { overwrite: false } }
  - { tool: file_list, without: [recursive], set: { path: public } }
  - { tool: file_write, set: { path: elsewhere.txt } }
  - { tool: file_glob, set: { pattern: 7 } }
  - { tool: probe__shout, set: { loud: false } }
`;
const input = {
  type: 'object',
  properties: {
    word: { type: 'string', description: 'A word.' },
    n: { type: 'integer', default: 9, description: 'How often.' },
    loud: { type: 'boolean', default: true, description: 'Whether it is loud.' },
  },
};
const folder = writePlugin({
  tools: [{ name: 'shout', input, cost: 0.02, arguments: { set: { word: 'tea', loud: true }, atMost: { n: 2 } } }],
  files: { 'main.js': 'export const shout = (input) => ({ value: input });\n' },
});

let it: ProviderArena;
beforeAll(async () => {
  const fix = { ...FIXTURE, tools: { 'get-sum': { arguments: { atMost: { a: 10 } } } } };
  it = await startProvider(fix, { policy: POLICY });
  await addPlugin(it.daemon, folder);
  writeFileSync(join(it.daemon.workspace, 'a.txt'), 'a');
  writeFileSync(join(it.daemon.workspace, 'b.txt'), 'b');
});
afterAll(async () => {
  await it[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const call = (tool: string, given: object) => it.client.call(tool as string, given);

test('a policy lowers a number, sets a value and says so, and the record has what ran', async () => {
  expect(await call('bash', { command: 'sleep 9', timeout: 60_000 })).toMatchObject({ error: { code: 'TIMEOUT' } });
  const quick = await call('terminal_execute', { command: 'true' });
  expect(quick).toMatchObject({
    success: true,
    metadata: { warnings: [expect.stringMatching(/changed before the call was judged, by .*policy\.yaml:\d+/)] },
  });
  const { entries } = (await it.client.request('audit.query', { tool: 'terminal_execute' })) as {
    entries: AuditRecord[];
  };
  expect(entries.map(({ input: recorded }) => (recorded as { timeout?: number } | undefined)?.timeout)).toContain(
    3_000,
  );
  expect(await call('bash', { command: 'true', timeout: 2_500 })).not.toHaveProperty('metadata.warnings');
});

test('a person is asked about the rewritten input', async () => {
  const asked: object[] = [];
  await it.client.onApproval((approval) => {
    asked.push(approval.input as object);
    return { decision: 'approve' };
  });
  const copy = { sourcePath: 'a.txt', destPath: 'b.txt', overwrite: true };
  expect(await call('file_copy', copy)).toMatchObject({ error: { code: 'ALREADY_EXISTS' } });
  // A question leaves out what is a parameter's default, as `overwrite: false` is.
  for (const one of asked) expect(one).toEqual({ sourcePath: 'a.txt', destPath: 'b.txt' });
  expect(asked).not.toEqual([]);
});

test('arguments that would let a call reach further, or that do not fit, refuse it', async () => {
  mkdirSync(join(it.daemon.workspace, 'public'));
  expect(await call('file_list', { path: '.', recursive: true })).toMatchObject({ data: { entries: [] } });
  expect(await call('file_list', { path: 'other' })).toMatchObject({
    error: { code: 'POLICY_DENIED', rule: 'arguments' },
  });
  expect(await call('file_write', { path: 'a.txt', content: 'x' })).toMatchObject({ error: { code: 'POLICY_DENIED' } });
  expect(existsSync(join(it.daemon.workspace, 'elsewhere.txt'))).toBe(false);
  expect(await call('file_glob', { pattern: '*' })).toMatchObject({
    error: { code: 'POLICY_DENIED', message: expect.stringContaining('do not fit it') },
  });
});

test('the settings of a provider rewrite what its server gets', async () => {
  expect(await call('fix__get_sum', { a: 5, b: 1 })).toMatchObject({ data: { structured: { sum: 6 } } });
  expect(await call('fix__get_sum', { a: 50, b: 1 })).toMatchObject({ data: { structured: { sum: 11 } } });
});

test('the manifest of a plugin rewrites the arguments of its tools after the policy has', async () => {
  expect(await call('probe__shout', { word: 'milk' })).toMatchObject({
    data: { value: { word: 'tea', n: 2, loud: true } },
  });
});

test('the manifest of a plugin says what a call of its tool costs', async () => {
  const { tools } = (await it.client.request('tools.list', { tools: 'all' })) as { tools: { name: string }[] };
  expect(tools.find((one) => one.name === 'probe__shout')).toMatchObject({ cost: { estimatedCost: 0.02 } });
  expect(await call('probe__shout', {})).toMatchObject({ metadata: { costUsd: 0.02 } });
});

test('policy.explain judges the rewritten input', async () => {
  const explain = (path: string) => it.client.request('policy.explain', { tool: 'file_list', input: { path } });
  expect(await explain('.')).toMatchObject({ decision: 'allow', effects: [{ kind: 'read', target: 'public' }] });
  await expect(explain('other')).rejects.toThrow('would let the call do more');
});

test('a child of a policy can not take back what its parent sets, and a changed entry is another policy', () => {
  const parent = parsePolicy('arguments: [{ tool: file_copy, set: { overwrite: false } }]\n', 'parent.yaml');
  const child = parsePolicy('arguments: [{ tool: copy, set: { overwrite: true } }]\n', 'child.yaml', { parent });
  expect(child.arguments?.map((one) => one.parts.set?.overwrite)).toEqual([true, false]);
  expect(differences(parent, child).map((one) => one.what)).toContain('arguments.0 of copy');
  expect(child.version).not.toBe(parent.version);
});
