/** The log of a background daemon: endless new sessions do not fill the disk. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { ringfence, temporaryDir } from '../support/daemon.ts';
import { RawPeer } from '../support/raw-peer.ts';

const home = temporaryDir('log');
const state = join(home, 'state');
const workspace = join(home, 'ws');
const run = (...args: string[]) =>
  spawnSync(process.execPath, [ringfence, ...args, '--state', state], {
    cwd: workspace,
    env: { PATH: process.env.PATH ?? '', HOME: home, RINGFENCE_CONFIG: join(home, 'config.yaml') },
    encoding: 'utf8',
  });
afterAll(() => {
  run('stop');
  rmSync(home, { recursive: true, force: true });
});

test('the log stays below its bound, and what was last in it stands in the one before', async () => {
  mkdirSync(workspace);
  writeFileSync(join(home, 'config.yaml'), 'limits: { daemonLogBytesMax: 8192 }\n');
  expect(run('serve', '--detach', '--workspace', workspace)).toMatchObject({ status: 0 });
  const log = join(state, 'daemon.log');
  for (let opened = 0; opened < 60; opened++) {
    const peer = new RawPeer(join(state, 'ringfence.sock'));
    await peer.hello({ client: { name: `session-${opened}`, version: '1' } });
    peer.socket.destroy();
    expect(statSync(log).size).toBeLessThanOrEqual(8192);
  }
  expect(statSync(`${log}.1`).size).toBeLessThanOrEqual(8192);
  expect(statSync(`${log}.1`).mode & 0o777).toBe(0o600);
  const texts = readFileSync(`${log}.1`, 'utf8') + readFileSync(log, 'utf8');
  const told = [...texts.matchAll(/"client":"session-(\d+) 1"/g)].map((it) => Number(it[1]));
  expect(told.at(-1)).toBe(59);
  expect(told).toEqual(told.map((_, at) => 60 - told.length + at)); // No gaps.
  for (const line of texts.trim().split('\n')) expect(() => JSON.parse(line), line).not.toThrow();
}, 60_000);
