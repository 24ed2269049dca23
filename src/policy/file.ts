/** Policy files on disk: opened once, looked at through what was opened, never by a name that may be changed meanwhile. */
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY, O_RDONLY } = fs.constants;
// A pipe or a device that stands where a file should would otherwise hold up the daemon in open().
const OPEN_FILE = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;

/** A policy file that can't be read; the message says why, without its place. */
export class FileRefusal extends Error {}

/**
 * The text of a file that decides what calls may do, so that only we or root may be able to write it.
 * Throws FileRefusal; `ENOENT` is its cause where there is no such file.
 */
export function readTrusted(path: string, bytesMax: number): string {
  const fd = open(path);
  try {
    const stat = fs.fstatSync(fd);
    const uid = process.getuid?.() ?? stat.uid;
    if (!stat.isFile()) throw new FileRefusal(`${path} is not a regular file`);
    if (stat.uid !== uid && stat.uid !== 0)
      throw new FileRefusal(`${path} belongs to user ${stat.uid}; it must be yours or root's`);
    if ((stat.mode & 0o022) !== 0) throw new FileRefusal(`others may write ${path}; run: chmod go-w ${path}`);
    return readBounded(fd, path, bytesMax);
  } finally {
    fs.closeSync(fd);
  }
}

/**
 * The text of a file below `folder`, named by its components; undefined where one of them is not there. Each is opened
 * below the one before and no link is followed, since whoever made the folder chose what stands in it. Throws FileRefusal.
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

/** The folder of the built-in policies: of the checkout, or of the published package. */
export function builtInFolder(): string {
  const start = dirname(fileURLToPath(import.meta.url));
  for (let folder = start; folder !== dirname(folder); folder = dirname(folder)) {
    const policies = join(folder, 'policies');
    if (fs.existsSync(join(policies, 'default.yaml'))) return policies;
    // Above our package others choose what stands there.
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
    // The one failure is a byte sequence that UTF-8 doesn't have.
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
