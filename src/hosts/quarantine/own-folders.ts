/**
 * Protected folders that are there when a command starts (`.vscode`, `.husky`, `.git/hooks`): the command gets a copy of each, so
 * that checkouts and installers can write in them, and nobody's editor reads what it writes. When it has ended, what the person has
 * committed at the same path, and what runs nothing, is taken over; the rest is for the quarantine. A folder that is too large stays
 * read-only.
 */
import * as fs from 'node:fs';
import { join } from 'node:path';
import { isHooksFolder, isInGit } from '../../base/paths.ts';
import type { Powers } from '../../base/powers.ts';
import { protectedPart } from '../../base/protected-names.ts';
import type { Masks, OwnFolder } from '../../sandbox/masks.ts';
import { type Blob, blobsOf } from './blobs.ts';
import {
  atEntry,
  copyEntry,
  type Entries,
  entriesOf,
  isSameEntry,
  isSameTree,
  isThere,
  printOf,
  replaceEntry,
} from './trees.ts';

/** Folders of one command, and entries and bytes of one folder that is copied. */
const FOLDERS_MAX = 16;
const COPIED = { entries: 200, bytes: 4 * 1024 * 1024 };
/** Entries of a copy that are looked at when its command has ended, and bytes of all. */
const LEFT = { entries: 2_000, bytes: 64 * 1024 * 1024 };
/** Copies that wait for the next command. */
const KEPT_MAX = 64;

/** A copy, with the entries that it had, and those of the folder. */
export interface LentFolder extends OwnFolder {
  readonly source: Entries;
  readonly made: Entries;
  readonly skipped: ReadonlyMap<string, 'file' | 'directory'>;
}

/** A path, relative to the workspace, that a command wrote in a copy; `over` tells what was there. */
export interface Written {
  readonly path: string;
  readonly from: string;
  readonly over: string | undefined;
}

/** What a command did in its copies. */
export interface OwnChanges {
  readonly written: readonly Written[];
  /** Files and links that it removed, and folders, the innermost first. */
  readonly removed: readonly string[];
  readonly removedFolders: readonly string[];
}

/** Paths whose texts stand so in commits of the person, and those that some of these commits don't have. */
export interface KnownPaths {
  readonly known: ReadonlySet<string>;
  readonly missing: ReadonlySet<string>;
}

/** What may be taken over. */
interface Known extends KnownPaths {
  /** Whether a rule keeps a path as it is. */
  isHeld(path: string): boolean;
}

export interface OwnFoldersOptions {
  readonly workspace: string;
  /** Folder for the copies, which hosts see, too; undefined if there is none that they could reach. */
  place(): string | undefined;
  readonly powers: Pick<Powers, 'log' | 'spawn' | 'uuid'>;
}

export class OwnFolders {
  readonly #options: OwnFoldersOptions;
  readonly #kept = new Map<string, LentFolder>();

  constructor(options: OwnFoldersOptions) {
    this.#options = options;
  }

  /** Copies those of the protected folders that are small enough. */
  lend({ readOnly, hidden }: Masks): LentFolder[] {
    const place = this.#options.place();
    if (place === undefined) return [];
    return readOnly
      .filter((it) => protectedPart(it) === it || isHooksFolder(it))
      .slice(0, FOLDERS_MAX)
      .flatMap((path) => {
        const below = hidden.filter((it) => it.path.startsWith(`${path}/`));
        if (below.some((it) => it.bytes)) return [];
        const skipped = new Map(below.map((it) => [it.path.slice(path.length + 1), it.type]));
        const source = entriesOf(this.#options.workspace, path, { ...COPIED, skipped });
        const kept = this.#kept.get(path);
        this.#kept.delete(path);
        if (kept && source && isSameTree(kept.source, source)) return [kept];
        if (kept) this.#remove(kept.folder);
        return source ? this.#copy(place, { path, source, skipped }) : [];
      });
  }

  /** What an ended command did in its copies; undefined if that is too much to look at. */
  changesOf(copies: readonly LentFolder[]): OwnChanges | undefined {
    const changes = copies.map((copy) => this.#changesIn(copy));
    if (changes.includes(undefined)) return undefined;
    return {
      written: changes.flatMap((it) => it?.written ?? []),
      removed: changes.flatMap((it) => it?.removed ?? []),
      removedFolders: changes.flatMap((it) => it?.removedFolders ?? []),
    };
  }

  #changesIn(copy: LentFolder): OwnChanges | undefined {
    const top = this.#at(copy.folder);
    const left = entriesOf(top, '', { ...LEFT, skipped: copy.skipped });
    if (!left) return undefined;
    // git runs no sample, so what a command does to one is of no use to anybody.
    const isIdle = (name: string) => isInGit(copy.path) && name.endsWith('.sample');
    const isChanged = ([name, { print, type }]: [string, { print: string; type: string }]) =>
      type !== 'folder' && copy.made.get(name)?.print !== print && !isIdle(name);
    const written = [...left].filter(isChanged).map(([name]) => {
      return { path: `${copy.path}/${name}`, from: join(top, name), over: copy.source.get(name)?.print };
    });
    const gone = [...copy.made].filter(([name]) => !left.has(name) && !isIdle(name));
    const goneOf = (isFolder: boolean) =>
      gone.filter(([, { type }]) => (type === 'folder') === isFolder).map(([name]) => `${copy.path}/${name}`);
    return {
      written: written.filter(
        ({ path, from }) => !isThere(this.#options.workspace, path, (at) => isSameEntry(from, at)),
      ),
      removed: goneOf(false).filter((path) => isThere(this.#options.workspace, path)),
      removedFolders: goneOf(true).reverse(),
    };
  }

  /** The hashes of what was written, and of what was removed as it is in the workspace. */
  blobsOf({ written, removed }: OwnChanges, hash: 'sha1' | 'sha256'): Blob[] {
    const now = written.map(({ path, from }) => {
      const at = from.lastIndexOf('/');
      return blobsOf(from.slice(0, at), from.slice(at + 1), hash).map(({ blob }) => ({ path, blob }));
    });
    return [...now.flat(), ...removed.flatMap((path) => blobsOf(this.#options.workspace, path, hash))];
  }

  /**
   * Takes over what may be, where the person changed nothing meanwhile; gives what is left. No hook may: a tree in a commit can hold a
   * forged `.git`.
   */
  takeOver(copies: readonly LentFolder[], changes: OwnChanges, { known, missing, isHeld }: Known): OwnChanges {
    const sources = new Map(
      copies.flatMap((it) => [...it.source].map(([name, { print }]) => [`${it.path}/${name}`, print])),
    );
    const may = (path: string, isKnown: boolean) =>
      !isHeld(path) && !isInGit(path) && (protectedPart(path) === undefined || isKnown);
    const isGone = (path: string) =>
      may(path, known.has(path) && missing.has(path)) && this.#change(path, sources.get(path), (at) => fs.rmSync(at));
    const isTaken = ({ path, from, over }: Written) =>
      may(path, known.has(path)) &&
      this.#change(path, over, (at, folder) =>
        replaceEntry(from, at, `${folder}/.ringfence-${this.#options.powers.uuid()}`),
      );
    const removed = changes.removed.filter((it) => !isGone(it));
    const isNeeded = (folder: string) => removed.some((it) => it.startsWith(`${folder}/`));
    const removedFolders = changes.removedFolders.filter(
      (it) => isNeeded(it) || !this.#change(it, sources.get(it), (at) => fs.rmdirSync(at)),
    );
    const written = changes.written.filter((it) => !isTaken(it));
    return { removed, removedFolders, written: this.#inUnits(copies, written, changes) };
  }

  /** Puts what was written in a new folder together, if nothing in it was taken over. */
  #inUnits(copies: readonly LentFolder[], left: readonly Written[], { written }: OwnChanges): Written[] {
    const stays = new Set(left);
    const taken = written.filter((it) => !stays.has(it)).map(({ path }) => path);
    const units = left.map((it) => {
      const copy = copies.find(({ path }) => it.path.startsWith(`${path}/`));
      const names = it.path.slice((copy?.path.length ?? 0) + 1).split('/');
      const depth = names.findIndex((_, i) => !copy?.made.has(names.slice(0, i + 1).join('/'))) + 1;
      const name = names.slice(0, depth).join('/');
      const path = `${copy?.path}/${name}`;
      const isWhole = copy && depth > 0 && depth < names.length && !taken.some((at) => at.startsWith(`${path}/`));
      return isWhole ? { path, from: join(this.#at(copy.folder), name), over: undefined } : it;
    });
    return [...new Map(units.map((it) => [it.path, it])).values()];
  }

  /** Takes copies back; those that are not as they were are removed. */
  giveBack(copies: readonly LentFolder[]): void {
    for (const copy of copies) {
      const left = entriesOf(this.#at(copy.folder), '', { ...COPIED, skipped: copy.skipped });
      const isSame = left !== undefined && isSameTree(left, copy.made);
      if (isSame && !this.#kept.has(copy.path) && this.#kept.size < KEPT_MAX) this.#kept.set(copy.path, copy);
      else this.#remove(copy.folder);
    }
  }

  #copy(place: string, of: Pick<LentFolder, 'path' | 'source' | 'skipped'>): LentFolder[] {
    const { path, source, skipped } = of;
    const folder = `own-${this.#options.powers.uuid()}`;
    const top = join(place, folder);
    try {
      fs.mkdirSync(top, { mode: 0o755 });
      for (const [name, { type, mode }] of source) {
        const at = join(top, name);
        if (type === 'folder' || skipped.get(name) === 'directory') fs.mkdirSync(at, { mode: mode | 0o700 });
        // Something to mount on.
        else if (type === 'hidden') fs.writeFileSync(at, '');
        else atEntry(this.#options.workspace, `${path}/${name}`, (from) => copyEntry(from, at));
      }
      const made = entriesOf(top, '', { ...COPIED, skipped });
      if (made?.size === source.size) return [{ ...of, folder, made }];
    } catch (error) {
      // ENOENT, ELOOP: somebody changes it at the moment.
      this.#options.powers.log.warn({ error, path }, 'a protected folder was not copied for a command');
    }
    this.#remove(folder);
    return [];
  }

  #at(folder: string): string {
    return join(this.#options.place() ?? '/nonexistent', folder);
  }

  /** Changes a path if what is there has that print; false if it has another one, or can't be changed. */
  #change(path: string, print: string | undefined, work: (at: string, folder: string) => void): boolean {
    try {
      const change = (at: string, folder: string) => {
        if (printOf(at) !== print) return false;
        work(at, folder);
        return true;
      };
      return atEntry(this.#options.workspace, path, change, print === undefined);
    } catch (error) {
      this.#options.powers.log.warn({ error, path }, 'what a command left in a protected folder was not taken over');
      return false;
    }
  }

  #remove(folder: string): void {
    const child = this.#options.powers.spawn('rm', ['-rf', '--', this.#at(folder)], {
      stdio: 'ignore',
      env: { PATH: '/usr/bin:/bin' },
    });
    child.once('error', (error) => this.#options.powers.log.error({ error }, 'a copy of a folder was not removed'));
  }
}
