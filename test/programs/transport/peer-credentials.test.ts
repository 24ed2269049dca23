import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { peerCredentials } from '../../../src/wire/transport/peer-credentials.ts';

const folder = mkdtempSync(join(tmpdir(), 'ringfence-peer-'));
const path = join(folder, 'x.sock');
const hasFfi = process.platform === 'linux' && isBuiltin('node:ffi');
let unix: Server;
let tcp: Server;

beforeAll(async () => {
  // Not read, so that our end stays open when the other one closes.
  unix = createServer({ pauseOnConnect: true }).listen(path);
  tcp = createServer().listen(0, '127.0.0.1');
  await Promise.all([once(unix, 'listening'), once(tcp, 'listening')]);
});
afterAll(() => {
  unix.close();
  tcp.close();
  rmSync(folder, { recursive: true });
});

/** A child process that connects to `to`, and our socket of that connection; disposing ends the process. */
async function connectFrom(server: Server, to: string | number) {
  const script = `require('net').connect(${JSON.stringify(to)}).on('close', () => {})`;
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const child = spawn(process.execPath, ['-e', script], { stdio: 'ignore' });
  const exited = once(child, 'exit');
  const [socket] = await accepted;
  return {
    socket,
    child,
    async [Symbol.asyncDispose]() {
      socket.destroy();
      child.kill('SIGKILL');
      await exited;
    },
  };
}

test.skipIf(!hasFfi)(
  'the process that connected is known by pid, user and group, also when it is gone (needs node:ffi)',
  async () => {
    await using peer = await connectFrom(unix, path);
    const expected = { pid: peer.child.pid, uid: process.getuid?.(), gid: process.getgid?.() };
    expect(peerCredentials(peer.socket)).toEqual(expected);
    peer.child.kill('SIGKILL');
    await once(peer.child, 'exit');
    expect(peerCredentials(peer.socket)).toEqual(expected);
  },
);

test('a TCP socket and a closed one have none', async () => {
  const { port } = tcp.address() as { port: number };
  await using peer = await connectFrom(tcp, port);
  expect(peerCredentials(peer.socket)).toBeUndefined();
  const closed = await connectFrom(unix, path);
  await closed[Symbol.asyncDispose]();
  expect(peerCredentials(closed.socket)).toBeUndefined();
});

test.each([
  ['with FFI'],
  ['without it', '--no-experimental-ffi'],
  ['where it is forbidden', '--permission', '--allow-fs-read=*', '--allow-net'],
])('the lookup throws nothing and prints no warning, %s', (_, ...flags) => {
  const module = new URL('../../../src/wire/transport/peer-credentials.ts', import.meta.url).href;
  const script = `const { peerCredentials } = await import(${JSON.stringify(module)});
      const socket = (await import('node:net')).connect(${JSON.stringify(path)});
      await new Promise((resolve) => socket.once('connect', resolve));
      console.log(typeof peerCredentials(socket));
      socket.destroy();`;
  // This process listens, and blocks for the child: the kernel accepts the connection without it.
  const args = [...flags, '--input-type=module', '-e', script];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  expect(stdout).toBe(flags.length === 0 && hasFfi ? 'object\n' : 'undefined\n');
  // Node itself warns about `--allow-net`.
  expect(stderr).not.toContain('FFI');
});
