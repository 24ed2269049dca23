/** The faults of a soak, made one after another. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { RawPeer } from '../../test/support/raw-peer.ts';
import type { SoakArena } from './arena.ts';

export interface Fault {
  readonly name: string;
  /** Why this machine can't make the fault. */
  readonly missing?: (arena: SoakArena) => string | undefined;
  readonly run: (arena: SoakArena, turn: number) => Promise<void>;
}

const LASTS_MS = 1500;
const MiB = 1024 * 1024;
const DISK_MB_MAX = 1024;

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // ESRCH: the process has ended.
  }
}

/** Three commands that ask for more memory than commands have, on a connection of their own. */
async function eatMemory({ daemon }: SoakArena): Promise<void> {
  await using client = await daemon.connect();
  const command = `perl -e '$x = "x" x (2 ** 34); sleep 1'`;
  const signal = AbortSignal.timeout(2 * LASTS_MS);
  await Promise.all(Array.from({ length: 3 }, () => client.call('terminal_execute', { command }, { signal })));
}

async function readNothing(arena: SoakArena): Promise<void> {
  const peer = new RawPeer(arena.daemon.socket);
  await peer.hello({ workspace: arena.workspace });
  const loud = { command: `head -c ${4 * MiB} /dev/zero | tr '\\0' 'x'` };
  for (let id = 100; id < 108; id++)
    peer.send({
      id,
      method: 'tools.call',
      params: { tool: 'terminal_execute', input: loud, options: { progress: true } },
    });
  peer.socket.pause();
  await pause(2 * LASTS_MS);
  peer.socket.destroy();
  await peer.closed;
}

/** Fills the disk of the state directory with one file, and removes that file. */
async function fillDisk({ stateDir }: SoakArena): Promise<void> {
  const ballast = join(stateDir, 'ballast');
  try {
    for (let i = 0; i < DISK_MB_MAX; i++) writeFileSync(ballast, Buffer.alloc(MiB), { flag: 'a' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
  await pause(LASTS_MS);
  rmSync(ballast);
}

async function stop({ daemon }: SoakArena): Promise<void> {
  kill(daemon.pid, 'SIGSTOP');
  await pause(LASTS_MS);
  kill(daemon.pid, 'SIGCONT');
}

export const FAULTS: readonly Fault[] = [
  {
    name: 'kill -9 of one of its processes',
    run: async (arena, turn) => {
      const pids = arena.descendants();
      const pid = pids[(turn * 7919) % Math.max(1, pids.length)];
      if (pid !== undefined) kill(pid, 'SIGKILL');
    },
  },
  { name: 'a clock that jumps', run: async ({ daemon }) => kill(daemon.pid, 'SIGUSR2') },
  { name: 'a reader that reads nothing', run: readNothing },
  {
    name: 'kill -9 of a host',
    run: async ({ daemon }, turn) => {
      await using operator = await daemon.connect({ role: 'operator' });
      const { hosts } = (await operator.request('status', {})) as { hosts: { pid: number }[] };
      const host = hosts[turn % Math.max(1, hosts.length)];
      if (host) kill(host.pid, 'SIGKILL');
    },
  },
  { name: 'three commands that eat memory', run: eatMemory },
  {
    name: 'a full disk',
    missing: ({ hasDisk }) => (hasDisk ? undefined : 'only root may mount a small disk'),
    run: fillDisk,
  },
  { name: 'a daemon that stands still', run: stop },
];
