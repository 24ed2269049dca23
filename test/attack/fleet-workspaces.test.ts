/** What clients of a fleet, servers of repositories and sessions try with the workspaces that a node makes. */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { removeTree, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';
import { GitOrigin, git } from '../support/git-origin.ts';
import { collect, openPlaced, type PlacedSession } from '../support/placed.ts';

const LIMITS = {
  fleetMirrorBytes: 4 * 1024 * 1024,
  fleetMirrorsBytes: 6 * 1024 * 1024,
  fleetMirrorsMax: 2,
  fleetMirrorPacksMax: 3,
  fleetCheckoutFilesMax: 500,
  fleetCheckoutBytes: 8 * 1024 * 1024,
  fleetReturnBytes: 1024 * 1024,
  fleetBundleBytes: 1024 * 1024,
  fleetKeptMax: 2,
  fleetClonesMax: 6,
};

describe('workspaces that a node makes', () => {
  const folder = temporaryDir('fleet-folder');
  let origin: GitOrigin;
  let daemon: TestDaemon;
  let operator: Client;
  let commit: string;
  const start = async () => {
    const origins = [{ url: `${origin.base}/*`, push: 'ringfence/*' }, `file://${origin.folder}/allowed/*`];
    daemon = await startDaemon({
      limits: LIMITS,
      config: { fleet: { folder, origins } },
      ...(daemon && { stateDir: daemon.stateDir, workspace: daemon.workspace }),
    });
    operator = await daemon.connect({ role: 'operator' });
  };
  const stop = async () => {
    await operator[Symbol.asyncDispose]();
    daemon.process.kill('SIGKILL');
    await daemon.ended;
  };
  beforeAll(async () => {
    origin = await GitOrigin.start();
    commit = origin.commit({ 'a.txt': 'one\n', '.gitignore': 'ignored/\n' });
    await start();
  }, 60_000);
  afterAll(async () => {
    await operator?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
    await origin?.[Symbol.asyncDispose]();
    removeTree(folder);
  });

  const onCommit = (it = commit) => openPlaced(daemon, operator, `git+${origin.url}#${it}`);
  const names = (of: 'clones' | 'mirrors') => readdirSync(join(folder, of)).filter((it) => !it.endsWith('.removed'));
  const commitWith = (files: Record<string, string | Buffer>) => {
    git(origin.work, 'checkout', '-q', '--detach', commit);
    return origin.commit(files);
  };

  test.each([
    ['a repository that the operator has not listed', 'git+http://127.0.0.1:9/x.git', 'may not fetch'],
    ['a folder outside of the listed one', 'git+file:///etc/x.git', 'may not fetch'],
    ['a way up', 'git+BASE/x/../../y.git', 'must be https'],
    ['a password', 'git+http://me:secret@127.0.0.1/x.git', 'must be https'],
    ['a program of git', 'git+ext::sh -c touch% /tmp/x', 'must be https'],
    ['ssh', 'git+ssh://127.0.0.1/x.git', 'must be https'],
    ['an option', 'git+--upload-pack=x', 'must be https'],
    ['an escape', 'git+BASE/%2e%2e/y.git', 'must be https'],
  ])('%s is not fetched', async (_, named, why) => {
    origin.requests.length = 0;
    const url = named.replace('BASE', origin.base);
    await expect(openPlaced(daemon, operator, `${url}#${commit}`)).rejects.toThrow(why);
    expect(origin.requests).toEqual([]);
  });

  test('a commit is named whole, and a folder of the machine is none that is made', async () => {
    await expect(openPlaced(daemon, operator, `git+${origin.url}#main`)).rejects.toThrow('all 40 digits');
    await expect(openPlaced(daemon, operator, '/etc')).rejects.toThrow('names no repository');
    await expect(onCommit('1'.repeat(40))).rejects.toThrow(/has no commit|can't be fetched/);
  });

  test('a server that sends git elsewhere is not followed', async () => {
    origin.answers = (request, response) => {
      if (!request.url?.startsWith('/elsewhere.git')) return false;
      response.writeHead(302, { location: `${origin.base}/project.git${request.url.slice('/elsewhere.git'.length)}` });
      response.end();
      return true;
    };
    const named = `git+${origin.base}/elsewhere.git#${commit}`;
    origin.requests.length = 0;
    await expect(openPlaced(daemon, operator, named)).rejects.toThrow("can't be fetched");
    origin.answers = undefined;
    expect(origin.requests.filter((it) => it.includes('project.git'))).toEqual([]);
  });

  test('hooks, filters, submodules and settings of a repository run nothing', async () => {
    const mark = join(daemon.workspace, 'ran');
    const hook = `#!/bin/sh\ntouch ${mark}\n`;
    const bad = commitWith({
      '.gitattributes': '*.txt filter=bad diff=bad merge=bad\n',
      '.gitmodules': `[submodule "s"]\n\tpath = s\n\turl = ${origin.base}/other.git\n`,
      'hooks/post-checkout': hook,
      'a.txt': 'filtered\n',
    });
    origin.requests.length = 0;
    await using session = await onCommit(bad);
    expect(readFileSync(join(session.folder, 'a.txt'), 'utf8')).toBe('filtered\n');
    expect(origin.requests.some((it) => it.includes('other.git'))).toBe(false);
    expect(existsSync(mark)).toBe(false);
    // What the session leaves in its own repository counts for nothing either.
    const [gitDir, ran] = [join(session.folder, '.git'), join(session.folder, 'ran')];
    writeFileSync(
      join(gitDir, 'config'),
      `[core]\n\tfsmonitor = touch ${ran}\n\thooksPath = ${gitDir}/evil\n[filter "bad"]\n\tclean = touch ${ran}\n\trequired = true\n[diff "bad"]\n\tcommand = touch ${ran}\n\ttextconv = touch ${ran}\n`,
    );
    mkdirSync(join(gitDir, 'evil'));
    for (const it of ['pre-commit', 'reference-transaction', 'post-index-change']) {
      writeFileSync(join(gitDir, 'evil', it), `#!/bin/sh\ntouch ${ran}\n`);
      chmodSync(join(gitDir, 'evil', it), 0o755);
    }
    writeFileSync(join(session.folder, 'a.txt'), 'changed\n');
    const { told, bytes } = await collect(session.client, { as: 'patch' });
    expect(told).toMatchObject({ changed: true, files: 1 });
    expect(bytes.toString()).toContain('+changed');
    expect(existsSync(ran)).toBe(false);
  });

  test('a session writes neither to the mirror nor to the clone of another one', async () => {
    await using first = await onCommit();
    await first.run('chmod -R u+w .git/objects; for it in .git/objects/pack/*; do echo broken > "$it"; done');
    await using second = await onCommit();
    expect((await second.run('git fsck && git log --oneline')).exitCode).toBe(0);
    expect((await second.run(`ls ${folder}/mirrors ${first.folder}`)).exitCode).not.toBe(0);
  });

  test('a repository above the bound of a mirror leaves no mirror', async () => {
    const files = Object.fromEntries(
      Array.from({ length: 80 }, (_, i) => [`r${i}`, Buffer.from(crypto.getRandomValues(new Uint8Array(64_000)))]),
    );
    const huge = commitWith(files);
    await expect(onCommit(huge)).rejects.toThrow(/larger than the 4194304 bytes|can't be fetched/);
    await using again = await onCommit();
    expect(existsSync(join(again.folder, 'a.txt'))).toBe(true);
  });

  test('a small repository does not unpack to more than a session may have', async () => {
    const bomb = commitWith(
      Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`z${i}`, Buffer.alloc(1_000_000)])),
    );
    await expect(onCommit(bomb)).rejects.toThrow('at most 8388608 may be');
    const many = commitWith(Object.fromEntries(Array.from({ length: 501 }, (_, i) => [`m/${i}`, 'x'])));
    await expect(onCommit(many)).rejects.toThrow('more than the 500 files');
    // Ten folders in ten folders, eight levels deep: a hundred million files in nine objects.
    let tree = git(origin.work, 'rev-parse', `${commit}^{tree}`);
    for (let level = 0; level < 8; level++)
      tree = origin.tree(Array.from({ length: 10 }, (_, i) => `040000 tree ${tree}\td${i}`));
    await expect(onCommit(origin.commitTree(tree))).rejects.toThrow('more than the 500 files');
  });

  test('a tree that git refuses to check out is refused when it is fetched', async () => {
    const blob = git(origin.work, 'rev-parse', `${commit}:a.txt`);
    const tree = origin.tree([`040000 tree ${origin.tree([`100644 blob ${blob}\tconfig`])}\t.git`]);
    await expect(onCommit(origin.commitTree(tree))).rejects.toThrow("can't be fetched");
  });

  test('mirrors are bounded in number, and are made anew after many fetches', async () => {
    for (const it of ['one', 'two', 'three']) {
      git(origin.folder, 'clone', '-q', '--bare', origin.bare, `${it}.git`);
      await using _ = await openPlaced(daemon, operator, `git+${origin.base}/${it}.git#${commit}`);
    }
    await expect.poll(() => names('mirrors').length).toBe(LIMITS.fleetMirrorsMax);
    for (let i = 0; i < 6; i++) {
      await using session = await onCommit(commitWith({ 'n.txt': `${i}` }));
      const packs = readdirSync(join(session.folder, '.git/objects/pack')).filter((it) => it.endsWith('.pack'));
      expect(packs.length).toBeLessThanOrEqual(LIMITS.fleetMirrorPacksMax + 1);
    }
    const { warm } = (await operator.request('status', {})) as { warm: string[] };
    expect(warm).toHaveLength(LIMITS.fleetMirrorsMax);
  });

  test('changes above the bound are told, and hidden files in folders of others do not come back', async () => {
    await using session = await onCommit();
    await session.run('ln -s /etc/passwd link; mkfifo pipe; git init -q nested; mkdir ignored; echo x > ignored/y');
    expect((await collect(session.client)).told.problems.join()).toContain("'nested/' does not have a commit");
    await session.run('rm -rf nested');
    const { told, bytes } = await collect(session.client, { as: 'patch' });
    expect(told).toMatchObject({ files: 1 });
    expect(bytes.toString()).toContain('+/etc/passwd');
    await session.run('head -c 2000000 /dev/urandom > large.bin');
    await expect(collect(session.client)).rejects.toThrow('at most 1048576 come back');
    await session.run('rm large.bin; mkdir many; for i in $(seq 501); do echo > many/$i; done');
    await expect(collect(session.client)).rejects.toThrow('more than the 500 files');
  });

  test('a session whose own repository is gone or leads elsewhere gives what it has, or says why not', async () => {
    await using session = await onCommit();
    await session.run('echo two > a.txt; rm .git/HEAD; ln -s /etc/hostname .git/HEAD');
    expect((await collect(session.client)).told).toMatchObject({ changed: true, files: 1 });
    await session.run('rm -rf .git/objects; ln -s /etc .git/objects');
    await expect(collect(session.client)).rejects.toThrow("can't be collected");
  });

  test('only branches that the operator allows are pushed, and never over the work of others', async () => {
    await using session = await onCommit();
    await session.run('echo pushed > a.txt');
    for (const branch of ['main', 'ringfence/../main', 'ringfence/x.lock', 'ringfence/-x', '+ringfence/x'])
      await expect(collect(session.client, { as: 'push', branch })).rejects.toThrow('may push ringfence/*');
    const { told } = await collect(session.client, { as: 'push', branch: 'ringfence/mine' });
    expect(told).toMatchObject({ pushedTo: origin.url, branch: 'ringfence/mine' });
    expect(git(origin.bare, 'show', 'ringfence/mine:a.txt')).toBe('pushed');
    await using other = await onCommit();
    await other.run('echo other > a.txt');
    await expect(collect(other.client, { as: 'push', branch: 'ringfence/mine' })).rejects.toThrow("can't be collected");
  });

  test('a bundle is bounded, checked, and used once', async () => {
    git(origin.work, 'bundle', 'create', '-q', 'all.bundle', 'main');
    const bundle = readFileSync(join(origin.work, 'all.bundle'));
    const upload = (to: Client, data: Buffer, offset = 0) => to.request('workspaces.upload', { offset, data });
    await using session = await openPlaced(daemon, operator, 'bundle:');
    const { client } = session;
    await expect(collect(client)).rejects.toThrow('upload a bundle first');
    await expect(upload(client, bundle, 1)).rejects.toThrow('begins at 0');
    await expect(upload(client, Buffer.alloc(LIMITS.fleetBundleBytes + 1))).rejects.toThrow('at most 1048576 bytes');
    await upload(client, Buffer.concat([bundle.subarray(0, -40), Buffer.alloc(40)]));
    await expect(client.request('workspaces.unpack', { commit })).rejects.toThrow("the bundle can't be used");
    await using good = await openPlaced(daemon, operator, 'bundle:');
    await upload(good.client, bundle.subarray(0, 100));
    await upload(good.client, bundle.subarray(100), 100);
    await expect(good.client.request('workspaces.unpack', { commit: '1'.repeat(40) })).rejects.toThrow('has no commit');
    await good.run('ln -s /tmp a.txt');
    await expect(good.client.request('workspaces.unpack', { commit })).rejects.toThrow('has files already');
    await good.run('rm a.txt');
    await good.client.request('workspaces.unpack', { commit });
    await good.run('echo two >> a.txt');
    expect((await collect(good.client, { as: 'patch' })).bytes.toString()).toContain('+two');
    await expect(upload(good.client, bundle)).rejects.toThrow('has its files');
  });

  test('workspaces end with their sessions, or are kept for a while, also when the daemon dies', async () => {
    const { folder: unchanged } = await ended(await onCommit());
    await expect.poll(() => existsSync(unchanged)).toBe(false);
    const kept: string[] = [];
    const folders: string[] = [];
    for (let i = 0; i < 3; i++) {
      await using session = await onCommit();
      await session.run(`echo ${i} > a.txt`);
      kept.push(session.placed.name);
      folders.push(session.folder);
      // Records and commands of others may show the folder, which opens nothing.
      expect(session.folder).not.toContain(session.placed.name.slice('node-a:kept/'.length));
    }
    const [oldest = '', middle = '', newest = ''] = kept.map((it) => it.slice('node-a:'.length));
    await expect.poll(() => existsSync(folders[0] ?? '')).toBe(false);
    await expect(openPlaced(daemon, operator, oldest)).rejects.toThrow('no workspace is kept');
    mkdirSync(join(folder, 'clones/half'));
    mkdirSync(join(folder, 'clones', '0'.repeat(32), 'staging'), { recursive: true });
    await stop();
    await start();
    await expect.poll(() => names('clones').length).toBe(2);
    {
      await using session = await openPlaced(daemon, operator, newest);
      expect(readFileSync(join(session.folder, 'a.txt'), 'utf8')).toBe('2\n');
      await expect(openPlaced(daemon, operator, newest)).rejects.toThrow('another session works');
      expect((await collect(session.client)).told).toMatchObject({ changed: true, files: 1 });
    }
    await expect.poll(() => names('clones').length).toBe(1);
    await using _ = await openPlaced(daemon, operator, middle);
    await expect(openPlaced(daemon, operator, 'kept/../../x')).rejects.toThrow('32 digits');
  });

  test('clones are bounded, and sessions on folders of the machine have none', async () => {
    await using open = new AsyncDisposableStack();
    const opened: Promise<unknown>[] = [];
    for (let i = 0; i <= LIMITS.fleetClonesMax; i++)
      opened.push(openPlaced(daemon, operator, 'bundle:').then((it) => open.use(it)));
    const refused = (await Promise.allSettled(opened)).filter((it) => it.status === 'rejected');
    expect(refused.length).toBeGreaterThan(0);
    expect(String(refused[0]?.reason)).toContain('which is the maximum');
    await using plain = await daemon.connect();
    await expect(plain.request('workspaces.collect', {})).rejects.toThrow('works in a folder of its machine');
  });
});

/** Ends a session at once, and gives what is known of it. */
async function ended(session: PlacedSession): Promise<PlacedSession> {
  await session[Symbol.asyncDispose]();
  return session;
}
