/** The folder of the programs that script/build-native.ts builds from native/*.c. Hosts see it read-only. */
import { dirname, extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(import.meta.url);
const base = dirname(dirname(here));

/** This file is in `src` in a checkout, and in `dist/src` or `dist/workers` in the built form. */
export const nativeFolder: string = join(base, extname(here) === '.ts' ? 'dist/native' : 'native');

export const NATIVE_PROGRAMS = ['door', 'follow', 'join-net', 'probe'] as const;

export const nativeProgram = (name: (typeof NATIVE_PROGRAMS)[number]): string => join(nativeFolder, process.arch, name);
