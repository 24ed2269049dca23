/** The repositories of a workspace: their indexes and object stores, and which files are as a blob says. */
import type * as fs from 'node:fs';
import { type IndexEntry, parseIndex } from '../../src/sandbox/git/index-file.ts';
import { gitDirOf, joined, parentOf } from './entries.ts';
import { GitObjects, type PackFile } from './git-objects.ts';
import type { WorkspaceFiles } from './workspace-files.ts';

const INDEX_BYTES_MAX = 64 * 1024 * 1024;
const ATTRIBUTES_BYTES_MAX = 64 * 1024;
/** Repositories whose packs are held open. */
const REPOSITORIES_MAX = 16;
/** Attributes with which git changes what it writes, so that a file may differ from its blob though git calls it clean. */
const CONVERTS = /\b(?:filter=|ident\b|working-tree-encoding=|eol=)/;
/** The index has nanoseconds, Node's times are a little coarser. */
const TOLERANCE_NS = 1000;

const PACK = /\/objects\/pack\/(pack-[0-9a-f]+)\.(?:pack|idx)$/;

interface Repository {
  readonly objects: GitObjects;
  /** Entries by their paths in the workspace. */
  readonly index: Map<string, IndexEntry>;
  readonly indexMs: number;
}

export class Repositories implements Disposable {
  readonly #files: WorkspaceFiles;
  readonly #all = new Map<string, Repository>();
  #converts = false;

  constructor(files: WorkspaceFiles) {
    this.#files = files;
  }

  /** Reads the index of a repository, whose `.git` is a directory; the files beside it are looked at next. */
  load(gitDir: string): void {
    if (this.#all.has(gitDir) || this.#all.size >= REPOSITORIES_MAX) return;
    const index = `${gitDir}/index`;
    const stat = this.#files.stat(index);
    const bytes = this.#files.read(index, INDEX_BYTES_MAX);
    // Files of an index that can't be read are copied like others.
    const entries = [...((bytes && parseIndex(bytes)) ?? [])].filter(([, it]) => it.type === 'file');
    const folder = parentOf(gitDir);
    const attributes = this.#files.read(`${gitDir}/info/attributes`, ATTRIBUTES_BYTES_MAX);
    if (attributes) this.readAttributes(attributes.toString('utf8'));
    this.#all.set(gitDir, {
      objects: new GitObjects(this.#files, gitDir),
      index: new Map(folder === '' ? entries : entries.map(([path, it]) => [joined(folder, path), it])),
      indexMs: stat?.mtimeMs ?? 0,
    });
  }

  readAttributes(text: string): void {
    if (CONVERTS.test(text)) this.#converts = true;
  }

  /** The blob that a file was when git last looked, if it is in the object store. */
  tracked(path: string): IndexEntry | undefined {
    for (const { index } of this.#all.values()) {
      const entry = index.get(path);
      if (entry) return entry;
    }
    return undefined;
  }

  /** Whether git's index and the facts of a file say that it is as its blob; false if that has to be read. */
  isClean(entry: IndexEntry, path: string, stat: fs.Stats): boolean {
    if (this.#converts) return false;
    const repository = this.#of(path, entry);
    if (!repository || entry.size !== stat.size) return false;
    if (entry.inode !== 0 && entry.inode !== stat.ino % 2 ** 32) return false;
    const seconds = Math.floor(stat.mtimeMs / 1000);
    const nanoseconds = (stat.mtimeMs - seconds * 1000) * 1e6;
    if (seconds !== entry.mtimeSec || Math.abs(nanoseconds - entry.mtimeNsec) > TOLERANCE_NS) return false;
    // A file of the same moment as the index may have changed after it.
    return stat.mtimeMs < repository.indexMs - TOLERANCE_NS / 1e6 && repository.objects.has(entry.blob);
  }

  has(oid: string): boolean {
    return this.#stores().some((it) => it.has(oid));
  }

  read(oid: string, bytesMax: number): Buffer | undefined {
    for (const it of this.#stores()) {
      const content = it.read(oid, bytesMax);
      if (content) return content;
    }
    return undefined;
  }

  /** Opens packs that came, before objects are looked for. */
  openPacks(): void {
    for (const it of this.#stores()) it.openPacks();
  }

  /** Closes packs that are gone, when nothing of them is needed any more. */
  closeGone(): void {
    for (const it of this.#stores()) it.closeGone();
  }

  /** Whether what stood at a path in an object store is still to be had from that store. */
  holds(path: string): boolean {
    const objects = this.#all.get(gitDirOf(path) as string)?.objects;
    const loose = /\/objects\/([0-9a-f]{2})\/([0-9a-f]{38})$/.exec(path);
    if (loose) return objects?.holds(`${loose[1]}${loose[2]}`) === true;
    const pack = PACK.exec(path)?.[1];
    // The rest speeds git up, and git makes it again.
    return pack === undefined || objects?.holdsAllOf(pack) === true;
  }

  /** A pack, or its index, that a command has removed; undefined if it can't be had. */
  packFile(path: string): PackFile | undefined {
    const file = PACK.exec(path)?.[0].slice('/objects/pack/'.length);
    return file === undefined ? undefined : this.#all.get(gitDirOf(path) as string)?.objects.packFile(file);
  }

  [Symbol.dispose](): void {
    for (const it of this.#stores()) it[Symbol.dispose]();
  }

  #stores(): GitObjects[] {
    return [...this.#all.values()].map((it) => it.objects);
  }

  #of(path: string, entry: IndexEntry): Repository | undefined {
    return [...this.#all.values()].find(({ index }) => index.get(path) === entry);
  }
}
