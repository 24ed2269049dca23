/**
 * Processes that try to outlive the call: ignoring signals, in another session, through a grandchild that holds the
 * output; and how long that takes.
 */
import { expect, test } from 'vitest';
import { beside, eachIdentity, gone, machineLateMs } from '../support/arena.ts';
import { processesWith, until } from '../support/daemon.ts';

const TIMEOUT_MS = 400;
const LATE_MS = 1000;

eachIdentity({}, (arena) => {
  const mark = (name: string) => `marker-survivor-${name}-${arena.daemon.pid}`;

  test.each([
    ['ignore-sigterm.sh', []],
    ['setsid-survivor.sh', ['waits']],
  ])(
    '%s that runs out of time is TIMEOUT within a second, nobody waits, and it is gone a second later',
    { retry: 2 }, // The same as in limits.test.ts.
    async (program, more) => {
      const name = mark(program);
      const attack = { program, args: [name, ...more], input: { timeout: TIMEOUT_MS } };
      const { result, stallMs, callMs } = await beside(arena, async () => {
        const running = arena.run(attack);
        await until(() => processesWith(name).length > 0);
        // The time limit counts from the start.
        const from = performance.now();
        return { ended: await running, tookMs: performance.now() - from };
      });
      expect(result.ended).toMatchObject({
        error: { code: 'TIMEOUT' },
        metadata: { resources: { verdict: 'timeout' } },
      });
      expect(result.tookMs).toBeLessThan(TIMEOUT_MS + LATE_MS + machineLateMs());
      await gone(name);
      expect(stallMs).toBeLessThan(100);
      expect(callMs).toBeLessThan(LATE_MS + machineLateMs());
    },
  );

  test.each(['hold-pipe.sh', 'setsid-survivor.sh'])(
    '%s that ends by itself is answered at once, and what it left is gone a second later',
    async (program) => {
      const name = mark(program);
      const from = performance.now();
      expect(await arena.told({ program, args: [name] })).toMatch(/^done$/m);
      expect(performance.now() - from).toBeLessThan(LATE_MS + machineLateMs());
      await gone(name);
    },
  );

  test('each survivor survives without a sandbox', async () => {
    const name = mark('control');
    try {
      await arena.control({ program: 'setsid-survivor.sh', args: [name] });
      expect(processesWith(name).length).toBeGreaterThanOrEqual(2);
    } finally {
      for (const pid of processesWith(name)) process.kill(pid, 'SIGKILL');
    }
  });

  test('cancelled, they are gone within a second, and the daemon is who it was', async () => {
    const name = mark('cancelled');
    const controller = new AbortController();
    const command = `bash programs/setsid-survivor.sh ${name} waits`;
    const running = arena.client.call('terminal_execute', { command }, { signal: controller.signal });
    await until(() => processesWith(name).length >= 3);
    const from = performance.now();
    controller.abort();
    expect(await running).toMatchObject({ error: { code: 'CANCELLED' } });
    await gone(name);
    expect(performance.now() - from).toBeLessThan(LATE_MS + machineLateMs());
    expect(((await arena.client.request('status', {})) as { pid: number }).pid).toBe(arena.daemon.pid);
  });
});
