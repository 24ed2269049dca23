/** The hashes that git gives the files of an entry, by their raw bytes: attributes, filters and the index say nothing here. */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { closing, openToRead } from '../../base/disk.ts';
import { below, namesIn, openFolder, partsOf } from './places.ts';

export interface Blob {
  /** Relative to the workspace. */
  readonly path: string;
  readonly blob: string;
}

/** Files of one entry, and bytes of one file; more than these are not looked for in commits. */
const FILES_MAX = 200;
/** Files and folders of one entry that are looked at. */
const LOOKED_AT_MAX = 400;
const BYTES_MAX = 1024 * 1024;

/** The files at a path; none if something there has no such hash, or there are too many. */
export function blobsOf(workspace: string, path: string, hash: 'sha1' | 'sha256'): Blob[] {
  const blobs: Blob[] = [];
  try {
    const left = [path];
    let looked = 0;
    for (let at = left.pop(); at !== undefined; at = left.pop()) {
      if (blobs.length >= FILES_MAX || looked++ >= LOOKED_AT_MAX) return [];
      const found = lookAt(workspace, at, hash);
      if (typeof found === 'string') blobs.push({ path: at, blob: found });
      else left.push(...found.map((name) => `${at}/${name}`));
    }
  } catch {
    return []; // ENOENT, EACCES and others: it went, or is closed to us.
  }
  return blobs;
}

/** The hash of a file or link, or the names in a folder. Throws for anything else. */
function lookAt(workspace: string, path: string, hash: string): string | string[] {
  const parts = partsOf(Buffer.from(path));
  const name = parts.pop() as Buffer;
  using parent = closing(openFolder(workspace, parts));
  const at = below(parent.fd, name);
  const stat = fs.lstatSync(at);
  if (stat.isSymbolicLink()) return hashOf(fs.readlinkSync(at, 'buffer'), hash);
  if (!stat.isDirectory() && !stat.isFile()) throw new Error('neither a file nor a folder');
  using opened = openToRead(at);
  if (stat.isDirectory()) {
    const names = namesIn(`/proc/self/fd/${opened.fd}`, LOOKED_AT_MAX);
    if (!names) throw new Error('too many names');
    return names;
  }
  if (fs.fstatSync(opened.fd).size > BYTES_MAX) throw new Error('too large');
  return hashOf(fs.readFileSync(opened.fd), hash);
}

export const hashOf = (bytes: Buffer, hash: string): string =>
  createHash(hash).update(`blob ${bytes.length}\0`).update(bytes).digest('hex');
