/** Bounds in time and number of the workspaces that a node makes. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { removeTree, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';
import { GitOrigin, git } from '../support/git-origin.ts';
import { openPlaced } from '../support/placed.ts';

describe('bounds of the workspaces of a node', () => {
  const folder = temporaryDir('fleet-folder');
  let origin: GitOrigin;
  let daemon: TestDaemon;
  let operator: Client;
  let commit: string;
  beforeAll(async () => {
    origin = await GitOrigin.start();
    commit = origin.commit({ 'noise.bin': Buffer.from(crypto.getRandomValues(new Uint8Array(40_000))) });
    const limits = { fleetFetchMs: 3_000, fleetGitRunsMax: 1, fleetKeptMs: 500, fleetMirrorsBytes: 60_000 };
    const config = { fleet: { folder, origins: [`${origin.base}/*`] } };
    daemon = await startDaemon({ limits: { ...limits, fleetGitMemoryMb: 64 }, config });
    operator = await daemon.connect({ role: 'operator' });
  }, 60_000);
  afterAll(async () => {
    await operator?.[Symbol.asyncDispose]();
    await daemon?.[Symbol.asyncDispose]();
    await origin?.[Symbol.asyncDispose]();
    removeTree(folder);
  });

  const onCommit = (name = 'project') => openPlaced(daemon, operator, `git+${origin.base}/${name}.git#${commit}`);

  test('a server that answers nothing holds a place until the time for a fetch is over', async () => {
    origin.answers = ({ url }) => url?.startsWith('/silent.git') ?? false;
    const silent = onCommit('silent').catch((error: Error) => error.message);
    const other = onCommit();
    expect(await silent).toContain('git did not end within 3000 ms');
    origin.answers = undefined;
    await using session = await other;
    expect(existsSync(join(session.folder, 'noise.bin'))).toBe(true);
  });

  test('a clone whose changes nobody collects is removed when its time is over', async () => {
    let kept: string;
    let path: string;
    {
      await using session = await onCommit();
      await session.run('echo x > x.txt');
      [kept, path] = [session.placed.name.slice('node-a:'.length), session.folder];
      expect(session.placed.keptMs).toBe(500);
    }
    await expect.poll(() => existsSync(path), { timeout: 10_000 }).toBe(false);
    await expect(openPlaced(daemon, operator, kept)).rejects.toThrow('no workspace is kept');
  });

  test('mirrors are bounded in bytes: the one that was used least recently goes', async () => {
    git(origin.folder, 'clone', '-q', '--bare', origin.bare, 'second.git');
    await using _ = await onCommit('second');
    // The repository that could not be fetched has left none.
    await expect.poll(() => readdirSync(join(folder, 'mirrors')).length).toBe(1);
  });

  test.skipIf(!readFileSync('/proc/self/mountinfo', 'utf8').includes(' - cgroup'))(
    'git gets no more memory than its bound, where control groups count it',
    async ({ skip }) => {
      if (daemon.confinement.cgroup === 'none') skip();
      git(origin.work, 'checkout', '-q', '--detach', commit);
      const large = origin.commit({ 'zeros.bin': Buffer.alloc(120 * 1024 * 1024) });
      const named = `git+${origin.url}#${large}`;
      await expect(openPlaced(daemon, operator, named)).rejects.toThrow("can't be fetched");
    },
  );

  test('without the key `fleet` of the config a node makes no workspaces', async () => {
    await using plain = await startDaemon();
    await using own = await plain.connect({ role: 'operator' });
    await expect(openPlaced(plain, own, 'bundle:')).rejects.toThrow('its config.yaml has no `fleet`');
  });
});
