/** code_dependencies and an npm registry, through a real daemon: a local server plays the registry. */
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

type Answer = (response: ServerResponse, body: string) => void;

let server: Server;
let registry: string;
/** Method, path and body of each request. */
let seen: { line: string; accept: string | undefined; body: string }[] = [];
/** Answers by method and path; 404 for others. */
let answers: Record<string, Answer> = {};

beforeAll(async () => {
  server = createServer((incoming: IncomingMessage, response) => {
    let body = '';
    incoming.on('data', (chunk) => (body += chunk));
    incoming.on('end', () => {
      const line = `${incoming.method} ${incoming.url}`;
      seen.push({ line, accept: incoming.headers.accept, body });
      const answer = answers[line];
      if (answer) answer(response, body);
      else response.writeHead(404).end('{}');
    });
  });
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done));
  registry = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

const json =
  (value: unknown): Answer =>
  (response) =>
    void response.end(JSON.stringify(value));
const BULK = 'POST /-/npm/v1/security/advisories/bulk';
const metadata = (name: string, latest: string) => json({ name, 'dist-tags': { latest }, versions: { [latest]: {} } });

const LOCKFILE = {
  lockfileVersion: 3,
  packages: {
    '': { dependencies: { old: '^1.0.0', '@some/scoped': '^2.0.0', fresh: '3.0.0', inner: '*', folder: '*' } },
    'node_modules/old': { version: '1.2.3', resolved: 'https://registry.npmjs.org/old/-/old-1.2.3.tgz' },
    'node_modules/@some/scoped': { version: '2.0.0' },
    'node_modules/fresh': { version: '3.0.0' },
    'node_modules/fresh/node_modules/old': { version: '2.5.0', dev: true },
    'node_modules/inner': { version: '1.0.0', resolved: 'https://npm.corp.example/inner/-/inner-1.0.0.tgz' },
    'node_modules/folder': { resolved: 'packages/folder', link: true },
    'packages/folder': { version: '0.0.1' },
  },
};
const GOOD: Record<string, Answer> = {
  'GET /old': metadata('old', '3.1.0'),
  'GET /@some%2Fscoped': metadata('@some/scoped', '2.1.0'),
  'GET /fresh': metadata('fresh', '3.0.0'),
  [BULK]: json({
    old: [
      {
        id: 1,
        title: 'Prototype pollution',
        severity: 'high',
        vulnerable_versions: '<1.3.0 || >=2.0.0 <2.4.0',
        url: 'https://x.example/1',
      },
      { id: 2, title: 'Denial of service', severity: 'critical', vulnerable_versions: '>=2.0.0 <=2.5.0' },
      { id: 3, title: 'Long mended', severity: 'low', vulnerable_versions: '<1.0.0' },
    ],
    stranger: [{ id: 4, title: 'Not asked about', severity: 'low', vulnerable_versions: '*' }],
  }),
};

let daemon: OpenDaemon;
let client: Client;
const policyOf = (decision: string, ...hosts: string[]) =>
  `tiers:\n  external_api: { decision: ${decision}, network: { allow: ${JSON.stringify(hosts)} } }\n`;
beforeAll(async () => {
  daemon = await openDaemon({
    policy: policyOf('allow', new URL(registry).host),
    limits: { serverAnswersMs: 3000, packageMetadataBytes: 2000 },
  });
  client = await daemon.connect();
  fill(daemon, LOCKFILE);
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
beforeEach(() => {
  seen = [];
  answers = GOOD;
});

function fill({ workspace }: OpenDaemon, lockfile: object): void {
  writeFileSync(join(workspace, 'package.json'), '{}');
  writeFileSync(join(workspace, 'package-lock.json'), JSON.stringify(lockfile));
}

interface Data {
  totalDeps: number;
  vulnerabilities: unknown;
  outdated: unknown;
  unchecked?: string[];
  reason?: string;
}
async function ask(input: object, by = client): Promise<{ data: Data }> {
  const result = await by.call('code_dependencies', { registry, ...input } as never);
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
  return result as never;
}

test('check says what is outdated and vulnerable, by the versions that are installed', async () => {
  const { data } = await ask({ action: 'check' });
  expect(data.outdated).toEqual([
    { package: '@some/scoped', current: '2.0.0', latest: '2.1.0' },
    { package: 'old', current: '1.2.3', latest: '3.1.0' },
  ]);
  expect(data.vulnerabilities).toEqual([
    { package: 'old', installed: ['2.5.0'], severity: 'critical', description: 'Denial of service' },
    {
      package: 'old',
      installed: ['1.2.3'],
      severity: 'high',
      description: 'Prototype pollution',
      fixVersion: '1.3.0',
      url: 'https://x.example/1',
    },
  ]);
  expect(data.totalDeps).toBe(6);
});

test('the registry hears of no package that came from elsewhere; the result names those', async () => {
  const { data } = await ask({ action: 'check' });
  expect(seen.map((it) => it.line).sort()).toEqual(['GET /@some%2Fscoped', 'GET /fresh', 'GET /old', BULK]);
  expect(JSON.parse(seen.find((it) => it.line === BULK)?.body ?? '')).toEqual({
    old: ['1.2.3', '2.5.0'],
    '@some/scoped': ['2.0.0'],
    fresh: ['3.0.0'],
  });
  expect(seen.find((it) => it.line === 'GET /old')?.accept).toBe('application/vnd.npm.install-v1+json');
  expect(data).toMatchObject({ unchecked: ['inner'], reason: expect.stringContaining('another registry') });
});

test('analyze_dependencies answers in the shape that agents know it by', async () => {
  const shape = z.object({
    totalDeps: z.number(),
    vulnerabilities: z.array(
      z.object({
        package: z.string(),
        severity: z.enum(['low', 'moderate', 'high', 'critical']),
        description: z.string(),
        fixVersion: z.string().optional(),
      }),
    ),
    outdated: z.array(z.object({ package: z.string(), current: z.string(), latest: z.string() })),
  });
  // This name has no parameter for the registry: only the public one is asked.
  const alias = await client.call('analyze_dependencies' as string, { packageJsonPath: 'package.json' } as never);
  expect(alias).toMatchObject({
    success: true,
    data: {
      vulnerabilities: 'not checked',
      outdated: 'not checked',
      reason: expect.stringContaining('registry.npmjs.org'),
    },
  });
  expect(shape.safeParse((await ask({ action: 'check' })).data).error).toBeUndefined();
});

describe('what is `not checked`', () => {
  const NOT = { outdated: 'not checked', vulnerabilities: 'not checked' };

  test.each(['outdated', 'audit'])(
    'the part that the action %s does not ask about is `not checked`, not an empty list',
    async (action) => {
      const { data } = await ask({ action });
      expect([data.outdated, data.vulnerabilities].filter((it) => it === 'not checked')).toHaveLength(1);
      expect(seen.every((it) => (action === 'outdated') === it.line.startsWith('GET'))).toBe(true);
    },
  );

  test.each([
    ['does not list the registry', policyOf('allow', 'registry.example:443'), /the policy does not name it/],
    ['lists no host', 'tiers:\n  external_api: { decision: allow, network: none }\n', /lists no host/],
    ['says nothing of hosts', 'tiers:\n  external_api: { decision: allow }\n', /the policy does not name it/],
    ['asks about requests', 'version: 1\n', /Allow it with tiers\.external_api/],
    ['forbids requests', 'tiers:\n  external_api: { decision: deny }\n', /Allow it with tiers\.external_api/],
  ])('both lists are `not checked` under a policy that %s', async (_, policy, reason) => {
    await using other = await openDaemon({ policy });
    await using by = await other.connect();
    fill(other, LOCKFILE);
    const { data } = await ask({ action: 'check' }, by);
    expect(data).toMatchObject({ ...NOT, reason: expect.stringMatching(reason) });
    expect(seen).toEqual([]);
  });

  test.each<[string, Record<string, Answer>, RegExp]>([
    ['knows nothing', {}, /status 404/],
    [
      'answers with no JSON',
      { 'GET /old': (it) => void it.end('<p>'), [BULK]: (it) => void it.end('{"old": [') },
      /404|else|too much/,
    ],
    ['redirects', { [BULK]: (it) => void it.writeHead(302, { location: 'http://127.0.0.1:1/' }).end() }, /404|302/],
    ['ends the connection', { [BULK]: (it) => void it.destroy() }, /404|closed|hang up|ECONN/],
    [
      'nests without end',
      { 'GET /old': (it) => void it.end('['.repeat(200_000)), [BULK]: (it) => void it.end('['.repeat(200_000)) },
      /404|else|too much/,
    ],
    [
      'sends more than is read',
      { [BULK]: (it) => void it.end(`{"old": [${'{},'.repeat(400_000)}{}]}`) },
      /404|too much/,
    ],
  ])('an answer of a registry that %s leaves both lists `not checked`, with the reason', async (_, its, reason) => {
    answers = its;
    expect((await ask({ action: 'check' })).data).toMatchObject({ ...NOT, reason: expect.stringMatching(reason) });
  });

  test('a package that alone got no answer is `not checked` and named', async () => {
    answers = { ...GOOD, 'GET /old': (it) => void it.writeHead(500).end() };
    const { data } = await ask({ action: 'outdated' });
    expect(data.outdated).toEqual([{ package: '@some/scoped', current: '2.0.0', latest: '2.1.0' }]);
    expect(data).toMatchObject({ unchecked: ['inner', 'old'], reason: 'the registry answered with status 500' });
  });

  test('a package whose registry gives no answer is `not checked` after the time for it', async () => {
    answers = { ...GOOD, 'GET /old': () => {} };
    const { data } = await ask({ action: 'check' });
    expect(data.unchecked).toContain('old');
    expect(data.reason).toBe('the servers took too long');
  });
});

test('the newest version is read from the beginning of a document that is cut', async () => {
  const versions = Object.fromEntries(Array.from({ length: 2000 }, (_, at) => [`1.0.${at}`, { name: 'old' }]));
  answers = {
    ...GOOD,
    'GET /old': json({ name: 'old', 'dist-tags': { latest: '1.0.1999', next: '2.0.0' }, versions }),
  };
  writeFileSync(
    join(daemon.workspace, 'package-lock.json'),
    JSON.stringify({
      lockfileVersion: 3,
      packages: { '': { dependencies: { old: '*' } }, 'node_modules/old': { version: '1.0.5' } },
    }),
  );
  const { data } = await ask({ action: 'outdated' });
  expect(data.outdated).toEqual([{ package: 'old', current: '1.0.5', latest: '1.0.1999' }]);
  fill(daemon, LOCKFILE);
});

test('a lockfile whose names lead elsewhere makes no request of another path', async () => {
  fill(daemon, {
    lockfileVersion: 3,
    packages: {
      '': { dependencies: { '../../evil': '*', 'a?b': '*', '..': '*', good: '*' } },
      ...Object.fromEntries(
        ['../../evil', 'a?b', '..', 'good'].map((it) => [`node_modules/${it}`, { version: '1.0.0' }]),
      ),
    },
  });
  const { data } = await ask({ action: 'outdated' });
  expect(seen.map((it) => it.line)).toEqual(['GET /good']);
  expect(data.unchecked).toEqual(expect.arrayContaining(['..', 'a?b', 'good']));
  fill(daemon, LOCKFILE);
});

test('the call says what it connected to, and a person is asked with online: yes where the policy asks', async () => {
  await using other = await openDaemon({ policy: policyOf('ask', new URL(registry).host) });
  await using by = await other.connect();
  await using operator = await other.connect({ role: 'operator' });
  fill(other, LOCKFILE);
  expect((await ask({ action: 'audit' }, by)).data.vulnerabilities).toBe('not checked');
  const running = ask({ action: 'audit', online: 'yes' }, by);
  const pending = async () =>
    ((await operator.request('approvals.list', {})) as { approvals: { approvalId: string; effects?: unknown }[] })
      .approvals;
  await until(async () => (await pending()).length === 1);
  expect(seen).toEqual([]);
  const [question] = await pending();
  expect(JSON.stringify(question)).toContain(new URL(registry).host);
  await operator.request('approvals.resolve', { approvalId: question?.approvalId, decision: 'approve' });
  expect((await running).data.vulnerabilities).toHaveLength(2);
  const { entries } = (await operator.request('audit.query', { tool: 'code_dependencies' })) as { entries: object[] };
  expect(JSON.stringify(entries)).toContain(JSON.stringify([{ target: new URL(registry).host, count: 1 }]));
});
