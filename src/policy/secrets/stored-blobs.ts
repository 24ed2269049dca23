/**
 * Tells whether the objects of a repository hold the very bytes of a file: whoever reads those objects has the file already. Only objects
 * are read, never the index, attributes or filters. Architecture invariant: whatever is doubtful counts as not held.
 */
import { createHash } from 'node:crypto';
import { closeSync, constants, fstatSync, lstatSync, openSync, readlinkSync, readSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { isInside } from '../../base/paths.ts';
import { namesAt } from '../../base/quiet/reads.ts';

const PACKS_MAX = 256;
/** The layout of a pack's index, version 2: https://git-scm.com/docs/pack-format. */
const MAGIC = Buffer.from('ff744f6300000002', 'hex');
const FANOUT = { at: MAGIC.length, bytes: 4 * 256 };
const OID_BYTES = 20;

/** Whether the nearest repository of `path` at or below `root` holds its bytes. Both are absolute and without links. */
export function isStored(path: string, bytes: Buffer, root: string): boolean {
  const objects = objectsFor(path, root);
  if (objects === undefined) return false;
  const oid = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest();
  const hex = oid.toString('hex');
  if (withFile(join(objects, hex.slice(0, 2), hex.slice(2)), () => true)) return true;
  const pack = join(objects, 'pack');
  const indexes = namesAt(pack).filter((it) => it.endsWith('.idx'));
  return indexes.slice(0, PACKS_MAX).some((it) => withFile(join(pack, it), (fd) => isIndexed(fd, oid)));
}

/** The objects of the nearest repository; undefined if there is none, or it keeps them elsewhere as linked worktrees do. */
function objectsFor(path: string, root: string): string | undefined {
  for (let folder = dirname(path); isInside(root, folder); folder = dirname(folder)) {
    const stat = lstatSync(join(folder, '.git'), { throwIfNoEntry: false });
    if (stat) return stat.isDirectory() ? join(folder, '.git/objects') : undefined;
    if (folder === root) break;
  }
  return undefined;
}

/** Finds an object by bisection of the sorted names in a pack's index. */
function isIndexed(fd: number, oid: Buffer): boolean {
  const head = bytesAt(fd, 0, FANOUT.at + FANOUT.bytes);
  if (!head.subarray(0, MAGIC.length).equals(MAGIC)) return false;
  const [first = 0] = oid;
  const countTo = (byte: number) => (byte < 0 ? 0 : head.readUInt32BE(FANOUT.at + 4 * byte));
  let [low, high] = [countTo(first - 1), countTo(first)];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const order = oid.compare(bytesAt(fd, head.length + middle * OID_BYTES, OID_BYTES));
    if (order === 0) return true;
    if (order > 0) low = middle + 1;
    else high = middle;
  }
  return false;
}

/** Throws a RangeError for a file that ends before. */
function bytesAt(fd: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  if (readSync(fd, bytes, 0, length, position) < length) throw new RangeError('the file ends early');
  return bytes;
}

/**
 * Looks into a regular file that no link leads to; false for any other. Where it lies is asked after it was opened: an agent may put a link
 * to a repository that it can't read in place of a folder on the way.
 */
function withFile(path: string, look: (fd: number) => boolean): boolean {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return false; // ENOENT, ELOOP, EACCES
  }
  try {
    return fstatSync(fd).isFile() && readlinkSync(`/proc/self/fd/${fd}`) === path && look(fd);
  } catch {
    return false; // A pack's index that is cut short.
  } finally {
    closeSync(fd);
  }
}
