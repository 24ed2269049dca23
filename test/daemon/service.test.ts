/** The daemon under a service manager: sockets that were opened for it, and what it tells. Nothing here boots systemd. */
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, existsSync, lstatSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, test } from 'vitest';
import { serviceRestart } from '../../src/cli/service/installed.ts';
import { createClient } from '../../src/client/client.ts';
import { findUserDirs } from '../../src/daemon/user-dirs.ts';
import { endOf, runCli } from '../support/cli.ts';
import {
  BUILT_IN_DEFAULT,
  dataOf,
  removeTree,
  repository,
  startDaemon,
  type TestDaemon,
  temporaryDir,
  until,
} from '../support/daemon.ts';
import { begun, go, isHandingOver, UNTIL_GO, upgradable } from '../support/upgrade.ts';

const folders: string[] = [];
const children: ChildProcess[] = [];
afterEach(async () => {
  for (const it of children.splice(0)) {
    it.kill('SIGTERM');
    await endOf(it);
  }
  for (const it of folders.splice(0)) removeTree(it);
});

function folder(name: string): string {
  const it = temporaryDir(name);
  folders.push(it);
  return it;
}

/** Sockets held by systemd-socket-activate, which becomes the daemon when the first client connects. */
async function activated({ names = 'control:mcp', mode = 0o600, at = 'd.sock' } = {}) {
  const [state, workspace] = [folder('state'), folder('ws')];
  const [socket, mcpSocket] = [join(state, 'd.sock'), join(state, 'd.mcp.sock')];
  const policy = join(state, 'policy.yaml');
  writeFileSync(policy, BUILT_IN_DEFAULT, { mode: 0o600 });
  const listen = [join(state, at), mcpSocket].flatMap((it) => ['-l', it]);
  const env = ['HOME=/nonexistent', 'RINGFENCE_CONFIG=/nonexistent/config.yaml'].flatMap((it) => ['-E', it]);
  const daemon = [process.execPath, join(repository, 'bin/ringfenced.js'), '--state', state, '--socket', socket];
  const child = spawn(
    'systemd-socket-activate',
    [...listen, `--fdname=${names}`, ...env, ...daemon, '--workspace', workspace, '--policy', policy],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: process.env.PATH ?? '' } },
  );
  children.push(child);
  let log = '';
  child.stderr?.on('data', (chunk) => (log += chunk));
  await until(() => existsSync(mcpSocket) && log.includes('as 4'));
  for (const it of [join(state, at), mcpSocket]) chmodSync(it, mode);
  return { child, state, workspace, socket, mcpSocket, at: join(state, at), log: () => log };
}

/** The inodes of a process's sockets. */
const socketsOf = (pid: number): string[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
    } catch {
      return []; // Closed meanwhile.
    }
  });

/** The inodes of the listening sockets at a path. */
const listenersAt = (path: string): string[] =>
  readFileSync('/proc/net/unix', 'utf8')
    .split('\n')
    .filter((it) => it.endsWith(` ${path}`) && it.includes(' 00010000 '))
    .map((it) => it.trim().split(/ +/)[6] as string);

describe('a daemon whose sockets a service manager opened', () => {
  test('serves the client that made it start, and leaves the sockets when it ends', async () => {
    const { child, socket, mcpSocket, state, workspace } = await activated();
    {
      await using client = await createClient({ socket, workspace });
      const { stdout } = await dataOf(client.call('terminal_execute', { command: 'env' }));
      expect(stdout).toContain('PATH=');
      expect(stdout).not.toMatch(/LISTEN_|NOTIFY_SOCKET/);
    }
    const { stdout } = await runCli({ stateDir: state, socket, workspace }, ['status', '--json']);
    const { pid, listeners } = JSON.parse(stdout) as { pid: number; listeners: string[] };
    expect(pid).toBe(child.pid);
    expect(listeners).toEqual([socket, mcpSocket]);
    child.kill('SIGTERM');
    expect(await endOf(child)).toBe(0);
    expect([socket, mcpSocket].map((it) => lstatSync(it).isSocket())).toEqual([true, true]);
  });

  test('hands them over to a new daemon, and leaves them all the same', { timeout: 60_000 }, async () => {
    const { child, socket, mcpSocket, state, workspace } = await activated();
    await using client = await createClient({ socket, workspace });
    await dataOf(client.call('file_list', {}));
    const place = { stateDir: state, socket, workspace };
    const before = [socket, mcpSocket].flatMap(listenersAt);
    const { code, stdout, stderr } = await runCli(place, ['upgrade', '--json']);
    expect([code, stderr]).toEqual([0, expect.stringContaining('is ready to take over')]);
    expect(await endOf(child)).toBe(0);
    const { pid } = JSON.parse(stdout) as { pid: number };
    await dataOf(client.call('terminal_execute', { command: 'true' }));
    expect(socketsOf(pid)).toEqual(expect.arrayContaining(before));
    const { hosts } = JSON.parse((await runCli(place, ['status', '--json'])).stdout) as { hosts: { pid: number }[] };
    for (const it of hosts) expect(socketsOf(it.pid).filter((inode) => before.includes(inode))).toEqual([]);
    expect((await runCli(place, ['stop'])).code).toBe(0);
    expect([socket, mcpSocket].map((it) => lstatSync(it).isSocket())).toEqual([true, true]);
  });

  test('gives the sockets to none of its children, which could accept clients of the daemon', async () => {
    const { child, socket, mcpSocket, state, workspace } = await activated();
    await using client = await createClient({ socket, workspace });
    await dataOf(client.call('terminal_execute', { command: 'true' }));
    const ours = [socket, mcpSocket].flatMap(listenersAt);
    expect(ours).toHaveLength(2);
    expect(socketsOf(child.pid as number)).toEqual(expect.arrayContaining(ours));
    const { stdout } = await runCli({ stateDir: state, socket, workspace }, ['status', '--json']);
    const hosts = (JSON.parse(stdout) as { hosts: { pid: number }[] }).hosts.map((it) => it.pid);
    expect(hosts.length).toBeGreaterThan(0);
    for (const pid of hosts) expect(socketsOf(pid).filter((it) => ours.includes(it))).toEqual([]);
  });

  test.each([
    ['open to others', { mode: 0o666 }, 'is open to others (mode 666)'],
    ['at another path than clients look at', { at: 'other.sock' }, 'clients look for'],
    ['with an unknown name', { names: 'control:web' }, 'the names must be control and mcp'],
  ])('refuses a socket %s', async (_, options, why) => {
    const { child, at, log } = await activated(options);
    const client = createClient({ socket: at, workspace: '/' }).catch((error: Error) => error);
    expect(await endOf(child)).toBe(2);
    expect(await client).toBeInstanceOf(Error);
    expect(log()).toContain(why);
  });
});

/** What a daemon tells a service manager; each message as it came. */
async function notified(env: Record<string, string>): Promise<{ daemon: TestDaemon; messages: string[] }> {
  const path = join(folder('notify'), 'n.sock');
  const receiver = spawn('python3', [join(repository, 'test/fixtures/service/notify-socket.py'), path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.push(receiver);
  const messages: string[] = [];
  createInterface({ input: receiver.stdout }).on('line', (line) => {
    const message = JSON.parse(line) as string;
    messages.push(message);
  });
  await until(() => messages.includes('bound'));
  messages.shift();
  return { daemon: await startDaemon({ env: { NOTIFY_SOCKET: path, ...env } }), messages };
}

const keysOf = (message: string): string => message.replaceAll(/=.*/g, '').trim().replaceAll('\n', ' ');

describe('a daemon under a service manager', () => {
  test('tells when it is ready, reloads and stops', async () => {
    const { daemon, messages } = await notified({});
    {
      await using it = daemon;
      await until(() => messages.length === 1);
      expect(messages[0]).toMatch(/^READY=1\nSTATUS=confinement level [ABC]/);
      it.process.kill('SIGHUP');
      await until(() => messages.length === 3);
      expect(messages[1]).toMatch(/^RELOADING=1\nMONOTONIC_USEC=\d+\n?$/);
    }
    await until(() => messages.length === 4);
    expect(messages.map(keysOf)).toEqual(['READY STATUS', 'RELOADING MONOTONIC_USEC', 'READY', 'STOPPING']);
  });

  test('tells which process goes on before the new one says that it is ready', { timeout: 60_000 }, async () => {
    const { daemon, messages } = await notified({});
    await using _ = daemon;
    const { stdout } = await runCli(daemon, ['upgrade', '--json']);
    const { pid } = JSON.parse(stdout) as { pid: number };
    expect((await runCli(daemon, ['stop'])).code).toBe(0);
    await until(() => messages.length === 4);
    expect(messages.map(keysOf)).toEqual(['READY STATUS', 'MAINPID', 'READY STATUS', 'STOPPING']);
    expect(messages[1]?.trim()).toBe(`MAINPID=${pid}`);
  });

  test('tells the watchdog that it works', async () => {
    const { daemon, messages } = await notified({ WATCHDOG_USEC: '400000' });
    await using _ = daemon;
    await until(() => messages.filter((it) => it.startsWith('WATCHDOG=1')).length >= 2);
  });

  test('tells that it stops when `ringfence stop` ends it', async () => {
    const { daemon, messages } = await notified({});
    await using _ = daemon;
    expect((await runCli(daemon, ['stop'])).code).toBe(0);
    await until(() => messages.length === 2);
    expect(messages.map(keysOf)).toEqual(['READY STATUS', 'STOPPING']);
  });

  test('tells the watchdog nothing while its hosts hang', { timeout: 60_000 }, async () => {
    const { daemon, messages } = await notified({ WATCHDOG_USEC: '400000' });
    await using _ = daemon;
    const told = () => messages.filter((it) => it.startsWith('WATCHDOG=1')).length;
    const silences = () => daemon.log().split('the watchdog is told nothing').length - 1;
    await using client = await daemon.connect();
    const hosts = async () => ((await client.request('status', {})) as { hosts: { pid: number }[] }).hosts;
    await dataOf(client.call('file_list', {}));
    const pids = (await hosts()).map((it) => it.pid);
    for (const it of pids) process.kill(it, 'SIGSTOP');
    await until(() => silences() >= 1);
    const before = told();
    await until(() => silences() >= 4);
    expect(told()).toBe(before);
    for (const it of pids) process.kill(it, 'SIGCONT');
    await until(() => told() > before);
  });

  test('tells the watchdog nothing that is meant for another process', async () => {
    const { daemon, messages } = await notified({ WATCHDOG_USEC: '2000', WATCHDOG_PID: '1' });
    {
      await using client = await daemon.connect();
      await dataOf(client.call('file_list', {}));
    }
    await daemon[Symbol.asyncDispose]();
    await until(() => messages.some((it) => it.startsWith('STOPPING')));
    expect(messages.filter((it) => it.includes('WATCHDOG'))).toEqual([]);
  });

  test('takes a changed policy at SIGHUP, and says that a changed config.yaml waits for a restart', async () => {
    await using daemon = await startDaemon();
    writeFileSync(join(daemon.stateDir, 'config.yaml'), '{"limits": {"queueMax": 7}}');
    daemon.process.kill('SIGHUP');
    await until(() => daemon.log().includes('it takes effect when the daemon restarts'));
    writeFileSync(join(daemon.stateDir, 'config.yaml'), '{"limit": 1}');
    daemon.process.kill('SIGHUP');
    await until(() => daemon.log().includes('config.yaml is not valid'));
    await using client = await daemon.connect();
    await dataOf(client.call('file_list', {}));
  });
});

describe('service restart', () => {
  /** The service of a daemon that runs, and what systemd is told; `start` is the command line of its unit. */
  function serviceOfDaemon(daemon: TestDaemon, start: readonly string[]) {
    const told: string[] = [];
    const units = folder('units');
    writeFileSync(join(units, 'ringfence.service'), `[Service]\nExecStart=${start.join(' ')}\n`);
    const control = (args: readonly string[]) => {
      if (args[0] === 'show') return `ActiveState=active\nMainPID=${daemon.pid}\n`;
      told.push(args.join(' '));
      return '';
    };
    const systemd = { isRunning: true, control, journal: async () => 0 };
    const env = { RINGFENCE_STATE: daemon.stateDir, RINGFENCE_SOCKET: daemon.socket };
    const caller = { flags: {}, env, cwd: daemon.workspace };
    const dirs = findUserDirs({}, env);
    return { told, service: { scope: 'user' as const, user: 'me', folder: units, dirs, systemd, caller } };
  }
  const START = [process.execPath, join(repository, 'bin/ringfenced.js')];
  const pidOf = async (daemon: TestDaemon) => {
    await using client = await daemon.connect();
    return ((await client.request('status', {})) as { pid: number }).pid;
  };

  test('hands over to a new daemon where one runs, and systemd restarts nothing', { timeout: 60_000 }, async () => {
    await using daemon = await upgradable();
    const { told, service } = serviceOfDaemon(daemon, START);
    await using client = await daemon.connect();
    const running = client.call('terminal_execute', { command: UNTIL_GO });
    await begun(daemon);
    const restarted = serviceRestart({}, service);
    await until(() => isHandingOver(daemon));
    go(daemon);
    expect((await dataOf(running)).stdout).toBe('done\n');
    expect([0, 1]).toContain(await restarted.catch(() => 1)); // Below level A it says so.
    expect(told).toEqual([]);
    expect(await pidOf(daemon)).not.toBe(daemon.pid);
  });

  test.each([
    ['the unit starts another program', ['/usr/bin/other-node', '/opt/bin/ringfenced.js'], {}],
    ['--stop is given', START, { stop: true }],
  ])('lets systemd restart the service if %s', { timeout: 60_000 }, async (_, start, flags) => {
    await using daemon = await upgradable();
    const { told, service } = serviceOfDaemon(daemon, start);
    await serviceRestart(flags, service).catch(() => {}); // Below level A it fails.
    expect(told).toEqual(['restart ringfence.service']);
    expect(await pidOf(daemon)).toBe(daemon.pid);
  });
});
