/**
 * Reads files of a workspace by paths that lead through no link: a command may put one in the place of a directory at any
 * time, and this host has the undo data of others in reach.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { closing } from '../../src/base/disk.ts';
import { type Anchor, below } from '../context/anchor.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_NOCTTY, O_RDONLY } = fs.constants;

export class WorkspaceFiles {
  readonly root: string;
  readonly #anchor: Anchor;

  /** `root` is absolute and without links. */
  constructor(root: string, anchor: Anchor) {
    this.root = root;
    this.#anchor = anchor;
  }

  at(path: string): string {
    return path === '' ? this.root : join(this.root, path);
  }

  /** The facts of an entry; undefined for none. They say nothing of what `open` opens later. */
  stat(path: string): fs.Stats | undefined {
    try {
      return fs.lstatSync(this.at(path), { throwIfNoEntry: false });
    } catch {
      return undefined; // ENOTDIR, EACCES, ENAMETOOLONG.
    }
  }

  /** The names in a directory; none if it can't be read. */
  list(path: string): string[] {
    return this.entries(path).map((it) => it.name);
  }

  entries(path: string): fs.Dirent[] {
    try {
      return fs.readdirSync(this.at(path), { withFileTypes: true });
    } catch {
      return [];
    }
  }

  /** Whether a directory has more than so many entries; no more of them are read. */
  hasMoreThan(path: string, most: number): boolean {
    try {
      using folder = fs.opendirSync(this.at(path));
      for (let count = 0; folder.readSync() !== null; ) if (++count > most) return true;
      return false;
    } catch {
      return false;
    }
  }

  /** Opens a regular file; undefined if there is none, it can't be read, or its path leads through a link. */
  open(path: string): number | undefined {
    return this.#in(path, (place) => {
      const fd = fs.openSync(place, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
      if (fs.fstatSync(fd).isFile()) return fd;
      fs.closeSync(fd);
      return undefined;
    });
  }

  /** The target of a link, one character for each byte. */
  link(path: string): string | undefined {
    return this.#in(path, (place) => fs.readlinkSync(place, { encoding: 'buffer' }).toString('latin1'));
  }

  /** The content of a file of at most `bytesMax` bytes; undefined for what `open` refuses, and for a larger one. */
  read(path: string, bytesMax: number): Buffer | undefined {
    const fd = this.open(path);
    if (fd === undefined) return undefined;
    using _ = closing(fd);
    return fs.fstatSync(fd).size > bytesMax ? undefined : fs.readFileSync(fd);
  }

  #in<T>(path: string, use: (place: string) => T | undefined): T | undefined {
    try {
      const { fd, name, realPath } = this.#anchor.place(path);
      using _ = closing(fd);
      return realPath === path ? use(below(fd, name)) : undefined;
    } catch {
      return undefined; // Gone, a link, no permission.
    }
  }
}
