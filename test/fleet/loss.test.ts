/** What is known of nodes that die, stop or are cut off, and what a fleet does when its bus or its hub is restarted. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { readCredential } from '../../src/fleet/credential.ts';
import { fleetFiles } from '../../src/fleet/folder.ts';
import type { FleetLink } from '../../src/fleet/link.ts';
import { connectBus } from '../../src/fleet/nats.ts';
import { LOST_MS, Presence, presenceAt } from '../../src/fleet/presence.ts';
import { inboxOf, publisherOf, subjects } from '../../src/fleet/subjects.ts';
import { fromWire } from '../../src/fleet/wire.ts';
import type { TestDaemon } from '../support/daemon.ts';
import { linkOf, noBus, TestFleet } from '../support/fleet.ts';

const powers = systemPowers();

describe.skipIf(noBus !== undefined)(`losing parts of a fleet${noBus ? ` (${noBus})` : ''}`, () => {
  let fleet: TestFleet;
  let a: TestDaemon;
  let b: TestDaemon;
  let c: TestDaemon;
  let link: FleetLink;
  const presence = new Presence(limits.fleetMembersMax);
  beforeAll(async () => {
    fleet = await TestFleet.start();
    [a, b, c] = [await fleet.node('node-a'), await fleet.node('node-b'), await fleet.node('node-c')];
    const credential = readCredential(fleetFiles(fleet.folder).operatorCredential);
    link = await connectBus({ credential, inbox: inboxOf('operator', 'operator'), waits: true, limits, powers });
    link.subscribe(subjects.heartbeat('*'), ({ subject, data }) =>
      presence.hear(publisherOf(subject), fromWire(data), powers.monotonicMs()),
    );
  });
  afterAll(async () => {
    await link?.[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
  });

  const states = () =>
    Object.fromEntries(presence.all.map((it) => [it.node, presenceAt(it.heardAtMs, powers.monotonicMs())]));
  const all = { 'node-a': 'here', 'node-b': 'here', 'node-c': 'here' };

  test('a daemon that is stopped counts as lost, though its link runs, and is here again when it goes on', async () => {
    await expect.poll(states).toEqual(all);
    process.kill(a.pid, 'SIGSTOP');
    try {
      await expect.poll(states, { interval: 100 }).toEqual({ ...all, 'node-a': 'lost' });
      const heard = presence.all.find((it) => it.node === 'node-a');
      expect(powers.monotonicMs() - (heard?.heardAtMs ?? 0)).toBeGreaterThanOrEqual(LOST_MS);
    } finally {
      process.kill(a.pid, 'SIGCONT');
    }
    await expect.poll(states).toEqual(all);
  });

  test('a link that is killed is started again, and the daemon works on without it', async () => {
    const before = linkOf(b);
    process.kill(before, 'SIGKILL');
    await using client = await b.connect();
    expect(await client.call('file_list', {})).toMatchObject({ success: true });
    await expect.poll(() => linkOf(b)).not.toBe(before);
    await expect.poll(states).toEqual(all);
  });

  test('nodes come back to a bus that was restarted, and work while it is away', async () => {
    await fleet.stopBus();
    await expect.poll(states, { interval: 100 }).toEqual({ 'node-a': 'lost', 'node-b': 'lost', 'node-c': 'lost' });
    await using client = await c.connect();
    expect(await client.call('terminal_execute', { command: 'echo alone' })).toMatchObject({ success: true });
    const unreached = await fleet.cli('kill', '--all');
    expect([unreached.code, unreached.stderr]).toEqual([1, expect.stringContaining("can't be used")]);
    await fleet.startBus();
    await expect.poll(states).toEqual(all);
  });

  test('the hub goes on where it ended, and tells while it is away that records are not collected', async () => {
    await expect.poll(async () => (await fleet.cli('status')).code).toBe(0);
    await fleet.stopHub();
    const away = await fleet.cli('status');
    expect([away.code, away.stdout]).toEqual([1, expect.stringContaining('the hub does not answer')]);
    await using client = await a.connect();
    await client.call('terminal_execute', { command: 'echo unseen' });
    await fleet.startHub();
    await expect.poll(async () => (await fleet.cli('status')).code).toBe(0);
  });

  test('a node that was killed is told by name, and is here again after its start', async () => {
    process.kill(c.pid, 'SIGKILL');
    await expect.poll(states, { interval: 100 }).toMatchObject({ 'node-c': 'lost' });
    const { stdout, code } = await fleet.cli('status');
    expect([code, stdout]).toEqual([1, expect.stringContaining('node-c was not heard')]);
    const { stdout: orders, code: failed } = await fleet.cli('pause', 'node-c', '--json');
    expect(failed).toBe(1);
    expect(JSON.parse(orders)).toEqual([{ node: 'node-c', problem: 'node-c is not there, and got nothing' }]);
    c = await fleet.node('node-c', { stateDir: c.stateDir });
    await expect.poll(states).toEqual(all);
  });
});
