/** On a machine whose own Node is too old, a checkout's takes over: two processes, of which people know the first. */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repository, temporaryDir, until } from '../support/daemon.ts';

/** Makes a Node say that it is an old one. */
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
