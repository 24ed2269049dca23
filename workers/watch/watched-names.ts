/**
 * Keeps the names in a workspace up to date from the kernel's events (inotify), and knows which of them changed while a
 * command ran. The kernel queues an event before the system call that causes it returns, and Node reads the whole queue in
 * one turn of the loop: after a turn that began when a command was over, everything it did is known. Needs a thread of its
 * own, since a command that changes files fast enough keeps that turn from ending.
 *
 * Does not see: the content of `.git` directories, names that are not UTF-8, writes through shared mappings or by another
 * hard link of the file. A directory that is moved away and back counts as changed.
 * docs/decisions/0021-two-watchers.md says why src/hosts/workspace-tree.ts is another watcher.
 */
import { type FSWatcher, lstatSync, readdirSync, type Stats, watch } from 'node:fs';
import { basename, join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import type { FileChange } from '../../src/call.ts';
import type { FilesChanged } from '../../src/hosts/job.ts';

export interface WatchBounds {
  readonly directoriesMax: number;
  /** The most files and directories, and the most changes noted per command. */
  readonly namesMax: number;
  /** Number of events that the kernel queues for a reader; it drops more. */
  readonly queueMax: number;
}

interface Folder {
  /** Relative to the workspace; '' for the workspace itself. */
  readonly path: string;
  /** The name in the kernel's events about the directory itself; these look like events of an entry of that name. */
  readonly ownName: string;
  readonly identity: string;
  /** Entries by name: directories, and files with a change time if their name is `ownName`. */
  readonly names: Map<string, number | Folder>;
  readonly watcher: FSWatcher;
  gone: boolean;
}

interface Run {
  /** Maps each path with an event to whether the file existed before the run. */
  readonly before: Map<string, boolean>;
  isLost: boolean;
}

/** The most changes given per run; callers show fewer. */
const GIVEN_MAX = 1000;

export class WatchedNames implements Disposable {
  readonly #workspace: string;
  readonly #bounds: WatchBounds;
  readonly #runs = new Map<number, Run>();
  #root: Folder | undefined;
  #isUnwatchable = false;
  #directories = 0;
  #names = 0;
  /** Number of events since the queue was last read to its end. */
  #events = 0;
  /** Names with events that were not looked at yet. */
  #dirty = new Map<Folder, Set<string>>();
  #looking: NodeJS.Immediate | undefined;

  /** Reads and watches the whole workspace, whose path is absolute and without links: 20 000 names in 40 ms. */
  constructor(workspace: string, bounds: WatchBounds) {
    this.#workspace = workspace;
    this.#bounds = bounds;
    this.#begin();
  }

  /** Begins to count changes for `run`; resolves when all earlier changes are known. */
  async begin(run: number): Promise<void> {
    await this.#settled();
    this.#runs.set(run, { before: new Map(), isLost: false });
  }

  /** The changes since the run's beginning; outer files before inner ones, at most GIVEN_MAX. */
  async end(run: number): Promise<FilesChanged> {
    await this.#settled();
    const ended = this.#runs.get(run);
    this.#runs.delete(run);
    if (this.#isUnwatchable) return { unknown: 'unwatched' };
    if (!ended || ended.isLost) return { unknown: 'flood' };
    const files: FileChange[] = [];
    for (const [path, before] of ended.before) {
      const after = this.#has(path);
      if (before || after) files.push({ path, kind: before && after ? 'modify' : after ? 'create' : 'delete' });
    }
    const depth = new Map(files.map(({ path }) => [path, path.split('/').length]));
    const inOrder = files.sort(
      (a, b) => (depth.get(a.path) as number) - (depth.get(b.path) as number) || (a.path < b.path ? -1 : 1),
    );
    return { files: inOrder.slice(0, GIVEN_MAX), total: files.length };
  }

  [Symbol.dispose](): void {
    clearImmediate(this.#looking);
    this.#stop();
  }

  /**
   * Waits three turns: the first may have begun before, the second reads the whole queue of the kernel, the third
   * looks at the events.
   */
  async #settled(): Promise<void> {
    for (let turns = 0; turns < 3; turns++) await turn();
    this.#look();
  }

  #begin(): void {
    try {
      this.#root = this.#added('', lstatSync(this.#workspace));
    } catch {
      this.#giveUp(); // Too large, or no watches left (ENOSPC, EMFILE).
    }
  }

  /** Stops watching for good: each retry would cost a command as much as this attempt. */
  #giveUp(): void {
    this.#isUnwatchable = true;
    this.#stop();
  }

  #stop(): void {
    if (this.#root) this.#forget(this.#root);
    this.#root = undefined;
    this.#dirty.clear();
    this.#directories = 0;
    this.#names = 0;
  }

  #take(folder: Folder, name: string | null): void {
    this.#events += 1;
    if (folder.gone || name === null || isSkipped(name)) return;
    const names = this.#dirty.get(folder) ?? new Set();
    names.add(name);
    this.#dirty.set(folder, names);
    this.#looking ??= setImmediate(() => this.#look());
  }

  /** Looks at all names with events; called when the queue was read to its end. */
  #look(): void {
    clearImmediate(this.#looking);
    this.#looking = undefined;
    const events = this.#events;
    this.#events = 0;
    try {
      // The queue overflows only when full, and all its events then come in one turn; half, since some events are filtered out.
      if (events > this.#bounds.queueMax / 2) return this.#startAnew();
      const dirty = this.#dirty;
      this.#dirty = new Map();
      const there: (() => void)[] = [];
      // Removed names first: a moved directory is watched only once.
      for (const [folder, names] of dirty) {
        for (const name of names) {
          if (folder.gone) break;
          const stat = lookAt(join(this.#workspace, folder.path, name));
          if (stat) there.push(() => this.#cameOrChanged(folder, name, stat));
          else this.#went(folder, name);
        }
      }
      for (const it of there) it();
    } catch {
      this.#giveUp(); // The same as in #begin.
    }
  }

  #startAnew(): void {
    for (const run of this.#runs.values()) run.isLost = true;
    this.#stop();
    this.#begin();
  }

  #went(folder: Folder, name: string): void {
    const known = folder.names.get(name);
    if (known === undefined) return;
    folder.names.delete(name);
    this.#names -= 1;
    if (typeof known === 'object') this.#dropped(known);
    else this.#note(pathOf(folder, name), true);
  }

  #cameOrChanged(folder: Folder, name: string, stat: Stats): void {
    if (folder.gone) return;
    const known = folder.names.get(name);
    const path = pathOf(folder, name);
    if (stat.isDirectory()) {
      if (typeof known === 'object' && known.identity === identityOf(stat) && stat.birthtimeMs > 0) return;
      this.#went(folder, name);
      const added = this.#added(path, stat);
      if (added) this.#set(folder, name, added);
      return;
    }
    if (typeof known === 'object') this.#went(folder, name);
    const isOwn = name === folder.ownName;
    // Otherwise the event is about the directory of the same name itself.
    if (!isOwn || known !== stat.ctimeMs) this.#note(path, typeof known === 'number');
    this.#set(folder, name, isOwn ? stat.ctimeMs : 0);
  }

  /** Adds a new directory, watched before it is read; undefined if it is gone by now. */
  #added(path: string, stat: Stats): Folder | undefined {
    const at = join(this.#workspace, path);
    if (++this.#directories > this.#bounds.directoriesMax) throw new Error('too many directories');
    try {
      const watcher = watch(at, { persistent: false });
      const folder: Folder = {
        path,
        watcher,
        ownName: basename(at),
        identity: identityOf(stat),
        names: new Map(),
        gone: false,
      };
      watcher.on('change', (_, name) => this.#take(folder, name as string | null));
      watcher.on('error', () => {}); // Its directory is gone, which its parent reports.
      this.#read(folder, at);
      return folder;
    } catch (error) {
      this.#directories -= 1;
      if (isGone(error)) return undefined;
      throw error;
    }
  }

  #read(folder: Folder, at: string): void {
    try {
      for (const entry of readdirSync(at, { withFileTypes: true })) {
        const { name } = entry;
        if (isSkipped(name)) continue;
        const path = pathOf(folder, name);
        const stat = entry.isDirectory() || name === folder.ownName ? lookAt(join(at, name)) : undefined;
        if (stat?.isDirectory()) {
          const inner = this.#added(path, stat);
          if (inner) this.#set(folder, name, inner);
        } else {
          this.#set(folder, name, stat?.ctimeMs ?? 0);
          this.#note(path, false);
        }
      }
    } catch (error) {
      this.#forget(folder);
      throw error;
    }
  }

  #set(folder: Folder, name: string, entry: number | Folder): void {
    if (!folder.names.has(name) && ++this.#names > this.#bounds.namesMax) throw new Error('too many names');
    folder.names.set(name, entry);
  }

  /** Drops a directory, and notes all its content as removed. */
  #dropped(folder: Folder): void {
    folder.gone = true;
    folder.watcher.close();
    this.#directories -= 1;
    for (const name of [...folder.names.keys()]) this.#went(folder, name);
  }

  /** Drops a directory without noting its content. */
  #forget(folder: Folder): void {
    folder.gone = true;
    folder.watcher.close();
    for (const it of folder.names.values()) if (typeof it === 'object') this.#forget(it);
  }

  #note(path: string, before: boolean): void {
    for (const run of this.#runs.values()) {
      if (run.isLost || run.before.has(path)) continue;
      run.before.set(path, before);
      if (run.before.size > this.#bounds.namesMax) run.isLost = true;
    }
  }

  #has(path: string): boolean {
    let at: number | Folder | undefined = this.#root;
    for (const name of path.split('/')) at = typeof at === 'object' ? at.names.get(name) : undefined;
    return typeof at === 'number';
  }
}

const pathOf = ({ path }: Folder, name: string): string => (path === '' ? name : `${path}/${name}`);

/** The identity of a directory. Inode numbers are reused at once; birth times are not. */
const identityOf = ({ dev, ino, birthtimeMs }: Stats): string => `${dev} ${ino} ${birthtimeMs}`;

const isSkipped = (name: string): boolean => name === '.git' || name.includes('\ufffd');

/** Facts of the present entry; undefined for nothing, or if it can't be reached. */
function lookAt(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined; // ENOTDIR, EACCES, ENAMETOOLONG.
  }
}

/** Whether the directory is gone or not readable, so that its content can't be reported. */
function isGone(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR' || code === 'EACCES' || code === 'ENAMETOOLONG';
}
