/** `toolchain_request`: an agent asks, a person sees the exact package and hash, and exactly that is installed. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { installedToolchains, removeToolchain } from '../../src/services/toolchains/installed.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

const WAIT_MS = 30_000;

let folder: string;
let server: Server;
let registry: string;
let answers: Map<string, Buffer>;
let daemon: OpenDaemon;
let client: Client;
let operator: Client;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ringfence-asked-'));
  server = createServer((request, response) => {
    const body = answers.get(request.url ?? '');
    response.writeHead(body ? 200 : 404).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  registry = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  daemon = await openDaemon({
    config: { packages: { registry } },
    limits: { toolchainRequestsMax: 1 },
  });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});
beforeEach(async () => {
  answers = new Map();
  client = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
  await operator.request('events.subscribe', { topics: ['approvals'] });
});
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  for (const it of installedToolchains(daemon.stateDir)) removeToolchain(daemon.stateDir, it.name);
});

/** Publishes versions of npm, whose scripts would leave a file; gives the hash of each. */
function publish(...versions: string[]): Record<string, string> {
  const hashes: Record<string, string> = {};
  const all = versions.map((version) => {
    const at = join(folder, version, 'package');
    mkdirSync(join(at, 'bin'), { recursive: true });
    const scripts = { preinstall: `touch ${join(folder, 'canary')}` };
    const manifest = { name: 'npm', version, bin: { npm: 'bin/npm' }, scripts };
    writeFileSync(join(at, 'package.json'), JSON.stringify(manifest));
    writeFileSync(join(at, 'bin/npm'), `#!/bin/sh\necho own ${version}\n`);
    const tarball = execFileSync('tar', ['-czf', '-', '--mtime=@0', '-C', join(folder, version), 'package']);
    const path = `/npm/-/${version}.tgz`;
    answers.set(path, tarball);
    const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
    hashes[version] = integrity;
    return [version, { ...manifest, dist: { tarball: registry + path, integrity } }] as const;
  });
  const listing = { 'dist-tags': { latest: versions.at(-1) }, versions: Object.fromEntries(all) };
  answers.set('/npm', Buffer.from(JSON.stringify(listing)));
  return hashes;
}

interface Question {
  readonly approvalId: string;
  readonly digest: string;
  readonly diff?: string;
}

/** Asks for npm, and gives the question that a person gets, and the result to come. */
async function asked(input: {
  name: 'npm';
  version?: string;
}): Promise<{ question: Question; result: Promise<ToolResult> }> {
  const result = client.call('toolchain_request', input) as unknown as Promise<ToolResult>;
  let questions: Question[] = [];
  await until(async () => {
    ({ approvals: questions } = (await operator.request('approvals.list', {})) as { approvals: Question[] });
    return questions.length > 0;
  }, WAIT_MS);
  return { question: questions[0] as Question, result };
}
const answer = ({ approvalId, digest }: Question, decision: 'approve' | 'deny', more: object = {}) =>
  operator.request('approvals.resolve', { approvalId, digest, decision, ...more });
const installed = () => {
  const at = join(daemon.stateDir, 'toolchains');
  return existsSync(at) ? readdirSync(at) : [];
};

test('a person sees package, version and hash; a yes installs exactly that, and runs no script', async () => {
  const hashes = publish('11.0.0', '11.2.3', '12.0.0');
  const { question, result } = await asked({ name: 'npm', version: '11' });
  expect(installed()).toEqual([]);
  expect(question.diff).toContain('package npm@11.2.3');
  expect(question.diff).toContain(hashes['11.2.3']);
  expect(question.diff).toContain(`${registry}/npm/-/11.2.3.tgz`);
  // A newer version that comes meanwhile is not what was shown.
  publish('11.2.3', '11.9.9');
  await answer(question, 'approve');
  expect(await result).toMatchObject({
    success: true,
    data: { name: 'npm', version: '11.2.3', integrity: hashes['11.2.3'], programs: ['npm'] },
    metadata: { approvalGranted: true },
  });
  expect(installed()).toEqual(['npm@11.2.3']);
  expect(existsSync(join(folder, 'canary'))).toBe(false);
});

test('a no installs nothing, and each call is asked about, whatever was answered before', async () => {
  publish('11.0.0');
  const first = await asked({ name: 'npm', version: '11.0.0' });
  await answer(first.question, 'deny');
  expect((await first.result).success).toBe(false);
  expect(installed()).toEqual([]);
  // The same call again would be refused for the no.
  const second = await asked({ name: 'npm', version: '11' });
  await answer(second.question, 'approve');
  expect((await second.result).success).toBe(true);
  // The next question tells what would go.
  publish('12.0.0');
  const third = await asked({ name: 'npm', version: '12' });
  expect(third.question.diff).toContain('removes npm@11.0.0');
  await answer(third.question, 'deny');
  await third.result;
  expect(installed()).toEqual(['npm@11.0.0']);
});

test('another file or another hash under the version that was shown is not installed', async () => {
  publish('11.0.0');
  const one = await asked({ name: 'npm' });
  answers.set('/npm/-/11.0.0.tgz', Buffer.from('evil'));
  await answer(one.question, 'approve');
  expect(await one.result).toMatchObject({ success: false, error: { code: 'UPSTREAM_FAILED' } });
  expect(installed()).toEqual([]);

  publish('11.0.0');
  const two = await asked({ name: 'npm', version: '11' });
  writeFileSync(join(folder, '11.0.0/package/bin/npm'), '#!/bin/sh\necho other\n');
  const tarball = execFileSync('tar', ['-czf', '-', '-C', join(folder, '11.0.0'), 'package']);
  const integrity = `sha512-${createHash('sha512').update(tarball).digest('base64')}`;
  const dist = { tarball: `${registry}/npm/-/11.0.0.tgz`, integrity };
  const versions = { '11.0.0': { name: 'npm', version: '11.0.0', bin: { npm: 'bin/npm' }, dist } };
  answers.set('/npm/-/11.0.0.tgz', tarball);
  answers.set('/npm', Buffer.from(JSON.stringify({ 'dist-tags': { latest: '11.0.0' }, versions })));
  await answer(two.question, 'approve');
  expect(await two.result).toMatchObject({
    success: false,
    error: { code: 'UPSTREAM_FAILED', message: expect.stringContaining('has the hash') },
  });
  expect(installed()).toEqual([]);
});

test('a package that the registry does not have is an error before a person is asked', async () => {
  expect(await client.call('toolchain_request', { name: 'npm' })).toMatchObject({
    error: { code: 'UPSTREAM_FAILED', message: expect.stringContaining('answers with status 404') },
  });
  publish('11.0.0');
  expect(await client.call('toolchain_request', { name: 'npm', version: '9' })).toMatchObject({
    error: { code: 'UPSTREAM_FAILED', message: expect.stringContaining('has no version 9') },
  });
  expect((await operator.request('approvals.list', {})) as object).toEqual({ approvals: [] });
});

test('one more at once than the bound is refused', async () => {
  const all = await Promise.all(
    ['8', '9'].map((version) => client.call('toolchain_request', { name: 'npm', version })),
  );
  const codes = all.map((it) => (it.success ? '' : it.error.code));
  expect(codes.toSorted()).toEqual(['QUEUE_FULL', 'UPSTREAM_FAILED']);
});

test('a policy that denies commands denies it, and a missing program suggests it', async () => {
  const rules = 'rules:\n  - { id: none, match: { tool: toolchain_request }, decision: deny, reason: r }\n';
  await using strict = await openDaemon({ policy: rules });
  await using agent = await strict.connect();
  expect(await agent.call('toolchain_request', { name: 'npm' })).toMatchObject({ error: { code: 'POLICY_DENIED' } });
  const missing = await client.call('terminal_execute', { command: 'yarn' });
  expect(missing).toMatchObject({
    data: {
      missing: {
        hint: expect.stringContaining('toolchain_request'),
        suggestions: expect.arrayContaining([
          expect.objectContaining({ request: { tool: 'toolchain_request', input: { name: 'yarn' } } }),
        ]),
      },
    },
  });
});
