/**
 * Files that are kept by an open descriptor instead of a copy: what a command deletes or replaces is still read through
 * it, at no cost until then. A change in place is lost. No hard link: that would change the file's ctime, after which
 * watchers wake and backups read it again, and there is none from the mount of a workspace to that of the spool.
 */
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import type { Limits } from '../../src/base/limits.ts';
import { limitOf } from '../../src/sandbox/proc.ts';
import { chunksFrom } from './git-objects.ts';
import type { WorkspaceFiles } from './workspace-files.ts';

export interface HeldFile {
  readonly path: string;
  readonly fd: number;
  readonly bytes: number;
  /** Facts of the file when it was opened. */
  readonly stamp: string;
}

/** Facts of a file that change with its content. */
export const stampOf = ({ ino, size, mtimeMs }: fs.Stats): string => `${ino} ${size} ${mtimeMs}`;

export class HeldFiles implements Disposable {
  readonly #files: WorkspaceFiles;
  /** Files held at once: at most half of those that the host may have open. */
  readonly #most: number;
  readonly #all = new Set<HeldFile>();

  constructor(files: WorkspaceFiles, limits: Limits) {
    this.#files = files;
    this.#most = Math.min(limits.shadowHeldFilesMax, Math.floor(limitOf('self', 'Max open files').soft / 2));
  }

  /** Opens a file; undefined if it can't be read, is not the one looked at, or too many are open. */
  hold(path: string, stat: fs.Stats): HeldFile | undefined {
    if (this.#all.size >= this.#most) return undefined;
    const fd = this.#files.open(path);
    if (fd === undefined) return undefined;
    const held = { path, fd, bytes: stat.size, stamp: stampOf(stat) };
    this.#all.add(held);
    if (this.isAsHeld(held)) return held;
    this.release(held);
    return undefined;
  }

  /** Whether the content is the one that was there when the file was opened. */
  isAsHeld({ fd, stamp }: HeldFile): boolean {
    return stampOf(fs.fstatSync(fd)) === stamp;
  }

  read({ fd, bytes }: HeldFile): Iterable<Uint8Array> {
    return chunksFrom(fd, bytes);
  }

  hashOf(held: HeldFile): string {
    const hash = createHash('sha256');
    for (const it of this.read(held)) hash.update(it);
    return hash.digest('hex');
  }

  release(held: HeldFile): void {
    if (this.#all.delete(held)) fs.closeSync(held.fd);
  }

  [Symbol.dispose](): void {
    for (const it of this.#all) this.release(it);
  }
}
