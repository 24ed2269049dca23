/** git_push, git_fetch and git_pull: the person's key goes to the server that it is bound to, and nowhere else. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits } from '../../src/base/limits.ts';
import type { Client } from '../../src/client/client.ts';
import { bindSecret, storeSecret } from '../../src/services/secrets/secret-files.ts';
import { dataOf, type OpenDaemon, openDaemon } from '../support/daemon.ts';
import { GitOrigin, git } from '../support/git-origin.ts';

const KEY = 'k3y-of-the-person-7f2a';
const POLICY = `
version: 1
extends: default
open: [tiers, rules.publishing]
rules: [{ id: publishing, match: { publishes: true }, decision: allow, reason: "as below" }]
tiers: { external_api: { decision: allow, reason: "the tests are about what happens then" } }
`;

let origin: GitOrigin;
let daemon: OpenDaemon;
let client: Client;
/** Headers with a key that the server got. */
const keys: string[] = [];

beforeAll(async () => {
  origin = await GitOrigin.start({ isTls: true });
  origin.commit({ 'a.txt': 'first\n' });
  origin.answers = ({ headers: { authorization } }, response) => {
    if (authorization !== undefined) keys.push(authorization);
    if (authorization === `Basic ${Buffer.from(`x-access-token:${KEY}`).toString('base64')}`) return false;
    response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end('who are you?');
    return true;
  };
  daemon = await openDaemon({ policy: POLICY, env: { NODE_EXTRA_CA_CERTS: origin.ca as string } });
  client = await daemon.connect();
  setUp('project');
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  await origin[Symbol.asyncDispose]();
});

const errorOf = async (called: Promise<unknown>): Promise<object> => {
  const answer = (await called) as { error?: object };
  expect(answer).toMatchObject({ success: false });
  return answer.error ?? {};
};

const inWorkspace = (...names: string[]): string => join(daemon.workspace, ...names);

/** A clone of the server's repository in the workspace, as a person has one. */
function setUp(name: string): void {
  git(daemon.workspace, 'clone', '-q', origin.bare, name);
  git(inWorkspace(name), 'remote', 'set-url', 'origin', origin.url);
  git(inWorkspace(name), 'config', 'user.name', 'A');
}

function commit(name: string, files: Readonly<Record<string, string>>, message = 'files'): string {
  for (const [file, text] of Object.entries(files)) writeFileSync(inWorkspace(name, file), text);
  git(inWorkspace(name), 'add', '-A');
  git(inWorkspace(name), 'commit', '-q', '-m', message);
  return git(inWorkspace(name), 'rev-parse', 'HEAD');
}

function giveKey(value = KEY): void {
  storeSecret(daemon.stateDir, { name: 'work', value }, defaultLimits);
  bindSecret(daemon.stateDir, 'work', [new URL(origin.url).host]);
}

describe('git_push', () => {
  test('git_push without a key says how the person gives one', async () => {
    commit('project', { 'b.txt': 'more\n' });
    const error = await errorOf(client.call('git_push', { path: 'project' }));
    expect(error).toMatchObject({
      code: 'AUTH_REQUIRED',
      suggestion: expect.stringMatching(/ringfence secret set \S+ --host 127\.0\.0\.1:\d+/),
    });
    expect(keys).toEqual([]);
  });

  test("git_push sends the branch with the person's key, and notes what the server has", async () => {
    giveKey();
    const head = commit('project', { 'b.txt': 'more still\n' });
    const data = await dataOf(client.call('git_push', { path: 'project' }));
    expect(data).toMatchObject({ url: origin.url, pushed: [{ ref: 'refs/heads/main', commit: head }] });
    expect(git(origin.bare, 'rev-parse', 'main')).toBe(head);
    expect(git(inWorkspace('project'), 'rev-parse', 'origin/main')).toBe(head);
  });

  test('git_push goes where the person was shown, whatever settings and hooks of the repository say', async () => {
    const folder = inWorkspace('project');
    git(folder, 'config', `url.${new URL('/evil.git', origin.url).href}.insteadOf`, origin.url);
    git(folder, 'config', 'http.extraHeader', 'X-Leak: yes');
    mkdirSync(join(folder, '.git/hooks'), { recursive: true });
    writeFileSync(join(folder, '.git/hooks/pre-push'), `#!/bin/sh\ntouch ${folder}/ran\n`, { mode: 0o755 });
    const before = origin.requests.length;
    const head = commit('project', { 'c.txt': 'c\n' });
    await dataOf(client.call('git_push', { path: 'project' }));
    expect(git(origin.bare, 'rev-parse', 'main')).toBe(head);
    expect(origin.requests.slice(before).filter((it) => !it.includes('/project.git/'))).toEqual([]);
    expect(existsSync(join(folder, 'ran'))).toBe(false);
    git(folder, 'config', '--unset-all', `url.${new URL('/evil.git', origin.url).href}.insteadOf`);
  });

  test('git_push refuses commits that hold secrets, also where a later commit took them out, and names the file', async () => {
    setUp('leaky');
    commit('leaky', { 'config.js': `const key = "ghp_${'a1B2'.repeat(9)}";\n` });
    commit('leaky', { 'config.js': 'const key = process.env.KEY;\n' });
    const error = await errorOf(client.call('git_push', { path: 'leaky' }));
    expect(error).toMatchObject({ code: 'SENSITIVE_FILE', message: expect.stringContaining('config.js') });
    expect(JSON.stringify(error)).not.toContain('a1B2a1B2');
    await dataOf(client.call('git_push', { path: 'leaky', as: 'leaky', withSecrets: true }));
    expect(git(origin.bare, 'rev-parse', 'leaky')).toBe(git(inWorkspace('leaky'), 'rev-parse', 'HEAD'));
  });

  test('git_push refuses to send more than was shown, where a command noted as fetched what the server lacks', async () => {
    setUp('feigned');
    commit('feigned', { 'config.js': `const key = "ghp_${'c3D4'.repeat(9)}";\n` });
    git(inWorkspace('feigned'), 'update-ref', 'refs/remotes/origin/main', 'HEAD');
    const before = git(origin.bare, 'rev-parse', 'main');
    expect(await errorOf(client.call('git_push', { path: 'feigned' }))).toMatchObject({
      code: 'CONFLICT',
      suggestion: expect.stringContaining('git_fetch'),
    });
    expect(git(origin.bare, 'rev-parse', 'main')).toBe(before);
  });

  test('git_push that is behind is refused, and with force replaces only what was fetched', async () => {
    setUp('behind');
    const theirs = origin.commit({ 'theirs.txt': `${Date.now()}\n` });
    commit('behind', { 'mine.txt': 'mine\n' });
    const wanted = { path: 'behind' };
    expect(await errorOf(client.call('git_push', wanted))).toMatchObject({
      code: 'CONFLICT',
      suggestion: expect.stringContaining('git_fetch'),
    });
    expect(await errorOf(client.call('git_push', { ...wanted, force: true }))).toMatchObject({ code: 'CONFLICT' });
    expect(git(origin.bare, 'rev-parse', 'main')).toBe(theirs);
    await dataOf(client.call('git_fetch', { path: 'behind' }));
    await dataOf(client.call('git_push', { ...wanted, force: true }));
    expect(git(origin.bare, 'rev-parse', 'main')).toBe(git(inWorkspace('behind'), 'rev-parse', 'HEAD'));
  });
});

test('a command whose git lacks a key is told of the tool that has one', async () => {
  git(inWorkspace('project'), 'remote', 'add', 'far', 'git@git.example:team/x.git');
  const command = 'git -C project push far main';
  const { metadata } = await client.call('terminal_execute', { command });
  expect(metadata.denied).toContainEqual(
    expect.objectContaining({ target: 'git.example:443', open: expect.stringMatching(/^git_(push|fetch)$/) }),
  );
});

describe('what a person is asked', () => {
  test('the question about git_push names server, commits, files and what force takes away', async () => {
    await using asking = await openDaemon({ env: { NODE_EXTRA_CA_CERTS: origin.ca as string } });
    git(asking.workspace, 'clone', '-q', origin.bare, 'p');
    const folder = join(asking.workspace, 'p');
    git(folder, 'remote', 'set-url', 'origin', 'git@127.0.0.1.example:team/p.git');
    writeFileSync(join(folder, 'new.txt'), 'new\n');
    git(folder, 'add', '-A');
    git(folder, 'commit', '-q', '--amend', '-m', 'Another history');
    await using operator = await asking.connect({ role: 'operator' });
    const watching = operator.notifications(['approvals']);
    await using agent = await asking.connect();
    const called = agent.call('git_push', { path: 'p', force: true }).catch(() => {});
    const { params } = (await watching.next()).value as { params: { approval: { approvalId: string } } };
    expect(JSON.stringify(params)).toMatch(
      /push main to https:\/\/127\.0\.0\.1\.example\/team\/p\.git.*Another history/,
    );
    expect(JSON.stringify(params)).toMatch(/new\.txt.*Takes from origin\/main/);
    await operator.request('approvals.resolve', { approvalId: params.approval.approvalId, decision: 'deny' });
    await called;
    await watching.return(undefined);
  });
});

describe('git_fetch and git_pull', () => {
  test('git_fetch moves the refs of the remote, and no branch and no file', async () => {
    setUp('fetching');
    const head = git(inWorkspace('fetching'), 'rev-parse', 'HEAD');
    const theirs = origin.commit({ 'later.txt': `${Date.now()}\n` });
    const { updated } = (await dataOf(client.call('git_fetch', { path: 'fetching' }))) as { updated: object[] };
    expect(updated).toContainEqual({ ref: 'refs/remotes/origin/main', from: head, to: theirs });
    expect(git(inWorkspace('fetching'), 'rev-parse', 'HEAD')).toBe(head);
    expect(git(inWorkspace('fetching'), 'log', '-1', '--format=%s', 'origin/main')).toBe('files');
  });

  test('git_pull moves branch and files forward, and refuses where both have commits', async () => {
    setUp('pulling');
    const theirs = origin.commit({ 'pulled.txt': 'pulled\n' });
    expect(await dataOf(client.call('git_pull', { path: 'pulling' }))).toMatchObject({ branch: 'main', to: theirs });
    expect(readFileSync(inWorkspace('pulling', 'pulled.txt'), 'utf8')).toBe('pulled\n');
    commit('pulling', { 'own.txt': 'own\n' });
    origin.commit({ 'pulled.txt': 'again\n' });
    expect(await errorOf(client.call('git_pull', { path: 'pulling' }))).toMatchObject({
      code: 'CONFLICT',
      suggestion: expect.stringContaining('git merge origin/main'),
    });
  });
});

describe('the key', () => {
  test('the key is in no environment, file, output or record of the daemon', async () => {
    const audit = await daemon.connect({ role: 'operator' });
    const entries = JSON.stringify(await audit.request('audit.query', { limit: 1000 }));
    await audit[Symbol.asyncDispose]();
    const seen = await dataOf(
      client.call('terminal_execute', {
        command: 'env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"; grep -rE "k3y[-]of" . ; true',
      }),
    );
    expect(keys.length).toBeGreaterThan(0);
    expect(`${entries}${JSON.stringify(seen)}`).not.toContain('k3y-of');
  });

  test('the key goes to no other server, and by plain http to none', async () => {
    await using other = await GitOrigin.start();
    other.commit({ 'a.txt': 'a\n' });
    const got: unknown[] = [];
    other.answers = ({ headers }) => {
      got.push(headers.authorization);
      return false;
    };
    await client.call('git_fetch', { path: 'project', url: other.url }).catch(() => {});
    expect(got.filter((it) => it !== undefined)).toEqual([]);
  });
});
