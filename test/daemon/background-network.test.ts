/** The network of commands in the background: that of their policy, by the egress proxy, until they end. */
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { dataOf, processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

const WAIT_MS = 20_000;

let server: Server;
let at: string;
let daemon: TestDaemon;
let client: Client;
const seen: string[] = [];
const EGRESS_COMMANDS_MAX = 3;
beforeAll(async () => {
  server = createServer((request, response) => {
    seen.push(request.url ?? '');
    response.end('served\n');
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  at = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  daemon = await startDaemon({
    policy: `tiers:\n  execute: { decision: allow, network: { allow: ["${at}"] } }\n`,
    limits: { egressCommandsMax: EGRESS_COMMANDS_MAX, sessionTerminalsMax: 8 },
  });
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  server.close();
});

/** NO_PROXY excludes the sandbox's own loopback; these tests mean the machine's. */
const env = { NO_PROXY: '', no_proxy: '' };
const started = async (command: string) => {
  const call = await client.call('terminal_execute', { command, env, background: true });
  return { callId: call.callId, handle: (await dataOf(Promise.resolve(call))).handle as string };
};

/** The output of a command when it has ended. */
async function whole(handle: string): Promise<string> {
  await until(
    async () => (await dataOf(client.call('terminal_output', { handle, afterSeq: 1e9 }))).exited === true,
    WAIT_MS,
  );
  return (await dataOf(client.call('terminal_output', { handle }))).output as string;
}

const endingOf = async (callId: string): Promise<{ connected?: object[]; denied?: object[] } | undefined> => {
  await using operator = await daemon.connect({ role: 'operator' });
  const { entries } = (await operator.request('audit.query', { callId, kind: 'session' })) as unknown as {
    entries: { detail: { event: string } }[];
  };
  return entries.find(({ detail }) => detail.event === 'background-ended')?.detail as never;
};

test('a background command reaches the hosts that the policy lists, also long after its call, and no other', async () => {
  const url = `http://${at}`;
  const { callId, handle } = await started(
    `curl -sS ${url}/first; while [ ! -e go ]; do sleep 0.05; done; curl -sS ${url}/later; curl -sS http://evil.test/; exit 3`,
  );
  await until(() => seen.includes('/first'), WAIT_MS);
  await dataOf(client.call('file_write', { path: 'go', content: '' }));
  const output = await whole(handle);
  expect(output).toMatch(/^served\nserved\n/);
  expect(output).toContain('does not let this command connect to evil.test:80');
  await until(async () => (await endingOf(callId)) !== undefined, WAIT_MS);
  expect(await endingOf(callId)).toMatchObject({
    connected: [{ target: at, count: 2 }],
    denied: [{ target: 'evil.test:80' }],
  });
});

test('network access of a background command counts while it runs, and ends with it', async () => {
  const running: string[] = [];
  const count = () => seen.filter((it) => it === '/counted').length;
  for (let n = 1; n <= EGRESS_COMMANDS_MAX; n++) {
    running.push((await started(`curl -sS http://${at}/counted; exec sleep 300`)).handle);
    await until(() => count() === n, WAIT_MS);
  }
  const refused = await client.call('terminal_execute', { command: `curl -sS http://${at}/counted`, env });
  expect(refused.metadata.denied).toMatchObject([{ target: 'connections', layer: 'limit' }]);
  expect(await dataOf(client.call('terminal_execute', { command: 'true' }))).toMatchObject({ exitCode: 0 });
  await using operator = await daemon.connect({ role: 'operator' });
  expect(await operator.request('background.list', {})).toMatchObject({
    commands: expect.arrayContaining([expect.objectContaining({ handle: running[0], network: true, exited: false })]),
  });
  for (const handle of running) await dataOf(client.call('terminal_kill', { handle }));
  const again = () => dataOf(client.call('terminal_execute', { command: `curl -sS http://${at}/counted`, env }));
  await until(async () => (await again()).exitCode === 0, WAIT_MS);
});

test('a proxy that dies takes the network, and not the command', async () => {
  const { callId, handle } = await started(
    `while [ ! -e again ]; do sleep 0.05; done; curl -sS http://${at}/ || echo cut off; echo done`,
  );
  for (const pid of processesWith('workers/egress'))
    if (ancestorsOf(pid).includes(daemon.pid)) process.kill(pid, 'SIGKILL');
  await dataOf(client.call('file_write', { path: 'again', content: '' }));
  const output = await whole(handle);
  expect(output).toContain('cut off\ndone\n');
  await until(async () => (await endingOf(callId)) !== undefined, WAIT_MS);
  expect(await endingOf(callId)).toMatchObject({ networkLost: true });
});

function ancestorsOf(pid: number): number[] {
  const found: number[] = [];
  for (let at = pid; at > 1; ) {
    try {
      at = Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${at}/stat`, 'utf8'))?.[1] ?? 0);
    } catch {
      break; // Ended meanwhile.
    }
    found.push(at);
  }
  return found;
}
