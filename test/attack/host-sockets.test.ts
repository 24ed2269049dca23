/** The sockets between the gateway and the threads of a host: nothing that a host starts holds one. */
import { readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client.ts';
import { statOf } from '../../src/sandbox/proc.ts';
import { ALLOW_ALL, dataOf, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await startDaemon({ policy: ALLOW_ALL });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** What the descriptors of a process are, as far as they are sockets. */
function socketsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      const target = readlinkSync(join(folder, fd));
      return target.startsWith('socket:') ? [target] : [];
    } catch {
      return []; // ENOENT: closed meanwhile.
    }
  });
}

const isBelow = (pid: number, host: number): boolean => {
  const parent = statOf(pid)?.parent ?? 0;
  return parent === host || (parent > 1 && isBelow(parent, host));
};
const processesBelow = (host: number): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((it) => it > 1 && isBelow(it, host));

/** Names and targets of what a shell and the first process of its sandbox hold beside their standard streams. */
const LOOK = 'for fd in /proc/$$/fd/* /proc/1/fd/*; do [ ${fd##*/} -gt 2 ] && readlink $fd; done | grep -c socket';

test('a command holds none, in a sandbox of its own or in one that waited for it', async () => {
  for (let i = 0; i < 3; i++)
    expect(await dataOf(client.call('terminal_execute', { command: LOOK }))).toMatchObject({ stdout: '0\n' });
});

test('no process that runs below the host of commands holds one', async () => {
  const running = client.call(
    'terminal_execute',
    { command: 'echo up; exec -a marker-of-sockets sleep 30' },
    { callId: 's' },
  );
  const { metadata } = await client.call('terminal_execute', { command: 'true' });
  const host = metadata.hostPid as number;
  await until(() => processesBelow(host).length > 2);
  const own = new Set(socketsOf(host));
  expect(own.size).toBeGreaterThan(1);
  for (const pid of processesBelow(host)) expect(socketsOf(pid).filter((it) => own.has(it))).toEqual([]);
  await client.request('calls.cancel', { callId: 's' });
  await running;
});

test('no language server holds one', async () => {
  writeFileSync(join(daemon.workspace, 'shape.ts'), 'export const area = 1;\nexport const twice = area * 2;\n');
  const found = await client.call('workspace_find_references' as string, { symbol: 'area', file: 'shape.ts' });
  expect(found).toMatchObject({ success: true });
  const host = found.metadata.hostPid as number;
  const own = new Set(socketsOf(host));
  expect(own.size).toBeGreaterThan(1);
  const below = processesBelow(host);
  expect(below.length).toBeGreaterThan(0);
  for (const pid of below) expect(socketsOf(pid).filter((it) => own.has(it))).toEqual([]);
});
