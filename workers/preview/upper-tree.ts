/** Reads what a command left in its overlay. The command may have put links anywhere: none is followed. */
import * as fs from 'node:fs';
import { openToRead } from '../../src/base/disk.ts';
import { ToolError } from '../../src/base/errors.ts';
import type { EntryType } from '../../src/tools/tool.ts';
import { below, codeOf, toAccessError } from '../context/anchor.ts';
import { typeOf } from '../context/targets.ts';
import { makeDirectory } from '../undo/changes.ts';
import { join, OpenDirectory } from '../undo/trees.ts';

const { COPYFILE_EXCL, COPYFILE_FICLONE, O_DIRECTORY, O_NOFOLLOW, O_RDONLY } = fs.constants;
const SET_ID_BITS = 0o6000;

interface Spot {
  readonly fd: number;
  readonly name: string;
}

export interface CopyOptions {
  /** Called for each entry first, with its path below the top; '' is the top itself. */
  visit(inside: string): void;
  breathe(): Promise<void>;
}

export class UpperTree implements Disposable {
  readonly #root: number;

  /** `folder` is the absolute path of the overlay's folder. Throws NOT_FOUND. */
  constructor(folder: string) {
    try {
      this.#root = fs.openSync(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    } catch (error) {
      throw toAccessError(error, 'the preview');
    }
  }

  [Symbol.dispose](): void {
    fs.closeSync(this.#root);
  }

  get fd(): number {
    return this.#root;
  }

  /** Type of the entry; undefined if there is none. */
  typeOf(path: string): EntryType | undefined {
    return this.#at(path, (spot) => {
      const stat = fs.lstatSync(below(spot.fd, spot.name), { throwIfNoEntry: false });
      return stat && typeOf(stat);
    });
  }

  /** Permissions of the entry; undefined if there is none. */
  modeOf(path: string): number | undefined {
    return this.#at(path, (spot) => {
      const stat = fs.lstatSync(below(spot.fd, spot.name), { throwIfNoEntry: false });
      return stat && stat.mode & 0o777;
    });
  }

  /** The bytes of a file; undefined if it is no file or has more than `bytesMax`. */
  read(path: string, bytesMax: number): Buffer | undefined {
    return this.#at(path, ({ fd, name }) => {
      using opened = openToRead(below(fd, name));
      const stat = fs.fstatSync(opened.fd);
      return stat.isFile() && stat.size <= bytesMax ? fs.readFileSync(opened.fd) : undefined;
    });
  }

  /**
   * Copies an entry with all in it under a free name: content, permissions, times, link targets. Nothing is flushed to the disk: the
   * command would not have done that either. Throws CONFLICT if the preview is not as it was found.
   */
  async copy(path: string, to: Spot, options: CopyOptions): Promise<void> {
    const parent = this.#openParent(path);
    try {
      await copyEntry({ fd: parent, name: nameOf(path) }, to, '', options);
    } catch (error) {
      throw codeOf(error) === 'ELOOP' || codeOf(error) === 'ENOENT' ? changed(path) : toAccessError(error, path);
    } finally {
      fs.closeSync(parent);
    }
  }

  #at<T>(path: string, look: (spot: Spot) => T): T | undefined {
    let parent: number;
    try {
      parent = this.#openParent(path);
    } catch (error) {
      if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(codeOf(error) ?? '')) return undefined;
      throw error;
    }
    try {
      return look({ fd: parent, name: nameOf(path) });
    } catch (error) {
      if (['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO'].includes(codeOf(error) ?? '')) return undefined;
      throw toAccessError(error, path);
    } finally {
      fs.closeSync(parent);
    }
  }

  #openParent(path: string): number {
    let at = fs.openSync(below(this.#root, '.'), O_RDONLY | O_DIRECTORY);
    for (const name of path.split('/').slice(0, -1)) {
      try {
        const next = fs.openSync(below(at, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        fs.closeSync(at);
        at = next;
      } catch (error) {
        fs.closeSync(at);
        throw error;
      }
    }
    return at;
  }
}

const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

async function copyEntry(from: Spot, to: Spot, inside: string, options: CopyOptions): Promise<void> {
  options.visit(inside);
  await options.breathe();
  const [source, place] = [below(from.fd, from.name), below(to.fd, to.name)];
  const stat = fs.lstatSync(source);
  const type = typeOf(stat);
  if (type === 'symlink') return fs.symlinkSync(fs.readlinkSync(source, { encoding: 'buffer' }), place);
  if (type === 'file' && (stat.mode & SET_ID_BITS) === 0) return copyFile(source, place);
  if (type !== 'directory') throw changed(inside || from.name);
  makeDirectory(place, 0o700);
  using original = new OpenDirectory(from.fd, from.name);
  using copy = new OpenDirectory(to.fd, to.name);
  for (const name of original.names())
    await copyEntry({ fd: original.fd, name }, { fd: copy.fd, name }, join(inside, name), options);
  fs.fchmodSync(copy.fd, stat.mode & 0o777);
  fs.futimesSync(copy.fd, stat.atimeMs / 1000, stat.mtimeMs / 1000);
}

function copyFile(source: string, place: string): void {
  using opened = openToRead(source);
  const { mode, atimeMs, mtimeMs } = fs.fstatSync(opened.fd);
  fs.copyFileSync(`/proc/self/fd/${opened.fd}`, place, COPYFILE_EXCL | COPYFILE_FICLONE);
  using held = openToRead(place);
  fs.fchmodSync(held.fd, mode & 0o777);
  fs.futimesSync(held.fd, atimeMs / 1000, mtimeMs / 1000);
}

const changed = (path: string): ToolError =>
  new ToolError('CONFLICT', `\`${path}\` in the preview is not as its command left it`);
