/** Hosts that no list of the policy names: a person is asked while the connection waits. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import type { Approval, Grant } from '../../src/store/approvals/approval.ts';
import { dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

const ASKING = `tiers:
  execute: { decision: allow, network: { allow: [], ask: true } }
  external_api: { decision: allow, network: { allow: [], ask: true } }
`;

let daemon: OpenDaemon;
let client: Client;
let operator: Client;

beforeAll(async () => {
  daemon = await openDaemon({ policy: ASKING, limits: { doorHoldMs: 20_000, doorQuestionsPerHour: 100 } });
  operator = await daemon.connect({ role: 'operator' });
  await operator.request('events.subscribe', { topics: ['approvals'] });
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const pending = async (): Promise<Approval[]> =>
  ((await operator.request('approvals.list', {})) as { approvals: Approval[] }).approvals;

/** The question about a host, once it is asked. */
async function questionAbout(host: string): Promise<Approval> {
  let found: Approval | undefined;
  await until(async () => {
    found = (await pending()).find((it) => it.door?.target.startsWith(host));
    return found !== undefined;
  });
  return found as Approval;
}

const resolve = (approvalId: string, answer: object) =>
  operator.request('approvals.resolve', { approvalId, ...answer });

/** What the proxy answers; names of `.invalid` are in no DNS, so 502 says that the door was open. */
const statusOf = (host: string, by = client) =>
  by.call('terminal_execute', { command: `curl -s -p -o /dev/null -w '%{http_connect}' https://${host}/; true` });
const stdout = async (call: ReturnType<typeof statusOf>) => (await dataOf<{ stdout: string }>(call)).stdout;

describe('a question about a new host', () => {
  beforeAll(async () => {
    client = await daemon.connect();
  });
  afterAll(() => client[Symbol.asyncDispose]());

  test('a question about a host holds the connection, says who connects to what, and opens the host for the command with a yes', async () => {
    const call = statusOf('registry.npmjs.invalid');
    const asked = await questionAbout('registry.npmjs.invalid');
    expect(asked).toMatchObject({
      tool: 'terminal_execute',
      effects: [{ kind: 'connect', target: 'registry.npmjs.invalid:443' }],
      door: { kind: 'host', target: 'registry.npmjs.invalid:443', program: expect.stringMatching(/\/curl$/) },
      rule: 'tiers.execute.network',
    });
    expect(asked.impact.description).toContain('NPMJS.INVALID');
    await resolve(asked.approvalId, { decision: 'approve' });
    const result = await call;
    expect(await stdout(Promise.resolve(result) as typeof call)).toBe('502');
    expect(result.metadata.waitedMs).toBeGreaterThan(0);
    const again = statusOf('registry.npmjs.invalid');
    await resolve((await questionAbout('registry.npmjs.invalid')).approvalId, { decision: 'approve' });
    expect(await stdout(again)).toBe('502');
  });

  test('the time of a person is not counted as time of the command', async () => {
    const command = `curl -s -p -o /dev/null -w '%{http_connect}' https://slow.invalid/; true`;
    const call = client.call('terminal_execute', { command, timeout: 1_500 });
    const { approvalId } = await questionAbout('slow.invalid');
    await new Promise((done) => setTimeout(done, 2_500));
    await resolve(approvalId, { decision: 'approve' });
    const result = await call;
    expect(result).toMatchObject({ success: true, data: { stdout: '502' } });
    expect(result.metadata.waitedMs).toBeGreaterThan(2_000);
  });

  test('an answer for the session is listed as a grant, and void when that is revoked', async () => {
    const call = statusOf('session.invalid');
    const { approvalId } = await questionAbout('session.invalid');
    await resolve(approvalId, { decision: 'approve', remember: { scope: 'session', match: 'door' } });
    expect(await stdout(call)).toBe('502');
    expect(await stdout(statusOf('session.invalid'))).toBe('502');
    const { grants } = (await operator.request('approvals.grants', {})) as { grants: Grant[] };
    const grant = grants.find((it) => it.door?.target === 'session.invalid:443');
    expect(grant).toMatchObject({ scope: 'session', match: 'door', approvalId });
    await operator.request('approvals.revoke', { grantId: grant?.grantId });
    const again = statusOf('session.invalid');
    await resolve((await questionAbout('session.invalid')).approvalId, { decision: 'approve' });
    expect(await stdout(again)).toBe('502');
  });

  test('an answer for the project counts in other sessions of it and for companions', async () => {
    const call = statusOf('github.com');
    const { approvalId, impact, project } = await questionAbout('github.com');
    expect(impact.warnings.join()).toContain('codeload.github.com');
    expect(project).toBe(daemon.workspace);
    await resolve(approvalId, { decision: 'approve', remember: { scope: 'project', match: 'door' } });
    await call;
    await using other = await daemon.connect();
    expect(await stdout(statusOf('codeload.github.com', other))).not.toBe('403');
    expect(await pending()).toEqual([]);
    await operator.request('approvals.revoke', { all: true });
  });

  test('a question marks names that only look like known ones', async () => {
    const call = statusOf('registry.npmjs.orq');
    const { approvalId, impact } = await questionAbout('registry.npmjs.orq');
    expect(impact.warnings).toContain('It looks like registry.npmjs.org and is another host');
    await resolve(approvalId, { decision: 'approve' });
    await call;
  });

  test('a yes opens a request of http_request as well', async () => {
    const call = client.call('http_request', { url: 'https://api.invalid/' });
    await resolve((await questionAbout('api.invalid')).approvalId, { decision: 'approve' });
    expect(await call).toMatchObject({ success: false, error: { code: 'UPSTREAM_FAILED' } });
  });

  test('a question can be answered after the program gave up, for the next connection', async () => {
    const command = `curl -s -p -m 1 -o /dev/null -w '%{http_connect}' https://late.invalid/; true`;
    const call = client.call('terminal_execute', { command });
    const { approvalId } = await questionAbout('late.invalid');
    await call;
    await resolve(approvalId, { decision: 'approve' });
    expect(await stdout(statusOf('late.invalid'))).toBe('502');
  });
});

describe('a session that asks in vain', () => {
  test('a session asks about no more hosts after two noes, until a person revokes that', async () => {
    await using own = await daemon.connect();
    for (const host of ['one.invalid', 'two.invalid']) {
      const call = statusOf(host, own);
      await resolve((await questionAbout(host)).approvalId, { decision: 'deny' });
      expect(await stdout(call)).toBe('403');
    }
    expect(await stdout(statusOf('www.one.invalid', own))).toBe('403');
    expect(await stdout(statusOf('three.invalid', own))).toBe('403');
    expect(await pending()).toEqual([]);
    const { grants } = (await operator.request('approvals.grants', {})) as { grants: Grant[] };
    const closing = grants.find((it) => it.door?.target === '*:0');
    expect(closing).toMatchObject({ decision: 'deny', scope: 'session', by: 'ringfence' });
    await operator.request('approvals.revoke', { grantId: closing?.grantId });
    const call = statusOf('four.invalid', own);
    await resolve((await questionAbout('four.invalid')).approvalId, { decision: 'approve' });
    expect(await stdout(call)).toBe('502');
  });

  test('a command waits no longer than a question is held, however often its programs try', async () => {
    await using held = await openDaemon({ policy: ASKING, limits: { doorHoldMs: 500 } });
    await using own = await held.connect();
    await using person = await held.connect({ role: 'operator' });
    await person.request('events.subscribe', { topics: ['approvals'] });
    const tries = 'for n in 1 2 3 4 5 6; do curl -s -p -o /dev/null https://often.invalid/; done; echo done';
    const result = await own.call('terminal_execute', { command: tries });
    expect(result).toMatchObject({ success: true });
    expect(result.metadata).toMatchObject({ waitedMs: expect.any(Number) });
    expect(result.metadata.waitedMs).toBeLessThan(1_500);
    expect(((await person.request('approvals.list', {})) as { approvals: Approval[] }).approvals).toHaveLength(1);
  });

  test('a session has at most eight open questions', async () => {
    await using own = await daemon.connect();
    const ask = Array.from({ length: 12 }, (_, n) => `curl -s -p -m 3 https://flood${n}.invalid/ &`).join(' ');
    const call = own.call('terminal_execute', { command: `${ask} wait` });
    await until(async () => (await pending()).length >= 8);
    const result = await call;
    expect((await pending()).length).toBe(8);
    expect(result.metadata.denied?.filter((it) => it.reason?.includes('maximum')).length).toBe(4);
  });
});

test('sessions in folders of one workspace share how often a person is asked', async () => {
  await using few = await openDaemon({ policy: ASKING, limits: { doorHoldMs: 20_000, doorQuestionsPerHour: 1 } });
  await using person = await few.connect({ role: 'operator' });
  await person.request('events.subscribe', { topics: ['approvals'] });
  const folders = ['one', 'two'].map((it) => join(few.workspace, it));
  for (const it of folders) mkdirSync(it);
  await using first = await few.connect({ workspace: folders[0] as string });
  await using second = await few.connect({ workspace: folders[1] as string });
  const asking = statusOf('first.invalid', first);
  const listed = () => person.request('approvals.list', {}) as Promise<{ approvals: Approval[] }>;
  await until(async () => (await listed()).approvals.length === 1);
  const refused = await second.call('terminal_execute', { command: 'curl -s https://second.invalid/' });
  expect(JSON.stringify(refused.metadata.denied)).toContain('within an hour');
  await person.request('approvals.resolve', {
    approvalId: (await listed()).approvals[0]?.approvalId,
    decision: 'approve',
  });
  expect(await stdout(asking)).toBe('502');
});

test('nobody is asked where nobody listens, or a layer of the policy does not ask', async () => {
  await using alone = await openDaemon({ policy: ASKING });
  await using session = await alone.connect();
  const startedAt = performance.now();
  const result = await statusOf('nobody.invalid', session);
  expect(await stdout(Promise.resolve(result) as ReturnType<typeof statusOf>)).toBe('403');
  expect(performance.now() - startedAt).toBeLessThan(15_000);
  expect(result.metadata.denied).toMatchObject([{ target: 'nobody.invalid:443', open: 'nobody.invalid:443' }]);
});
