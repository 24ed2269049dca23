/** Sessions that a gateway places on nodes: the ordinary client over a real bus, and what becomes of calls when parts are lost. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { type Client, createClient } from '../../src/client/client.ts';
import { readCredential } from '../../src/fleet/credential.ts';
import { fleetFiles } from '../../src/fleet/folder.ts';
import { LeaseTaken } from '../../src/fleet/leases.ts';
import { connectBus } from '../../src/fleet/nats.ts';
import { inboxOf } from '../../src/fleet/subjects.ts';
import type { TestDaemon } from '../support/daemon.ts';
import { clientOf, linkOf, noBus, TestFleet } from '../support/fleet.ts';

const powers = systemPowers();

describe.skipIf(noBus !== undefined)(`a gateway${noBus ? ` (${noBus})` : ''}`, () => {
  let fleet: TestFleet;
  let a: TestDaemon;
  let b: TestDaemon;
  let socket: string;
  beforeAll(async () => {
    fleet = await TestFleet.start();
    a = await fleet.node('node-a', {}, '--label', 'gpu');
    b = await fleet.node('node-b');
    socket = await fleet.gateway();
  }, 240_000);
  afterAll(() => fleet?.[Symbol.asyncDispose]());

  const at = (workspace?: string): Promise<Client> => clientOf(socket, workspace === undefined ? {} : { workspace });
  const onA = () => at(`node-a:${a.workspace}`);
  const append = (name: string) => ['terminal_execute', { command: `echo x >> ${name}` }] as const;

  test('an ordinary client works on the node that it names, and on any node', async () => {
    writeFileSync(join(a.workspace, 'here.txt'), 'on a');
    await using client = await onA();
    expect((await client.hello).session.workspace).toBe(a.workspace);
    expect(await client.call('file_read', { path: 'here.txt' })).toMatchObject({ success: true });
    await using anywhere = await at();
    expect([a.workspace, b.workspace]).toContain((await anywhere.hello).session.workspace);
    await expect(createClient({ socket, workspace: 'node-z:/tmp' })).rejects.toThrow('node node-z is not there');
    await expect(createClient({ socket, workspace: 'node-a:/etc' })).rejects.toThrow('/etc');
  });

  test('output beyond the window comes whole, and a slow reader holds up its own session only', async () => {
    await using fast = await onA();
    await using slow = await onA();
    const command = 'head -c 6000000 /dev/zero | tr "\\\\0" a';
    const large = await fast.call('terminal_execute', { command });
    expect(large).toMatchObject({ success: true });
    const waiting = slow.call('terminal_execute', { command });
    expect(await fast.call('file_list', {})).toMatchObject({ success: true });
    expect(await waiting).toMatchObject({ success: true });
  });

  test('a stopped node runs nothing that it was sent, when it goes on after its loss', async () => {
    await using client = await onA();
    await client.call('file_list', {});
    const link = linkOf(a);
    // Both processes of the node stop, as when the machine is suspended.
    for (const pid of [link, a.pid]) process.kill(pid, 'SIGSTOP');
    try {
      const lost = await client.call(...append('zombie.txt'));
      expect(lost).toMatchObject({ success: false, error: { code: 'HOST_CRASHED', details: { outcome: 'unknown' } } });
    } finally {
      await sleep(1_500);
      for (const pid of [link, a.pid]) process.kill(pid, 'SIGCONT');
    }
    await using again = await onA();
    expect(await again.call('file_list', {})).toMatchObject({ success: true });
    expect(existsSync(join(a.workspace, 'zombie.txt'))).toBe(false);
  });

  test('a daemon that is cut off from its lease starts no call, and says that nothing was done', async () => {
    await using client = await onA();
    await client.call('file_list', {});
    // The daemon still hears its clients, but nobody confirms the lease any more.
    process.kill(linkOf(a), 'SIGSTOP');
    const link = linkOf(a);
    try {
      const lost = await client.call(...append('cut.txt'));
      expect(lost).toMatchObject({ success: false, error: { code: 'HOST_CRASHED' } });
    } finally {
      process.kill(link, 'SIGCONT');
    }
    expect(existsSync(join(a.workspace, 'cut.txt'))).toBe(false);
  });

  test('a workspace has one owner', async () => {
    const credential = readCredential(join(a.stateDir, 'fleet/credential.json'));
    await using bus = await connectBus({
      credential,
      inbox: inboxOf('node', 'node-a'),
      waits: false,
      limits,
      powers,
    });
    const first = await bus.leases.take('shared', 'node-a');
    await expect(bus.leases.take('shared', 'node-a')).rejects.toBeInstanceOf(LeaseTaken);
    const next = await bus.leases.renew('shared', 'node-a', first);
    await expect(bus.leases.renew('shared', 'node-a', first)).rejects.toBeInstanceOf(LeaseTaken);
    // Nobody renews it any more.
    await expect.poll(() => bus.leases.take('shared', 'node-a').catch(() => 0)).toBeGreaterThan(next);
    await expect(bus.leases.renew('shared', 'node-a', next)).rejects.toBeInstanceOf(LeaseTaken);
  });

  test('a drained node gets no sessions, and nobody but a gateway of the fleet opens one', async () => {
    expect((await fleet.cli('drain', 'node-a')).code).toBe(0);
    await expect
      .poll(() => createClient({ socket, workspace: `node-a:${a.workspace}` }).then(() => 'open', String))
      .toContain('draining');
    expect((await fleet.cli('undrain', 'node-a')).code).toBe(0);
    const credential = readCredential(fleetFiles(fleet.folder).operatorCredential);
    expect(credential.role).toBe('operator');
  });
});
