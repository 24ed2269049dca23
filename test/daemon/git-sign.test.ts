/** git_commit signs as the person's git does, with the key in their agent, after they have said yes. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon } from '../support/daemon.ts';
import { git } from '../support/git-origin.ts';
import { keygen, missingSshd, SshServer } from '../support/ssh-server.ts';

const missingGpg = ['gpg', 'gpg-agent', 'gpgconf'].some((it) => !existsSync(join('/usr/bin', it)));

describe.skipIf(missingSshd)('a commit of a person who signs', () => {
  let ssh: SshServer;
  let daemon: OpenDaemon;
  let operator: Client;

  const parts = new AsyncDisposableStack();

  beforeAll(async () => {
    ssh = parts.use(await SshServer.start());
    sets({ 'user.name': 'A Person', 'user.email': 'a@home', 'commit.gpgSign': 'true', 'gpg.format': 'ssh' });
    sets({ 'user.signingKey': '~/person.pub' });
    mkdirSync(join(ssh.home, 'gnupg'), { mode: 0o700 });
    daemon = parts.use(await openDaemon({ env: { ...ssh.environment, GNUPGHOME: join(ssh.home, 'gnupg') } }));
    git(daemon.workspace, 'init', '-q', '-b', 'main');
    writeFileSync(inWorkspace('a.txt'), 'a\n');
    git(daemon.workspace, 'add', '-A');
    git(daemon.workspace, 'commit', '-q', '-m', 'first');
  });
  afterAll(async () => {
    if (ssh && !missingGpg) execFileSync('gpgconf', ['--kill', 'all'], { env: ofGpg() });
    await parts.disposeAsync();
  });

  const inWorkspace = (...names: string[]): string => join(daemon.workspace, ...names);

  /** Sets the person's own git. */
  function sets(settings: Readonly<Record<string, string>>): void {
    const env = { PATH: process.env.PATH, HOME: ssh.home };
    for (const it of Object.entries(settings)) execFileSync('git', ['config', '--global', ...it], { env });
  }

  const ofGpg = () => ({ PATH: process.env.PATH, HOME: ssh.home, GNUPGHOME: join(ssh.home, 'gnupg') });
  const gpg = (...words: string[]) =>
    execFileSync('gpg', ['--batch', '--quiet', ...words], { env: ofGpg(), stdio: ['ignore', 'ignore', 'ignore'] });

  interface Committed {
    data: { commitHash: string; signed: boolean };
    metadata: { warnings?: string[] };
  }

  let count = 0;
  async function commit(agent: Client, message = 'Change it'): Promise<Committed> {
    writeFileSync(inWorkspace('a.txt'), `${count++}\n`);
    const answer = (await agent.call('git_commit', { message })) as unknown as Committed & { success: boolean };
    expect(answer).toMatchObject({ success: true });
    return answer;
  }

  /** Has the operator answer the next question; gives it. */
  async function answering(answer: object, during: () => Promise<Committed>): Promise<[Committed, string]> {
    operator = await daemon.connect({ role: 'operator' });
    const watching = operator.notifications(['approvals']);
    try {
      const called = during();
      const { params } = (await watching.next()).value as { params: { approval: { approvalId: string } } };
      await operator.request('approvals.resolve', { approvalId: params.approval.approvalId, ...answer } as never);
      return [await called, JSON.stringify(params)];
    } finally {
      await watching.return(undefined);
      await operator[Symbol.asyncDispose]();
    }
  }

  /** What git says of the signature, to a person who takes the key of this one for theirs. */
  function verified(hash: string): string {
    const allowed = join(ssh.home, 'allowed');
    writeFileSync(allowed, `a@home ${ssh.publicKey}\n`);
    const words = ['-c', `gpg.ssh.allowedSignersFile=${allowed}`, 'log', '-1', '--format=%G? %GS', hash];
    return git(daemon.workspace, ...words);
  }

  test('a commit is signed with the key in the agent after a yes, which a session can remember', async () => {
    await using agent = await daemon.connect();
    const remember = { scope: 'session', match: 'door' };
    const [first, question] = await answering({ decision: 'approve', remember }, () =>
      commit(agent, 'Sign\n\nthis  \n'),
    );
    expect(question).toMatch(/sign.*ssh-ed25519 SHA256:/i);
    expect(question).toContain('says that you made');
    expect(first).toMatchObject({ data: { signed: true } });
    expect(first.metadata.warnings).toBeUndefined();
    expect(verified(first.data.commitHash)).toBe('G a@home');
    expect(git(daemon.workspace, 'rev-parse', 'HEAD')).toBe(first.data.commitHash);
    expect(git(daemon.workspace, 'log', '-1', '--format=%an <%ae>%n%B')).toBe('A Person <a@home>\nSign\n\nthis');
    expect(git(daemon.workspace, 'fsck', '--strict')).not.toContain('error');
    const second = await commit(agent);
    expect(verified(second.data.commitHash)).toBe('G a@home');
    expect(git(daemon.workspace, 'rev-parse', 'HEAD~1')).toBe(first.data.commitHash);
  });

  test('a commit stays unsigned after a no, and its result says so', async () => {
    await using agent = await daemon.connect();
    const [{ data, metadata }] = await answering({ decision: 'deny' }, () => commit(agent));
    expect(data.signed).toBe(false);
    expect(metadata.warnings).toContainEqual(expect.stringMatching(/not signed: a person said no/));
    expect(verified(data.commitHash)).toBe('N');
  });

  test('a commit stays unsigned where nobody is there to ask', async () => {
    await using agent = await daemon.connect();
    const { data, metadata } = await commit(agent);
    expect(data.signed).toBe(false);
    expect(metadata.warnings).toContainEqual(expect.stringMatching(/not signed: nobody is there/));
  });

  test('a question that nobody answers leaves the commit unsigned, and the session is asked no more', async () => {
    await using patient = await openDaemon({
      env: ssh.environment,
      limits: { doorHoldMs: 300, doorHoldUnseenMs: 300 },
    });
    git(patient.workspace, 'init', '-q', '-b', 'main');
    await using silent = await patient.connect({ role: 'operator' });
    const question = silent.notifications(['approvals']).next();
    await using agent = await patient.connect();
    for (const why of ['nobody answered in time', 'asks no more']) {
      writeFileSync(join(patient.workspace, 'a.txt'), why);
      const asked = { message: 'x', files: ['a.txt'] };
      const { data, metadata } = (await agent.call('git_commit', asked)) as unknown as Committed;
      expect(data.signed).toBe(false);
      expect(metadata.warnings).toContainEqual(expect.stringContaining(why));
    }
    expect((await question).value).toMatchObject({ method: 'approval.requested' });
  });

  describe('a key that can not be used', () => {
    afterEach(() => {
      ssh.addKey();
      sets({ 'user.signingKey': '~/person.pub', 'gpg.format': 'ssh' });
    });

    test('a commit whose key is not in the agent stays unsigned without a question', async () => {
      ssh.removeKeys();
      await using agent = await daemon.connect();
      const { data, metadata } = await commit(agent);
      expect(data.signed).toBe(false);
      expect(metadata.warnings).toContainEqual(
        expect.stringMatching(/not signed: the ssh agent does not hold.*ssh-add/),
      );
    });

    test('a signing key that is no file, or another key than the one in the agent, signs nothing', async () => {
      await using agent = await daemon.connect();
      keygen(join(ssh.home, 'other'), 'other@home');
      for (const key of ['~/nothing', '~/other'] as const) {
        sets({ 'user.signingKey': key });
        expect((await commit(agent)).metadata.warnings).toContainEqual(expect.stringContaining('not signed: '));
      }
    });
  });

  test.skipIf(missingGpg)("a commit is signed with the key of gpg by its agent's socket for others", async () => {
    await using agent = await daemon.connect();
    using _ = { [Symbol.dispose]: () => sets({ 'gpg.format': 'ssh', 'user.signingKey': '~/person.pub' }) };
    sets({ 'gpg.format': 'openpgp', 'user.signingKey': 'a@home' });
    expect((await commit(agent)).metadata.warnings).toContainEqual(expect.stringContaining('no gpg-agent runs'));
    gpg('--passphrase', '', '--quick-gen-key', 'A Person <a@home>', 'ed25519', 'sign', 'never');
    const [{ data }, question] = await answering({ decision: 'approve' }, () => commit(agent));
    expect(question).toMatch(/openpgp [0-9A-F]{40}/);
    expect(data.signed).toBe(true);
    const words = ['log', '-1', '--format=%G? %GS', data.commitHash];
    expect(execFileSync('git', words, { cwd: daemon.workspace, env: ofGpg(), encoding: 'utf8' })).toBe(
      'G A Person <a@home>\n',
    );
    sets({ 'user.signingKey': 'nobody@home' });
    expect((await commit(agent)).metadata.warnings).toContainEqual(expect.stringContaining('gpg knows no key'));
  });

  test("settings of the repository name no key and no program for a person's signature", async () => {
    await using agent = await daemon.connect();
    const proof = inWorkspace('proof');
    const script = inWorkspace('sign.sh');
    writeFileSync(script, `#!/bin/sh\ntouch ${proof}\n`, { mode: 0o755 });
    const settings = {
      'gpg.ssh.program': script,
      'gpg.program': script,
      'user.signingKey': '/dev/null',
      'gpg.format': 'x509',
    };
    for (const it of Object.entries(settings)) git(daemon.workspace, 'config', ...it);
    const [{ data }] = await answering({ decision: 'approve' }, () => commit(agent));
    for (const it of Object.keys(settings)) git(daemon.workspace, 'config', '--unset', it);
    expect(verified(data.commitHash)).toBe('G a@home');
    expect(existsSync(proof)).toBe(false);
  });

  test('a commit by a command is not signed, does not fail, and the session is told once', async () => {
    await using agent = await daemon.connect();
    git(daemon.workspace, 'config', 'commit.gpgSign', 'true');
    const run = async (command: string) => {
      const { data, metadata } = (await agent.call('terminal_execute', { command })) as unknown as {
        data: { exitCode: number };
        metadata: { warnings?: string[] };
      };
      expect(data.exitCode).toBe(0);
      return (metadata.warnings ?? []).filter((it) => it.includes('git_commit'));
    };
    expect(await run('echo 1 >b.txt && git add b.txt && git commit -qm one')).toEqual([
      expect.stringContaining('not signed'),
    ]);
    expect(await run('git commit -q --allow-empty -m two')).toEqual([]);
    expect(git(daemon.workspace, 'log', '-2', '--format=%s %G?')).toBe('two N\none N');
  });
});
