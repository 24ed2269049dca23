/**
 * The folder of machine code: programs that script/build-native.ts builds from native/*.c, and add-ons that it takes from
 * packages which carry those of all systems. Hosts see it read-only.
 */
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(import.meta.url);

/** The folder with `src` and `workers`, in one of which this file is: the checkout, or `dist` in the built form. */
export const codeFolder: string = here.slice(0, Math.max(...['/src/', '/workers/'].map((it) => here.lastIndexOf(it))));

export const nativeFolder: string = join(codeFolder, extname(here) === '.ts' ? 'dist/native' : 'native');

export const NATIVE_PROGRAMS = [
  'door',
  'enter',
  'follow',
  'join-net',
  'mount-links',
  'mount-overlay',
  'probe',
] as const;

export const nativeProgram = (name: (typeof NATIVE_PROGRAMS)[number]): string => join(nativeFolder, process.arch, name);

/** The parser of a language, a shared library for @ast-grep/napi. */
export const parserOf = (language: 'go' | 'python' | 'rust'): string =>
  join(nativeFolder, process.arch, `parser-${language}.so`);

/** Loads the isolated-vm add-on for this Node and C library. Throws MODULE_NOT_FOUND for a Node that it was not built for. */
export function loadIsolatedVm(): typeof import('isolated-vm') {
  const libc = existsSync('/etc/alpine-release') ? 'musl' : 'glibc';
  const file = `isolated-vm.abi${process.versions.modules}.${libc}.node`;
  const addon = createRequire(import.meta.url)(join(nativeFolder, process.arch, file)) as {
    ivm: typeof import('isolated-vm');
  };
  return addon.ivm;
}
