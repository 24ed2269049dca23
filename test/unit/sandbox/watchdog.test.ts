/** The watchdog's sums, without processes; test/fault/limits.test.ts uses real ones. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { COMPUTED, toBashArgs } from '../../../src/sandbox/command/prologue.ts';
import { boundsPidsByNamespace, countsTasksByNamespace } from '../../../src/sandbox/kernel.ts';
import { parseStat } from '../../../src/sandbox/proc.ts';
import { CpuSum } from '../../../src/sandbox/watchdog.ts';

function totalOf(...sums: number[]): number {
  const cpu = new CpuSum();
  for (const sum of sums) cpu.add(sum);
  return cpu.totalMs;
}

describe('CPU time', () => {
  test('CPU time that is missing in one look only counts once, when the parent has it', () => {
    expect(totalOf(100, 40, 110)).toBe(110);
  });
  test('CPU time that is missing twice is that of children without a waiting parent, and counts', () => {
    expect(totalOf(100, 40, 40, 90)).toBe(150);
    expect(totalOf(100, 0, 10, 20)).toBe(110);
  });
  test('never gets less', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1000)), (sums) => {
        const cpu = new CpuSum();
        for (const sum of sums) {
          const before = cpu.totalMs;
          cpu.add(sum);
          expect(cpu.totalMs).toBeGreaterThanOrEqual(Math.max(before, sum));
        }
      }),
    );
  });
});

test('a process that names itself like a line of numbers changes none of them', () => {
  const rest = 'S 7 1 1 0 -1 4194304 100 0 0 0 3 2 1 4 20 0 5 0 9876 1000 10 0';
  for (const name of ['perl', 'a b', ') S 1 1', '(((']) {
    expect(parseStat(`42 (${name}) ${rest}`)).toEqual({
      parent: 7,
      cpuMs: 100,
      ownCpuMs: 50,
      threads: 5,
      startedAt: '9876',
    });
  }
});

test('the release of a kernel tells how it counts tasks', () => {
  expect(['5.17.9', '5.18.0', '6.18.44-fc-v66', '4.19'].map(countsTasksByNamespace)).toEqual([
    false,
    true,
    true,
    false,
  ]);
  expect(['6.13.1', '6.14-rc1', '7.0', 'odd'].map(boundsPidsByNamespace)).toEqual([false, true, true, false]);
});

describe('the arguments of bash', () => {
  const bounds = { cpuMs: 1500, memoryMb: 1, processes: 4, fileMb: 3, outputBytes: 1 };
  const argsOf = (
    env: Record<string, string>,
    rlimits = { openFiles: 1024, addressMib: 16_384, threadsPerProcess: 8 },
  ) => toBashArgs({ command: '# all of it', env, bounds, rlimits });

  test('set every limit before the command, which stays an argument of its own', () => {
    expect(argsOf({})).toEqual([
      ...['--norc', '--noprofile', '-c'],
      `{ ulimit -f 3072;ulimit -n 1024;ulimit -S -t 3;ulimit -H -t 4;ulimit -v ${16_384 * 1024};ulimit -u 48; } 2>&-;eval "set --;$1"`,
      ...['/bin/bash', '# all of it'],
    ]);
  });
  test('count no processes where the kernel would count those of others', () => {
    const { threadsPerProcess: _, ...rlimits } = { openFiles: 1024, addressMib: 16_384, threadsPerProcess: 8 };
    expect(toBashArgs({ command: 'x', env: {}, bounds, rlimits })[3]).not.toContain('ulimit -u');
  });
  test('hold the variables that could run something before them, and none that bash computes with', () => {
    const names = ['LD_PRELOAD', 'BASH_ENV', 'PATH', 'MINE', ...COMPUTED];
    expect(argsOf(Object.fromEntries(names.map((it) => [it, "'\n"]))).slice(6)).toEqual(
      ['LD_PRELOAD', 'BASH_ENV', 'PATH', 'MINE'].map((it) => `${it}='\n`),
    );
  });
});
