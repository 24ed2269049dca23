/** Implements FileChanges: operations on files and trees. */
import * as fs from 'node:fs';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { isBelow } from '../../src/base/paths.ts';
import type { ToolJob } from '../../src/hosts/job.ts';
import type { FileChanges, FileUpdate } from '../../src/tools/file-changes.ts';
import type { EntryType } from '../../src/tools/tool.ts';
import { below, codeOf, toAccessError } from '../context/anchor.ts';
import type { HeldPath, HeldPaths } from '../context/held-paths.ts';
import { assertApproved, assertHash, hashAt, replaceAllAt, replaceable, typeAt } from '../context/targets.ts';
import { type Changes, type DirEntry, exists, toChangeError } from './changes.ts';
import { boundsOf, imageAt } from './images.ts';
import { mergeTree } from './tree-merge.ts';
import { copyTree, lookOver, removeTree, type TreeEntry, type TreeOptions } from './trees.ts';

export interface TreeChangesOptions {
  readonly paths: HeldPaths;
  readonly changes: Changes;
  readonly limits: Limits;
  /** The contents that a person approved. */
  readonly preImages?: ToolJob['preImages'];
  breathe(): Promise<void>;
}

export class TreeChanges implements FileChanges {
  readonly #options: TreeChangesOptions;

  constructor(options: TreeChangesOptions) {
    this.#options = options;
  }

  async state(path: string): Promise<string | null> {
    let spot: HeldPath;
    try {
      spot = this.#options.paths.hold(path, { kinds: ['read'] });
    } catch (error) {
      if (error instanceof ToolError && error.code === 'NOT_FOUND') return null;
      throw error;
    }
    using held = spot;
    return typeAt(held) === undefined ? null : await this.#stateAt(held);
  }

  async undoOf(path: string): Promise<'full' | 'none'> {
    const { paths, limits } = this.#options;
    try {
      using spot = paths.hold(path, { kinds: ['read'] });
      return imageAt(spot, boundsOf(limits)).type === 'unknown' ? 'none' : 'full';
    } catch (error) {
      if (error instanceof ToolError && error.code === 'NOT_FOUND') return 'full';
      throw error;
    }
  }

  async replaceAll(files: readonly FileUpdate[], declared: string): Promise<void> {
    const { paths, changes, limits, preImages, breathe } = this.#options;
    using held = new DisposableStack();
    const all = [];
    for (const { path, content, ifHash, declared: own = declared } of files) {
      const spot = held.use(paths.hold(path, { kinds: ['write'], declared: own }));
      const assertSame = () => {
        const hash = hashAt(spot, limits.fileBytesMax);
        assertHash(path, hash, ifHash);
        assertApproved(preImages, path, hash ?? null);
      };
      all.push({ spot, content, assertSame });
      await breathe();
    }
    replaceAllAt(all, changes);
  }

  makeDirectory(path: string): boolean {
    const { paths, changes } = this.#options;
    using spot = paths.hold(path, { kinds: ['write'], createDirs: true });
    const type = typeAt(spot);
    if (type === 'directory') return false;
    if (type !== undefined) throw exists(path);
    changes.makeDirectory(spot);
    spot.keep();
    changes.keepDirectory(spot.realPath);
    return true;
  }

  async remove(path: string, { recursive }: { recursive: boolean }): Promise<number> {
    const { paths, changes } = this.#options;
    using spot = paths.hold(path, { kinds: ['write', 'delete'] });
    const type = presentAt(spot);
    const { entries, print } = await lookOver(spot, {
      ...this.#treeOptions(path),
      empties: true,
      visit: (entry) => this.#judge(spot, entry, ['write', 'delete']),
    });
    if (this.#options.preImages)
      assertApproved(this.#options.preImages, path, type === 'file' ? await this.#stateAt(spot) : print);
    if (!recursive && entries > 1) throw notEmpty(path, entries - 1);
    if (type === 'directory') await this.#removeDirectory(spot, recursive);
    else changes.unlink(spot, type);
    return entries;
  }

  async rename(oldPath: string, newPath: string, { overwrite }: { overwrite: boolean }): Promise<void> {
    const { paths, changes, preImages } = this.#options;
    using from = paths.hold(oldPath, { kinds: ['read', 'write', 'delete'] });
    const type = presentAt(from);
    using to = paths.hold(newPath, { kinds: ['write'], createDirs: true });
    const found = assertMayStand(from, to, { type, overwrite });
    const { print } = await lookOver(from, {
      ...this.#treeOptions(oldPath),
      visit: (entry) => {
        this.#judge(from, entry, ['read', 'write', 'delete']);
        this.#judge(to, entry, ['write']);
      },
    });
    if (preImages) {
      assertApproved(preImages, oldPath, type === 'file' ? await this.#stateAt(from) : print);
      assertApproved(preImages, newPath, found ? await this.#stateAt(to) : null);
    }
    if (found && found.ino === fs.lstatSync(below(from.fd, from.name)).ino) {
      // Two names of one file: renaming one onto the other does nothing.
      changes.unlink(from, type);
    } else await this.#move(from, to, { type, overwrite });
    to.keep();
  }

  async copy(sourcePath: string, destPath: string, { overwrite }: { overwrite: boolean }): Promise<number> {
    const { paths, changes, preImages } = this.#options;
    using from = paths.hold(sourcePath, { kinds: ['read'] });
    const type = presentAt(from);
    using to = paths.hold(destPath, { kinds: ['write'], createDirs: true });
    if (type === 'directory' && overwrite && typeAt(to) === 'directory') return await this.#merge(from, to);
    const found = assertMayStand(from, to, { type, overwrite });
    const temporary = changes.temporaryFor(to);
    try {
      const copied = await this.#makeCopy(from, to, temporary);
      if (preImages) assertApproved(preImages, destPath, found ? await this.#stateAt(to) : null);
      changes.put(temporary, to, { type, overwrite, created: !found, copyOf: from });
      to.keep();
      return copied;
    } catch (error) {
      throw toAccessError(error, destPath);
    } finally {
      await this.#clean(to, temporary);
    }
  }

  /** Everything at `to` must be as approved, since any of it may be replaced. */
  async #merge(from: DirEntry, to: DirEntry): Promise<number> {
    assertApart(from, to);
    const { changes, preImages } = this.#options;
    if (preImages) assertApproved(preImages, to.path, await this.#stateAt(to));
    try {
      return await mergeTree(from, to, {
        ...this.#treeOptions(from.path),
        changes,
        visit: (entry) => this.#judgeCopy(from, to, entry),
      });
    } catch (error) {
      throw toAccessError(error, to.path);
    }
  }

  /** Copies a tree to a temporary name; each entry is checked under its old and its new path. */
  #makeCopy(from: DirEntry, to: DirEntry, temporary: string): Promise<number> {
    return copyTree(
      from,
      { fd: to.fd, name: temporary },
      { ...this.#treeOptions(from.path), visit: (entry) => this.#judgeCopy(from, to, entry) },
    );
  }

  #judgeCopy(from: DirEntry, to: DirEntry, entry: TreeEntry): void {
    this.#judge(from, entry, ['read']);
    this.#judge(to, entry, ['write']);
  }

  /** Moves in one step; across mounts (masked paths are mounts), by a copy that is complete before the original is deleted. */
  async #move(from: DirEntry, to: DirEntry, options: { type: EntryType; overwrite: boolean }): Promise<void> {
    const { changes } = this.#options;
    try {
      return changes.move(from, to, options);
    } catch (error) {
      if (codeOf(error) !== 'EXDEV') throw error;
    }
    const temporary = changes.temporaryFor(to);
    try {
      await this.#makeCopy(from, to, temporary);
      const remove = () => removeTree(from.fd, from.name, this.#treeOptions(from.path));
      await changes.moveByCopy(temporary, to, { from, ...options, remove });
    } finally {
      await this.#clean(to, temporary);
    }
  }

  async #removeDirectory(spot: DirEntry, recursive: boolean): Promise<void> {
    const { changes } = this.#options;
    const aside = changes.setAside(spot);
    try {
      if (recursive) await removeTree(spot.fd, aside, this.#treeOptions(spot.path));
      else fs.rmdirSync(below(spot.fd, aside));
    } catch (error) {
      changes.putBack(aside, spot);
      throw toChangeError(error, spot.path);
    }
  }

  /** Deletes what was prepared, whatever the outcome of the call. */
  async #clean({ fd, path }: DirEntry, temporary: string): Promise<void> {
    if (!fs.lstatSync(below(fd, temporary), { throwIfNoEntry: false })) return;
    await removeTree(fd, temporary, { ...this.#treeOptions(path), breathe: () => Promise.resolve() });
  }

  #judge(top: DirEntry, { below: inside }: TreeEntry, kinds: readonly ('read' | 'write' | 'delete')[]): void {
    if (inside !== '') this.#options.paths.judgeInside(kinds, top.realPath, `${top.realPath}/${inside}`);
  }

  /** The state of an entry; by content if that can be read at once, so that a mere change of times does not count. */
  async #stateAt(spot: DirEntry): Promise<string> {
    if (typeAt(spot) !== 'file') return (await lookOver(spot, this.#treeOptions(spot.path))).print;
    try {
      return hashAt(spot, this.#options.limits.fileBytesMax) as string;
    } catch (error) {
      if (!(error instanceof ToolError && error.code === 'FILE_LIMIT')) throw error;
      return (await lookOver(spot, this.#treeOptions(spot.path))).print;
    }
  }

  #treeOptions(path: string): TreeOptions {
    const { limits, breathe } = this.#options;
    return { path, limits, breathe };
  }
}

function presentAt(spot: DirEntry): EntryType {
  const type = typeAt(spot);
  if (type === undefined) throw toAccessError({ code: 'ENOENT' }, spot.path);
  return type;
}

const notEmpty = (path: string, inside: number): ToolError =>
  new ToolError('UNSUPPORTED', `\`${path}\` is a directory with ${inside} entries in it`, {
    suggestion: 'Set recursive: true to delete it with everything in it.',
    details: { entries: inside },
  });

/** The entry that would be overwritten. Throws ALREADY_EXISTS, UNSUPPORTED, ACCESS_DENIED, INPUT_INVALID. */
function assertMayStand(
  from: DirEntry,
  to: DirEntry,
  { type, overwrite }: { type: EntryType; overwrite: boolean },
): fs.Stats | undefined {
  if (from.realPath === to.realPath) throw itself(to);
  if (type === 'directory' && isBelow(from.realPath, to.realPath)) throw liesIn(to, from);
  const there = typeAt(to);
  if (there === 'directory' || (there && type === 'directory')) {
    throw new ToolError('ALREADY_EXISTS', `\`${to.path}\` exists, and directories are not replaced`, {
      suggestion: 'Choose another name, delete it first, or copy a directory over a directory with overwrite: true.',
    });
  }
  if (there && !overwrite) throw exists(to.path);
  return replaceable(to, overwrite);
}

/** Requires that neither of two directories to merge contains the other. Throws INPUT_INVALID. */
function assertApart(from: DirEntry, to: DirEntry): void {
  if (from.realPath === to.realPath) throw itself(to);
  if (isBelow(from.realPath, to.realPath)) throw liesIn(to, from);
  if (isBelow(to.realPath, from.realPath)) throw liesIn(from, to);
}

const itself = (to: DirEntry): ToolError => new ToolError('INPUT_INVALID', `\`${to.path}\` would replace itself`);

const liesIn = (inner: DirEntry, outer: DirEntry): ToolError =>
  new ToolError('INPUT_INVALID', `\`${inner.path}\` lies in \`${outer.path}\``);
