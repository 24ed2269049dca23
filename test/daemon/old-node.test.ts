/** On a machine with an old Node, a checkout's own Node takes over: there are two processes, and people know the first. */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { openDaemon, processesWith, repository, temporaryDir, until } from '../support/daemon.ts';

/** Makes Node report an old version. */
const OLD =
  'data:text/javascript,Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.0.0" } })';

function connects(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = createConnection(socket, () => resolve(true));
    connection.on('connect', () => connection.destroy()).on('error', () => resolve(false));
  });
}

test.each([
  ['ringfenced.js', []],
  ['ringfence.js', ['serve', '--foreground']],
])(
  'a signal to %s that an old Node runs ends the daemon, and its exit code is the answer',
  async (bin, words) => {
    const home = temporaryDir('old-node');
    const socket = join(home, 'd.sock');
    const workspace = join(home, 'ws');
    mkdirSync(workspace);
    const flags = ['--socket', socket, '--state', join(home, 'state'), '--workspace', workspace];
    const child = spawn(process.execPath, ['--import', OLD, join(repository, 'bin', bin), ...words, ...flags], {
      stdio: 'ignore',
      env: { PATH: process.env.PATH ?? '', HOME: home },
    });
    const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
    await until(() => existsSync(socket), 20_000);
    await until(() => connects(socket));
    child.kill('SIGTERM');
    const code = await ended;
    const isLeft = await connects(socket);
    rmSync(home, { recursive: true, force: true });
    expect({ code, isLeft }).toEqual({ code: 0, isLeft: false });
  },
  60_000,
);

/** Stands for a service manager: listens at a path, and becomes the daemon's first process with that socket. */
const ACTIVATES = `
import os, socket, sys
it = socket.socket(socket.AF_UNIX); it.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o600); it.listen(64)
os.dup2(it.fileno(), 50); os.dup2(50, 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')
os.execv(sys.argv[2], sys.argv[2:])
`;

test('a socket of a service manager reaches the daemon behind an old Node, which listens at it', async () => {
  const home = temporaryDir('activated');
  const socket = join(home, 'd.sock');
  mkdirSync(join(home, 'ws'));
  const flags = ['--socket', socket, '--state', join(home, 'state'), '--workspace', join(home, 'ws')];
  const daemon = [process.execPath, '--import', OLD, join(repository, 'bin/ringfenced.js'), ...flags];
  const child = spawn('/usr/bin/python3', ['-c', ACTIVATES, socket, ...daemon], {
    stdio: 'ignore',
    env: { PATH: process.env.PATH ?? '', HOME: home },
  });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  await until(() => existsSync(socket), 20_000);
  const { ino } = statSync(socket);
  const client = await createClient({ socket, workspace: join(home, 'ws') });
  const hello = client.hello;
  await client[Symbol.asyncDispose]();
  child.kill('SIGTERM');
  await ended;
  // The service manager's socket stays; a daemon that had not got it would have put its own there.
  expect({ isOpen: hello !== undefined, ino: statSync(socket).ino }).toEqual({ isOpen: true, ino });
  rmSync(home, { recursive: true, force: true });
}, 60_000);

describe('kill -9 of the first process', () => {
  test('kill -9 of `ringfence call` ends the call that waits for a yes: a later yes changes nothing', async () => {
    await using daemon = await openDaemon({ policy: 'tiers:\n  write: { decision: ask }\n' });
    const { socket, stateDir, workspace } = daemon;
    const file = join(workspace, 'precious');
    writeFileSync(file, 'still here');
    await using operator = await daemon.connect({ role: 'operator' });
    // A subscribed operator, so that the call waits.
    const watching = operator.notifications(['approvals']);
    const asked = watching.next();
    const child = spawn(
      process.execPath,
      [
        ...['--import', OLD, join(repository, 'bin/ringfence.js'), 'call', 'file_delete', 'path=precious'],
        ...['--socket', socket, '--state', stateDir],
      ],
      { cwd: workspace, stdio: 'ignore' },
    );
    const { approvalId } = ((await asked).value as { params: { approval: { approvalId: string } } }).params.approval;
    child.kill('SIGKILL');
    await until(() => processesWith('path=precious').length === 0);
    await until(async () => !JSON.stringify(await operator.request('approvals.list', {})).includes(approvalId));
    await expect(operator.request('approvals.resolve', { approvalId, decision: 'approve' })).rejects.toThrow(
      new RegExp(approvalId),
    );
    expect(readFileSync(file, 'utf8')).toBe('still here');
    await watching.return(undefined);
  }, 60_000);

  test.each([
    ['on an old Node', ['--import', OLD]],
    ['on a new one', []],
  ])(
    'kill -9 of `ringfence serve` ends the daemon, %s',
    async (_, nodeFlags) => {
      const home = temporaryDir('killed-serve');
      const socket = join(home, 'd.sock');
      mkdirSync(join(home, 'ws'));
      const flags = ['--socket', socket, '--state', join(home, 'state'), '--workspace', join(home, 'ws')];
      const child = spawn(process.execPath, [...nodeFlags, join(repository, 'bin/ringfence.js'), 'serve', ...flags], {
        stdio: 'ignore',
        env: { PATH: process.env.PATH ?? '', HOME: home },
      });
      await until(() => existsSync(socket), 20_000);
      await until(() => connects(socket));
      child.kill('SIGKILL');
      await until(() => processesWith(socket).length === 0);
      expect(await connects(socket)).toBe(false);
      rmSync(home, { recursive: true, force: true });
    },
    60_000,
  );
});
