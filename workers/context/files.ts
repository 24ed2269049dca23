/** Open files and directories, as tools read them. */
import { hash } from 'node:crypto';
import * as fs from 'node:fs';
import { ToolError } from '../../src/errors.ts';
import type { CheckedDirectory, CheckedFile, EntryType } from '../../src/tools/tool.ts';
import { below, codeOf, type OpenedPath, toAccessError } from './anchor.ts';
import type { Witnesses } from './witnesses.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;

export const hashOf = (bytes: Uint8Array): string => `sha256:${hash('sha256', bytes, 'hex')}`;
const modeOf = (mode: number): string => (mode & 0o7777).toString(8).padStart(4, '0');

/** The open file, which now closes `fd`. For anything but a regular file, closes `fd` and throws UNSUPPORTED. */
export function fileAt(
  { fd }: OpenedPath,
  path: string,
  { bytesMax, witnesses }: { bytesMax: number; witnesses: Witnesses },
): CheckedFile {
  let seen: fs.BigIntStats | undefined;
  witnesses.add(path, () => (seen = fs.fstatSync(fd, { bigint: true })));
  // The callback is not called once something could not be witnessed.
  const stat = seen ?? fs.fstatSync(fd, { bigint: true });
  const size = Number(stat.size);
  if (!stat.isFile()) {
    fs.closeSync(fd);
    const what = stat.isDirectory() ? 'a directory' : 'not a regular file';
    throw new ToolError(
      'UNSUPPORTED',
      `\`${path}\` is ${what}`,
      stat.isDirectory() ? { suggestion: 'List it with file_list.' } : {},
    );
  }
  return {
    path,
    size,
    mode: modeOf(Number(stat.mode)),
    // Rounded as in a directory listing, whose times are numbers.
    modifiedAt: new Date(Math.round(Number(stat.mtimeNs) / 1e6)).toISOString(),
    bytes: () => readAll({ fd, path, size }, bytesMax),
    [Symbol.dispose]: () => fs.closeSync(fd),
  } as CheckedFile;
}

/** The whole content at one time, as far as the file system allows; a file that grows is cut off by the bound. */
export function readAll({ fd, path, size }: { fd: number; path: string; size: number }, bytesMax: number): Buffer {
  const tooLarge = (used: number) =>
    new ToolError('FILE_LIMIT', `\`${path}\` is ${used} bytes; at most ${bytesMax} are read`, {
      suggestion: 'Search it, or read a part of it with a command.',
      details: { limit: bytesMax, used, enforcedBy: 'tool' },
    });
  if (size > bytesMax) throw tooLarge(size);
  // Files of /proc report size 0 but have content; one byte more than the size shows that a file grew.
  const chunks: Buffer[] = [];
  let total = 0;
  for (let want = size + 1; ; want = 64 * 1024) {
    const chunk = Buffer.allocUnsafe(want);
    const got = fs.readSync(fd, chunk, 0, want, total);
    if (got === 0) break;
    total += got;
    if (total > bytesMax) throw tooLarge(total);
    chunks.push(chunk.subarray(0, got));
    if (total === size && got < want) break;
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}

const TYPES: [EntryType, (entry: fs.Dirent) => boolean][] = [
  ['file', (it) => it.isFile()],
  ['directory', (it) => it.isDirectory()],
  ['symlink', (it) => it.isSymbolicLink()],
];

export interface DirectoryOptions {
  /** Tests which paths below are not to be entered. */
  readonly isRefused: (path: string) => boolean;
  readonly witnesses: Witnesses;
}

/** The open directory, which now closes `fd`. */
export function directoryAt(fd: number, path: string, rest: DirectoryOptions): CheckedDirectory {
  const { isRefused, witnesses } = rest;
  witnesses.add(path, () => fs.fstatSync(fd, { bigint: true }));
  return {
    path,
    entries: () =>
      fs
        .readdirSync(`/proc/self/fd/${fd}`, { withFileTypes: true })
        .map((entry) => ({ name: entry.name, type: TYPES.find(([, is]) => is(entry))?.[0] ?? 'other' })),
    stat: (name: string) => {
      const at = `${path}/${name}`;
      try {
        witnesses.add(at, () => fs.lstatSync(below(fd, name), { bigint: true, throwIfNoEntry: false }), true);
        const stat = fs.lstatSync(below(fd, name), { throwIfNoEntry: false });
        return stat && { size: stat.size, mode: modeOf(stat.mode), modifiedAt: stat.mtime.toISOString() };
      } catch (error) {
        // The directory's names may be read, but nothing more.
        throw toAccessError(error, at);
      }
    },
    directory: (name: string) => {
      const at = `${path}/${name}`;
      if (isRefused(at)) return undefined;
      try {
        return directoryAt(fs.openSync(below(fd, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW), at, rest);
      } catch (error) {
        witnesses.giveUp();
        if (['ENOENT', 'ENOTDIR', 'ELOOP', 'EACCES'].includes(codeOf(error) ?? '')) return undefined;
        throw toAccessError(error, at);
      }
    },
    [Symbol.dispose]: () => fs.closeSync(fd),
  } as CheckedDirectory;
}
