/** Runs the programs of native/ alone: for this machine's architecture, and for arm64 under qemu if it is installed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, existsSync, mkdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NATIVE_PROGRAMS, nativeFolder, nativeProgram } from '../../../src/native-programs.ts';
import { findProgram } from '../../../src/sandbox/find-program.ts';
import { egressOf } from '../../../src/sandbox/listener-program.ts';
import { encodeSteps, type ProbeStep, readReport } from '../../../src/sandbox/proof/probe-program.ts';
import type { Arch } from '../../../src/sandbox/syscalls.ts';
import { temporaryDir } from '../../support/daemon.ts';

const QEMU = '/usr/bin/qemu-aarch64-static';
const TOKEN = '0123456789abcdef'.repeat(4);

let folder: string;
beforeAll(() => {
  folder = temporaryDir('native');
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Reads a child's descriptor until it is closed. */
async function said(child: ChildProcess, fd = 1): Promise<string> {
  let text = '';
  for await (const chunk of child.stdio[fd] as Socket) text += chunk;
  return text;
}

/** Receives descriptors like workers/egress.ts: prints each token and the listening port. */
const RECEIVER = `
  process.on('message', ({ token }, handle) => {
    const server = require('node:net').createServer((it) => it.end('from the receiver'));
    server.listen(handle, () => console.log(JSON.stringify({ token, port: server.address().port })));
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

/** The command prints its arguments, its environment, and anything that the program should have closed or removed. */
const COMMAND =
  'echo "$*"; env | grep KEPT; for it in /proc/$$/fd/3 /proc/$$/fd/4 "$PROGRAM"; do [ -e "$it" ] && echo "$it"; done';

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
  /** A copy, since the program deletes its own file. */
  const listenProgram = () => {
    mkdirSync(join(folder, arch), { recursive: true });
    const program = join(folder, arch, 'listen');
    copyFileSync(join(built, 'listen'), program);
    return program;
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

  test('listen hands a listening socket to the Node that runs, and becomes the command', async ({ skip }) => {
    if (missing !== undefined) return skip(missing);
    await using receiver = startReceiver();
    const line = fdOf(receiver.stdio[3] as Socket);
    const program = listenProgram();
    const words = [program, '3', '4', '0', '/bin/sh', '-c', COMMAND, 'sh', 'one word', 'two'];
    const child = start(words, ['ignore', 'pipe', 'pipe', line, 'pipe'], { KEPT: 'yes', PROGRAM: program });
    (child.stdio[4] as Socket).end(TOKEN);
    const [out, told] = await Promise.all([
      said(child),
      new Promise<string>((resolve) => receiver.stdout?.once('data', (it) => resolve(`${it}`))),
    ]);
    expect(out).toBe('one word two\nKEPT=yes\n');
    const { token, port } = JSON.parse(told);
    expect(token).toBe(TOKEN);
    const socket = connect(port, '127.0.0.1');
    let answer = '';
    for await (const chunk of socket) answer += chunk;
    expect(answer).toBe('from the receiver');
  });

  test('listen becomes the command also where nobody takes the socket', async ({ skip }) => {
    if (missing !== undefined) return skip(missing);
    const child = start(
      [listenProgram(), '3', '4', '0', '/bin/echo', 'ran'],
      ['ignore', 'pipe', 'pipe', 'ignore', 'pipe'],
    );
    (child.stdio[4] as Socket).end();
    expect(await said(child)).toBe('ran\n');
  });

  const run = async (steps: readonly ProbeStep[], input = encodeSteps(steps, arch)) => {
    const child = start([join(built, 'probe')], ['pipe', 'pipe', 'inherit']);
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.stdin?.on('error', () => {}).end(input);
    const chunks: Buffer[] = [];
    for await (const chunk of child.stdout as NonNullable<typeof child.stdout>) chunks.push(chunk);
    return { report: readReport(steps, Buffer.concat(chunks)), status: await ended };
  };
  const path = (text: string) => ({ data: Buffer.from(`${text}\0`) });
  const AT_FDCWD = -100;

  test('probe makes its steps one after the other and tells what came of each', async ({ skip }) => {
    if (missing !== undefined) return skip(missing);
    const { report, status } = await run([
      { as: 'file', call: 'openat', args: [AT_FDCWD, path('/proc/sys/kernel/ostype'), 0] },
      { as: 'text', call: 'read', args: [{ resultOf: 'file' }, { roomBytes: 64 }, 64] },
      { as: 'link', call: 'readlinkat', args: [AT_FDCWD, path('/proc/self/ns/pid'), { roomBytes: 64 }, 64] },
      { as: 'absent', call: 'openat', args: [AT_FDCWD, path('/no/such/file'), 0] },
      { as: 'child', child: [{ as: 'child-call', call: 'setsid', args: [] }] },
      { as: 'after', call: 'faccessat', args: [AT_FDCWD, path('/'), 0] },
    ]);
    expect(status).toBe(0);
    expect(report?.text('text')).toBe('Linux\n');
    expect(report?.text('link')).toMatch(/^pid:\[\d+\]$/);
    const results = ['absent', 'child-call', 'after'].map((it) => report?.result(it));
    expect(results).toEqual([-2, 0, 0]);
    expect(report?.result('child')).toBeGreaterThan(0);
  });

  test('probe refuses more than it has room for, and an input that is cut short', async ({ skip }) => {
    if (missing !== undefined) return skip(missing);
    const header = (...words: bigint[]) => Buffer.from(BigInt64Array.from(words).buffer);
    for (const input of [
      header(257n, 0n, 0n),
      header(0n, 65_537n, 0n),
      header(0n, 8n, 9n),
      header(1n, 0n, 0n),
      header(-1n),
    ])
      expect(await run([], input)).toEqual({ report: expect.anything(), status: 1 });
  });
});

test('the token of a command stands neither on a command line nor in an environment', () => {
  const { args, first, environment, stdio } = egressOf(TOKEN);
  expect(JSON.stringify({ args, first, environment, stdio })).not.toContain(TOKEN.slice(0, 8));
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
  const [[info]] = await Promise.all([
    once(sandbox.stdio[3] as Socket, 'data'),
    once(sandbox.stdout as Socket, 'data'),
  ]);
  const pid = JSON.parse(`${info}`)['child-pid'] as number;
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
