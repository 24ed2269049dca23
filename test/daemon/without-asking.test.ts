/** The policies of docs/how-to/without-asking.md, each doing its intended work on real servers of this machine. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { parsePolicy } from '../../src/policy/load.ts';
import { dataOf, type OpenDaemon, openDaemon, repository as root, temporaryDir } from '../support/daemon.ts';
import { createRepository } from '../support/repository.ts';

const page = readFileSync(join(root, 'docs/how-to/without-asking.md'), 'utf8');
const policies = new Map(
  [...page.matchAll(/^```yaml\n# (\S+)\n([\s\S]*?)^```/gm)].map((it) => [it[1] as string, it[2] as string]),
);
const policyOf = (name: string, hosts: Record<string, string> = {}): string =>
  Object.entries(hosts).reduce(
    (text, [host, instead]) => text.replaceAll(host, instead),
    // A question without an answer is an error at once.
    `${policies.get(name)}approvals: { headless: deny }\n`,
  );

/** An address that programs in a sandbox do not treat as their own. */
const ADDRESS = '127.0.0.2';
async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const server: Server = createServer(answer);
  await new Promise<void>((done) => void server.listen(0, ADDRESS, done));
  const host = `${ADDRESS}:${(server.address() as AddressInfo).port}`;
  return {
    host,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}

const run = (agent: Client, command: string, cwd = '.') => agent.call('terminal_execute', { command, cwd });
const ASKED = { success: false, error: { code: 'APPROVAL_DENIED' } };

test('the page has these policies, and each is taken', () => {
  expect([...policies.keys()]).toEqual(['push', 'install']);
  for (const [name, text] of policies) expect(() => parsePolicy(text, name), name).not.toThrow();
});

function repositoryIn({ workspace }: OpenDaemon) {
  const repository = createRepository(join(workspace, 'project'));
  repository.write('a.txt', 'one\n');
  repository.commit('first');
  repository.write('a.txt', 'two\n');
  return repository;
}

/** git's own HTTP server of the repositories below a folder. */
function gitServer(folder: string) {
  const backend = join(execFileSync('git', ['--exec-path'], { encoding: 'utf8' }).trim(), 'git-http-backend');
  return serve((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://x');
    const child = spawn(backend, {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        REMOTE_USER: 'agent',
        REQUEST_METHOD: request.method,
        PATH_INFO: pathname,
        QUERY_STRING: searchParams.toString(),
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
      },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    request.pipe(child.stdin);
    const chunks: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
    child.stdout.once('end', () => {
      const all = Buffer.concat(chunks);
      const end = all.indexOf('\r\n\r\n');
      const headers = all.subarray(0, end).toString().split('\r\n');
      const pairs = headers.map((it) => it.split(': ') as [string, string]);
      const status = Number(pairs.find(([name]) => name === 'Status')?.[1]?.slice(0, 3) ?? 200);
      response.writeHead(status, Object.fromEntries(pairs)).end(all.subarray(end + 4));
    });
  });
}

test('`push`: a branch of an agent goes to the listed host unasked, and to no other branch', async () => {
  const folder = temporaryDir('remotes');
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const remote = (...args: string[]) =>
    execFileSync('git', ['-C', join(folder, 'p.git'), ...args], { encoding: 'utf8' });
  execFileSync('git', ['init', '-q', '--bare', '-b', 'main', join(folder, 'p.git')]);
  remote('config', 'http.receivepack', 'true');
  await using server = await gitServer(folder);
  await using daemon = await openDaemon({ policy: policyOf('push', { 'github.com:443': server.host }) });
  const repository = repositoryIn(daemon);
  repository.git('remote', 'add', 'origin', `http://${server.host}/p.git`);
  repository.git('branch', 'agent/fix-1');
  await using agent = await daemon.connect();
  const pushed = await dataOf(run(agent, 'git push origin agent/fix-1', 'project'));
  expect(pushed, JSON.stringify(pushed)).toMatchObject({ exitCode: 0 });
  expect(remote('for-each-ref', '--format=%(refname)')).toBe('refs/heads/agent/fix-1\n');
  for (const command of [
    'git push origin main',
    'git push',
    'git push -f origin HEAD',
    'git push origin agent/fix-1:main',
  ])
    expect(await run(agent, command, 'project'), command).toMatchObject(ASKED);
  expect(remote('for-each-ref', '--format=%(refname)')).toBe('refs/heads/agent/fix-1\n');
  expect(await dataOf(run(agent, 'git push origin HEAD', 'project'))).toMatchObject({ exitCode: 0 });
}, 60_000);

test('`install`: what the lock file says is installed unasked from the listed host, and no script of it runs', async () => {
  const folder = temporaryDir('registry');
  onTestFinished(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'package'));
  const manifest = { name: 'of-the-test', version: '1.0.0', scripts: { install: 'touch ../../ran' } };
  writeFileSync(join(folder, 'package/package.json'), JSON.stringify(manifest));
  const tarball = execFileSync('tar', ['cz', '-C', folder, 'package']);
  await using server = await serve((_, response) => void response.end(tarball));
  await using daemon = await openDaemon({ policy: policyOf('install', { 'registry.npmjs.org:443': server.host }) });
  const project = join(daemon.workspace, 'project');
  mkdirSync(project);
  const dependencies = { 'of-the-test': '1.0.0' };
  const own = { name: 'project', version: '1.0.0', dependencies };
  writeFileSync(join(project, 'package.json'), JSON.stringify(own));
  const locked = { version: '1.0.0', resolved: `http://${server.host}/of-the-test.tgz`, hasInstallScript: true };
  const packages = { '': own, 'node_modules/of-the-test': locked };
  const lock = { name: 'project', version: '1.0.0', lockfileVersion: 3, requires: true, packages };
  writeFileSync(join(project, 'package-lock.json'), JSON.stringify(lock));
  await using agent = await daemon.connect();
  const installed = await dataOf(run(agent, 'npm ci --ignore-scripts', 'project'));
  expect(installed, JSON.stringify(installed)).toMatchObject({ exitCode: 0 });
  expect(readFileSync(join(project, 'node_modules/of-the-test/package.json'), 'utf8')).toBe(JSON.stringify(manifest));
  expect(await dataOf(agent.call('file_list', { path: 'project' }))).not.toMatchObject({
    entries: expect.arrayContaining([expect.objectContaining({ name: 'ran' })]),
  });
}, 60_000);
