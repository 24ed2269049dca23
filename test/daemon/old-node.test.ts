/** `bin/ringfence` and `bin/ringfenced` on a machine whose own Node is old: they become the Node that the package brings. */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createClient } from '../../src/client/client.ts';
import { openDaemon, processesWith, repository, temporaryDir, until } from '../support/daemon.ts';

/** A folder for PATH whose `node` must not be started. */
function oldNodeIn(home: string): string {
  const bin = join(home, 'old-bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'node'), '#!/bin/sh\necho old >>"$HOME/old-node-ran"\nexit 1\n', { mode: 0o755 });
  return `${bin}:/usr/bin:/bin`;
}

function connects(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = createConnection(socket, () => resolve(true));
    connection.on('connect', () => connection.destroy()).on('error', () => resolve(false));
  });
}

function makePlace(name: string) {
  const home = temporaryDir(name);
  const socket = join(home, 'd.sock');
  mkdirSync(join(home, 'ws'));
  const flags = ['--socket', socket, '--state', join(home, 'state'), '--workspace', join(home, 'ws')];
  return { home, socket, flags, env: { PATH: oldNodeIn(home), HOME: home } };
}

test.each([
  ['ringfenced', []],
  ['ringfence', ['serve', '--foreground']],
])(
  'a signal to %s ends the daemon, its exit code is the answer, and the old Node is never started',
  async (bin, words) => {
    const { home, socket, flags, env } = makePlace('old-node');
    const child = spawn(join(repository, 'bin', bin), [...words, ...flags], { stdio: 'ignore', env });
    const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
    await until(() => existsSync(socket), 20_000);
    await until(() => connects(socket));
    expect(readFileSync(`/proc/${child.pid}/cmdline`, 'utf8')).toContain('node_modules/node-linux-');
    child.kill('SIGTERM');
    const code = await ended;
    const isLeft = await connects(socket);
    const hasOldRun = existsSync(join(home, 'old-node-ran'));
    rmSync(home, { recursive: true, force: true });
    expect({ code, isLeft, hasOldRun }).toEqual({ code: 0, isLeft: false, hasOldRun: false });
  },
  60_000,
);

/** Stands for a service manager: listens at a path, and becomes the daemon's process with that socket. */
const ACTIVATES = `
import os, socket, sys
it = socket.socket(socket.AF_UNIX); it.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o600); it.listen(64)
os.dup2(it.fileno(), 50); os.dup2(50, 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')
os.execv(sys.argv[2], sys.argv[2:])
`;

test('a socket of a service manager passes through the launcher to the daemon, which listens at it', async () => {
  const { home, socket, flags, env } = makePlace('activated');
  const daemon = [join(repository, 'bin/ringfenced'), ...flags];
  const child = spawn('/usr/bin/python3', ['-c', ACTIVATES, socket, ...daemon], { stdio: 'ignore', env });
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

test('kill -9 of `ringfence call` ends the call that waits for a yes: a later yes changes nothing', async () => {
  await using daemon = await openDaemon({ policy: 'tiers:\n  write: { decision: ask }\n' });
  const { socket, stateDir, workspace } = daemon;
  const file = join(workspace, 'precious');
  writeFileSync(file, 'still here');
  await using operator = await daemon.connect({ role: 'operator' });
  // A subscribed operator, so that the call waits.
  const watching = operator.notifications(['approvals']);
  const asked = watching.next();
  const words = ['call', 'file_delete', 'path=precious', '--socket', socket, '--state', stateDir];
  const child = spawn(join(repository, 'bin/ringfence'), words, { cwd: workspace, stdio: 'ignore' });
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

test('kill -9 of `ringfence serve` ends the daemon', async () => {
  const { home, socket, flags, env } = makePlace('killed-serve');
  const child = spawn(join(repository, 'bin/ringfence'), ['serve', ...flags], { stdio: 'ignore', env });
  await until(() => existsSync(socket), 20_000);
  await until(() => connects(socket));
  child.kill('SIGKILL');
  await until(() => processesWith(socket).length === 0);
  await until(async () => !(await connects(socket)));
  rmSync(home, { recursive: true, force: true });
}, 60_000);
