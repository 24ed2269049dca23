/** Daemons that are killed while a protected name, made by a command, is in sight. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
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

/** Kills by `script/test --all`, or for this file alone; a few of them with all others. */
const ROUNDS = process.env.RINGFENCE_TEST_ALL === undefined ? 3 : 25;
const NAMES = 20;
const pathOf = (n: number) => `d${n}/.gdbinit`;
const MAKE = 'mkdir d$n; echo $n > d$n/.gdbinit; sleep 0.04';

/** Where each name is. In sight and in quarantine at once, or nowhere, it is neither moved nor as it was. */
async function placesOf(workspace: string, operator: Client): Promise<{ seen: string[]; moved: string[] }> {
  const { items } = (await operator.request('session.quarantine', {})) as { items: { path: string }[] };
  const all = Array.from({ length: NAMES }, (_, n) => pathOf(n));
  const seen = all.filter((it) => existsSync(join(workspace, it)));
  return { seen, moved: items.map(({ path }) => path).sort() };
}

test('each name is in sight or in quarantine, whole, at whatever moment of a move or of a return the daemon is killed', {
  timeout: 600_000,
}, async () => {
  const [stateDir, workspace] = [temporaryDir('state'), temporaryDir('ws')];
  const names = Array.from({ length: NAMES }, (_, n) => pathOf(n)).sort();
  const counts = { moved: 0, returned: 0, waiting: 0 };
  let daemon = await startDaemon({ stateDir, workspace });
  let operator = await daemon.connect({ role: 'operator' });
  /** Kills the daemon after a part of the time that work takes, and starts the next one. */
  const cutAt = async (ms: number, work: Promise<unknown>) => {
    work.catch(() => {});
    await pause(Math.random() * ms);
    daemon.process.kill('SIGKILL');
    await daemon.ended;
    await operator[Symbol.asyncDispose]();
    daemon = await startDaemon({ stateDir, workspace });
    operator = await daemon.connect({ role: 'operator' });
  };
  try {
    for (let round = 0; round < ROUNDS; round++) {
      const command = `for n in $(seq 0 ${NAMES - 1}); do ${MAKE}; done`;
      const agent = await daemon.connect();
      // The first command of a daemon waits until it can be undone.
      await agent.call('terminal_execute', { command: 'true' });
      await cutAt(1_500, agent.call('terminal_execute', { command }));
      await agent[Symbol.asyncDispose]();
      // What the killed daemon had noted is moved by this one.
      const made = readdirSync(workspace).map((it) => pathOf(Number(it.slice(1))));
      let places = await placesOf(workspace, operator);
      await until(async () => {
        const before = places.moved.length;
        await pause(50);
        places = await placesOf(workspace, operator);
        return places.moved.length === before;
      });
      expect(places.seen.filter((it) => places.moved.includes(it))).toEqual([]);
      // The command itself may have been cut between a folder and its file.
      expect(made.length - places.seen.length - places.moved.length).toBeLessThanOrEqual(1);
      counts.moved += places.moved.length;

      for (const it of new Set(places.moved)) await operator.request('session.quarantine', { drop: [it] });
      for (const it of readdirSync(workspace)) removeTree(join(workspace, it));
      const other = await daemon.connect();
      await other.call('terminal_execute', { command });
      await other[Symbol.asyncDispose]();
      expect(await placesOf(workspace, operator)).toEqual({ seen: [], moved: names });
      await cutAt(40, operator.request('session.quarantine', { keep: names }));
      const kept = await placesOf(workspace, operator);
      expect([...new Set([...kept.seen, ...kept.moved])].sort()).toEqual(names);
      for (const it of kept.seen) expect(readFileSync(join(workspace, it), 'utf8')).toMatch(/^\d+\n$/);
      counts.returned += kept.seen.length;
      counts.waiting += kept.moved.length;
      for (let left = kept.moved; left.length > 0; left = (await placesOf(workspace, operator)).moved)
        await operator.request('session.quarantine', { drop: left });
      for (const it of readdirSync(workspace)) removeTree(join(workspace, it));
      expect(readdirSync(join(stateDir, 'quarantine')).filter((it) => !it.startsWith('refs-'))).toEqual([]);
    }
    expect(counts.moved).toBeGreaterThan(0);
    expect(counts.waiting + counts.returned).toBeGreaterThanOrEqual(ROUNDS * NAMES);
  } finally {
    await operator[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
    for (const it of [stateDir, workspace]) removeTree(it);
  }
});
