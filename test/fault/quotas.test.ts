/** What one principal may take of the daemon, whatever number of sessions it opens. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { dataOf, startDaemon, until } from '../support/daemon.ts';

test('the calls of a principal in all its sessions have a bound that is named, and others are served', async () => {
  await using daemon = await startDaemon({
    limits: { principalCallsMax: 3, sessionCommandsMax: 4 },
    config: { principals: { ci: {} } },
  });
  const token = readFileSync(join(daemon.stateDir, 'tokens', 'ci.token'), 'utf8').trim();
  const asCi = () => createClient({ socket: daemon.socket, workspace: daemon.workspace, token });
  await using first = await asCi();
  await using second = await asCi();
  await using other = await daemon.connect();
  await using operator = await daemon.connect({ role: 'operator' });
  const long = [first, first, second].map((it) => it.call('terminal_execute', { command: 'sleep 60' }));
  const underWay = async () => (await operator.request('calls.list', { everywhere: true })) as { calls: object[] };
  await until(async () => (await underWay()).calls.length === 3);
  for (const client of [first, second])
    expect(await client.call('file_list', {})).toMatchObject({
      success: false,
      error: {
        code: 'QUEUE_FULL',
        category: 'RESOURCE',
        message: expect.stringContaining('3 calls of ci are under way in all of its sessions, which is the maximum'),
        details: { limit: 3, used: 3, per: 'principal' },
      },
    });
  await dataOf(other.call('file_list', {}));
  await first.request('calls.cancel', { callId: long[0]?.callId });
  await long[0];
  await dataOf(second.call('file_list', {}));
  for (const it of long.slice(1)) await operator.request('calls.cancel', { callId: it.callId });
  await Promise.all(long);
}, 60_000);

test('calls of a principal in a minute are bound by its policy, over all of its sessions', async () => {
  await using daemon = await startDaemon({
    policy: 'rateLimits:\n  - { tool: "*", calls: 3, per: principal, perMs: 60000 }\n',
  });
  await using first = await daemon.connect();
  await using second = await daemon.connect();
  for (const client of [first, second, first]) await dataOf(client.call('file_list', {}));
  expect(await second.call('file_list', {})).toMatchObject({
    success: false,
    error: { code: 'RATE_LIMITED', details: { limit: 3, per: 'principal' } },
  });
}, 30_000);
