/** `ringfence state du`: what takes how much room in the state directory. */
import { lstatSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { findUserDirs } from '../../daemon/user-dirs.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, type JsonFlag, print, printJson, UsageError } from '../output.ts';

/** What the entries of the state directory are for; docs/how-to/operations.md has their limits. */
const PARTS: readonly { readonly part: string; readonly names: RegExp }[] = [
  { part: 'audit log', names: /^audit\./ },
  { part: 'undo data', names: /^(journal$|undo\.db)/ },
  { part: 'output of commands', names: /^results$/ },
  { part: 'results of calls', names: /^calls\.db/ },
  { part: 'answers of web servers', names: /^web-cache$/ },
  { part: 'homes of commands', names: /^homes$/ },
  { part: 'plugins', names: /^plugins$/ },
  { part: 'log of the daemon', names: /^daemon\.log/ },
  { part: 'backups of upgrades', names: /^backups$/ },
];

interface Room {
  readonly part: string;
  bytes: number;
  files: number;
}

/** Prints the largest part first; nothing is changed. Returns the exit code. */
export function stateDu({ json }: JsonFlag, { flags, env }: CliCaller): number {
  const { stateDir } = findUserDirs(flags, env);
  const rooms = new Map<string, Room>();
  for (const name of entriesOf(stateDir)) {
    const part = PARTS.find((it) => it.names.test(name))?.part ?? 'everything else';
    const room = rooms.get(part) ?? { part, bytes: 0, files: 0 };
    rooms.set(part, room);
    measure(join(stateDir, name), room);
  }
  const all = [...rooms.values()].sort((a, b) => b.bytes - a.bytes);
  const bytes = all.reduce((sum, it) => sum + it.bytes, 0);
  if (json) printJson({ stateDir, bytes, parts: all });
  else {
    for (const it of all) print(`${inMiB(it.bytes)}  ${it.part} (${it.files} files)`);
    print(`${inMiB(bytes)}  ${harmless(stateDir)}`);
  }
  return EXIT.OK;
}

/** Bytes of a disk's block as stat counts them. */
const BLOCK = 512;
const inMiB = (bytes: number): string => `${(bytes / (1024 * 1024)).toFixed(1).padStart(10)} MiB`;

function entriesOf(stateDir: string): string[] {
  try {
    return readdirSync(stateDir);
  } catch (error) {
    throw new UsageError(`the state directory can not be read: ${(error as Error).message}`);
  }
}

/** Adds what a path takes on the disk; follows no links. A running daemon may remove files meanwhile. */
function measure(path: string, room: Room): void {
  try {
    const stat = lstatSync(path);
    room.bytes += stat.blocks * BLOCK;
    if (!stat.isDirectory()) room.files += 1;
    else for (const name of readdirSync(path)) measure(join(path, name), room);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'EACCES') throw error;
  }
}
