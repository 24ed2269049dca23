/** Files that the policy hides and folders outside of the workspace: a person is asked, and the answer opens them. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Client, createClient } from '../../src/client/client.ts';
import type { Grant } from '../../src/store/approvals/approval.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';
import { answerAccess } from '../support/doors.ts';

const FOR_PROJECT = { scope: 'project', match: 'door' };
const WRITTEN = `extends: default
rules:
  - { id: mine, match: { path: "kept/**" }, decision: deny, reason: It is mine. }
`;

let daemon: OpenDaemon;
let operator: Client;
let client: Client;
let outside: string;

beforeAll(async () => {
  daemon = await openDaemon({ policy: WRITTEN });
  operator = await daemon.connect({ role: 'operator' });
  // The sandbox has a /tmp of its own, and a checkout may lie in the machine's.
  outside = mkdtempSync('/var/tmp/ringfence-outside-');
  for (const [path, text] of [
    ['.env', 'KEY=one\n'],
    ['config/.env', 'KEY=two\n'],
    ['kept/a', 'x'],
    ['plain', 'x'],
  ] as const) {
    mkdirSync(join(daemon.workspace, path, '..'), { recursive: true });
    writeFileSync(join(daemon.workspace, path), text);
  }
  writeFileSync(join(outside, 'shared.txt'), 'shared\n');
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  rmSync(outside, { recursive: true });
});
beforeEach(async () => {
  client = await daemon.connect();
});
afterEach(async () => {
  await operator.request('approvals.revoke', { all: true });
  await client[Symbol.asyncDispose]();
});

async function run(command: string, by = client) {
  const result = await by.call('terminal_execute', { command });
  const { stdout = '', stderr = '', exitCode = -1 } = result.success ? result.data : {};
  return { stdout, stderr, exitCode, withheld: result.metadata.withheld };
}

const request = (path: string, answer: object, by = client) => answerAccess({ path }, answer, { by, operator });

/** The error of a request that asks nobody. */
async function refused(path: string) {
  const result = await client.call('access_request', { path });
  return result.success ? undefined : `${result.error.code}: ${result.error.message}`;
}

describe('a file that the policy hides', () => {
  test('a command that needs a hidden file is told how to ask, and reads it after a yes, as file tools do', async () => {
    const before = await run('. ./.env && echo $KEY');
    expect(before.exitCode).not.toBe(0);
    expect(before.withheld?.hidden[0]).toMatchObject({ path: '.env', open: 'access_request {"path":".env"}' });
    const { asked, result } = await request('.env', { decision: 'approve' });
    expect(asked).toMatchObject({ door: { kind: 'secret', target: '.env' }, remember: { door: 'reading .env' } });
    expect(result).toMatchObject({ success: true, data: { path: '.env', opened: true } });
    expect(await run('. ./.env && echo $KEY')).toMatchObject({ stdout: 'one\n', exitCode: 0 });
    expect(await client.call('file_read', { path: '.env' })).toMatchObject({ success: true });
    // One path, and not all that the rule hides.
    expect((await run('cat config/.env')).exitCode).not.toBe(0);
    expect(await refused('.env')).toContain('nothing hides .env from this session');
  });

  test('a yes for the session counts for that session alone, one for the project for later ones, until it is revoked', async () => {
    await request('.env', { decision: 'approve' });
    await using other = await daemon.connect();
    expect((await run('cat .env', other)).exitCode).not.toBe(0);
    await request('config/.env', { decision: 'approve', remember: FOR_PROJECT }, other);
    await using third = await daemon.connect();
    expect((await run('cat config/.env', third)).stdout).toBe('KEY=two\n');
    const { grants } = (await operator.request('approvals.grants', {})) as { grants: Grant[] };
    const grantId = grants.find((it) => it.door?.target === 'config/.env')?.grantId;
    await operator.request('approvals.revoke', { grantId });
    expect((await run('cat config/.env', third)).exitCode).not.toBe(0);
  });

  test('a no is said to the agent, and not asked again at once', async () => {
    const { result } = await request('refused/.env', { decision: 'deny' });
    expect(result).toMatchObject({ success: false, error: { code: 'APPROVAL_DENIED' } });
    expect(await refused('refused/.env')).toContain('APPROVAL_DENIED');
  });

  test('a session that was passed on has none of what its parent was shown', async () => {
    await request('.env', { decision: 'approve' });
    const { token } = (await client.request('sessions.attenuate', { expiresIn: 60_000 })) as { token: string };
    await using child = await createClient({ socket: daemon.socket, workspace: daemon.workspace, token });
    expect((await run('cat .env', child)).exitCode).not.toBe(0);
  });

  test('a file that a rule of a person hides, and one that nothing hides, are no question', async () => {
    expect(await refused('kept/a')).toMatch(/POLICY_DENIED: rule `mine` .* hides kept\/a, and no answer opens it/);
    expect(await refused('plain')).toContain('nothing hides plain');
  });
});

describe('a folder outside of the workspace', () => {
  test('a command that names a folder outside is told how to ask, and reads it after a yes, and can not write there', async () => {
    const before = await run(`cat ${outside}/shared.txt`);
    expect(before.withheld?.absent).toEqual([
      { path: outside, open: `access_request ${JSON.stringify({ path: outside })}` },
    ]);
    const { asked } = await request(outside, { decision: 'approve' });
    expect(asked).toMatchObject({ door: { kind: 'path', target: outside } });
    expect(await run(`cat ${outside}/shared.txt`)).toMatchObject({ stdout: 'shared\n' });
    expect((await run(`echo x > ${outside}/shared.txt`)).stderr).toContain('Read-only file system');
    await using other = await daemon.connect();
    expect((await run(`cat ${outside}/shared.txt`, other)).exitCode).not.toBe(0);
  });

  test('git in a linked worktree is told how to ask for its repository, and reads it after a yes', async () => {
    const [repository, worktree] = [join(outside, 'repository'), join(outside, 'worktree')];
    const author = '-c user.name=A -c user.email=a@b.c';
    execFileSync('sh', [
      '-ec',
      `git init -q ${repository}; cd ${repository}; git ${author} commit -q --allow-empty -m first; git worktree add -q ${worktree}`,
    ]);
    await using own = await openDaemon({ workspace: worktree });
    await using by = await own.connect();
    await using person = await own.connect({ role: 'operator' });
    const path = join(repository, '.git');
    expect(await by.call('git_status', {})).toMatchObject({
      error: { suggestion: expect.stringContaining('command') },
    });
    expect((await run('git log --oneline', by)).withheld?.absent).toEqual([
      { path, open: `access_request ${JSON.stringify({ path })}` },
    ]);
    await answerAccess({ path }, { decision: 'approve' }, { by, operator: person });
    expect(await run('touch a; git log --format=%s; git status --short', by)).toMatchObject({
      stdout: 'first\n?? a\n',
    });
    expect((await run('git add a', by)).stderr).toContain('Read-only file system');
  });

  test('homes, keys, sockets and folders of the daemon are never a question', async () => {
    const home = process.env.HOME ?? '/root';
    symlinkSync(home, join(outside, 'link'));
    for (const path of [home, join(outside, 'link'), '/', '/home', '/run', '/proc', '/etc', daemon.stateDir])
      expect(await refused(path)).toMatch(/ACCESS_DENIED|INPUT_INVALID/);
    const socket = createServer().listen(join(outside, 'engine.sock'));
    await until(() => socket.listening);
    expect(await refused(outside)).toContain('where a program of this machine listens');
    await new Promise((done) => socket.close(done));
  });

  test('a socket that begins to listen later closes the folder', async () => {
    await request(outside, { decision: 'approve' });
    expect((await run(`cat ${outside}/shared.txt`)).stdout).toBe('shared\n');
    const socket = createServer().listen(join(outside, 'late.sock'));
    await until(() => socket.listening);
    expect((await run(`cat ${outside}/shared.txt`)).exitCode).not.toBe(0);
    await new Promise((done) => socket.close(done));
  });
});
