/** Measures and removes parts of homes. Commands fill a home as they like: with links, unreadable folders and names of any kind. */
import { closeSync, constants, mkdirSync, openSync, readdirSync, renameSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { closing } from '../../base/disk.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { outputOf } from '../../base/program-answer.ts';

/** Disk usage: bytes of blocks; files and folders. */
export interface Size {
  readonly bytes: number;
  readonly entries: number;
}

interface Means {
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Folders whose entries each count as a part, outer folders first. */
const OF_PARTS = ['.cache', '.local', '.local/share'];

/** Measures each path. Makes unreadable folders readable, since they would count for nothing; if that fails, they count as infinite. */
export async function sizesOf(paths: readonly string[], means: Means): Promise<Size[]> {
  if (paths.length === 0) return [];
  const measure = () => Promise.all([du(['--block-size=1'], paths, means), du(['--inodes'], paths, means)] as const);
  let measured = await measure();
  if (measured.some((it) => it.isDenied)) {
    const closed = ['-xdev', '-type', 'd', '!', '-perm', '-u=rwx', '-exec', 'chmod', 'u+rwx', '{}', ';'];
    await run('/usr/bin/find', [...paths, ...closed], means);
    measured = await measure();
  }
  const [bytes, entries] = measured;
  return paths.map((path) => ({
    bytes: bytes.isDenied ? Infinity : (bytes.sizes.get(path) ?? 0),
    entries: entries.sizes.get(path) ?? 0,
  }));
}

async function du(
  what: readonly string[],
  paths: readonly string[],
  means: Means,
): Promise<{ sizes: Map<string, number>; isDenied: boolean }> {
  const args = ['--summarize', '--null', '--one-file-system', ...what, '--', ...paths];
  const { stdout, stderr } = await run('/usr/bin/du', args, means);
  const sizes = stdout
    .split('\0')
    .filter(Boolean)
    .map((it): [string, number] => {
      const tab = it.indexOf('\t');
      return [it.slice(tab + 1), Number(it.slice(0, tab))];
    });
  return { sizes: new Map(sizes), isDenied: stderr.includes('Permission denied') };
}

function run(program: string, args: readonly string[], { powers, limits }: Means) {
  const env = { PATH: '/usr/bin:/bin', LC_ALL: 'C' };
  const child = powers.spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], env });
  // Error messages contain names that a command chose, as many as it likes.
  return outputOf(child, { stdout: Infinity, stderr: limits.hostStderrCharsMax });
}

/** Names of the parts that can be removed, relative to the home; undefined if there are more than `max`. */
export function partNames(home: string, max: number): string[] | undefined {
  const parts: string[] = [];
  for (const folder of ['', ...OF_PARTS]) {
    const fd = openBelow(home, folder);
    if (fd === undefined) continue;
    try {
      const names = readdirSync(`/proc/self/fd/${fd}`).map((it) => (folder === '' ? it : `${folder}/${it}`));
      parts.push(...names.filter((it) => !OF_PARTS.includes(it)));
    } finally {
      closeSync(fd);
    }
    if (parts.length > max) return undefined;
  }
  return parts;
}

/** Moves a part out of its home without following links; does nothing if it no longer exists. */
export function moveAway({ home, part, trash, as }: { home: string; part: string; trash: string; as: string }): void {
  mkdirSync(trash, { recursive: true, mode: 0o700 });
  const folder = dirname(part);
  const fd = openBelow(home, folder === '.' ? '' : folder);
  if (fd === undefined) return;
  try {
    renameSync(`/proc/self/fd/${fd}/${basename(part)}`, join(trash, as));
  } catch {
    // ENOENT, EACCES: a command removed it or closed its folder; the next measurement finds what is left.
  } finally {
    closeSync(fd);
  }
}

/** Opens a folder below a home without following links; undefined if there is none. */
function openBelow(home: string, folder: string): number | undefined {
  const flags = constants.O_DIRECTORY | constants.O_NOFOLLOW | constants.O_RDONLY;
  let fd: number | undefined;
  try {
    fd = openSync(home, flags);
    for (const name of folder.split('/').filter(Boolean)) {
      const above = fd;
      fd = undefined;
      using _ = closing(above);
      fd = openSync(`/proc/self/fd/${above}/${name}`, flags);
    }
    return fd;
  } catch {
    return undefined; // ENOENT, ENOTDIR, ELOOP, EACCES: missing, replaced, or not readable.
  }
}
