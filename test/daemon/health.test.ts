/** Health checks of services: a service that fails is found, left alone, and used again when it works. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client, ToolResult } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { startProvider } from '../support/providers.ts';
import { type PlayedAnswer, type Service, startService } from '../support/service.ts';

const POLICY = 'tiers:\n  external_api: { decision: allow }\n';
const KEY = 'canary-health-key-4711';
/** Checks follow each other fast, and a service is left alone soon. */
const LIMITS = {
  serviceCheckEveryMs: 50,
  healthCheckMs: 300,
  healthKeptMs: 1,
  connectorFailuresMax: 2,
  connectorPauseMs: 20,
  connectorPauseMsMax: 100,
};

interface Shown {
  readonly name?: string;
  readonly state: string;
  readonly problem?: string;
  readonly since?: string;
  readonly reason?: string;
}

let service: Service;
/** What the health path answers. */
let health: PlayedAnswer;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service[Symbol.asyncDispose]());

/** Requests for the health path so far. */
const checks = () => service.requests.filter((it) => it.startsWith('GET /usage '));

/** A daemon whose searches go to the played service, which answers those well. */
async function startSearch(limits: object = LIMITS, policy = POLICY): Promise<OpenDaemon> {
  health = { body: {} };
  service.requests.length = 0;
  service.always((request) => (request.startsWith('GET /usage ') ? health : { body: { results: [] } }));
  const search = { provider: 'tavily', url: service.base, ca: service.ca, private: true };
  const daemon = await openDaemon({ policy, limits, config: { search } });
  await runCli(daemon, ['secret', 'set', 'tavily_key'], { stdin: KEY });
  return daemon;
}

const search = (client: Client) =>
  client.call('web_search' as string, { query: 'tea' } as never) as Promise<ToolResult>;
const shown = async (client: Client, params: object = {}) =>
  ((await client.request('status', params)) as { search: Shown }).search;

describe('a service that calls use', () => {
  let daemon: OpenDaemon;
  let client: Client;
  beforeAll(async () => {
    daemon = await startSearch();
    client = await daemon.connect({ role: 'operator' });
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });

  test('a service in use is checked again and again, with the secret as in a call', async () => {
    expect(checks()).toEqual([]);
    await search(client);
    await until(() => checks().length >= 3);
    expect(checks()[0]).toContain(`Authorization: Bearer ${KEY}\r\n`);
    expect(await shown(client)).toEqual({ provider: 'tavily', state: 'ok', auth: 'configured' });
  });

  test('a failing service is not asked for a while, with the reason, and used again when it works', async () => {
    health = { status: 503, body: {} };
    service.always(() => health);
    await until(async () => (await shown(client)).state === 'paused');
    expect(await shown(client)).toMatchObject({
      problem: 'it answered 503',
      since: expect.stringMatching(/^20\d\d-.*Z$/),
    });
    expect(await search(client)).toMatchObject({ success: false, error: { code: 'UPSTREAM_FAILED' } });
    const { stdout } = await runCli(daemon, ['status']);
    expect(stdout).toMatch(/^search tavily +(paused|failing) since 20\S+: it answered 503$/m);
    expect((await runCli(daemon, ['metrics'])).stdout).toMatch(/^ringfence_services\{state="(paused|failing)"\} 1$/m);
    const before = checks().length;
    await until(() => checks().length > before + 1);
    health = { body: { results: [] } };
    await until(async () => (await shown(client)).state === 'ok');
    expect(await search(client)).toMatchObject({ success: true });
  });

  test('a check of a hanging service is late within the time of a check', async () => {
    service.play(...Array.from({ length: 50 }, () => 'hang' as const));
    await until(async () => /took longer than 300 ms/.test((await shown(client)).problem ?? ''));
    service.always(() => ({ body: { results: [] } }));
    service.played.length = 0;
    await until(async () => (await shown(client)).state === 'ok');
  });

  test('a service that refuses the secret is shown as refusing, and stays usable', async () => {
    service.always((request) => (request.startsWith('GET /usage ') ? { status: 401 } : { body: { results: [] } }));
    await until(async () => (await shown(client)).state === 'refused');
    expect(await shown(client)).toMatchObject({ problem: 'it refused the secret' });
    expect(await search(client)).toMatchObject({ success: true });
  });
});

test('a service that no call used is asked by `status --health` and `doctor` only', async () => {
  await using daemon = await startSearch();
  await using client = await daemon.connect({ role: 'operator' });
  health = { status: 500, body: {} };
  expect(await shown(client)).toMatchObject({ state: 'ok' });
  expect(checks()).toEqual([]);
  expect(await shown(client, { health: true })).toMatchObject({ state: 'failing', problem: 'it answered 500' });
  expect(checks().length).toBe(1);
  const { stdout } = await runCli(daemon, ['doctor', '--json']);
  const { findings } = JSON.parse(stdout) as { findings: { id: string; status: string; found: string }[] };
  const finding = findings.find((it) => it.id === 'services');
  expect(finding).toMatchObject({ status: 'warning' });
  expect(finding?.found).toMatch(/^search tavily is (failing|paused) since 20\S+: it answered 500$/);
});

test('a service that the policy denies to all calls is not asked', async () => {
  const denied = `${POLICY}rules:\n  - { id: no-search, match: { tool: web_search }, decision: deny, reason: No. }\n`;
  await using daemon = await startSearch(LIMITS, denied);
  await using client = await daemon.connect({ role: 'operator' });
  await shown(client, { health: true });
  expect(service.requests).toEqual([]);
});

test('the server of a provider that does not answer any more is started anew, and says why', async () => {
  const limits = { serviceCheckEveryMs: 50, healthCheckMs: 200, providerChecksMax: 2, providerBackoffMs: 20 };
  await using it = await startProvider(undefined, { limits });
  const { since } = await it.info();
  expect(await it.text('fix__freeze')).toBe('freezing');
  await until(async () => (await it.info()).restarts > 0, 30_000);
  await it.ready();
  const { reason, since: later } = await it.info();
  expect(reason).toMatch(/^it did not answer 2 health checks: no answer within 200 ms$/);
  expect(Date.parse(later)).toBeGreaterThan(Date.parse(since));
  expect(await it.text('fix__echo', { text: 'again' })).toBe('again');
});

test('the server of a provider that works on a call is not taken for one that hangs', async () => {
  const limits = { serviceCheckEveryMs: 20, healthCheckMs: 50, providerChecksMax: 1 };
  await using it = await startProvider(undefined, { limits });
  await it.text('fix__echo', { text: 'a' });
  expect(await it.error('fix__wait', { name: 'x' }, { timeoutMs: 1_000 })).toMatchObject({ code: 'TIMEOUT' });
  expect((await it.info()).restarts).toBe(0);
});
