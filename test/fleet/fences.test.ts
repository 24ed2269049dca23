/** The fence of a session of the fleet, in a real daemon without a bus: no call starts but under a lease that was just confirmed. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { START_WITHIN_MS } from '../../src/base/fencing.ts';
import { bootMs } from '../../src/base/powers.ts';
import { type Client, createClient } from '../../src/client/client.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';

let daemon: TestDaemon;
let link: Client;
beforeAll(async () => {
  daemon = await startDaemon({
    policy: 'tiers:\n  execute: { decision: allow, locks: workspace }\n',
    limits: { fleetSessionsMax: 4 },
  });
  link = await daemon.connect({ role: 'operator' });
});
afterAll(async () => {
  await link?.[Symbol.asyncDispose]();
  await daemon?.[Symbol.asyncDispose]();
});

const admit = () => link.request('fleet.admit', {}) as Promise<{ token: string; id: string }>;
const confirm = (id: string, change: object = {}) => {
  const now = bootMs();
  return link.request('fleet.confirm', { id, epoch: 7, confirmedAtMs: now, notAfterMs: now + 60_000, ...change });
};
const sessionOf = (token: string) => createClient({ socket: daemon.socket, token });
const write = (name: string) => ['terminal_execute', { command: `echo x > ${name}` }] as const;
const REFUSED = { success: false, error: { code: 'HOST_CRASHED', details: { outcome: 'none' } } };
const ran = (name: string) => existsSync(join(daemon.workspace, name));

test('a call starts while the lease was just confirmed, and not before, later or under another ownership', async () => {
  const { token, id } = await admit();
  await using client = await sessionOf(token);
  expect(await client.call(...write('early'))).toMatchObject(REFUSED);
  await confirm(id);
  expect(await client.call(...write('owned'))).toMatchObject({ success: true });
  await confirm(id, { epoch: 8 });
  expect(await client.call(...write('other'))).toMatchObject(REFUSED);
  await confirm(id, { confirmedAtMs: bootMs() - START_WITHIN_MS });
  expect(await client.call(...write('stale'))).toMatchObject(REFUSED);
  await confirm(id, { notAfterMs: bootMs() });
  const unheard = await client.call('file_list', {});
  expect(unheard).toMatchObject(REFUSED);
  expect(JSON.stringify(unheard)).toContain('the gateway of the session was not heard any more');
  await confirm(id);
  expect(await client.call('file_list', {})).toMatchObject({ success: true });
  await link.request('fleet.close', { id });
  expect(await client.call(...write('closed'))).toMatchObject(REFUSED);
  expect(['early', 'owned', 'other', 'stale', 'closed'].filter(ran)).toEqual(['owned']);
});

test('the fence is looked at behind the queue, just before the call starts', async () => {
  const { token, id } = await admit();
  await using client = await sessionOf(token);
  await confirm(id);
  const first = client.call('terminal_execute', { command: 'sleep 3' });
  const queued = client.call(...write('queued'));
  expect(await first).toMatchObject({ success: true });
  expect(await queued).toMatchObject(REFUSED);
  expect(ran('queued')).toBe(false);
  await link.request('fleet.close', { id });
});

test('a call id that was used is not run again by the same session', async () => {
  const { token, id } = await admit();
  await using client = await sessionOf(token);
  await confirm(id);
  const call = () => client.call('terminal_execute', { command: 'echo x >> once' }, { callId: 'once-1' });
  await call();
  await confirm(id);
  await call();
  await confirm(id);
  expect(await client.call('file_read', { path: 'once' })).toMatchObject({ data: { content: 'x\n' } });
  await link.request('fleet.close', { id });
});

test('a session that a fenced one passes its authority to has the same fence', async () => {
  const { token, id } = await admit();
  await using parent = await sessionOf(token);
  await confirm(id);
  const passed = (await parent.request('sessions.attenuate', { expiresIn: 60_000 })) as { token: string };
  await using child = await sessionOf(passed.token);
  expect(await child.call(...write('child'))).toMatchObject({ success: true });
  await confirm(id, { notAfterMs: bootMs() });
  expect(await child.call(...write('late'))).toMatchObject(REFUSED);
  expect(ran('late')).toBe(false);
  await link.request('fleet.close', { id });
});

test('a token opens one session; sessions of a fleet are bounded, and end with the link that admitted them', async () => {
  const { token } = await admit();
  await using _ = await sessionOf(token);
  await expect(sessionOf(token)).rejects.toThrow('not one of this daemon');
  const other = await daemon.connect({ role: 'operator' });
  const admitted = async () => (await other.request('fleet.admit', {})) as { id: string };
  const ids = [await admitted(), await admitted(), await admitted()].map((it) => it.id);
  await expect(admit()).rejects.toThrow('4 sessions of the fleet are open, which is the maximum');
  await other[Symbol.asyncDispose]();
  await expect.poll(() => confirm(ids[0] ?? '').then(() => 'there', String)).toContain('there is no fence');
  await using agent = await daemon.connect();
  await expect(agent.request('fleet.admit', {})).rejects.toThrow('only operators');
});
