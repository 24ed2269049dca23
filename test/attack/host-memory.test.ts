/** What can be had out of our processes: secrets in the memory of hosts, core dumps, and Node's inspector by a signal. */
import { closeSync, openSync, readdirSync, readFileSync, readSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { isBelow, startDaemon, type TestDaemon, temporaryDir, until } from '../support/daemon.ts';
import { type Service, startService } from '../support/service.ts';

const CANARY = 'canary-7d20-of-a-key';
const FILE = (base: string) => `
connector: probe
base: ${base}
private: true
auth: { kind: bearer, secret: probe_key, setup: "https://keys.example/get" }
operations:
  echo:
    description: Sends a text.
    request: { method: POST, path: /echo, json: { text: "\${input.text}" } }
    input: { text: { type: string, description: Any text. } }
    output: { text: $.text }
`;

let service: Service;
let daemon: TestDaemon;
let client: Client;

beforeAll(async () => {
  service = await startService();
  daemon = await startDaemon({
    policy: 'tiers:\n  external_api: { decision: allow }\n',
  });
  client = await daemon.connect({ role: 'operator' });
  const file = join(temporaryDir('probe'), 'probe.yaml');
  writeFileSync(file, FILE(service.base));
  expect(await runCli(daemon, ['connector', 'add', file, '--ca', service.ca])).toMatchObject({ code: 0 });
  expect((await runCli(daemon, ['secret', 'set', 'probe_key'], { stdin: CANARY })).code).toBe(0);
  await until(async () => ((await client.request('status', {})) as { connectors: object[] }).connectors.length === 1);
  writeFileSync(join(daemon.workspace, 'a.txt'), 'one');
  service.always(() => ({ body: { text: CANARY } }));
  await client.call('file_read', { path: 'a.txt' });
  await client.call('terminal_execute', { command: 'true' });
  const result = await client.call('probe__echo' as string, { text: 'x' } as never);
  expect(result).toMatchObject({ success: true });
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

const statusOf = (pid: number, file: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return ''; // ENOENT, ESRCH: it has ended.
  }
};

/** Node processes below the daemon, by the name of their entry. */
function ourProcesses(): { pid: number; name: string }[] {
  return readdirSync('/proc')
    .map(Number)
    .filter((pid) => Number.isInteger(pid) && pid !== daemon.pid && isBelow(pid, daemon.pid))
    .flatMap((pid) => {
      const [program = '', ...words] = statusOf(pid, 'cmdline').split('\0');
      const [, name] = words.map((it) => /workers\/([\w-]+)\.[jt]s$/.exec(it)).find((it) => it) ?? [];
      return name !== undefined && program.endsWith('node') ? [{ pid, name }] : [];
    });
}

/** The writable memory of a process. */
function memoryOf(pid: number): Buffer {
  const fd = openSync(`/proc/${pid}/mem`, 'r');
  try {
    const ranges = statusOf(pid, 'maps').matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw/gm);
    const pieces = [...ranges].map(([, from = '', to = '']) => {
      const [start, end] = [from, to].map((it) => Number.parseInt(it, 16)) as [number, number];
      const piece = Buffer.alloc(Math.min(end - start, 256 * 1024 * 1024));
      try {
        return piece.subarray(0, readSync(fd, piece, 0, piece.length, start));
      } catch {
        return Buffer.alloc(0); // EIO: not readable, such as a guard page.
      }
    });
    return Buffer.concat(pieces);
  } finally {
    closeSync(fd);
  }
}

test.runIf(process.getuid?.() === 0)('the memory of no host holds a secret of a request', () => {
  const hosts = ourProcesses().filter(({ name }) => name === 'host');
  expect(hosts.length).toBeGreaterThan(1);
  for (const { pid } of hosts) {
    const memory = memoryOf(pid);
    // Shows that what a host does know is found.
    expect(memory.includes(daemon.workspace)).toBe(true);
    for (const form of [CANARY, Buffer.from(CANARY).toString('base64')]) expect(memory.includes(form)).toBe(false);
  }
});

test('none of our processes leaves a core dump', () => {
  const all = ourProcesses();
  expect(all.map(({ name }) => name)).toEqual(expect.arrayContaining(['host', 'egress']));
  for (const { pid } of all) expect(statusOf(pid, 'limits')).toMatch(/^Max core file size +0 +0 /m);
});

/** The bit of SIGUSR1, by which Node starts its inspector, in the sets of signals of /proc. */
const SIGUSR1 = 1n << 9n;

test('a signal starts an inspector in none of our processes', () => {
  const caught = (pid: number) => BigInt(`0x${/^SigCgt:\t(\w+)$/m.exec(statusOf(pid, 'status'))?.[1] ?? ''}`);
  // Shows that Node catches it unless it is told otherwise.
  expect(caught(process.pid) & SIGUSR1).toBe(SIGUSR1);
  for (const { pid, name } of ourProcesses()) expect(`${name} ${caught(pid) & SIGUSR1}`).toBe(`${name} 0`);
});
