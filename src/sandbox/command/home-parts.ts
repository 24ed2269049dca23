/** What a home holds, and its removal. A home is a command's to fill: links, closed folders and names of any kind are in there. */
import { closeSync, constants, mkdirSync, openSync, readdirSync, renameSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Limits } from '../../limits.ts';
import type { Powers } from '../../powers.ts';

/** What something takes of a disk: bytes of its blocks, files and folders. */
export interface Size {
  readonly bytes: number;
  readonly entries: number;
}

interface Means {
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Folders whose entries are parts by themselves, outer ones first. */
const OF_PARTS = ['.cache', '.local', '.local/share'];

/** Each path's. A folder that its owner closed is opened, since it would count for nothing; where that fails, it counts for all. */
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

function run(
  program: string,
  args: readonly string[],
  { powers, limits }: Means,
): Promise<{ stdout: string; stderr: string }> {
  const env = { PATH: '/usr/bin:/bin', LC_ALL: 'C' };
  const child = powers.spawn(program, [...args], { stdio: ['ignore', 'pipe', 'pipe'], env });
  const told = { stdout: '', stderr: '' };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (told.stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    // Complaints are of names that a command chose, as many as it likes.
    if (told.stderr.length < limits.hostStderrCharsMax) told.stderr += text;
  });
  return new Promise((resolve) => {
    child.once('error', () => resolve(told));
    child.once('close', () => resolve(told));
  });
}

/** What is removed as a whole, relative to the home; undefined where that is more than `max`. */
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

/** Moves a part out of its home, wherever links in there lead by now; one that is not there any more is left alone. */
export function moveAway({ home, part, trash, as }: { home: string; part: string; trash: string; as: string }): void {
  mkdirSync(trash, { recursive: true, mode: 0o700 });
  const folder = dirname(part);
  const fd = openBelow(home, folder === '.' ? '' : folder);
  if (fd === undefined) return;
  try {
    renameSync(`/proc/self/fd/${fd}/${basename(part)}`, join(trash, as));
  } catch {
    // ENOENT, EACCES: a command removed it, or closed its folder; the next measurement finds what is left.
  } finally {
    closeSync(fd);
  }
}

/** A folder below a home, by names none of which is a link; undefined where there is none. */
function openBelow(home: string, folder: string): number | undefined {
  const flags = constants.O_DIRECTORY | constants.O_NOFOLLOW | constants.O_RDONLY;
  let fd: number | undefined;
  try {
    fd = openSync(home, flags);
    for (const name of folder.split('/').filter(Boolean)) {
      const above = fd;
      fd = undefined;
      try {
        fd = openSync(`/proc/self/fd/${above}/${name}`, flags);
      } finally {
        closeSync(above);
      }
    }
    return fd;
  } catch {
    return undefined; // ENOENT, ENOTDIR, ELOOP, EACCES.
  }
}
