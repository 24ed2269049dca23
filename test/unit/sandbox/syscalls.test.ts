/** Compares the table of system calls with the kernel's own headers. */
import { describe, expect, test } from 'vitest';
import { CALLS, type CallName, callNumber } from '../../../src/sandbox/syscalls.ts';
import { headerNumbers } from '../../support/kernel-headers.ts';

const NAMES = Object.keys(CALLS) as CallName[];

describe.each(['x64', 'arm64'] as const)('on %s', (arch) => {
  const header = headerNumbers(arch);

  test('each number of the table is that of the kernel headers', ({ skip }) => {
    if (!header) return skip(`the kernel headers of ${arch} are not installed (linux-libc-dev)`);
    // Headers may be older than the table: from 424 on, all architectures share numbers.
    const known = NAMES.filter((it) => header.has(it) || (callNumber(it, arch) ?? 0) < 424);
    expect(known.length).toBeGreaterThan(80);
    const table = known.map((it) => [it, callNumber(it, arch)]);
    expect(table).toEqual(known.map((it) => [it, header.get(it)]));
  });

  test('no number stands for two calls', () => {
    const numbers = NAMES.flatMap((it) => callNumber(it, arch) ?? []);
    expect(new Set(numbers).size).toBe(numbers.length);
  });
});

test('calls that came after Linux 5.0 have the same number on both', () => {
  const late = NAMES.filter((it) => (callNumber(it, 'x64') as number) >= 424);
  expect(late.length).toBeGreaterThan(15);
  expect(late.map((it) => callNumber(it, 'arm64'))).toEqual(late.map((it) => callNumber(it, 'x64')));
});
