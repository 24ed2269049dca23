/** Hostile programs for this processor: they are written with the numbers that x86-64 has for system calls. */
import { chmodSync, cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CALLS } from '../../src/sandbox/syscalls.ts';
import { temporaryDir } from './daemon.ts';

/** Calls that no filter names. */
const MORE = {
  sendmsg: [46, 211],
  inotify_init1: [294, 26],
  fanotify_init: [300, 262],
  prlimit64: [302, 261],
  renameat2: [316, 276],
};

/** Folder with the programs. */
export const programs =
  process.arch === 'arm64' ? translated() : fileURLToPath(new URL('../fixtures/programs', import.meta.url));

function translated(): string {
  const folder = temporaryDir('programs');
  cpSync(fileURLToPath(new URL('../fixtures/programs', import.meta.url)), folder, { recursive: true });
  chmodSync(folder, 0o755); // Other users run them, too.
  const numbers = Object.values({ ...CALLS, ...MORE }).map(([of, here]) => `${of}=>${here ?? -1}`);
  const own = `use subs 'syscall'; my %number=(${numbers.join()}); sub syscall { my $n = shift; CORE::syscall($number{$n} // $n, @_) }`;
  for (const name of readdirSync(folder).filter((it) => it.endsWith('.pl'))) {
    const path = join(folder, name);
    writeFileSync(path, `${own}\n${readFileSync(path, 'utf8')}`);
  }
  return folder;
}
