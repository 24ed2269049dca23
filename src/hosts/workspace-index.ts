/**
 * Finds the paths of one workspace that policies hide from its hosts and commands. There is one index for each
 * workspace, shared by all views of it; a command never has to walk the tree.
 */
import { setImmediate } from 'node:timers/promises';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';
import type { CoarseMask } from '../sandbox/coarse-masks.ts';
import type { Masks } from '../sandbox/masks.ts';
import { socketsIn } from './directory.ts';
import { ChangedFiles, type ChangedRun } from './follower/changed-files.ts';
import { Follower, type FollowerOptions, watchesOfUser } from './follower/follower.ts';
import type { PathView } from './job.ts';
import { type CollectOptions, ViewMasks } from './view-masks.ts';
import { WorkspaceTree } from './workspace-tree.ts';

/** Milliseconds that one step may block the event loop. */
const SLICE_MS = 8;
/** The most views of one workspace that are kept; for any other, each name is judged again. */
const VIEWS_MAX = 32;

interface KnownView {
  readonly judge: ViewMasks;
  /** The newest masks, maybe still being computed, and the version of the tree that they are from. */
  masks?: { readonly version: number; readonly found: Promise<Masks> };
}

/** How a workspace is followed. */
export type Follows = Pick<FollowerOptions, 'watchesLeft' | 'walks'>;

/** The version of the known masks: numbers that change with them. */
export type TreeState = Pick<WorkspaceTree, 'version' | 'reads'>;

export class WorkspaceIndex implements AsyncDisposable {
  readonly follower: Follower;
  readonly #changed: ChangedFiles;
  readonly #tree: WorkspaceTree;
  readonly #workspace: string;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #views = new Map<string, KnownView>();
  #newestView: string | undefined;
  #coarse: readonly CoarseMask[] = [];
  /** Monotonic time in ms of the last question, for reaping. */
  usedAt: number;

  /** `workspace` is absolute and without links; nothing is read before the first question. */
  constructor(workspace: string, limits: Limits, powers: Powers, follows: Follows = { watchesLeft: watchesOfUser }) {
    this.#workspace = workspace;
    this.#limits = limits;
    this.#powers = powers;
    this.follower = new Follower({ workspace, limits, powers, ...follows });
    this.#tree = new WorkspaceTree(workspace, this.follower, limits, powers);
    this.#changed = new ChangedFiles(this.#tree, this.follower, limits);
    this.usedAt = powers.monotonicMs();
  }

  /** Whether the kernel reports changes; otherwise the workspace is checked every `indexUnwatchedMs`. */
  get watched(): boolean {
    return this.#tree.watched;
  }

  /** Directories that the last masks hide more coarsely than the policy says. */
  get coarse(): readonly CoarseMask[] {
    return this.#coarse;
  }

  /** Changes whenever a masked file may have been replaced by another of the same name, which no running host masks. */
  get reads(): number {
    return this.#tree.reads;
  }

  /**
   * The masks for the workspace as it is now. `ask` rules do not apply to `lifted`, targets that a person approved
   * for one call. Throws SANDBOX_UNAVAILABLE if the masks can't be known.
   */
  async masks(view: PathView, lifted: readonly string[] = []): Promise<Masks> {
    this.usedAt = this.#powers.monotonicMs();
    await this.#tree.current();
    const knownView = this.#known(view);
    if (lifted.length === 0) return this.#newest(knownView);
    return this.#inSlices(knownView.judge.collect(this.#tree.root, { lifted, ...this.#bounds }));
  }

  /**
   * The masks like `masks`, but once the workspace was walked without waiting for the disk; changes are then looked
   * for in the background. For tier hosts, whose tools check each path themselves.
   */
  async knownMasks(view: PathView): Promise<Masks> {
    this.usedAt = this.#powers.monotonicMs();
    if (!this.#tree.walked) await this.#tree.current();
    else if (this.#tree.behind) this.#tree.current().catch(() => {}); // The next caller that awaits it gets the error.
    return this.#newest(this.#known(view));
  }

  /** Waits until `knownMasks` gives those of the workspace as it is now. Throws SANDBOX_UNAVAILABLE if they can't be known. */
  async settle(): Promise<void> {
    this.usedAt = this.#powers.monotonicMs();
    await this.#tree.current();
  }

  /** Whether `knownMasks` would give the same masks as at `state`. Also looks for changes in the background. */
  isAsOf({ version, reads }: TreeState): boolean {
    this.usedAt = this.#powers.monotonicMs();
    if (!this.#tree.walked) return false;
    if (this.#tree.behind) this.prepare();
    return this.#tree.version === version && this.#tree.reads === reads;
  }

  /** Unix sockets at the last `masks`, relative to the workspace; undefined if not all of them can be masked. */
  get sockets(): readonly string[] | undefined {
    return socketsIn(this.#tree.withSockets, this.#limits);
  }

  get state(): TreeState {
    const { version, reads } = this.#tree;
    return { version, reads };
  }

  /** Starts the walk and the watch in advance; a later caller gets any error. */
  prepare(): void {
    this.#tree.current().catch(() => {});
  }

  /** Begins to count the files that change; called right after `masks`, which brings the tree up to date. */
  beginChanges(): ChangedRun {
    return this.#changed.begin();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#changed[Symbol.dispose]();
    this.follower[Symbol.dispose]();
    await this.#tree[Symbol.asyncDispose]();
  }

  get #bounds(): Omit<CollectOptions, 'lifted'> {
    const { masksMax, maskPathBytesMax } = this.#limits;
    return { masksMax, maskPathBytesMax };
  }

  #known(view: PathView): KnownView {
    const known = this.#views.get(view.key) ?? { judge: new ViewMasks(this.#workspace, view) };
    if (view.key === this.#newestView) return known;
    // Keeps views in order of use, so that the first is the one to drop.
    this.#newestView = view.key;
    this.#views.delete(view.key);
    this.#views.set(view.key, known);
    const [oldest] = this.#views.keys();
    if (this.#views.size > VIEWS_MAX && oldest !== undefined) this.#views.delete(oldest);
    return known;
  }

  #newest(known: KnownView): Promise<Masks> {
    const { version, root } = this.#tree;
    if (known.masks?.version === version) return known.masks.found;
    const found = this.#inSlices(known.judge.collect(root, this.#bounds));
    found.catch(() => {}); // Avoids an unhandled rejection when nobody awaits it.
    known.masks = { version, found };
    return found;
  }

  async #inSlices(steps: Generator<void, Masks>): Promise<Masks> {
    let until = this.#powers.monotonicMs() + SLICE_MS;
    for (;;) {
      const step = steps.next();
      if (step.done) {
        this.#coarse = step.value.coarse ?? [];
        return step.value;
      }
      if (this.#powers.monotonicMs() < until) continue;
      await setImmediate();
      until = this.#powers.monotonicMs() + SLICE_MS;
    }
  }
}
