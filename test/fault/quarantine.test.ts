/** Daemons that are killed while a protected name, made by a command, is in sight. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { removeTree, startDaemon, temporaryDir, until } from '../support/daemon.ts';

test('a protected name that a killed daemon had seen is moved away by the next one, and an undo of its call drops it', async () => {
  const [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
  const options = { stateDir, workspace };
  const path = join(workspace, '.devcontainer/evil.json');
  try {
    const first = await startDaemon(options);
    const client = await first.connect();
    const dead = client.call('terminal_execute', {
      command: 'mkdir .devcontainer; echo 1 > .devcontainer/evil.json; sleep 9',
    });
    dead.catch(() => {});
    await until(() => existsSync(path));
    // The follower's change arrives within some milliseconds, the move comes 150 ms later.
    await new Promise((resolve) => setTimeout(resolve, 60));
    first.process.kill('SIGKILL');
    await first.ended;
    expect(existsSync(path)).toBe(true);
    await using second = await startDaemon(options);
    await until(() => !existsSync(path));
    await using operator = await second.connect({ role: 'operator' });
    const listed = (await operator.request('session.quarantine', {})) as { items: { path: string; callId: string }[] };
    expect(listed.items).toMatchObject([{ path: expect.stringMatching(/^\.devcontainer/) }]);
    const [{ callId }] = listed.items as unknown as [{ callId: string }];
    await operator.request('calls.undo', { callId });
    expect(await operator.request('session.quarantine', {})).toMatchObject({ items: [] });
  } finally {
    for (const it of [stateDir, workspace]) removeTree(it);
  }
});
