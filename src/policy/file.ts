/** Reads policy files. Checks apply to the opened descriptor, never to a name that may be replaced in the meantime. */
import * as fs from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { closing } from '../base/disk.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY, O_RDONLY } = fs.constants;
// O_NONBLOCK keeps open() from blocking the daemon on a pipe or device in place of a file.
const OPEN_FILE = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

/** A policy file can't be read; the message says why, without a position. */
export class FileRefusal extends Error {}

/**
 * The text of a file that decides what calls may do; requires that only our user or root can write it. Throws FileRefusal, whose cause is
 * `ENOENT` if the file does not exist.
 */
export function readTrusted(path: string, bytesMax: number): string {
  using held = closing(open(path));
  const stat = fs.fstatSync(held.fd);
  const uid = process.getuid?.() ?? stat.uid;
  if (!stat.isFile()) throw new FileRefusal(`${path} is not a regular file`);
  if (stat.uid !== uid && stat.uid !== 0)
    throw new FileRefusal(`${path} belongs to user ${stat.uid}; it must be yours or root's`);
  if ((stat.mode & 0o022) !== 0) throw new FileRefusal(`others may write ${path}; run: chmod go-w ${path}`);
  return readBounded(held.fd, path, bytesMax);
}

/**
 * Refuses a file that others could replace: every directory on the way to it must belong to us or root and be writable by nobody else.
 * Sticky directories such as `/tmp` are accepted for a file of our own. Throws FileRefusal.
 */
export function assertNotReplaceable(path: string): void {
  const uid = process.getuid?.() ?? 0;
  const directories = directoriesTo(path).map((at) => {
    const stat = fs.statSync(at);
    return { at, mode: stat.mode, owner: stat.uid };
  });
  const own = directories.at(-1)?.at;
  const closed = directories.filter((it) => (it.mode & 0o011) === 0 && it.owner === uid);
  for (const { at, mode, owner } of directories) {
    // Others can't enter a closed directory above this one; the file's own directory is checked in any case.
    if (at !== own && closed.some((it) => at.startsWith(`${it.at}/`))) continue;
    const advice = 'move the file into a directory that only you can write, such as ~/.config/ringfence';
    if (owner !== uid && owner !== 0)
      throw new FileRefusal(`the directory ${at} belongs to user ${owner}, who may replace ${path}; ${advice}`);
    // In a sticky directory others can't rename files that aren't theirs.
    const isSafe = (mode & 0o022) === 0 || ((mode & 0o1000) !== 0 && owner === 0 && fs.lstatSync(path).uid === uid);
    if (!isSafe) throw new FileRefusal(`others may write the directory ${at}, and so replace ${path}; ${advice}`);
  }
}

/** Most symbolic links followed on the way to one file; the kernel follows 40. */
const LINKS_MAX = 40;

/** The real paths of all directories that are searched on the way to a file; the last one contains the file. */
function directoriesTo(path: string): string[] {
  const found = ['/'];
  const names = resolve(path).split('/').slice(1, -1);
  let links = 0;
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    const at = join(found.at(-1) as string, name);
    if (!fs.lstatSync(at).isSymbolicLink()) {
      found.push(at);
      continue;
    }
    links += 1;
    if (links > LINKS_MAX) throw new FileRefusal(`${path}: too many symbolic links`);
    const target = fs.readlinkSync(at);
    names.unshift(...target.split('/').filter((it) => it !== '' && it !== '.'));
    if (target.startsWith('/')) found.push('/');
  }
  return found;
}

/**
 * The text of a file below `folder`, named by path components; undefined if one of them does not exist. Opens each component relative to
 * the one before and follows no links, since the folder's contents are not trusted. Throws FileRefusal.
 */
export function readBelow(folder: string, components: readonly string[], bytesMax: number): string | undefined {
  const opened: number[] = [];
  const path = join(folder, ...components);
  try {
    opened.push(fs.openSync(folder, O_RDONLY | O_DIRECTORY));
    for (const [index, name] of components.entries()) {
      const flags = index < components.length - 1 ? OPEN_FILE | O_DIRECTORY : OPEN_FILE;
      opened.push(fs.openSync(`/proc/self/fd/${opened.at(-1)}/${name}`, flags));
    }
    const fd = opened.at(-1) as number;
    if (!fs.fstatSync(fd).isFile()) throw new FileRefusal(`${path} is not a regular file`);
    return readBounded(fd, path, bytesMax);
  } catch (error) {
    if (error instanceof FileRefusal) throw error;
    if (codeOf(error) === 'ENOENT') return undefined;
    throw toRefusal(error, path);
  } finally {
    for (const fd of opened) fs.closeSync(fd);
  }
}

/** The folder of the built-in policies, in a checkout or in the published package. */
export function builtInFolder(): string {
  const start = dirname(fileURLToPath(import.meta.url));
  for (let folder = start; folder !== dirname(folder); folder = dirname(folder)) {
    const policies = join(folder, 'policies');
    if (fs.existsSync(join(policies, 'default.yaml'))) return policies;
    // Directories above our package are not ours.
    if (fs.existsSync(join(folder, 'package.json'))) break;
  }
  throw new FileRefusal(`the built-in policies are missing: no policies/default.yaml above ${start}`);
}

function open(path: string): number {
  try {
    return fs.openSync(path, OPEN_FILE);
  } catch (error) {
    throw toRefusal(error, path);
  }
}

function readBounded(fd: number, path: string, bytesMax: number): string {
  const bytes = Buffer.alloc(bytesMax + 1);
  let length = 0;
  for (let read = -1; read !== 0 && length < bytes.length; length += read)
    read = fs.readSync(fd, bytes, length, bytes.length - length, null);
  if (length > bytesMax) throw new FileRefusal(`${path} has more than ${bytesMax} bytes, the most that is read`);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes.subarray(0, length));
  } catch {
    // The only failure is a byte sequence that is not valid UTF-8.
    throw new FileRefusal(`${path} is not UTF-8`);
  }
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

function toRefusal(error: unknown, path: string): FileRefusal {
  const reasons: Record<string, string> = {
    ENOENT: 'no such file',
    ELOOP: 'is a symbolic link; name the file itself',
    EACCES: 'its permissions do not allow reading it',
    ENOTDIR: 'a part of the path is not a directory',
    ENXIO: 'is not a regular file',
  };
  const code = codeOf(error) ?? 'unknown error';
  return new FileRefusal(`${path}: ${reasons[code] ?? code}`, { cause: code });
}
