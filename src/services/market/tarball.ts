/**
 * Reads the files of an npm package's archive into memory. An archive that holds anything but regular files below one
 * folder is refused whole, so that no name or link of it ever reaches the disk.
 */
import { gunzipSync } from 'node:zlib';
import type { Limits } from '../../base/limits.ts';
import { MarketError } from './market-error.ts';

const BLOCK = 512;
/** Names of regular files and folders; others are links, devices and extensions. */
const FILE_TYPES = ['0', '\0'];
const FOLDER_TYPE = '5';
/** Headers that describe the file behind them, or all files. */
const PAX_TYPES = ['x', 'g'];

/** The files by their path below the archive's folder. Throws MarketError. */
export function readTarball(
  archive: Buffer,
  { marketUnpackedBytesMax, marketEntriesMax }: Limits,
): ReadonlyMap<string, Buffer> {
  const tar = unzipped(archive, marketUnpackedBytesMax);
  const files = new Map<string, Buffer>();
  let entries = 0;
  for (let at = 0; at + BLOCK <= tar.length && tar[at] !== 0; ) {
    entries += 1;
    if (entries > marketEntriesMax) throw new MarketError(`the archive has more than ${marketEntriesMax} entries`);
    const { name, type, size } = readHeader(tar.subarray(at, at + BLOCK));
    const from = at + BLOCK;
    if (from + size > tar.length) throw new MarketError(`the archive ends within ${shown(name)}`);
    const content = tar.subarray(from, from + size);
    if (PAX_TYPES.includes(type)) assertHarmless(content);
    else if (FILE_TYPES.includes(type)) addFile(files, name, content);
    else if (type !== FOLDER_TYPE)
      throw new MarketError(`${shown(name)} in the archive is no regular file (type ${shown(type)})`);
    at = from + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files;
}

/** Unpacks up to a bound: a few bytes can stand for gigabytes. */
function unzipped(archive: Buffer, bytesMax: number): Buffer {
  try {
    return gunzipSync(archive, { maxOutputLength: bytesMax });
  } catch (error) {
    const isLarge = (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    throw new MarketError(
      isLarge ? `the archive has more than ${bytesMax} bytes unpacked` : 'the archive is no gzip file',
    );
  }
}

function readHeader(header: Buffer): { name: string; type: string; size: number } {
  const field = (from: number, length: number) => {
    const bytes = header.subarray(from, from + length);
    const end = bytes.indexOf(0);
    return bytes.subarray(0, end < 0 ? length : end).toString('utf8');
  };
  const octal = (from: number, length: number) => {
    const digits = field(from, length).trim();
    if (!/^[0-7]{1,12}$/.test(digits)) throw new MarketError('the archive has a header that can not be read');
    return Number.parseInt(digits, 8);
  };
  // The sum counts its own field as spaces.
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 0x20 : byte), 0);
  if (sum !== octal(148, 8)) throw new MarketError('the archive has a header whose checksum is wrong');
  const isUstar = field(257, 6).startsWith('ustar');
  const prefix = isUstar ? field(345, 155) : '';
  const name = field(0, 100);
  return {
    name: prefix === '' ? name : `${prefix}/${name}`,
    type: String.fromCharCode(header[156] ?? 0),
    size: octal(124, 12),
  };
}

/** Throws MarketError if a header gives a file another path, target or size. */
function assertHarmless(content: Buffer): void {
  const key = /(?:^|\n)\d+ (path|linkpath|size|GNU\.sparse[^=]*)=/.exec(content.toString('utf8'))?.[1];
  if (key !== undefined) throw new MarketError(`the archive sets the ${key} of a file by an extended header`);
}

/** Adds a file under its path without the first folder, which npm ignores, too. */
function addFile(files: Map<string, Buffer>, name: string, content: Buffer): void {
  const [folder = '', ...parts] = name.split('/');
  const isSafe = [folder, ...parts].every((it) => it !== '' && it !== '.' && it !== '..' && !/[\\\0]/.test(it));
  const path = parts.join('/');
  if (!isSafe || path === '') throw new MarketError(`${shown(name)} in the archive is no path below its folder`);
  if (files.has(path)) throw new MarketError(`${shown(path)} is in the archive twice`);
  files.set(path, content);
}

const shown = (text: string): string => JSON.stringify(text.slice(0, 256));
