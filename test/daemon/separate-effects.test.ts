/** A call that reads several files is judged file by file: denied files are reported, the rest is read. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

// The second rule names a tool, so only the gateway can apply it: hosts know path rules only.
const POLICY = `rules:
  - id: no-vault
    match: { path: "vault/**" }
    decision: deny
    reason: The vault is closed.
  - id: one-by-one
    match: { tool: file_read_many, path: "single/**" }
    decision: deny
    reason: Read these one by one.
  - id: ask-drafts
    match: { path: "drafts/**" }
    decision: ask
    reason: Drafts are private.
`;

let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await openDaemon({ policy: POLICY });
  const put = (path: string, text: string) => {
    mkdirSync(join(daemon.workspace, path, '..'), { recursive: true });
    writeFileSync(join(daemon.workspace, path), text);
  };
  for (const path of ['.env', 'vault/gold', 'single/a']) put(path, 'KEY=HIDDEN');
  for (const path of ['ok', 'ok2', 'drafts/a']) put(path, `text of ${path}`);
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const readMany = (paths: string[], more: object = {}) => agent.call('file_read_many', { paths, ...more });
const readOf = (...paths: string[]) => paths.map((path) => ({ path, content: `text of ${path}` }));

describe('file_read_many', () => {
  test('reads what may be read and tells each denied file as an error of its own', async () => {
    const result = await readMany(['ok', '.env', './vault/../vault/gold', 'single/a', 'missing', '../out', 'ok2']);
    expect(result).toMatchObject({
      data: { files: readOf('ok', 'ok2') },
      metadata: {
        denied: [
          { kind: 'read', target: '.env', rule: 'no-secrets', layer: 'policy' },
          { kind: 'read', target: 'vault/gold', rule: 'no-vault', layer: 'policy', reason: 'The vault is closed.' },
          { kind: 'read', target: 'single/a', rule: 'one-by-one', layer: 'policy' },
        ],
      },
    });
    const errors = result.success ? result.data.errors : [];
    const codes = errors.map(({ path, code }) => [path, code]);
    expect(Object.fromEntries(codes)).toEqual({
      missing: 'NOT_FOUND',
      '../out': 'ACCESS_DENIED',
      '.env': 'SENSITIVE_FILE',
      './vault/../vault/gold': 'POLICY_DENIED',
      'single/a': 'POLICY_DENIED',
    });
    expect(codes).toHaveLength(5);
    expect(JSON.stringify(result)).not.toContain('HIDDEN');
  });

  test('tells nothing of whether a denied file exists', async () => {
    const told = async (path: string) => {
      const { errors } = await dataOf(readMany(['ok', path]));
      return JSON.stringify(errors).replaceAll(path, 'X');
    };
    expect(await told('vault/none')).toBe(await told('vault/gold'));
    expect(await told('single/none')).toBe(await told('single/a'));
  });

  test('gives the same from the cache, and keeps what is denied out of it', async () => {
    const fresh = await readMany(['ok2', 'vault/gold']);
    const again = await readMany(['ok2', 'vault/gold']);
    const alone = await readMany(['ok2']);
    expect(again).toMatchObject({ metadata: { cached: true, denied: [{ target: 'vault/gold' }] } });
    expect(again).toMatchObject({ data: (fresh as { data: object }).data });
    expect(alone).toMatchObject({ data: { files: readOf('ok2'), errors: [] } });
    expect(alone.metadata.denied).toBeUndefined();
  });

  test('hides a secret in the name of a denied file, as everywhere in a result', async () => {
    const token = `ghp_${'a1B2c3D4e5'.repeat(4).slice(0, 36)}`;
    const result = await readMany(['ok', `vault/${token}`]);
    expect(result).toMatchObject({ data: { files: readOf('ok'), errors: [{ code: 'POLICY_DENIED' }] } });
    expect(JSON.stringify(result)).not.toContain(token);
  });

  test('file_read_many is denied as a whole if the policy permits no file of it', async () => {
    expect(await readMany(['.env', 'vault/gold'])).toMatchObject({ error: { code: 'SENSITIVE_FILE' } });
    expect(await readMany(['vault/gold', 'single/a'])).toMatchObject({ error: { code: 'POLICY_DENIED' } });
    expect(await readMany(['vault/gold'], { pattern: '*' })).toMatchObject({
      error: { code: 'POLICY_DENIED', rule: 'no-vault' },
    });
  });

  test('asks once about the rest where a rule asks about it', async () => {
    const result = readMany(['ok', 'drafts/a', 'vault/gold']);
    const pending = () => operator.request('approvals.list', {}) as Promise<{ approvals: ApprovalShown[] }>;
    await until(async () => (await pending()).approvals.length > 0);
    const { approvals } = await pending();
    expect(approvals).toMatchObject([{ rule: 'ask-drafts', effects: [{ target: 'ok' }, { target: 'drafts/a' }] }]);
    const { approvalId } = approvals[0] as ApprovalShown;
    await operator.request('approvals.resolve', { approvalId, decision: 'approve' });
    expect(await result).toMatchObject({
      data: { files: readOf('ok', 'drafts/a'), errors: [{ path: 'vault/gold', code: 'POLICY_DENIED' }] },
      metadata: { approvalGranted: true, denied: [{ target: 'vault/gold' }] },
    });
  });

  test('file_read_many is recorded with the files that it was denied', async () => {
    const { callId } = await readMany(['ok', '.env']);
    const recorded = async () => ((await operator.request('audit.query', { callId })) as { entries: object[] }).entries;
    await until(async () => (await recorded()).length > 0);
    expect(await recorded()).toMatchObject([
      {
        kind: 'outcome',
        decision: 'allow',
        effects: [{ kind: 'read', target: 'ok' }],
        detail: { denied: [{ kind: 'read', target: '.env', rule: 'no-secrets', layer: 'policy' }] },
      },
    ]);
  });
});

interface ApprovalShown {
  readonly approvalId: string;
}

test('explain tells which of the files would be denied, and by which rule', async () => {
  const explain = (paths: string[]) =>
    agent.request('policy.explain', { tool: 'file_read_many', input: { paths } }) as Promise<object>;
  expect(await explain(['ok', '.env', 'ok2', 'vault/gold'])).toMatchObject({
    decision: 'allow',
    effects: [{ target: 'ok' }, { target: 'ok2' }],
    denied: [
      { kind: 'read', target: '.env', rule: 'no-secrets' },
      { kind: 'read', target: 'vault/gold', rule: 'no-vault', suggestion: expect.stringContaining('no-vault') },
    ],
  });
  expect(await explain(['.env'])).toMatchObject({ decision: 'deny', rules: [{ id: 'no-secrets' }, {}] });
});
