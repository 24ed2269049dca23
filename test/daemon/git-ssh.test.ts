/** git_push, git_fetch and git_pull by ssh: with the keys in the person's agent, which no sandbox of the agent reaches. */
import { once } from 'node:events';
import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import type { Client } from '../../src/client/client.ts';
import { bindSecret, removeSecret, storeSecret } from '../../src/services/secrets/secret-files.ts';
import { dataOf, type OpenDaemon, openDaemon, processesWith, until } from '../support/daemon.ts';
import { GitOrigin, git } from '../support/git-origin.ts';
import { keygen, missingSshd, SshServer } from '../support/ssh-server.ts';

const POLICY = `
version: 1
extends: default
open: [tiers, rules.publishing]
rules: [{ id: publishing, match: { publishes: true }, decision: allow, reason: "as below" }]
tiers: { external_api: { decision: allow, reason: "the tests are about what happens then" } }
`;

describe.skipIf(missingSshd)('a remote by ssh', () => {
  let origin: GitOrigin;
  let ssh: SshServer;
  let daemon: OpenDaemon;
  let client: Client;

  const parts = new AsyncDisposableStack();

  beforeAll(async () => {
    origin = parts.use(await GitOrigin.start());
    origin.commit({ 'a.txt': 'first\n' });
    ssh = parts.use(await SshServer.start());
    daemon = parts.use(await openDaemon({ policy: POLICY, env: ssh.environment }));
    client = await daemon.connect();
  });
  afterAll(() => parts.disposeAsync());

  const errorOf = async (called: Promise<unknown>): Promise<object> => {
    const answer = (await called) as { error?: object };
    expect(answer).toMatchObject({ success: false });
    return answer.error ?? {};
  };
  const inWorkspace = (...names: string[]): string => join(daemon.workspace, ...names);

  /** A clone of the server's repository in the workspace, as a person has one. */
  function setUp(name: string): string {
    git(daemon.workspace, 'clone', '-q', origin.bare, name);
    git(inWorkspace(name), 'remote', 'set-url', 'origin', ssh.remote(origin.bare));
    git(inWorkspace(name), 'config', 'user.name', 'A');
    return inWorkspace(name);
  }

  function commit(name: string, files: Readonly<Record<string, string>>): string {
    for (const [file, text] of Object.entries(files)) writeFileSync(inWorkspace(name, file), text);
    git(inWorkspace(name), 'add', '-A');
    git(inWorkspace(name), 'commit', '-q', '-m', 'files');
    return git(inWorkspace(name), 'rev-parse', 'HEAD');
  }

  test("git_push sends the branch with the key in the person's agent, and notes what the server has", async () => {
    const folder = setUp('pushed');
    const head = commit('pushed', { 'b.txt': 'b\n' });
    const data = await dataOf(client.call('git_push', { path: 'pushed', as: 'next' }));
    expect(data).toMatchObject({ url: ssh.remote(origin.bare), pushed: [{ ref: 'refs/heads/next', commit: head }] });
    expect(git(origin.bare, 'rev-parse', 'next')).toBe(head);
    expect(git(folder, 'rev-parse', 'origin/next')).toBe(head);
  });

  test('git_fetch and git_pull bring what the server has', async () => {
    const folder = setUp('pulled');
    const theirs = origin.commit({ 'theirs.txt': `${Date.now()}\n` });
    const { updated } = (await dataOf(client.call('git_fetch', { path: 'pulled' }))) as { updated: object[] };
    expect(updated).toContainEqual(expect.objectContaining({ ref: 'refs/remotes/origin/main', to: theirs }));
    expect(await dataOf(client.call('git_pull', { path: 'pulled' }))).toMatchObject({ branch: 'main', to: theirs });
    expect(readFileSync(join(folder, 'theirs.txt'), 'utf8')).toMatch(/^\d+\n$/);
  });

  test('git_push that is behind is refused, and with force replaces only what was fetched', async () => {
    setUp('behind');
    const theirs = origin.commit({ 'theirs.txt': `${Date.now()}\n` });
    const head = commit('behind', { 'mine.txt': 'mine\n' });
    const wanted = { path: 'behind' };
    expect(await errorOf(client.call('git_push', wanted))).toMatchObject({ code: 'CONFLICT' });
    expect(await errorOf(client.call('git_push', { ...wanted, force: true }))).toMatchObject({ code: 'CONFLICT' });
    expect(git(origin.bare, 'rev-parse', 'main')).toBe(theirs);
    await dataOf(client.call('git_fetch', { path: 'behind' }));
    await dataOf(client.call('git_push', { ...wanted, force: true }));
    expect(git(origin.bare, 'rev-parse', 'main')).toBe(head);
  });

  test('git_push refuses commits that hold secrets', async () => {
    setUp('leaky');
    commit('leaky', { 'config.js': `const key = "ghp_${'a1B2'.repeat(9)}";\n` });
    expect(await errorOf(client.call('git_push', { path: 'leaky', as: 'leaky' }))).toMatchObject({
      code: 'SENSITIVE_FILE',
    });
  });

  test('git_push runs no hook of the repository, and obeys none of its settings about ssh', async () => {
    const folder = setUp('armed');
    const ran = join(folder, 'ran');
    git(folder, 'config', 'core.sshCommand', `touch ${ran}; ssh`);
    git(folder, 'config', 'ssh.variant', 'ssh');
    writeFileSync(join(folder, '.git/hooks/pre-push'), `#!/bin/sh\ntouch ${ran}\n`, { mode: 0o755 });
    const head = commit('armed', { 'c.txt': 'c\n' });
    await dataOf(client.call('git_push', { path: 'armed', as: 'armed' }));
    expect(git(origin.bare, 'rev-parse', 'armed')).toBe(head);
    expect(existsSync(ran)).toBe(false);
  });

  test('a path of a remote is one word for the shell of the server', async () => {
    setUp('quoting');
    const proof = join(ssh.home, 'proof');
    const url = ssh.remote(`/x'; touch ${proof}; '`);
    const error = await errorOf(client.call('git_fetch', { path: 'quoting', url }));
    expect(error).toMatchObject({ code: 'NOT_FOUND', suggestion: expect.any(String) });
    expect(existsSync(proof)).toBe(false);
  });

  test('a server that says nothing holds git_fetch until its time limit, and ssh ends with it', async () => {
    setUp('silent');
    await using silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as { port: number };
    const connected = once(silent, 'connection');
    const key = readFileSync(join(ssh.home, 'host.pub'), 'utf8');
    appendFileSync(join(ssh.home, '.ssh/known_hosts'), `[127.0.0.1]:${port} ${key}`);
    const url = `ssh://git@127.0.0.1:${port}/x.git`;
    const called = client.call('git_fetch', { path: 'silent', url }, { timeoutMs: 3000 });
    const [socket] = (await connected) as [Socket];
    expect(processesWith(`ssh\0-F\0none`)).not.toEqual([]);
    expect(await errorOf(called)).toMatchObject({ code: 'TIMEOUT' });
    await until(() => processesWith('ssh\0-F\0none').length === 0);
    socket.destroy();
  });

  describe('the host key', () => {
    afterEach(() => ssh.know('host'));

    test('a host that the person does not know is refused before anything is sent to it', async () => {
      setUp('unknown');
      ssh.know();
      expect(await errorOf(client.call('git_fetch', { path: 'unknown' }))).toMatchObject({
        code: 'ACCESS_DENIED',
        details: { reason: 'unknown-host-key' },
        suggestion: expect.stringContaining(`ssh -p ${ssh.port} `),
      });
    });

    test('a host whose key has changed is refused', async () => {
      setUp('changed');
      ssh.know('person');
      expect(await errorOf(client.call('git_fetch', { path: 'changed' }))).toMatchObject({
        code: 'ACCESS_DENIED',
        details: { reason: 'changed-host-key' },
        suggestion: expect.stringContaining('ssh-keygen -R'),
      });
    });

    test('a host that the person does not know, but has a token for, is reached by https', async () => {
      setUp('token');
      ssh.know();
      storeSecret(daemon.stateDir, { name: 'work', value: 'k3y' }, defaultLimits);
      bindSecret(daemon.stateDir, 'work', ['127.0.0.1:443']);
      const error = await errorOf(client.call('git_fetch', { path: 'token' }));
      expect(error).toMatchObject({ code: 'UPSTREAM_FAILED' });
      removeSecret(daemon.stateDir, 'work');
    });

    test("host keys in the agent's home and workspace count for nothing", async () => {
      setUp('planted');
      ssh.know();
      const line = `[127.0.0.1]:${ssh.port} ${readFileSync(join(ssh.home, 'host.pub'), 'utf8')}`;
      mkdirSync(inWorkspace('planted', '.ssh'));
      writeFileSync(inWorkspace('planted', '.ssh/known_hosts'), line);
      await client.call('terminal_execute', { command: 'mkdir -p ~/.ssh && cp planted/.ssh/known_hosts ~/.ssh/' });
      expect(await errorOf(client.call('git_fetch', { path: 'planted' }))).toMatchObject({
        details: { reason: 'unknown-host-key' },
      });
    });
  });

  describe('the key', () => {
    afterEach(() => ssh.addKey());

    test('without a key in the agent https is tried, and the error says what is missing', async () => {
      setUp('keyless');
      ssh.removeKeys();
      const error = await errorOf(client.call('git_fetch', { path: 'keyless' }));
      expect(error).toMatchObject({ suggestion: expect.stringMatching(/ssh agent.*ssh-add/) });
      expect(JSON.stringify(error)).toContain('127.0.0.1');
      commit('keyless', { 'd.txt': 'd\n' });
      const pushed = await errorOf(client.call('git_push', { path: 'keyless', as: 'keyless' }));
      expect(pushed).toMatchObject({
        code: 'UPSTREAM_FAILED',
        suggestion: expect.stringMatching(/ssh agent.*ssh-add/),
      });
    });

    test('a server that takes no key of the agent is told as such', async () => {
      setUp('refusing');
      ssh.removeKeys();
      keygen(join(ssh.home, 'other'), 'other@home');
      ssh.addKey('other');
      const error = await errorOf(client.call('git_fetch', { path: 'refusing' }));
      expect(error).toMatchObject({ code: 'AUTH_REQUIRED', suggestion: expect.stringContaining('ssh-add') });
      expect(JSON.stringify(error)).not.toMatch(/other@home|known_hosts|run.person/);
      ssh.removeKeys();
    });

    test('the socket and the key are in no environment, file, output or record of the agent', async () => {
      setUp('looking');
      const looking = client.call('terminal_execute', {
        command: `env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"; cat /proc/net/unix; ls -laR /run /tmp /dev/shm ~; cat ${ssh.agent}; SSH_AUTH_SOCK=${ssh.agent} ssh-add -L; SSH_AUTH_SOCK=/run/person/agent ssh-add -L; grep -rE "${ssh.secret.slice(0, 20)}[${ssh.secret[20]}]" . ~ /tmp; true`,
      });
      await Promise.all([looking, client.call('git_fetch', { path: 'looking' })]);
      const operator = await daemon.connect({ role: 'operator' });
      const entries = JSON.stringify(await operator.request('audit.query', { limit: 1000 }));
      await operator[Symbol.asyncDispose]();
      const seen = JSON.stringify((await dataOf(looking)) as object).replaceAll(`cat: ${ssh.agent}`, '');
      expect(seen).toContain('No such file or directory');
      const { publicKey, secret } = ssh;
      for (const it of [publicKey.split(' ')[1] as string, secret.slice(0, 21), 'person@home'])
        expect(seen + entries).not.toContain(it);
    });

    test("no command talks to the person's ssh by the names of its pipes", async () => {
      const ask = (name: string) =>
        `exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT ${name}.ringfence.invalid:1 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' >&3; head -1 <&3`;
      for (const name of ['git-upload-pack', 'git-receive-pack', 'pipe', 'sign']) {
        const { stdout } = (await dataOf(client.call('terminal_execute', { command: ask(name) }))) as {
          stdout: string;
        };
        expect(stdout).toContain('403');
      }
    });
  });
});

test("the question about git_push names the server by ssh as the person's git does", async (context) => {
  if (missingSshd) context.skip(missingSshd);
  await using ssh = await SshServer.start();
  await using origin = await GitOrigin.start();
  origin.commit({ 'a.txt': 'first\n' });
  await using asking = await openDaemon({ env: ssh.environment });
  git(asking.workspace, 'clone', '-q', origin.bare, 'p');
  const folder = join(asking.workspace, 'p');
  git(folder, 'remote', 'set-url', 'origin', 'git@github.example:team/p.git');
  writeFileSync(join(folder, 'new.txt'), 'new\n');
  git(folder, 'add', '-A');
  git(folder, 'commit', '-q', '-m', 'Another');
  await using operator = await asking.connect({ role: 'operator' });
  const watching = operator.notifications(['approvals']);
  await using agent = await asking.connect();
  const called = agent.call('git_push', { path: 'p' }).catch(() => {});
  const { params } = (await watching.next()).value as { params: { approval: { approvalId: string } } };
  expect(JSON.stringify(params)).toMatch(/push main to git@github\.example:team\/p\.git: 1 commit/);
  expect(JSON.stringify(params)).toContain('github.example:22');
  await operator.request('approvals.resolve', { approvalId: params.approval.approvalId, decision: 'deny' });
  await called;
  await watching.return(undefined);
});
