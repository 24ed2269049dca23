/** Reads system call numbers from the kernel headers, if installed. */
import { existsSync, readFileSync } from 'node:fs';
import type { Arch } from '../../src/sandbox/syscalls.ts';

/** The list in asm-generic is arm64's, on any machine. */
const HEADERS: Record<Arch, readonly string[]> = {
  x64: ['/usr/include/x86_64-linux-gnu/asm/unistd_64.h', '/usr/x86_64-linux-gnu/include/asm/unistd_64.h'],
  arm64: ['/usr/include/asm-generic/unistd.h', '/usr/aarch64-linux-gnu/include/asm-generic/unistd.h'],
};

/** Call numbers by name; undefined if the headers are not installed. */
export function headerNumbers(arch: Arch): ReadonlyMap<string, number> | undefined {
  const header = HEADERS[arch].find((it) => existsSync(it));
  if (header === undefined) return undefined;
  const lines = readFileSync(header, 'utf8').matchAll(/^#define (__NR(?:3264)?_\w+)[ \t]+(\w+)$/gm);
  const values = new Map([...lines].map(([, key, value]) => [key as string, value as string]));
  return new Map(
    [...values].flatMap(([key, value]) => {
      const name = /^__NR_(\w+)$/.exec(key)?.[1];
      const number = Number(values.get(value) ?? value);
      return name === undefined || Number.isNaN(number) ? [] : [[name, number]];
    }),
  );
}
