/** What is written: places of files, and the one way in which their content changes. */
import { randomBytes } from 'node:crypto';
import * as fs from 'node:fs';
import { ToolError } from '../src/errors.ts';
import { isProtected } from '../src/paths.ts';
import { below, codeOf, outside, toAccessError } from './anchor.ts';
import { hashOf, readAll } from './files.ts';

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants;

/** Throws ACCESS_DENIED for a place from which programs outside the sandbox run. */
export function refuseProtected(path: string, shown: string): void {
  if (!isProtected(path)) return;
  throw new ToolError('ACCESS_DENIED', `\`${shown}\` is protected: programs outside the sandbox run or trust it`);
}

export interface Spot {
  readonly fd: number;
  readonly name: string;
  /** As the caller named it. */
  readonly path: string;
}

/** What a write would replace: nothing, or a regular file. */
function replaceable({ fd, name, path }: Spot): fs.Stats | undefined {
  const stat = fs.lstatSync(below(fd, name), { throwIfNoEntry: false });
  if (!stat || stat.isFile()) return stat;
  if (!stat.isSymbolicLink()) throw new ToolError('UNSUPPORTED', `\`${path}\` is not a regular file`);
  throw new ToolError('ACCESS_DENIED', `\`${path}\` is a symbolic link; it is not written through`, {
    suggestion: 'Write to the file that it points to.',
  });
}

/** Hash of what stands there; undefined for nothing. Throws UNSUPPORTED, ACCESS_DENIED. */
export function hashAt(fd: number, name: string, path: string, bytesMax: number): string | undefined {
  if (!replaceable({ fd, name, path })) return undefined;
  let file: number;
  try {
    file = fs.openSync(below(fd, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw codeOf(error) === 'ELOOP' ? outside(path) : toAccessError(error, path);
  }
  try {
    return hashOf(readAll({ fd: file, path, size: fs.fstatSync(file).size }, bytesMax));
  } finally {
    fs.closeSync(file);
  }
}

export interface Replacing {
  readonly mode?: number;
  readonly overwrite: boolean;
  /** Throws where what is there is not what may be replaced. */
  assertSame(): void;
}

/** Temporary file in the same directory, fsync, rename: old or new, never half; hard links to the old content keep it. */
export function replaceAt(spot: Spot, content: Uint8Array, options: Replacing): boolean {
  const { fd, name, path } = spot;
  const old = replaceable(spot);
  const exists = () => new ToolError('ALREADY_EXISTS', `\`${path}\` exists and overwrite is false`);
  if (old && !options.overwrite) throw exists();
  const temporary = below(fd, `.ringfence-${randomBytes(8).toString('hex')}.tmp`);
  try {
    writeNew(temporary, content, options.mode ?? (old ? old.mode & 0o777 : 0o644));
    // Last, so that no more than the rename itself stands between what was looked at and what is replaced.
    options.assertSame();
    if (options.overwrite) fs.renameSync(temporary, below(fd, name));
    else {
      fs.linkSync(temporary, below(fd, name)); // Fails where the name exists by now; a rename would replace it.
      fs.unlinkSync(temporary);
    }
  } catch (error) {
    fs.rmSync(temporary, { force: true });
    if (error instanceof ToolError) throw error;
    // A mount stands there: the policy holds the name itself.
    if (codeOf(error) === 'EBUSY') throw new ToolError('SANDBOX_DENIED', `\`${path}\` is held in this sandbox`);
    throw codeOf(error) === 'EEXIST' ? exists() : toAccessError(error, path);
  }
  return old === undefined;
}

function writeNew(path: string, content: Uint8Array, mode: number): void {
  const fd = fs.openSync(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o600);
  try {
    for (let at = 0; at < content.length; ) at += fs.writeSync(fd, content, at);
    fs.fchmodSync(fd, mode);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
