/** The folder of the programs that script/build-native.ts builds from native/*.c. Hosts see it read-only. */
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(import.meta.url);

/** The folder with `src` and `workers`, in one of which this file is: the checkout, or `dist` in the built form. */
export const codeFolder: string = here.slice(0, Math.max(...['/src/', '/workers/'].map((it) => here.lastIndexOf(it))));

export const nativeFolder: string = join(codeFolder, extname(here) === '.ts' ? 'dist/native' : 'native');

export const NATIVE_PROGRAMS = ['door', 'follow', 'join-net', 'probe'] as const;

export const nativeProgram = (name: (typeof NATIVE_PROGRAMS)[number]): string => join(nativeFolder, process.arch, name);
