/** Several users of one machine, each with a daemon and a socket of their own: the kernel decides who reaches which. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { canServeOthers, startDaemon, type TestDaemon } from '../support/daemon.ts';

/** What `connect` gives a process of a user. */
function connectAs(uid: number, path: string): string {
  const script = `require('node:net').connect(${JSON.stringify(path)})
    .on('connect', function () { console.log('connected'); this.destroy(); })
    .on('error', ({ code }) => console.log(code));`;
  return spawnSync(process.execPath, ['-e', script], { uid, gid: uid, encoding: 'utf8', cwd: '/' }).stdout.trim();
}

const mcpOf = ({ socket }: TestDaemon) => socket.replace(/\.sock$/, '.mcp.sock');

test.runIf(canServeOthers)(
  'a user reaches the sockets of their own daemon and of no other, even where the folder is open',
  async () => {
    const [anna, ben] = [12_345, 12_346];
    await using annas = await startDaemon({ owner: { uid: anna, gid: anna } });
    await using bens = await startDaemon({ owner: { uid: ben, gid: ben } });
    for (const daemon of [annas, bens]) {
      expect(existsSync(daemon.socket)).toBe(true);
      // As systemd's folder is before the service starts.
      chmodSync(daemon.stateDir, 0o755);
    }
    for (const path of [annas.socket, mcpOf(annas)]) {
      expect(connectAs(anna, path)).toBe('connected');
      expect(connectAs(ben, path)).toBe('EACCES');
    }
    expect(connectAs(ben, bens.socket)).toBe('connected');
    expect(connectAs(anna, bens.socket)).toBe('EACCES');
  },
  60_000,
);
