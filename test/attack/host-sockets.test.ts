/** The sockets between the gateway and the threads of a host: nothing that a host starts holds one. */
import { readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { HOST_EGRESS_FD } from '../../src/sandbox/bubblewrap.ts';
import { statOf } from '../../src/sandbox/proc.ts';
import { dataOf, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await startDaemon();
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

/** The sockets among the descriptors of a process; none if the process has ended. */
function socketsOf(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder)
      .map((fd) => readlink(join(folder, fd)))
      .filter((target) => target.startsWith('socket:'));
  } catch {
    return []; // ENOENT: the process has ended.
  }
}

function readlink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // ENOENT: the descriptor is closed.
  }
}

/** Waits until no process below the host holds one of its sockets: a forked process holds all of them until its exec. */
const untilNoneHolds = (host: number, own: ReadonlySet<string>): Promise<void> =>
  until(() => processesBelow(host).every((pid) => !socketsOf(pid).some((it) => own.has(it))));

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
  // native/door.c, which stays outside of the sandbox, hands a listening socket over this one; the first test looks inside.
  own.delete(readlink(`/proc/${host}/fd/${HOST_EGRESS_FD}`));
  await untilNoneHolds(host, own);
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
  expect(processesBelow(host).length).toBeGreaterThan(0);
  await untilNoneHolds(host, own);
});
