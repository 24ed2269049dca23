/**
 * Commands that exceed a limit: each ends there with a verdict, and no other call notices. Without control groups:
 * the watchdog and rlimits enforce the limits. cgroup.test.ts tests the others.
 */
import { chownSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { boundsPidsByNamespace } from '../../src/sandbox/kernel.ts';
import { canServeOthers, dataOf, processesWith, startDaemon, type TestDaemon, until } from '../support/daemon.ts';

const MiB = 1024 * 1024;
const POLICY = `tiers:
  execute: { cpuMs: 600, memoryMb: 96, processes: 24, fileMb: 2, outputBytes: 4096 }
  read_only: { outputBytes: 2000 }
`;

let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await startDaemon({ policy: POLICY, config: { cgroup: 'none' } });
  client = await daemon.connect();
  await dataOf(run('true'));
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
const run = (command: string, input: object = {}) => client.call('terminal_execute', { command, ...input });
/** A perl program with a name by which its processes are found. */
const perl = (mark: string, script: string) => `exec -a ${mark} perl -e '${script}'`;

const MEMORY = { code: 'MEMORY_LIMIT', verdict: 'memory', limit: 96 * MiB, enforcedBy: 'watchdog' };
const CPU = { code: 'CPU_LIMIT', verdict: 'cpu', limit: 600, enforcedBy: 'watchdog' };
const PROCESSES = { code: 'PROCESS_LIMIT', verdict: 'processes', limit: 24, enforcedBy: 'watchdog' };
const FILE = { code: 'FILE_LIMIT', verdict: 'file', limit: 2 * MiB, enforcedBy: 'rlimit' };

const ESCAPED = 'use POSIX; fork and exit; setsid; fork and exit;';
const FAULTS: [string, typeof MEMORY, string][] = [
  ['eats memory', MEMORY, '$x = "x" x 4e8; sleep 60'],
  ['eats memory bit by bit in many processes', MEMORY, 'fork for 1..3; $x = "x" x 3e7; sleep 60'],
  ['eats memory beyond its session and its parent', MEMORY, `${ESCAPED} $x = "x" x 4e8; sleep 60`],
  ['spins', CPU, '1 while 1'],
  ['spins in many processes', CPU, 'fork for 1..3; 1 while 1'],
  ['spins in one short-lived process after the other', CPU, 'while (1) { fork ? wait : exec "seq", "30000" }'],
  [
    'spins in children that nobody waits for',
    CPU,
    '$SIG{CHLD} = "IGNORE"; while (1) { fork || do { do { ($u, $s) = times } while $u + $s < 0.1; exit }; select undef, undef, undef, 0.1 }',
  ],
  ['is a crowd that sleeps', PROCESSES, 'for (1..40) { fork or sleep 60 } sleep 60'],
];

const BOMBS: [string, string][] = [
  ['forks', '1 while fork || 1'],
  ['forks into sessions of their own', `${ESCAPED} while (1) { fork; setsid }`],
];
// On older kernels only the watchdog bounds root's processes, and it may be too late for the machine.
const isBounded = process.getuid?.() !== 0 || boundsPidsByNamespace(release());
if (!isBounded) console.warn('skipped: fork bombs as root, which need Linux 6.14');

test.runIf(isBounded).each(BOMBS)(
  'a bomb that %s ends, nothing of it is left, and the next command runs',
  async (fault, script) => {
    const mark = `marker-bomb-${fault.replaceAll(' ', '-')}`;
    const { code, verdict, ...details } = PROCESSES;
    expect(await run(`(${perl(mark, script)}); sleep 60`, { timeout: 20_000 })).toMatchObject({
      error: { code, details },
      metadata: { resources: { verdict } },
    });
    await until(() => processesWith(mark).length === 0, 3000);
    expect(await dataOf(run('echo next'))).toMatchObject({ stdout: 'next\n' });
  },
);

test.runIf(canServeOthers)('a bomb of another uid than root never has more than the kernel lets it', async () => {
  await using other = await startDaemon({ policy: POLICY, config: { cgroup: 'none' } });
  chownSync(other.workspace, 12_345, 12_345);
  await using own = await other.connect();
  const [uid, threads] = (await dataOf(own.call('terminal_execute', { command: 'id -u; ulimit -Hu' }))).stdout.split(
    '\n',
  );
  expect([uid, Number(threads)]).toEqual(['12345', 24 * 8 + 16]);
  expect(await own.call('terminal_execute', { command: `perl -e '${BOMBS[1]?.[1]}'; sleep 60` })).toMatchObject({
    error: { code: 'PROCESS_LIMIT' },
  });
});

describe('out of its limits', () => {
  test.each(FAULTS)(
    'a command that %s ends at once, and nothing of it is left',
    async (fault, { code, verdict, ...details }, script) => {
      const mark = `marker-${fault.replaceAll(' ', '-')}`;
      const from = performance.now();
      // Processes that escaped their parent would outlive it.
      const running = run(`(${perl(mark, script)}); sleep 60`, { timeout: 20_000 });
      const beside = await dataOf(run('echo beside'));
      const result = await running;
      expect(result).toMatchObject({
        success: false,
        error: { code, category: 'RESOURCE', details },
        metadata: { resources: { verdict } },
      });
      const { used } = (result as unknown as { error: { details: { used: number } } }).error.details;
      expect(used).toBeGreaterThan(details.limit);
      if (code !== 'CPU_LIMIT') expect(performance.now() - from).toBeLessThan(2500);
      expect(beside).toMatchObject({ stdout: 'beside\n' });
      await until(() => processesWith(mark).length === 0, 1000);
    },
  );
});

describe('files', () => {
  test('a command that goes on after a program met the limit is warned', async () => {
    const command = 'python3 -c \'open("holes", "w").truncate(1 << 40)\'; truncate -s 1T holes; echo on';
    const { metadata } = await client.call('terminal_execute', { command });
    expect(metadata.warnings).toEqual([expect.stringContaining('tiers.execute.fileMb')]);
  });

  test('a command that writes a larger one is FILE_LIMIT, and the file is no larger', async () => {
    const { code, verdict, ...details } = FILE;
    expect(await run('echo before; exec yes > large')).toMatchObject({
      error: { code, details: { ...details, stdout: 'before\n' } },
      metadata: { resources: { verdict } },
    });
    expect(statSync(join(daemon.workspace, 'large')).size).toBe(2 * MiB);
  });

  test.each([
    ['raising it', 'ulimit -f unlimited; yes > large', {}],
    [
      'what bash runs at its start',
      'yes > large',
      { BASH_ENV: '/tmp/none', BASH_FUNC_x: '() { :; }', SHELLOPTS: 'noexec' },
    ],
    ['redefining what sets it', 'ulimit() { :; }; yes > large', {}],
    ['a value that is a command', 'yes > large', { RANDOM: 'a[$(yes > large)]', HISTCMD: 'a[$(yes > large)]' }],
    ['a loader', '/usr/bin/yes > large', { LD_PRELOAD: '/none.so' }],
  ])("the limit on files can't be circumvented by %s", async (_how, command, env) => {
    await run(command, { env });
    expect(statSync(join(daemon.workspace, 'large')).size).toBeLessThanOrEqual(2 * MiB);
  });

  test("memory without an owner can't be made: memfd_create is refused", async () => {
    expect(
      await dataOf(run(`perl -e '$name = "x"; $fd = syscall 319, $name, 0; print $fd < 0 ? "refused" : "made"'`)),
    ).toMatchObject({
      stdout: 'refused',
    });
  });
});

describe('a command that is asked to end', () => {
  test('a command that is out of time may clean up when it is asked to end', async () => {
    const result = await run('trap "echo cleaned > done; exit" TERM; echo ready; sleep 60 & wait', {
      timeout: 400,
    });
    expect(result).toMatchObject({ error: { code: 'TIMEOUT' }, metadata: { resources: { verdict: 'timeout' } } });
    expect(statSync(join(daemon.workspace, 'done')).size).toBe(8);
  });

  test('a command that ignores the request to end is killed within a second, and others run meanwhile', async () => {
    const from = performance.now();
    const running = run(`trap "" TERM; ${perl('marker-deaf', 'sleep 60')}`, { timeout: 300 });
    await until(() => processesWith('marker-deaf').length > 0);
    expect(await dataOf(run('echo beside'))).toMatchObject({ stdout: 'beside\n' });
    expect(await running).toMatchObject({ error: { code: 'TIMEOUT' } });
    expect(performance.now() - from).toBeLessThan(300 + 1000);
    await until(() => processesWith('marker-deaf').length === 0, 1000);
  });

  test('a command whose client has gone is killed without being asked', async () => {
    const other = await daemon.connect();
    other
      .call('terminal_execute', {
        command: `trap "echo asked > asked" TERM; ${perl('marker-gone', '$SIG{TERM} = "IGNORE"; sleep 60')}`,
      })
      .catch(() => {}); // The connection ends.
    await until(() => processesWith('marker-gone').length > 0);
    const from = performance.now();
    await other[Symbol.asyncDispose]();
    await until(() => processesWith('marker-gone').length === 0, 1000);
    expect(performance.now() - from).toBeLessThan(600);
  });
});

describe('what a result says', () => {
  test("a command's result has its CPU time, most memory, most processes, and what held its limits", async () => {
    // Without groups the numbers come from a look every 50 ms, which is late if others use the processors.
    const { metadata } = await run(`perl -e 'fork; $x = "x" x 2e7; do { ($u, $s) = times } while $u + $s < 0.2; wait'`);
    const { cpuMs, peakBytes = 0, processes = 0, ...rest } = metadata.resources;
    expect(rest).toEqual({ outputBytes: 0, verdict: 'ok', enforcedBy: 'pid namespace, timer, rlimits, watchdog' });
    expect(cpuMs).toBeGreaterThanOrEqual(150);
    expect(peakBytes).toBeGreaterThan(20 * MiB);
    expect(processes).toBeGreaterThanOrEqual(2);
  });

  test('a result is cut to the size that the policy permits', async () => {
    const { stdout } = await dataOf(run('seq 1 10000'));
    expect(stdout.length).toBeLessThan(2048 + 64);
    await dataOf(run('seq 1 1000 > numbers'));
    expect(await client.call('file_read', { path: 'numbers' })).toMatchObject({
      error: { code: 'OUTPUT_LIMIT', details: { limit: 2000 } },
    });
  });
});

test('a copy of 127 MiB ends within a second of its time limit, and leaves nothing', async () => {
  writeFileSync(join(daemon.workspace, 'large'), Buffer.alloc(127 * MiB, 'x'));
  try {
    for (const timeoutMs of [100, 150, 200]) {
      const from = performance.now();
      const result = await client.call('file_copy', { sourcePath: 'large', destPath: 'copy' }, { timeoutMs });
      expect(performance.now() - from).toBeLessThan(timeoutMs + 1000);
      if (!result.success) expect(result.error.code).toBe('TIMEOUT');
      expect(readdirSync(daemon.workspace).includes('copy')).toBe(result.success);
      rmSync(join(daemon.workspace, 'copy'), { force: true });
      expect(readdirSync(daemon.workspace).filter((it) => it.startsWith('.ringfence-'))).toEqual([]);
    }
  } finally {
    rmSync(join(daemon.workspace, 'large'));
  }
});
