/** Workspaces that a node makes for sessions of a fleet: clones by commit, and what comes back from them. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, createClient } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { removeTree, type TestDaemon, temporaryDir } from '../support/daemon.ts';
import { noBus, TestFleet } from '../support/fleet.ts';
import { GitOrigin, git } from '../support/git-origin.ts';
import { collect } from '../support/placed.ts';

describe.skipIf(noBus !== undefined)(`workspaces that a node makes${noBus ? ` (${noBus})` : ''}`, () => {
  const folder = temporaryDir('fleet-folder');
  const other = temporaryDir('fleet-folder');
  let origin: GitOrigin;
  let fleet: TestFleet;
  let node: TestDaemon;
  let socket: string;
  let commit: string;
  beforeAll(async () => {
    origin = await GitOrigin.start();
    commit = origin.commit({ 'a.txt': 'one\n', 'src/b.txt': 'two\n', '.gitignore': 'ignored/\n' });
    fleet = await TestFleet.start();
    const origins = [{ url: `${origin.base}/*`, push: 'ringfence/*' }, `file://${origin.folder}/*`];
    node = await fleet.node('node-a', { config: { fleet: { folder, origins } } });
    socket = await fleet.gateway();
  }, 240_000);
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
    await origin?.[Symbol.asyncDispose]();
    for (const it of [folder, other]) removeTree(it);
  });

  /** A client of the gateway; right after its start the gateway has not heard the node. */
  const at = async (workspace: string): Promise<Client> => {
    for (let tries = 0; ; tries++) {
      try {
        return await createClient({ socket, workspace });
      } catch (error) {
        if (tries >= 20 || !/no node|not there|roster|no gateway of/.test((error as Error).message)) throw error;
        await sleep(500);
      }
    }
  };
  const onCommit = (it = commit) => at(`git+${origin.url}#${it}`);
  const run = async (client: Client, command: string) =>
    expect(await client.call('terminal_execute', { command })).toMatchObject({ success: true, data: { exitCode: 0 } });
  const placedOf = async (client: Client) =>
    ((await client.hello).session as unknown as { placed: { name: string; branch: string; keptMs: number } }).placed;
  test('a session works on a clone at its commit, and its changes come back as a bundle', async () => {
    await using client = await onCommit();
    const { session } = await client.hello;
    expect(session.workspace.startsWith(join(folder, 'clones'))).toBe(true);
    expect(await client.call('file_read', { path: 'a.txt' })).toMatchObject({
      success: true,
      data: { content: 'one\n' },
    });
    await run(
      client,
      'git log --oneline && echo more >> a.txt && git -c user.name=x -c user.email=x@x commit -qam own',
    );
    await run(client, 'echo new > new.txt; mkdir ignored; echo no > ignored/x; rm src/b.txt');
    const { told, bytes } = await collect(client);
    expect(told).toMatchObject({ changed: true, base: commit, files: 3, problems: [] });
    const bundle = join(folder, 'changes.bundle');
    writeFileSync(bundle, bytes);
    git(origin.work, 'fetch', '-q', bundle, `${told.branch}:back`);
    expect(git(origin.work, 'log', '--format=%s', `${commit}..back`)).toBe(
      'Changes that the session had not committed\nown',
    );
    expect(git(origin.work, 'show', 'back:a.txt')).toBe('one\nmore');
    expect(git(origin.work, 'ls-tree', '-r', '--name-only', 'back').split('\n')).toEqual([
      '.gitignore',
      'a.txt',
      'new.txt',
    ]);
  });

  test('work that was not collected is kept, and another session can continue it', async () => {
    let kept: string;
    {
      await using client = await onCommit();
      await run(client, 'echo later > later.txt');
      kept = (await placedOf(client)).name;
    }
    await using client = await at(kept);
    expect(await client.call('file_read', { path: 'later.txt' })).toMatchObject({ success: true });
    expect((await collect(client, { as: 'patch' })).bytes.toString()).toContain('+later');
  });

  test('the command line works on a commit, and gets what it changed', async () => {
    const here = temporaryDir('fetched');
    const gateway = { stateDir: node.stateDir, socket, workspace: here };
    const words = ['call', '--socket', socket, '--workspace', `git+${origin.url}#${commit}`, 'file_write'];
    const called = await runCli(gateway, [...words, 'path=cli.txt', 'content=hello']);
    expect(called).toMatchObject({ code: 0 });
    const [, name = ''] = /ringfence fleet fetch (\S+)/.exec(called.stderr) ?? [];
    const output = join(here, 'x.patch');
    const fetched = await runCli(gateway, [
      'fleet',
      'fetch',
      name,
      '--as',
      'patch',
      '--output',
      output,
      '--socket',
      socket,
    ]);
    expect(fetched).toMatchObject({ code: 0, stdout: `${output}\n` });
    git(origin.work, 'checkout', '-q', '--detach', commit);
    git(origin.work, 'apply', output);
    expect(readFileSync(join(origin.work, 'cli.txt'), 'utf8')).toBe('hello');
    const again = await runCli(gateway, ['fleet', 'fetch', name, '--socket', socket]);
    expect(again.stderr).toContain('no workspace is kept');
    removeTree(here);
  });

  test('a client is told why a node can not make its workspace, and which names are none', async () => {
    await expect(onCommit('1'.repeat(40))).rejects.toThrow(/has no commit|can't be fetched/);
    await expect(at(`git+https://example.org/x.git#${commit}`)).rejects.toThrow('may not fetch');
    await expect(at(`kept/${'0'.repeat(32)}`)).rejects.toThrow('NODE:kept/ID');
    await expect(at(`node-a:kept/${'0'.repeat(32)}`)).rejects.toThrow('no workspace is kept');
  });

  test('a session goes to the node that has a mirror of its repository', async () => {
    const origins = [`${origin.base}/*`];
    await fleet.node('node-b', { config: { fleet: { folder: other, origins } } });
    await using first = await at(`node-b:git+${origin.url}#${commit}`);
    expect((await first.hello).session.workspace.startsWith(other)).toBe(true);
    git(origin.folder, 'clone', '-q', '--bare', origin.bare, 'second.git');
    await using cold = await at(`node-b:git+${origin.base}/second.git#${commit}`);
    await run(cold, 'true');
    await sleep(1_500);
    for (let i = 0; i < 4; i++) {
      await using client = await at(`git+${origin.base}/second.git#${commit}`);
      expect((await placedOf(client)).name).toMatch(/^node-b:/);
    }
  });
});
