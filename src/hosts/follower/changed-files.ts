/** Which files of a workspace change while a command runs: the follower's changes, and what the tree says of names in them. */
import type { FileChange } from '../../base/call.ts';
import type { Limits } from '../../base/limits.ts';
import type { FilesChanged } from '../job.ts';
import type { WorkspaceTree } from '../workspace-tree.ts';
import type { Follower } from './follower.ts';

/** The most paths that are judged by rules, and given. */
const JUDGED_MAX = 1000;
/** Characters of the paths that are noted of one run, since a path may have 4 KB. */
const NOTED_CHARS_MAX = 32 * 1024 * 1024;

interface Run {
  /** Maps each path to whether the file existed before the run. */
  readonly before: Map<string, boolean>;
  chars: number;
  lost: 'flood' | 'unwatched' | undefined;
}

export interface ChangedRun {
  /** The changes since then, without paths for which `isRefused` is true; outer files before inner ones. */
  end(isRefused: (path: string) => boolean): Promise<FilesChanged>;
}

export class ChangedFiles implements Disposable {
  readonly #tree: WorkspaceTree;
  readonly #follower: Follower;
  readonly #limits: Pick<Limits, 'watchedNamesMax' | 'filesChangedMax'>;
  readonly #runs = new Set<Run>();
  readonly #unlisten: () => void;

  constructor(tree: WorkspaceTree, follower: Follower, limits: Pick<Limits, 'watchedNamesMax' | 'filesChangedMax'>) {
    this.#tree = tree;
    this.#follower = follower;
    this.#limits = limits;
    this.#unlisten = follower.listen({
      onLost: () => this.#lose(this.#follower.state === 'starting' ? 'flood' : 'unwatched'),
      onBeyond: () => this.#lose('unwatched'),
    });
  }

  /** Begins to count changes; the tree was brought up to date just before. */
  begin(): ChangedRun {
    const run: Run = {
      before: new Map(),
      chars: 0,
      lost: this.#follower.state === 'following' ? undefined : 'unwatched',
    };
    this.#runs.add(run);
    this.#tree.onName = (path, wasThere) => this.#note(path, wasThere);
    return { end: (isRefused) => this.#end(run, isRefused) };
  }

  [Symbol.dispose](): void {
    this.#unlisten();
    this.#runs.clear();
    this.#tree.onName = undefined;
  }

  async #end(run: Run, isRefused: (path: string) => boolean): Promise<FilesChanged> {
    try {
      if (!run.lost && !(await this.#follower.settled()) && !run.lost) return { unknown: 'late' };
      if (!run.lost) await this.#tree.current();
    } catch {
      run.lost = 'unwatched'; // The workspace has become too large, or can't be read.
    } finally {
      this.#runs.delete(run);
      if (this.#runs.size === 0) this.#tree.onName = undefined;
    }
    return run.lost ? { unknown: run.lost } : this.#changesOf(run, isRefused);
  }

  #changesOf({ before }: Run, isRefused: (path: string) => boolean): FilesChanged {
    const all: FileChange[] = [];
    for (const [path, wasThere] of before) {
      const isThere = this.#tree.hasFile(path);
      if (wasThere || isThere) all.push({ path, kind: wasThere && isThere ? 'modify' : isThere ? 'create' : 'delete' });
    }
    const depths = new Map(all.map(({ path }) => [path, path.split('/').length]));
    const depthOf = ({ path }: FileChange) => depths.get(path) as number;
    all.sort((a, b) => depthOf(a) - depthOf(b) || (a.path < b.path ? -1 : 1));
    const judged = all.slice(0, JUDGED_MAX);
    const shown = judged.filter(({ path }) => !isRefused(path));
    const total = all.length - (judged.length - shown.length);
    return { files: shown.slice(0, this.#limits.filesChangedMax), total };
  }

  #note(path: string, wasThere: boolean): void {
    if (isOfGit(path)) return;
    for (const run of this.#runs) {
      if (run.lost || run.before.has(path)) continue;
      run.before.set(path, wasThere);
      run.chars += path.length;
      if (run.before.size > this.#limits.watchedNamesMax || run.chars > NOTED_CHARS_MAX) this.#loseRun(run, 'flood');
    }
  }

  #lose(why: 'flood' | 'unwatched'): void {
    for (const run of this.#runs) this.#loseRun(run, why);
  }

  #loseRun(run: Run, why: 'flood' | 'unwatched'): void {
    run.lost ??= why;
    run.before.clear();
  }
}

const isOfGit = (path: string): boolean => `/${path}/`.includes('/.git/');
