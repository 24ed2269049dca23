/** Open files and directories, as tools read them. */
import { createHash, hash } from 'node:crypto';
import * as fs from 'node:fs';
import { relative } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import type { CheckedDirectory, CheckedFile, EntryType } from '../../src/tools/tool.ts';
import { below, codeOf, type OpenedPath, toAccessError } from './anchor.ts';
import type { Witnesses } from './witnesses.ts';

const { O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;

export const hashOf = (bytes: Uint8Array): string => `sha256:${hash('sha256', bytes, 'hex')}`;
const modeOf = (mode: number): string => (mode & 0o7777).toString(8).padStart(4, '0');

interface FileOptions {
  /** Absolute path. */
  readonly workspace: string;
  readonly bytesMax: number;
  readonly witnesses: Witnesses;
  breathe(): Promise<void>;
}

/** The open file, which now closes `fd`. For anything but a regular file, closes `fd` and throws UNSUPPORTED. */
export function fileAt(
  { fd, realPath }: OpenedPath,
  path: string,
  { workspace, bytesMax, witnesses, breathe }: FileOptions,
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
    realPath: relative(workspace, realPath),
    size,
    mode: modeOf(Number(stat.mode)),
    // Rounded as in a directory listing, whose times are numbers.
    modifiedAt: new Date(Math.round(Number(stat.mtimeNs) / 1e6)).toISOString(),
    bytes: () => readAll({ fd, path, size }, bytesMax),
    range: (first, last) => linesIn({ fd, path, size }, { first, last, bytesMax, breathe }),
    [Symbol.dispose]: () => fs.closeSync(fd),
  } as CheckedFile;
}

/** The whole content at one time, as far as the file system allows; a file that grows is cut off by the bound. */
export function readAll({ fd, path, size }: { fd: number; path: string; size: number }, bytesMax: number): Buffer {
  const tooLarge = (used: number) =>
    new ToolError('FILE_LIMIT', `\`${path}\` is ${used} bytes; at most ${bytesMax} are read`, {
      suggestion: 'Search it, or read some lines of it, with startLine and endLine.',
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

/** Bytes read at once of a file of any size. */
const PART_BYTES = 1024 * 1024;

/** Lines `first` to `last`, the number of lines, and the hash of the whole file, up to the size that it had when opened. */
async function linesIn(
  { fd, path, size }: { fd: number; path: string; size: number },
  { first, last, bytesMax, breathe }: { first: number; last: number; bytesMax: number; breathe(): Promise<void> },
): Promise<{ bytes: Buffer; lines: number; hash: string }> {
  const digest = createHash('sha256');
  const buffer = Buffer.allocUnsafe(PART_BYTES);
  const wanted: Buffer[] = [];
  let [line, read, bytes, isEnded] = [1, 0, 0, true];
  while (read < size) {
    await breathe();
    const part = buffer.subarray(0, fs.readSync(fd, buffer, 0, Math.min(PART_BYTES, size - read), read));
    if (part.length === 0) break;
    digest.update(part);
    read += part.length;
    isEnded = part.at(-1) === NEWLINE;
    let [from, to] = [line >= first && line <= last ? 0 : part.length, part.length];
    for (let at = part.indexOf(NEWLINE); at >= 0; at = part.indexOf(NEWLINE, at + 1)) {
      line += 1;
      if (line === first) from = at + 1;
      if (line === last + 1) to = at + 1;
    }
    if (from >= to) continue;
    bytes += to - from;
    if (bytes > bytesMax)
      throw new ToolError('FILE_LIMIT', `these lines of \`${path}\` are over ${bytesMax} bytes`, {
        suggestion: 'Read fewer lines, with startLine and endLine.',
        details: { limit: bytesMax, enforcedBy: 'tool' },
      });
    wanted.push(Buffer.from(part.subarray(from, to)));
  }
  return { bytes: Buffer.concat(wanted), lines: isEnded ? line - 1 : line, hash: `sha256:${digest.digest('hex')}` };
}
const NEWLINE = 10;

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
