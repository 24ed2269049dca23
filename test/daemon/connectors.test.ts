/** Connectors of a real daemon, with a service over TLS that plays what the real ones answer. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { git } from '../support/git-origin.ts';
import { type Service, startService } from '../support/service.ts';

const POLICY = 'tiers:\n  external_api: { decision: allow, costUsdPerDay: 1000, costUsdAskAbove: 500 }\n';
const SECRET = 'canary-Zx9+=?&-4711-value';

let service: Service;
let daemon: OpenDaemon;
let client: Client;
/** Tools of calls that a person was asked about. */
const asked: string[] = [];

/** Runs the command line against the daemon's state; it must succeed. */
async function cli(args: string[], stdin = ''): Promise<string> {
  const { code, stdout, stderr } = await runCli(daemon, args, { stdin });
  if (code !== 0) throw new Error(`${args.join(' ')}: ${stderr}`);
  return stdout;
}

/** Adds a preset whose service is the played one, with its secret. */
async function addPreset(file: string, secret: string, { path = '', value = SECRET, name = file } = {}): Promise<void> {
  await cli(['connector', 'add', file, '--base', `${service.base}${path}`, '--ca', service.ca, '--private']);
  await cli(['secret', 'set', secret], value);
  const has = async () => {
    const { connectors } = (await client.request('status', {})) as { connectors: { name: string; auth: string }[] };
    return connectors.some((it) => it.name === name && it.auth !== 'missing');
  };
  await until(has);
}

const request = () => service.requests.at(-1)?.replaceAll('\r\n', '\n');
const called = (tool: string, input: object, options: object = {}) =>
  dataOf<Record<string, unknown>>(client.call(tool, input, options) as never);
async function errorOf(tool: string, input: object) {
  const result = await client.call(tool, input);
  if (result.success) throw new Error(`${tool} succeeded: ${JSON.stringify(result.data)}`);
  return result.error;
}

beforeAll(async () => {
  service = await startService();
  daemon = await openDaemon({ policy: POLICY });
  client = await daemon.connect({ role: 'operator' });
  await client.onApproval((approval) => {
    asked.push(approval.tool);
    return { decision: 'approve' };
  });
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

/** A request as it came, with the parts that each of them has filled in. */
const http = (
  line: string,
  { headers = [], auth, body = '' }: { headers?: string[]; auth?: string[]; body?: string },
) =>
  [
    `${line} HTTP/1.1`,
    'user-agent: ringfence',
    'accept-encoding: gzip, deflate, br, zstd',
    ...headers,
    ...(auth ?? [`Authorization: Bearer ${SECRET}`]),
    'host: HOST',
    'connection: close',
    ...(body === '' ? [] : [`content-length: ${Buffer.byteLength(body)}`]),
    '',
    body,
  ].join('\n');
const JSON_BODY = ['Accept: application/json', 'Content-Type: application/json'];
const FORM_BODY = ['Accept: application/json', 'Content-Type: application/x-www-form-urlencoded'];
const GITHUB = ['Accept: application/vnd.github+json', 'X-GitHub-Api-Version: 2022-11-28'];

test('a tool of a preset that was not added says which commands add it', async () => {
  expect(await errorOf('gitlab_create_mr', {})).toMatchObject({
    code: 'TOOL_DISABLED',
    message: '`gitlab_create_mr` is a tool of GitLab, which is not connected here',
    suggestion: 'Ask the person to run: ringfence connector add gitlab, then ringfence secret set gitlab_token',
  });
});

describe('gitlab and gitea', () => {
  beforeAll(async () => {
    await addPreset('gitlab', 'gitlab_token');
    await addPreset('gitea', 'gitea_token');
  });

  test('create_mr names the project in one part of the path, and sends the branches as GitLab calls them', async () => {
    service.play({
      status: 201,
      body: { iid: 3, web_url: 'https://gitlab.com/a/b/-/merge_requests/3', state: 'opened' },
    });
    const data = await called('create_mr', { owner: 'group', repo: 'name', title: 'T', head: 'work', base: 'main' });
    expect(data).toMatchObject({ number: 3, state: 'opened' });
    const body = '{"title":"T","source_branch":"work","target_branch":"main"}';
    expect(request()).toBe(
      http('POST /projects/group%2Fname/merge_requests', {
        headers: JSON_BODY,
        auth: [`PRIVATE-TOKEN: ${SECRET}`],
        body,
      }),
    );
  });

  test('gitea_create_pr sends the request of Gitea', async () => {
    service.play({ status: 201, body: { number: 4, html_url: 'https://codeberg.org/a/b/pulls/4', state: 'open' } });
    expect(await called('gitea_create_pr', { owner: 'a', repo: 'b', title: 'T', head: 'work', base: 'main' })).toEqual({
      number: 4,
      url: 'https://codeberg.org/a/b/pulls/4',
      state: 'open',
    });
    expect(request()).toContain(`POST /repos/a/b/pulls HTTP/1.1`);
    expect(request()).toContain(`Authorization: token ${SECRET}`);
  });
});

describe('github', () => {
  const repository = { owner: 'octo', repo: 'hello' };
  beforeAll(() => addPreset('github', 'github_token'));

  test('create_issue sends the request that GitHub documents, gives what the file names, and asks a person', async () => {
    const issue = { number: 7, html_url: 'https://github.com/octo/hello/issues/7', state: 'open', id: 1 };
    service.play({ status: 201, body: issue });
    const data = await called('create_github_issue', { ...repository, title: 'Näh', body: 'B', labels: ['bug'] });
    expect(data).toEqual({ number: 7, url: issue.html_url, state: 'open' });
    const body = '{"title":"Näh","body":"B","labels":["bug"]}';
    const headers = [...GITHUB, 'Content-Type: application/json'];
    expect(request()).toBe(http('POST /repos/octo/hello/issues', { headers, body }));
    expect(asked.at(-1)).toBe('github__create_issue');
  });

  test('create_pr takes owner, name and branch from the remote of the repository, and says what it lacks without one', async () => {
    const [title, base] = ['T', 'main'];
    expect(await errorOf('create_pr', { title, base, head: 'work' })).toMatchObject({
      code: 'INPUT_INVALID',
      message: expect.stringContaining('owner'),
    });
    git(daemon.workspace, 'init', '-q', '-b', 'work');
    git(daemon.workspace, 'remote', 'add', 'origin', `${service.base}/octo/hello.git`);
    service.play({ status: 201, body: { number: 9 } });
    await called('create_pr', { title, base });
    rmSync(join(daemon.workspace, '.git'), { recursive: true });
    const headers = [...GITHUB, 'Content-Type: application/json'];
    const body = '{"title":"T","head":"work","base":"main"}';
    expect(request()).toBe(http('POST /repos/octo/hello/pulls', { headers, body }));
  });

  test('create_pr and comment leave out what was not given', async () => {
    service.play({ status: 201, body: { number: 8 } }, { status: 201, body: { id: 9 } });
    await called('create_pr', { ...repository, title: 'T', head: 'work', base: 'main' });
    const headers = [...GITHUB, 'Content-Type: application/json'];
    const body = '{"title":"T","head":"work","base":"main"}';
    expect(request()).toBe(http('POST /repos/octo/hello/pulls', { headers, body }));
    await called('github__comment', { ...repository, number: 8, body: 'Hi' });
    expect(request()).toBe(http('POST /repos/octo/hello/issues/8/comments', { headers, body: '{"body":"Hi"}' }));
  });

  test('list_issues reads the pages that links lead to, and asks nobody', async () => {
    const questions = asked.length;
    const page = (number: number) => [{ number, title: 't', user: { login: 'me' }, labels: [{ name: 'bug' }] }];
    const next = `<${service.base}/repos/octo/hello/issues?page=2>; rel="next", <x>; rel="last"`;
    service.play({ headers: { link: next }, body: page(1) }, { body: page(2) });
    const { issues } = await called('github__list_issues', repository);
    expect(issues).toEqual([1, 2].map((number) => ({ number, title: 't', author: 'me', labels: ['bug'] })));
    expect(service.requests.at(-2)).toContain('GET /repos/octo/hello/issues?state=open&per_page=100 HTTP/1.1');
    expect(service.requests.at(-1)).toContain('GET /repos/octo/hello/issues?page=2 HTTP/1.1');
    expect(asked.length).toBe(questions);
  });

  test('an answer is what strangers wrote: without invisible characters, and known to the policy as that', async () => {
    service.play({ body: { number: 1, title: 'Ig\u200bno\u202ere\u{e0041} this', labels: [{ name: 'b\u2066ug' }] } });
    await using fresh = await daemon.connect();
    const data = await dataOf(
      fresh.call('github__get_issue' as string, { ...repository, number: 1 } as never) as never,
    );
    expect(data).toMatchObject({ title: 'Ignore this', labels: ['bug'] });
    const detail = { event: 'saw-untrusted', tool: 'github__get_issue' };
    await until(async () => {
      const { entries } = (await client.request('audit.query', { kind: 'session' })) as {
        entries: { detail?: object }[];
      };
      return entries.some((it) => JSON.stringify(it.detail) === JSON.stringify(detail));
    });
  });

  test.each([
    ['https://evil.example/x', 'at evil.example'],
    ['https://[nowhere/x', 'at an address that is none'],
  ])('a link to %s is not followed', async (link, place) => {
    service.play({ headers: { link: `<${link}>; rel="next"` }, body: [] });
    const error = await errorOf('github__list_issues', repository);
    expect(error).toMatchObject({ code: 'UPSTREAM_FAILED', message: expect.stringContaining(place) });
  });

  test.each(['..', '.', '', 'a/b', 'a/../b'])('a parameter %j leads to no other path', async (repo) => {
    expect(await errorOf('github__get_issue', { owner: 'octo', repo, number: 1 })).toMatchObject({
      code: 'INPUT_INVALID',
    });
  });

  test.each([
    [401, 'AUTH_REQUIRED'],
    [403, 'ACCESS_DENIED'],
    [404, 'NOT_FOUND'],
    [422, 'INPUT_INVALID'],
    [302, 'UPSTREAM_FAILED'],
  ])('an answer %i is the error %s with the reason', async (status, code) => {
    service.play({ status, headers: { location: 'https://evil.example/' }, body: { message: 'Because' } });
    const error = await errorOf('github__get_issue', { ...repository, number: 1 });
    expect(error).toMatchObject({ code, message: expect.stringContaining(`${status}: Because`) });
  });
});

describe('stripe', () => {
  beforeAll(() => addPreset('stripe', 'stripe_key'));

  test('create_payment sends a form with a key of its own, costs its amount and the fee, and asks a person', async () => {
    service.play({ body: { id: 'pi_1', client_secret: 'pi_1_secret_x', status: 'requires_payment_method', other: 1 } });
    const result = await client.call(
      'stripe_create_payment' as never,
      { amount: 1099, currency: 'usd', customerId: 'cus_1' } as never,
    );
    expect(result).toMatchObject({ success: true, metadata: { costUsd: 11.29 } });
    expect(result.success && result.data).toMatchObject({ paymentIntentId: 'pi_1', status: 'requires_payment_method' });
    const key = /^Idempotency-Key: (ringfence-[0-9a-f]{40})$/m.exec(request() ?? '')?.[1];
    const headers = [...FORM_BODY, `Idempotency-Key: ${key}`];
    const body = 'amount=1099&currency=usd&customer=cus_1';
    expect(request()).toBe(http('POST /v1/payment_intents', { headers, body }));
    expect(asked.at(-1)).toBe('stripe__create_payment');
  });

  test('a payment is repeated with the same key where the service says so, and with another one in another call', async () => {
    const done = { body: { id: 'pi_2', client_secret: 's', status: 'x' } };
    service.play({ status: 503, headers: { 'retry-after': '0' } }, done, done);
    await called('stripe__create_payment', { amount: 1, currency: 'usd' });
    await called('stripe__create_payment', { amount: 1, currency: 'usd' });
    const keys = service.requests.slice(-3).map((it) => /Idempotency-Key: (\S+)/.exec(it)?.[1]);
    expect(keys[0]).toBe(keys[1]);
    expect(keys[2]).not.toBe(keys[1]);
  });

  test('costs of payments are reported by tool, principal and day, beside the limits of the policy', async () => {
    service.play({ body: { id: 'pi_3', client_secret: 's', status: 'x' } });
    await called('stripe__create_payment', { amount: 250, currency: 'usd' });
    const answer = JSON.parse(await cli(['costs', '--json']));
    const day = new Date().toISOString().slice(0, 10);
    const principal = 'operator';
    expect(answer).toMatchObject({
      costs: expect.arrayContaining([expect.objectContaining({ day, principal, tool: 'stripe__create_payment' })]),
      today: [{ tier: 'external_api', mostUsd: 1000, askAboveUsd: 500 }],
      lost: { calls: 0, usd: 0 },
    });
    const usd = answer.today[0].usd.toFixed(2);
    expect(usd).toMatch(/^\d+\.\d\d$/);
    const shown = await cli(['costs', '--by', 'principal', '--days', '1']);
    expect(shown).toMatch(
      new RegExp(`^today \\(UTC\\), by principal:\n +\\$\\d+\\.\\d\\d {2}\\d+ calls? {2}${principal}\n`),
    );
    expect(shown).toContain(`external_api today: $${usd} (asks above $500, at most $1000)`);
    const refused = await runCli(daemon, ['costs', '--days', '0']);
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('--days must be a whole number from 1') });
  });

  test('the definitions of its tools say which secret they need, where it comes from, and what a call costs', async () => {
    const definitionOf = async (name: string) => {
      type Definition = { name: string; auth?: object; cost?: object };
      const { tools } = (await client.request('tools.list', {})) as { tools: Definition[] };
      return tools.find((it) => it.name === `stripe__${name}`);
    };
    const auth = { type: 'bearer_token', required: true, configKey: 'stripe_key' };
    const there = { ...auth, status: 'configured' };
    expect(await definitionOf('create_payment')).toMatchObject({
      auth: there,
      cost: { model: 'usage_based', estimatedCost: 0.3, billingUrl: 'https://dashboard.stripe.com/settings/billing' },
      requiresConfirmation: true,
    });
    expect(await definitionOf('get_payment')).toMatchObject({ auth: there, cost: { model: 'free' } });
    await cli(['secret', 'remove', 'stripe_key']);
    const setupUrl = expect.stringContaining('https://');
    expect((await definitionOf('get_payment'))?.auth).toMatchObject({ ...auth, setupUrl, status: 'missing' });
    await cli(['secret', 'set', 'stripe_key'], SECRET);
  });

  test('a parameter has to match the pattern of its schema', async () => {
    const error = await errorOf('stripe__create_payment', { amount: 1, currency: 'USD' });
    expect(error).toMatchObject({
      code: 'INPUT_INVALID',
      message: expect.stringContaining('currency: must match ^[a-z]{3}$'),
    });
  });

  test('a key of a real account is refused, unless the connector was added for those', async () => {
    const sent = service.requests.length;
    await cli(['secret', 'set', 'stripe_key'], 'sk_live_0123456789');
    const error = await errorOf('stripe__get_payment', { paymentIntentId: 'pi_1' });
    expect(error).toMatchObject({
      code: 'ACCESS_DENIED',
      message: 'the secret `stripe_key` is a key of a real account',
    });
    expect(error.suggestion).toContain('ringfence connector add stripe --live');
    expect(service.requests.length).toBe(sent);
    await cli(['connector', 'add', 'stripe', '--base', service.base, '--ca', service.ca, '--private', '--live']);
    service.always(() => ({ body: { id: 'pi_1' } }));
    await until(async () => (await client.call('stripe__get_payment', { paymentIntentId: 'pi_1' })).success);
    await addPreset('stripe', 'stripe_key');
  });

  test('list_payments goes on behind the last one of a page for as long as there are more', async () => {
    service.play(
      { body: { data: [{ id: 'pi_1' }, { id: 'pi_2' }], has_more: true } },
      { body: { data: [{ id: 'pi_3' }], has_more: false } },
    );
    const { payments } = await called('stripe__list_payments', {});
    expect((payments as { paymentIntentId: string }[]).map((it) => it.paymentIntentId)).toEqual([
      'pi_1',
      'pi_2',
      'pi_3',
    ]);
    expect(service.requests.at(-1)).toContain('GET /v1/payment_intents?limit=100&starting_after=pi_2 HTTP/1.1');
  });
});

describe('sendgrid', () => {
  beforeAll(() => addPreset('sendgrid', 'sendgrid_key'));

  test('send_email sends the message that SendGrid documents, and gives its id', async () => {
    service.play({ status: 202, headers: { 'X-Message-Id': 'm1' } });
    const mail = { to: ['a@x.example', 'b@x.example'], from: 'me@x.example', subject: 'S', text: 'T' };
    expect(await called('send_email', mail)).toEqual({ messageId: 'm1', status: 'queued' });
    const body =
      '{"personalizations":[{"to":[{"email":"a@x.example"},{"email":"b@x.example"}]}],"from":{"email":"me@x.example"},"subject":"S","content":[{"type":"text/plain","value":"T"}]}';
    expect(request()).toBe(http('POST /v3/mail/send', { headers: JSON_BODY, body }));
  });

  test('email_status says for each address whether the email was delivered', async () => {
    const of = (to_email: string, status: string) => ({
      to_email,
      subject: 'S',
      status,
      last_event_time: '2026-01-01',
    });
    service.play({ body: { messages: [of('a@x.example', 'delivered'), of('b@x.example', 'not_delivered')] } });
    expect(await called('sendgrid__email_status', { messageId: 'abcdefgh' })).toEqual({
      emails: [
        { to: 'a@x.example', subject: 'S', status: 'delivered', at: '2026-01-01' },
        { to: 'b@x.example', subject: 'S', status: 'not_delivered', at: '2026-01-01' },
      ],
    });
    expect(request()).toMatch(
      /^GET \/v3\/messages\?limit=100&query=msg_id(\+|%20)LIKE(\+|%20)(%27|')abcdefgh%25(%27|') /,
    );
    expect(await errorOf('sendgrid__email_status', { messageId: "x' OR 'a'='a" })).toMatchObject({
      code: 'INPUT_INVALID',
    });
  });

  test('send_email sends copies to those that cc and bcc name', async () => {
    service.play({ status: 202, headers: { 'X-Message-Id': 'm2' } });
    const mail = { to: 'a@x.example', cc: ['b@x.example', 'c@x.example'], bcc: 'd@x.example', from: 'me@x.example' };
    await called('send_email', { ...mail, subject: 'S', text: 'T' });
    expect(request()).toContain(
      '[{"to":[{"email":"a@x.example"}],"cc":[{"email":"b@x.example"},{"email":"c@x.example"}],"bcc":[{"email":"d@x.example"}]}]',
    );
  });

  test('an address that is none is refused before anything is sent', async () => {
    const mail = { from: 'me@example.org', subject: 'Hi', text: 'Hi' };
    const before = service.requests.length;
    for (const more of [{ to: 'not an address' }, { to: ['a@example.org', 'b@'] }, { to: 'a@example.org', from: 'me' }])
      expect(await errorOf('send_email', { ...mail, ...more })).toMatchObject({ code: 'INPUT_INVALID' });
    expect(service.requests.length).toBe(before);
  });

  test('takes text, html or both, and not neither', async () => {
    const error = await errorOf('sendgrid__send_email', { to: 'a@x.example', from: 'b@x.example', subject: 'S' });
    expect(error).toMatchObject({ code: 'INPUT_INVALID', message: expect.stringContaining('takes one of html, text') });
  });
});

describe('vercel', () => {
  beforeAll(() => addPreset('vercel', 'vercel_token'));

  test('deploy sends the files of a folder without secrets, and gives the deployment', async () => {
    mkdirSync(join(daemon.workspace, 'site/public'), { recursive: true });
    writeFileSync(join(daemon.workspace, 'site/index.html'), '<p>hi');
    writeFileSync(join(daemon.workspace, 'site/public/a.txt'), 'a');
    writeFileSync(join(daemon.workspace, 'site/.env'), 'KEY=hidden');
    writeFileSync(join(daemon.workspace, 'site/server.key'), 'hidden');
    service.play({
      body: { id: 'dpl_1', url: 'x.vercel.app', readyState: 'QUEUED', inspectorUrl: 'https://vercel.com/x' },
    });
    const data = await called('vercel_deploy', { projectPath: 'site', production: true, envVars: { A: 'b' } });
    const deployment = {
      deploymentId: 'dpl_1',
      url: 'https://x.vercel.app',
      status: 'building',
      buildLogs: 'https://vercel.com/x',
    };
    expect(data).toEqual(deployment);
    const files = [
      { file: 'index.html', data: 'PHA+aGk=', encoding: 'base64' },
      { file: 'public/a.txt', data: 'YQ==', encoding: 'base64' },
    ];
    const projectSettings = { framework: null };
    const body = JSON.stringify({ name: 'site', files, target: 'production', env: { A: 'b' }, projectSettings });
    expect(request()).toBe(http('POST /v13/deployments', { headers: JSON_BODY, body }));
    const { tools } = (await client.request('tools.list', { tools: 'all', category: 'deployment' } as never)) as {
      tools: { name: string }[];
    };
    expect(tools.map((it) => it.name)).toContain('vercel__deploy');
  });

  test('deploy_to_production means the production, unless its caller says otherwise', async () => {
    mkdirSync(join(daemon.workspace, 'page'), { recursive: true });
    const done = { body: { id: 'dpl_2', url: 'x.vercel.app', readyState: 'QUEUED' } };
    for (const [input, told] of [
      [{}, true],
      [{ production: false }, false],
    ] as const) {
      service.play(done);
      await called('deploy_to_production', { projectPath: 'page', ...input });
      expect(request()?.includes('"target":"production"')).toBe(told);
    }
  });

  test('deploys nothing from outside of the workspace', async () => {
    expect(await errorOf('vercel__deploy', { projectPath: '../x' })).toMatchObject({ code: 'ACCESS_DENIED' });
  });
});

describe('supabase', () => {
  beforeAll(() => addPreset('supabase', 'supabase_key'));
  const auth = [`apikey: ${SECRET}`, `Authorization: Bearer ${SECRET}`];

  test('select turns conditions into the query of PostgREST', async () => {
    service.play({ body: [{ id: 1 }] });
    const data = await called('supabase__select', { table: 'users', filters: { age: 'gt.21' }, limit: 5 });
    expect(data).toEqual({ rows: [{ id: 1 }] });
    const headers = ['Accept: application/json'];
    expect(request()).toBe(http('GET /rest/v1/users?age=gt.21&select=*&limit=5', { headers, auth }));
  });

  test('a condition replaces no parameter of the query, and without one nothing is changed', async () => {
    const filters = { select: '*,secrets(*)' };
    expect(await errorOf('supabase__select', { table: 'users', filters })).toMatchObject({ code: 'INPUT_INVALID' });
    const all = { table: 'users', filters: {}, values: { a: 1 } };
    expect(await errorOf('supabase__update', all)).toMatchObject({ code: 'INPUT_INVALID' });
  });
});

describe('slack', () => {
  beforeAll(() => addPreset('slack', 'slack_token', { path: '/api' }));

  test('post_message sends what Slack documents; an answer that is not ok is an error', async () => {
    service.play({ body: { ok: true, channel: 'C1', ts: '1.2' } }, { body: { ok: false, error: 'channel_not_found' } });
    expect(await called('slack_send_notification', { channel: 'C1', text: 'Hi' })).toEqual({
      channel: 'C1',
      ts: '1.2',
    });
    const body = '{"channel":"C1","text":"Hi"}';
    expect(request()).toBe(http('POST /api/chat.postMessage', { headers: JSON_BODY, body }));
    const error = await errorOf('slack__post_message', { channel: 'C2', text: 'Hi' });
    expect(error.message).toContain('channel_not_found');
  });
});

describe('webhook', () => {
  beforeAll(() => addPreset('webhook', 'webhook_path', { value: 'services/T0/B0/canary-path' }));

  test('send_notification posts to the secret path', async () => {
    service.play({ body: 'ok' });
    expect(await called('send_notification', { text: 'Hi' })).toEqual({ status: 'sent' });
    expect(request()).toBe(
      http('POST /services/T0/B0/canary-path', { headers: JSON_BODY, auth: [], body: '{"text":"Hi"}' }),
    );
  });

  test('send_notification takes its text as `message`, unless both are given', async () => {
    service.play({ body: 'ok' });
    expect(await called('send_notification', { message: 'Hello' })).toEqual({ status: 'sent' });
    expect(request()).toContain('{"text":"Hello"}');
    expect(await errorOf('send_notification', { text: 'Hi', message: 'Hello' })).toMatchObject({
      code: 'INPUT_INVALID',
    });
  });
});

describe('from-openapi', () => {
  const document = {
    openapi: '3.1.0',
    info: { title: 'Shop' },
    servers: [{ url: 'https://shop.example' }],
    paths: {
      '/items/{id}': {
        get: {
          operationId: 'getItem',
          parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }],
          responses: {
            200: { content: { 'application/json': { schema: { properties: { price: { type: 'number' } } } } } },
          },
        },
        put: { operationId: 'putItem', parameters: [{ $ref: 'https://evil.example/parameter' }] },
      },
    },
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  };

  test('writes a file that can be added, whose tools work, and tells what it left out', async () => {
    const args = ['connector', 'from-openapi', '-', '--operations', '/items/*'];
    const { code, stdout, stderr } = await runCli(daemon, args, { stdin: JSON.stringify(document) });
    expect(code).toBe(0);
    expect(stderr).toContain('1 of 2 operations\n');
    expect(stderr).toContain('left out PUT /items/{id}: https://evil.example/parameter is outside of the document');
    writeFileSync(join(daemon.stateDir, 'shop.yaml'), stdout, { mode: 0o600 });
    await addPreset(join(daemon.stateDir, 'shop.yaml'), 'shop_key', { name: 'shop' });
    service.play({ body: { price: 7, secret: 'not named' } });
    expect(await called('shop__get_item', { id: 'a b' })).toEqual({ price: 7 });
    expect(request()).toBe(http('GET /items/a%20b', { headers: ['Accept: application/json'] }));
  });

  test('says what is wrong with a document, and with a pattern that nothing matches', async () => {
    const none = await runCli(daemon, ['connector', 'from-openapi', '/nowhere.json']);
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining("/nowhere.json can't be read (ENOENT)") });
    const args = ['connector', 'from-openapi', '-', '--operations', 'buy*'];
    const idle = await runCli(daemon, args, { stdin: JSON.stringify(document) });
    expect(idle).toMatchObject({ code: 2, stdout: '' });
    expect(idle.stderr).toContain('--operations buy*: matches none of the 2 operations of standard input');
  });
});

test('a connector is there for the next call once `connector add` has ended, and gone once `connector remove` has', async () => {
  const codeOfNext = async () => {
    const { error } = (await client.call('vercel__list_deployments', {})) as { error?: { code: string } };
    return error?.code;
  };
  for (const _ of [1, 2, 3]) {
    await cli(['connector', 'add', 'vercel', '--base', service.base, '--ca', service.ca, '--private']);
    expect(await codeOfNext()).not.toBe('TOOL_DISABLED');
    await cli(['connector', 'remove', 'vercel']);
    expect(await codeOfNext()).toBe('TOOL_DISABLED');
  }
});

test('a project in a subgroup is named by the remote of the repository', async () => {
  const folder = join(daemon.workspace, 'nested');
  git(daemon.workspace, 'init', '-q', '-b', 'work', folder);
  git(folder, 'remote', 'add', 'origin', `${service.base}/group/sub/name.git`);
  await using inFolder = await daemon.connect({ workspace: folder });
  service.play({ status: 201, body: { iid: 4, web_url: 'https://gitlab.com/m/4', state: 'opened' } });
  expect(await inFolder.call('gitlab__create_mr', { title: 'T', base: 'main' })).toMatchObject({ success: true });
  expect(request()).toContain('POST /projects/group%2Fsub%2Fname/merge_requests HTTP/1.1');
});
