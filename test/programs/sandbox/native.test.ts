/** Runs the programs of native/ alone: for this machine's architecture, and for arm64 under qemu if it is installed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, readlinkSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { NATIVE_PROGRAMS, nativeFolder, nativeProgram } from '../../../src/base/native-programs.ts';
import { findProgram } from '../../../src/sandbox/find-program.ts';
import { ProbeReport } from '../../../src/sandbox/proof/probes.ts';
import type { Arch } from '../../../src/sandbox/syscalls.ts';
import { processesWith, until } from '../../support/daemon.ts';

const QEMU = '/usr/bin/qemu-aarch64-static';
const TOKEN = '0123456789abcdef'.repeat(4);

/** Reads a child's descriptor until it is closed. */
async function said(child: ChildProcess, fd = 1): Promise<string> {
  let text = '';
  for await (const chunk of child.stdio[fd] as Socket) text += chunk;
  return text;
}

/** Receives messages like workers/egress.ts: prints the first, after it has answered a connection if a socket came with it. */
const RECEIVER = `
  process.on('message', ({ token, name }, handle) => {
    if (!handle) return console.log(JSON.stringify({ token, name })), process.exit();
    const server = require('node:net').createServer((it) => {
      it.end('from the receiver');
      console.log(JSON.stringify({ token, port: server.address().port }));
      it.on('close', () => process.exit());
    });
    server.listen(handle);
  });`;

function startReceiver(): ChildProcess & AsyncDisposable {
  const child = spawn(process.execPath, ['-e', RECEIVER], {
    stdio: ['ignore', 'pipe', 'inherit', 'pipe'],
    env: { NODE_CHANNEL_FD: '3' },
  });
  const line = child.stdio[3] as Socket;
  line.on('error', () => {}).resume();
  const ended = new Promise((resolve) => child.once('exit', resolve));
  return Object.assign(child, {
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  });
}

const fdOf = (line: Socket): number => (line as unknown as { _handle: { fd: number } })._handle.fd;

/** The command prints its arguments, its environment, anything that the program should have closed, and what the proxy answers. */
const CONNECTING =
  'echo "$*"; env | grep KEPT; for it in /proc/$$/fd/3 /proc/$$/fd/4; do [ -e "$it" ] && echo "$it"; done; ' +
  'exec perl -MIO::Socket::INET -e \'print IO::Socket::INET->new("127.0.0.1:3128")->getline, "\\n"\'';

/** Sends what is no query, then a query for a name that would end a string in JSON, and prints how it is answered. */
const ASKING =
  'my $it = IO::Socket::INET->new(PeerAddr => "127.0.0.1:53", Proto => "udp"); $it->send("x"); ' +
  '$it->send(pack "nnnnnn C/a C/a x nn", 7, 0x100, 1, 0, 0, 0, "Some\\"Name", "example", 1, 1); ' +
  '$it->recv(my $answer, 512); my ($id, $flags) = unpack "nn", $answer; ' +
  'print "refused" if $id == 7 && ($flags & 0x800f) == 0x8005;';

/** Connects twice to a port where nothing listens, to another address of the loopback, and to a service; then to two more ports. */
const REFUSED =
  'for it in 1/7 1/7 2/9; do (exec 3<>/dev/tcp/127.0.0.$it); done; (exec 3<>/dev/tcp/127.0.0.1/6379; cat <&3); ' +
  '(exec 3<>/dev/tcp/127.0.0.1/65535); exec 3<>/dev/tcp/127.0.0.1/1';

const ARCHES = (['x64', 'arm64'] as const).map((arch): [Arch, string[]] => [arch, arch === process.arch ? [] : [QEMU]]);

describe.each(ARCHES)('built for %s', (arch, launcher) => {
  const built = join(nativeFolder, arch);
  const missing = existsSync(built)
    ? launcher.filter((it) => !existsSync(it)).map((it) => `${it} is not installed`)[0]
    : `${built} was not built: its compiler is not installed`;

  /** Starts a program with arguments in the way this machine can run it. */
  const start = (
    words: readonly string[],
    stdio: (number | 'pipe' | 'ignore' | 'inherit')[],
    env: Record<string, string> = {},
  ) => {
    const [command = '', ...rest] = [...launcher, ...words];
    return spawn(command, rest, { stdio, env: { PATH: '/usr/bin:/bin', ...env } });
  };
  test('needs nothing of the machine and is small', ({ skip }) => {
    if (!existsSync(built)) return skip(missing);
    for (const name of NATIVE_PROGRAMS) {
      const file = readFileSync(join(built, name));
      expect(file.length).toBeLessThan(8192);
      const [PT_DYNAMIC, PT_INTERP] = [2, 3];
      const headers = Array.from({ length: file.readUInt16LE(56) }, (_, i) => file.readUInt32LE(64 + 56 * i));
      expect(headers.filter((it) => it === PT_DYNAMIC || it === PT_INTERP)).toEqual([]);
    }
  });

  const noNetwork = missing ?? (launcher.length > 0 ? 'qemu makes no namespaces' : undefined);

  test('door hands a listening socket to the Node that runs at the first connection', async ({ skip }) => {
    if (noNetwork !== undefined) return skip(noNetwork);
    await using receiver = startReceiver();
    const line = fdOf(receiver.stdio[3] as Socket);
    const words = [
      join(built, 'door'),
      '3',
      '4',
      '-',
      '/bin/sh',
      '--unshare-net',
      '-c',
      CONNECTING,
      'sh',
      'one word',
      'two',
    ];
    const child = start(words, ['ignore', 'pipe', 'pipe', line, 'pipe'], { KEPT: 'yes' });
    (child.stdio[4] as Socket).end(TOKEN);
    const [out, told] = await Promise.all([said(child), said(receiver)]);
    expect(out).toBe('one word two\nKEPT=yes\nfrom the receiver\n');
    expect(told).toBe(`${JSON.stringify({ token: TOKEN, port: 3128 })}\n`);
  });

  test('door refuses a name at once and says which, and ends with its program', async ({ skip }) => {
    if (noNetwork !== undefined) return skip(noNetwork);
    await using receiver = startReceiver();
    const line = fdOf(receiver.stdio[3] as Socket);
    const words = [
      join(built, 'door'),
      '3',
      '4',
      '-',
      '/usr/bin/perl',
      '--unshare-net',
      '-MIO::Socket::INET',
      '-e',
      ASKING,
    ];
    const child = start(words, ['ignore', 'pipe', 'pipe', line, 'pipe']);
    (child.stdio[4] as Socket).end(TOKEN);
    const [out, told] = await Promise.all([said(child), said(receiver)]);
    expect(out).toBe('refused');
    expect(told).toBe(`${JSON.stringify({ token: TOKEN, name: 'some?name.example' })}\n`);
    await until(() => processesWith(join(built, 'door')).length === 0);
  });

  test('door hands over the socket of a service, and writes each port of its loopback where nothing listens', async ({
    skip,
  }) => {
    if (noNetwork !== undefined) return skip(noNetwork);
    await using receiver = startReceiver();
    const line = fdOf(receiver.stdio[3] as Socket);
    const words = [join(built, 'door'), '3', '4', '5432,6379', '/bin/bash', '--unshare-net', '-c', REFUSED];
    const child = start(words, ['ignore', 'pipe', 'ignore', line, 'pipe']);
    (child.stdio[4] as Socket).end(TOKEN);
    const [out, told, ports] = await Promise.all([said(child), said(receiver), said(child, 4)]);
    expect(out).toBe('from the receiver');
    expect(told).toBe(`${JSON.stringify({ token: TOKEN, port: 6379 })}\n`);
    // The last connection is refused as the program ends.
    expect(ports).toBe('7\n65535\n1\n');
    await until(() => processesWith(join(built, 'door')).length === 0);
  });

  describe('enter', () => {
    const entered = async (words: readonly string[], env: Record<string, string> = {}) => {
      const child = start([join(built, 'enter'), ...words], ['ignore', 'pipe', 'pipe'], env);
      const ended = new Promise((resolve) => child.once('exit', resolve));
      const [out, err] = await Promise.all([said(child), said(child, 2)]);
      return { out, err, status: await ended };
    };

    test('limits can be lowered and not raised by the program that follows', async ({ skip }) => {
      if (missing !== undefined) return skip(missing);
      const line =
        'ulimit -n; ulimit -f; ulimit -t; ulimit -Ht; ulimit -v; ulimit -d; ulimit -n 999 2>/dev/null || echo kept';
      const words = ['1048576', '123', '50', '-', '67108864', '-', '-', '-', 'bash', '-c', line];
      // qemu sets no limit of data for the machine that it stands for.
      const data = launcher.length > 0 ? 'unlimited' : '65536';
      const out = `123\n1024\n50\n51\nunlimited\n${data}\nkept\n`;
      expect(await entered(words)).toMatchObject({ out, status: 0 });
    });

    test('a program that no folder of PATH holds is 127, and one that is no program 126', async ({ skip }) => {
      if (missing !== undefined) return skip(missing);
      const none = Array.from({ length: 8 }, () => '-');
      const env = { PATH: '/no/such::/usr/bin:relative' };
      expect(await entered([...none, 'no-such'], env)).toMatchObject({
        err: 'no-such: not found in the image\n',
        status: 127,
      });
      expect(await entered([...none, '/etc/passwd'], env)).toMatchObject({ status: 126 });
      expect(await entered([...none, 'x'.repeat(9_000)], env)).toMatchObject({ status: 126 });
      expect(await entered(none)).toMatchObject({ status: 2 });
    });

    test('nothing runs without the line of its gate', async ({ skip }) => {
      if (missing !== undefined) return skip(missing);
      for (const [line, status] of [
        ['\n', 0],
        ['', 1],
      ] as const) {
        const words = [join(built, 'enter'), '-', '-', '-', '-', '-', '-', '4', '3', 'echo', 'ran'];
        const child = start(words, ['ignore', 'pipe', 'inherit', 'pipe', 'pipe']);
        const ended = new Promise((resolve) => child.once('exit', resolve));
        (child.stdio[3] as Socket).on('error', () => {}).end(line);
        const [out, told] = await Promise.all([said(child), said(child, 4)]);
        expect([told, out, await ended]).toEqual(['\n', status === 0 ? 'ran\n' : '', status]);
      }
    });
  });

  const run = async (input: string) => {
    const child = start([join(built, 'probe')], ['pipe', 'pipe', 'inherit']);
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.stdin?.on('error', () => {}).end(input);
    return { told: await said(child), status: await ended };
  };

  test('probe makes its attempts one after the other and tells what came of each', async ({ skip }) => {
    if (missing !== undefined) return skip(missing);
    const { told, status } = await run(`/no/such/file\0${process.pid}\0${9}\0`);
    expect(status).toBe(0);
    expect(told).toMatch(/\nend\n$/);
    const report = new ProbeReport(told);
    expect(report.text('status')).toMatch(/^Name:/);
    expect(report.text('pid-ns')).toMatch(/^pid:\[\d+\]$/);
    expect(report.text('environ-daemon')).toBe(readFileSync('/proc/self/environ', 'utf8').slice(0, 8192));
    expect(['read-outside', 'write-outside', 'signal-daemon'].map((it) => report.result(it))).toEqual([-2, -2, 0]);
    expect(report.result('survivor')).toBeGreaterThan(0);
    process.kill(report.result('survivor'), 'SIGKILL');
  });

  test('probe makes no attempt for an input that is cut short or too long', async ({ skip }) => {
    if (missing !== undefined) return skip(missing);
    for (const input of ['', '/a', '/a\0', '/a\0 1\0 2', `${'x'.repeat(8192)}\0 1\0 2\0`])
      expect(await run(input)).toEqual({ told: '', status: 1 });
  });
});

const UP = ['sh', '-c', 'echo up; exec sleep 300'];

/** A sandbox as commands have it: its processes are in a user namespace below the one that owns its network. */
const bwrap = findProgram('bwrap') ?? '';
test.skipIf(bwrap === '')('join-net enters the network of a sandbox, and keeps everything else', async () => {
  const words = [
    '--unshare-user',
    '--unshare-net',
    '--unshare-pid',
    '--disable-userns',
    '--uid',
    '1000',
    '--die-with-parent',
  ];
  const system = ['--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc'];
  const stdio = ['ignore', 'pipe', 'inherit'] as const;
  const sandbox = spawn(bwrap, [...words, ...system, '--info-fd', '3', ...UP], { stdio: [...stdio, 'pipe'] });
  const ended = once(sandbox, 'exit');
  // Bubblewrap writes its notice in several pieces, and closes the descriptor behind them.
  const [info] = await Promise.all([said(sandbox, 3), once(sandbox.stdout as Socket, 'data')]);
  const pid = (JSON.parse(info) as { 'child-pid': number })['child-pid'];
  try {
    const spaces = ['net', 'mnt', 'pid'].map((it) => `/proc/self/ns/${it}`);
    const child = spawn(nativeProgram('join-net'), [`${pid}`, '/usr/bin/readlink', ...spaces], { stdio: [...stdio] });
    const [net, mnt, pids] = (await said(child)).trim().split('\n');
    expect(net).toBe(readlinkSync(`/proc/${pid}/ns/net`));
    expect(net).not.toBe(readlinkSync('/proc/self/ns/net'));
    expect([mnt, pids]).toEqual(['mnt', 'pid'].map((it) => readlinkSync(`/proc/self/ns/${it}`)));
  } finally {
    // Its init: bubblewrap alone may leave that behind.
    process.kill(pid, 'SIGKILL');
    await ended;
  }
});

test.each([
  ['no such process', '999999999'],
  ['no number', 'x/../..'],
])('join-net runs nothing for %s', async (_, pid) => {
  const child = spawn(nativeProgram('join-net'), [pid, '/bin/echo', 'ran'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  expect(await said(child)).toBe('');
  expect(await ended).toEqual([126, null]);
});
