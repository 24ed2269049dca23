/**
 * Copies a directory over an existing one like `cp -r`: files of the source replace those of the same name, and
 * everything else stays. All entries are prepared beside their places first; then each is moved to its place, all of
 * them or none.
 */
import * as fs from 'node:fs';
import { ToolError } from '../../src/base/errors.ts';
import type { EntryType } from '../../src/tools/tool.ts';
import { below, codeOf, toAccessError } from '../context/anchor.ts';
import { replaceable, typeAt } from '../context/targets.ts';
import type { Changes, DirEntry } from './changes.ts';
import { copyTree, join, OpenDirectory, removeTree, type TreeOptions, TreeTraversal } from './trees.ts';

export interface MergeOptions extends TreeOptions {
  readonly changes: Changes;
}

/** An entry prepared beside its place. */
interface PreparedEntry {
  readonly name: string;
  readonly type: EntryType;
  readonly temporary: string;
  /** Identity of the file that it replaces; absent for none. */
  readonly old?: string | undefined;
  isSeen: boolean;
  /** Name that keeps the replaced entry until all are moved. */
  aside?: string | undefined;
}

/** The prepared entries of one directory, with its path from the top. */
interface PreparedDirectory {
  readonly at: string;
  readonly ready: PreparedEntry[];
}

/**
 * Resolves with the number of entries of the source. Throws ALREADY_EXISTS if only one of two entries is a directory,
 * ACCESS_DENIED if a link would be replaced, and what copying throws.
 */
export async function mergeTree(from: DirEntry, to: DirEntry, options: MergeOptions): Promise<number> {
  const merge = new TreeMerge(from, to, options);
  try {
    const entries = await merge.makeReady();
    await merge.show();
    return entries;
  } finally {
    await merge.clean();
  }
}

class TreeMerge {
  readonly #source: DirEntry;
  readonly #destination: DirEntry;
  readonly #options: MergeOptions;
  readonly #pass: TreeTraversal;
  readonly #folders: PreparedDirectory[] = [];

  constructor(from: DirEntry, to: DirEntry, options: MergeOptions) {
    this.#source = from;
    this.#destination = to;
    this.#options = options;
    this.#pass = new TreeTraversal(options);
  }

  /** Prepares all entries; gives their number in the source. */
  async makeReady(): Promise<number> {
    using source = new OpenDirectory(this.#source.fd, this.#source.name);
    using target = new OpenDirectory(this.#destination.fd, this.#destination.name);
    await this.#merge({ source, target, at: '', depth: 0 });
    return this.#pass.entries;
  }

  /** Moves all entries to their places. Throws the error of a change, after restoring everything. */
  async show(): Promise<void> {
    const { changes, breathe } = this.#options;
    const before = changes.noted.length;
    try {
      for (const { at, ready } of this.#folders) {
        if (ready.length === 0) continue;
        using folder = this.#open(at);
        for (const it of ready) {
          const { type, old } = it;
          const created = old === undefined;
          const to = inside(this.#destination, folder, join(at, it.name));
          const assertSame = () => {
            if (markAt(to) !== old) throw toAccessError({ code: 'ESTALE' }, to.path);
          };
          const putting = { type, created, overwrite: !created, keepsOld: true, assertSame };
          const { aside } = changes.put(it.temporary, to, putting);
          Object.assign(it, { isSeen: true, aside });
          await breathe();
        }
      }
    } catch (error) {
      this.#takeBack();
      changes.forget(before);
      throw error;
    }
  }

  /** Deletes what was prepared, whatever the outcome of the call. */
  async clean(): Promise<void> {
    for (const { at, ready } of this.#folders) {
      const names = ready.flatMap(({ temporary, aside }) => [temporary, ...(aside === undefined ? [] : [aside])]);
      if (names.length === 0) continue;
      const quiet = { ...this.#options, breathe: () => Promise.resolve() };
      try {
        using folder = this.#open(at);
        for (const it of names) await removeTree(folder.fd, it, quiet);
      } catch (error) {
        // Somebody else removed the whole directory.
        if (!(error instanceof ToolError)) throw error;
      }
    }
  }

  async #merge(of: { source: OpenDirectory; target: OpenDirectory; at: string; depth: number }): Promise<void> {
    const { source, target, at, depth } = of;
    await this.#pass.enter({ below: at, type: 'directory' }, depth);
    const folder: PreparedDirectory = { at, ready: [] };
    this.#folders.push(folder);
    for (const name of source.names()) {
      const path = join(at, name);
      const [from, to] = [inside(this.#source, source, path), inside(this.#destination, target, path)];
      source.stat(name, from.path);
      const type = typeAt(from);
      if (type === undefined) continue;
      const there = typeAt(to);
      if (type === 'directory' && there === 'directory') {
        using inner = new OpenDirectory(source.fd, name);
        using over = new OpenDirectory(target.fd, name);
        await this.#merge({ source: inner, target: over, at: path, depth: depth + 1 });
      } else if (there && (type === 'directory' || there === 'directory')) throw typeConflict(to.path, type);
      else await this.#makeReady(folder, { name, from, to, type, at: path, depth: depth + 1 });
    }
  }

  async #makeReady(folder: PreparedDirectory, { name, from, to, type, at, depth }: EntryPair): Promise<void> {
    if (type === 'symlink' && isSameLink(from, to)) return this.#pass.enter({ below: at, type }, depth);
    const old = markAt(to);
    const temporary = this.#options.changes.temporaryFor(to);
    folder.ready.push({ name, type, temporary, isSeen: false, old });
    await copyTree(from, { fd: to.fd, name: temporary }, this.#options, { pass: this.#pass, at, depth });
  }

  /** Restores moved entries, the last one first; what somebody else removed meanwhile stays removed. */
  #takeBack(): void {
    for (const { at, ready } of this.#folders.toReversed()) {
      const seen = ready.filter((it) => it.isSeen);
      if (seen.length === 0) continue;
      quietly(() => {
        using folder = this.#open(at);
        for (const { name, temporary, aside } of seen.toReversed())
          quietly(() =>
            fs.renameSync(below(folder.fd, aside ?? name), below(folder.fd, aside === undefined ? temporary : name)),
          );
      });
    }
  }

  /** Opens a directory of the destination without following links. */
  #open(at: string): OpenDirectory {
    try {
      let folder = new OpenDirectory(this.#destination.fd, this.#destination.name);
      for (const name of at === '' ? [] : at.split('/')) {
        using above = folder;
        folder = new OpenDirectory(above.fd, name);
      }
      return folder;
    } catch (error) {
      throw toAccessError(
        ['ENOTDIR', 'ELOOP'].includes(codeOf(error) ?? '') ? { code: 'ESTALE' } : error,
        join(this.#destination.path, at),
      );
    }
  }
}

interface EntryPair {
  readonly name: string;
  readonly from: DirEntry;
  readonly to: DirEntry;
  readonly type: EntryType;
  readonly at: string;
  readonly depth: number;
}

/** The place of the entry at `path` of a tree, in its open directory. */
function inside(top: DirEntry, { fd }: OpenDirectory, path: string): DirEntry {
  const name = path.slice(path.lastIndexOf('/') + 1);
  return { fd, name, path: join(top.path, path), realPath: join(top.realPath, path) };
}

/** Identifies a file and its version; undefined for no file. Throws for an entry that must not be replaced. */
function markAt(to: DirEntry): string | undefined {
  const stat = replaceable(to, true);
  return stat && `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
}

function isSameLink(from: DirEntry, to: DirEntry): boolean {
  if (typeAt(to) !== 'symlink') return false;
  const [a, b] = [from, to].map(({ fd, name }) => fs.readlinkSync(below(fd, name), { encoding: 'buffer' })) as [
    Buffer,
    Buffer,
  ];
  return a.equals(b);
}

const typeConflict = (path: string, type: EntryType): ToolError =>
  new ToolError(
    'ALREADY_EXISTS',
    type === 'directory'
      ? `\`${path}\` is not a directory, and a directory can't replace it`
      : `\`${path}\` is a directory, and directories are not replaced`,
    { suggestion: 'Choose another name, or delete it first.' },
  );

/** Runs a step, and ignores file system errors: somebody else may have removed the entry. */
function quietly(step: () => void): void {
  try {
    step();
  } catch (error) {
    if (!(error instanceof ToolError) && codeOf(error) === undefined) throw error;
  }
}
