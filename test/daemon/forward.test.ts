/** Ports of commands in the background: told, opened for a person by `ringfence forward`, and closed in time. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import {
  dataOf,
  type OpenDaemon,
  openDaemon,
  processesWith,
  ringfence,
  startDaemon,
  until,
} from '../support/daemon.ts';

const WAIT_MS = 20_000;
const PORT = 8123;

const serving = (host: string) =>
  `node -e 'require("http").createServer((q, s) => s.end("served " + q.url)).listen(${PORT}, "${host}", () => console.log("up"))'`;

async function startServer(client: Client, host = '127.0.0.1'): Promise<{ handle: string; callId: string }> {
  const started = await client.call('terminal_execute', { command: serving(host), background: true });
  const { handle } = await dataOf(Promise.resolve(started));
  await dataOf(client.call('terminal_output', { handle: handle as string, waitMs: WAIT_MS }));
  return { handle: handle as string, callId: started.callId };
}

/** `ringfence forward`, and what it has printed. */
function forwarding(daemon: OpenDaemon, ...words: string[]) {
  const child: ChildProcess = spawn(process.execPath, [ringfence, 'forward', ...words, '--socket', daemon.socket], {
    env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent', XDG_STATE_HOME: daemon.stateDir },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = { text: '' };
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (said.text += chunk));
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  return {
    said,
    ended,
    child,
    url: async () => {
      await until(() => /http:\S+/.test(said.text) || child.exitCode !== null, WAIT_MS);
      return /http:\S+/.exec(said.text)?.[0] ?? said.text;
    },
  };
}

const relays = () => processesWith('terminals/port-relay');

describe('a port of a server in the background', () => {
  let daemon: OpenDaemon;
  let client: Client;
  beforeAll(async () => {
    daemon = await openDaemon();
    client = await daemon.connect();
  });
  afterAll(async () => {
    await client[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });

  test.each(['127.0.0.1', '::1', '0.0.0.0'])(
    'a port at %s is listed by ps, opened, and closed with the command',
    async (host) => {
      const { handle, callId } = await startServer(client, host);
      await using operator = await daemon.connect({ role: 'operator' });
      const { commands } = (await operator.request('background.list', {})) as { commands: object[] };
      expect(commands).toContainEqual(
        expect.objectContaining({ handle, callId, ports: [PORT], exited: false, detached: false, network: false }),
      );
      const person = forwarding(daemon, callId, `${PORT}`);
      const url = await person.url();
      expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
      for (const path of ['/one', '/two']) expect(await (await fetch(`${url}${path}`)).text()).toBe(`served ${path}`);
      expect(relays()).toHaveLength(1);
      await dataOf(client.call('terminal_kill', { handle }));
      expect(await person.ended).toBe(0);
      expect(person.said.text).toContain('the port is closed: the command ended');
      await expect(fetch(url)).rejects.toThrow('fetch failed');
      await until(() => relays().length === 0, WAIT_MS);
      const folders = readdirSync(join(daemon.stateDir, 'previews'), { recursive: true, encoding: 'utf8' });
      expect(folders.filter((it) => it.endsWith('.sock'))).toEqual([]);
    },
  );

  test('a forwarded port is closed by Ctrl-C or by the end of its session, and both ends are on record', async () => {
    const { handle, callId } = await startServer(client);
    const person = forwarding(daemon, handle, `${PORT}`);
    expect(await (await fetch(await person.url())).text()).toBe('served /');
    person.child.kill('SIGINT');
    await person.ended;
    await until(() => relays().length === 0, WAIT_MS);

    const own = await daemon.connect();
    const other = await startServer(own);
    const second = forwarding(daemon, other.handle, `${PORT}`);
    await second.url();
    await own[Symbol.asyncDispose]();
    expect(await second.ended).toBe(0);
    await until(() => relays().length === 0, WAIT_MS);

    await using operator = await daemon.connect({ role: 'operator' });
    const { entries } = (await operator.request('audit.query', { callId, kind: 'session' })) as { entries: object[] };
    expect(entries).toContainEqual(
      expect.objectContaining({ detail: expect.objectContaining({ event: 'forwarded', handle, port: PORT }) }),
    );
    expect(entries).toContainEqual(
      expect.objectContaining({ detail: expect.objectContaining({ event: 'forward-ended', port: PORT }) }),
    );
    await dataOf(client.call('terminal_kill', { handle }));
  });

  test('takes the local port that was asked for, and says that nothing listens yet', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => taken.once('listening', resolve));
    const { port } = taken.address() as AddressInfo;
    const { handle } = await dataOf(client.call('terminal_execute', { command: 'sleep 300', background: true }));
    const refused = forwarding(daemon, handle as string, '9', '--port', `${port}`);
    expect(await refused.ended).toBe(1);
    expect(refused.said.text).toContain(`127.0.0.1:${port} is not free`);
    await new Promise((resolve) => taken.close(resolve));
    const person = forwarding(daemon, handle as string, '9', '--port', `${port}`);
    expect(await person.url()).toBe(`http://127.0.0.1:${port}`);
    await until(() => person.said.text.includes('nothing listens at 9 yet'), WAIT_MS);
    await expect(fetch(await person.url())).rejects.toThrow('fetch failed');
    person.child.kill('SIGINT');
    await person.ended;
    await dataOf(client.call('terminal_kill', { handle: handle as string }));
  });

  test('forwarding for an unknown command, or of an invalid port, is refused in words', async () => {
    const none = forwarding(daemon, '0'.repeat(8), `${PORT}`);
    expect(await none.ended).not.toBe(0);
    expect(none.said.text).toContain('no command in the background is running');
    const bad = forwarding(daemon, '0'.repeat(8), '70000');
    expect(await bad.ended).toBe(2);
  });
});

test('an agent opens no port and lists none of others', async () => {
  await using daemon = await openDaemon();
  await using client = await daemon.connect();
  const { handle } = await dataOf(client.call('terminal_execute', { command: 'sleep 300', background: true }));
  for (const [method, params] of [
    ['forward.open', { callId: handle, port: PORT }],
    ['forward.wait', { forwardId: 'x' }],
    ['background.list', {}],
  ] as const)
    await expect(client.request(method, params)).rejects.toMatchObject({ data: { code: 'FORBIDDEN' } });
  expect(relays()).toEqual([]);
});

test('the policy can deny it, and the number of open ports has a bound', async () => {
  const policy = 'tiers:\n  execute: { decision: allow, forward: deny }\n';
  await using strict = await openDaemon({ policy });
  await using agent = await strict.connect();
  const { handle } = await dataOf(agent.call('terminal_execute', { command: 'sleep 300', background: true }));
  await using operator = await strict.connect({ role: 'operator' });
  await expect(operator.request('forward.open', { callId: handle, port: PORT })).rejects.toMatchObject({
    data: { code: 'FORBIDDEN' },
    message: expect.stringContaining('tiers.execute.forward'),
  });

  await using daemon = await openDaemon({ limits: { forwardsMax: 1 } });
  await using client = await daemon.connect();
  const other = await dataOf(client.call('terminal_execute', { command: 'sleep 300', background: true }));
  await using person = await daemon.connect({ role: 'operator' });
  await person.request('forward.open', { callId: other.handle, port: 1 });
  await expect(person.request('forward.open', { callId: other.handle, port: 2 })).rejects.toMatchObject({
    data: { code: 'OVERLOADED' },
  });
});

test('more connections than the bound are closed, and those that are open go on', async () => {
  await using daemon = await openDaemon({ limits: { forwardConnectionsMax: 2 } });
  await using client = await daemon.connect();
  const { handle } = await startServer(client);
  const person = forwarding(daemon, handle, `${PORT}`);
  const url = await person.url();
  const { hostname, port } = new URL(url);
  const { connect } = await import('node:net');
  const open = [1, 2].map(() => connect(Number(port), hostname));
  await Promise.all(open.map((it) => new Promise((resolve) => it.once('connect', resolve))));
  for (const it of open) it.write('GET /x HTTP/1.1\r\nhost: x\r\n\r\n');
  await Promise.all(open.map((it) => new Promise((resolve) => it.once('data', resolve))));
  await expect(fetch(url)).rejects.toThrow('fetch failed');
  for (const it of open) it.destroy();
  await until(
    () =>
      fetch(url).then(
        (it) => it.ok,
        () => false,
      ),
    WAIT_MS,
  );
  person.child.kill('SIGINT');
  await person.ended;
});

test('nothing of it is left when the daemon is killed', async () => {
  const daemon = await startDaemon();
  const client = await daemon.connect();
  const { handle } = await startServer(client);
  const person = forwarding(daemon, handle, `${PORT}`);
  await person.url();
  daemon.process.kill('SIGKILL');
  await daemon.ended;
  expect(await person.ended).not.toBe(0);
  await until(() => relays().length === 0, WAIT_MS);
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  expect(existsSync(daemon.stateDir)).toBe(false);
});

test('a command that may not connect does not see the relay, and none of its files', async () => {
  await using daemon = await openDaemon();
  await using client = await daemon.connect();
  const { handle } = await startServer(client);
  const person = forwarding(daemon, handle, `${PORT}`);
  await person.url();
  const { stdout } = await dataOf(
    client.call('terminal_execute', {
      command: 'find / -name "*.soc[k]" 2>/dev/null; cat /proc/[0-9]*/cmdline | tr "\\0" " "',
    }),
  );
  expect(stdout).not.toMatch(/\.sock|port-relay/);
  expect(stdout).toContain('bwrap');
  person.child.kill('SIGINT');
  await person.ended;
});
