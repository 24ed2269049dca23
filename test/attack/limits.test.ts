/** Commands that exceed limits of processes, memory, CPU time, output and files. Nobody beside them notices. */
import { readdirSync, rmSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type Arena, type Attack, attempts, beside, eachIdentity, gone, machineLateMs } from '../support/arena.ts';
import { processesWith } from '../support/daemon.ts';

const MiB = 1024 * 1024;
const MEMORY_MB = 256;
const POLICY = `tiers:
  execute: { cpuMs: 2000, memoryMb: ${MEMORY_MB}, processes: 24, fileMb: 8 }
`;
/** From sandbox.md: the most milliseconds that anybody beside an attack waits. */
const STALL_MS = 100;
const CALL_MS = 1000;

interface Fault {
  readonly attack: Attack;
  readonly code: string;
  readonly verdict: string;
  readonly limit: number;
  readonly enforcedBy: string | RegExp;
}

const mark = (name: string) => `marker-attack-${name}`;
const watched = (code: string, verdict: string, limit: number) => ({ code, verdict, limit, enforcedBy: 'watchdog' });
/** Either mechanism, depending on the machine and the identity, whichever comes first. */
const BY_EITHER = /^(watchdog|cgroup v[12])$/;
const FAULTS: [string, Fault][] = [
  [
    'fork-bomb.pl',
    {
      attack: { program: 'fork-bomb.pl', args: [200, mark('fork')] },
      ...watched('PROCESS_LIMIT', 'processes', 24),
      enforcedBy: BY_EITHER,
    },
  ],
  [
    'eat-memory.pl',
    {
      attack: { program: 'eat-memory.pl', args: [2048, mark('eat')] },
      ...watched('MEMORY_LIMIT', 'memory', MEMORY_MB * MiB),
      enforcedBy: BY_EITHER,
    },
  ],
  [
    'burn-cpu.sh',
    { attack: { program: 'burn-cpu.sh', args: [20, mark('burn')] }, ...watched('CPU_LIMIT', 'cpu', 2000) },
  ],
  [
    'spew-stdout.sh',
    {
      attack: { program: 'spew-stdout.sh', args: [512] },
      code: 'OUTPUT_LIMIT',
      verdict: 'output',
      limit: 16 * MiB,
      enforcedBy: 'daemon',
    },
  ],
];

/** Controls within the limits: the same programs with less to do. */
const CONTROLS: [string, Attack, string][] = [
  ['fork-bomb.pl', { program: 'fork-bomb.pl', args: [12] }, 'made 12\n'],
  ['eat-memory.pl', { program: 'eat-memory.pl', args: [64] }, 'ate 64 MiB\n'],
  ['burn-cpu.sh', { program: 'burn-cpu.sh', args: [0.2] }, 'burned\n'],
];

async function unharmed(arena: Arena, pid: number): Promise<void> {
  expect(arena.daemon.process.exitCode).toBeNull();
  expect(((await arena.client.request('status', {})) as { pid: number }).pid).toBe(pid);
  expect(await arena.command('echo next')).toBe('next\n');
}

eachIdentity({ policy: POLICY, limits: { commandOutputBytesMax: 16 * MiB } }, (arena) => {
  // Retried in case a busy machine held up the daemon; a stall of the daemon's own would come each time.
  test.each(FAULTS)(
    '%s ends at its limit, nobody beside it waits, and nothing of it is left',
    { retry: 2 },
    async (_, fault) => {
      const { attack, code, verdict, limit, enforcedBy } = fault;
      const { result, stallMs, callMs, calls } = await beside(arena, () => arena.run(attack));
      expect(result).toMatchObject({
        success: false,
        error: { code, category: 'RESOURCE', details: { limit, enforcedBy: expect.stringMatching(enforcedBy) } },
        metadata: { resources: { verdict } },
      });
      const { used } = (result as unknown as { error: { details: { used: number } } }).error.details;
      // 1.5 times the limit, or what a watchdog that looks every 50 ms can miss.
      expect(used).toBeLessThanOrEqual(code === 'PROCESS_LIMIT' ? 200 : limit * 1.5 + (code === 'CPU_LIMIT' ? 300 : 0));
      expect(calls).toBeGreaterThan(0);
      expect(stallMs).toBeLessThan(STALL_MS);
      expect(callMs).toBeLessThan(CALL_MS + machineLateMs());
      await gone('marker-attack-');
      await unharmed(arena, arena.daemon.pid);
    },
  );

  test.each(CONTROLS)('%s within its limits runs to its end', async (_, attack, output) => {
    expect(await arena.told(attack)).toBe(output);
  });

  test('spew-stdout.sh that is within the bound comes whole, counted to the byte', async () => {
    const { metadata } = await arena.run({ program: 'spew-stdout.sh', args: [4] });
    expect(metadata.resources).toMatchObject({ outputBytes: 4 * MiB, verdict: 'ok' });
  });

  test('fill-disk.sh makes no file that is larger than allowed, and without the sandbox it does', async () => {
    const result = await arena.run({ program: 'fill-disk.sh', args: [64] });
    const path = join(arena.daemon.workspace, 'filled');
    expect(result).toMatchObject({ success: true, data: { stdout: 'file: refused\n' } });
    expect(statSync(path).size).toBe(8 * MiB);
    rmSync(path);
    expect(await arena.control({ program: 'fill-disk.sh', args: [64] })).toBe('file: through\n');
  });

  test('fill-scratch.sh fills its own scratch space at most, which is gone with it', async () => {
    const free = () => statfsSync('/dev/shm').bavail;
    const before = free();
    const output = await arena.told({ program: 'fill-scratch.sh' });
    expect(attempts(output)).toEqual({ '/tmp': 'refused', '/dev/shm': 'refused' });
    for (const [size] of output.matchAll(/^\d+$/gm)) expect(Number(size)).toBeLessThanOrEqual(256 * MiB);
    expect(free()).toBe(before);
    expect(await arena.command('ls -A /tmp /dev/shm | grep -c filled; true')).toBe('0\n');
  });

  test('sparse-files.sh makes no file that only looks large, and without the sandbox it does', async () => {
    expect(attempts(await arena.told({ program: 'sparse-files.sh' }))).toEqual({
      truncate: 'refused',
      seek: 'refused',
      allocate: 'refused',
    });
    expect(attempts(await arena.control({ program: 'sparse-files.sh' })).truncate).toBe('through');
  });

  test('huge-names.pl leaves names that list, read and run all the same', { retry: 2 }, async () => {
    const { result, stallMs } = await beside(arena, () => arena.told({ program: 'huge-names.pl' }));
    expect(result).toBe('made\n');
    expect(stallMs).toBeLessThan(STALL_MS);
    const listed = await arena.client.call('file_list', { path: 'names' });
    expect(listed).toMatchObject({ success: true });
    expect(readdirSync(join(arena.daemon.workspace, 'names')).length).toBeGreaterThan(8);
    await unharmed(arena, arena.daemon.pid);
    await arena.command('rm -rf names');
  });

  // Its times depend on the machine, too.
  test('the daemon is unchanged after all of these at once', { retry: 2 }, async () => {
    const { callMs, stallMs } = await beside(arena, () =>
      Promise.all(FAULTS.map(([, { attack }]) => arena.run(attack))),
    );
    expect(callMs).toBeLessThan(CALL_MS + machineLateMs());
    expect(stallMs).toBeLessThan(STALL_MS);
    await gone('marker-attack-', 2000);
    expect(processesWith('marker-attack-')).toEqual([]);
    await unharmed(arena, arena.daemon.pid);
  });
});
