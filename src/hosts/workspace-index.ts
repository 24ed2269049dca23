/**
 * Which paths of one workspace the policies keep from its hosts and commands. One index for each workspace, shared by all
 * views of it; a command never walks.
 */
import { setImmediate } from 'node:timers/promises';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { Coarse } from '../sandbox/coarse-masks.ts';
import type { Masks } from '../sandbox/masks.ts';
import { socketsIn } from './directory.ts';
import type { PathView } from './job.ts';
import { type CollectOptions, ViewMasks } from './view-masks.ts';
import { WorkspaceTree } from './workspace-tree.ts';

/** How long one step may hold the loop. */
const SLICE_MS = 8;
/** Views of one workspace that are remembered; another one is judged anew, name by name. */
const VIEWS_MAX = 32;

interface Known {
  readonly judge: ViewMasks;
  /** The newest masks, or the finding of them, and the state of the tree that they are of. */
  masks?: { readonly version: number; readonly found: Promise<Masks> };
}

/** Which masks are known, without the masks: numbers that change with them. */
export type TreeState = Pick<WorkspaceTree, 'version' | 'reads'>;

export class WorkspaceIndex implements AsyncDisposable {
  readonly #tree: WorkspaceTree;
  readonly #workspace: string;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #views = new Map<string, Known>();
  #newestView: string | undefined;
  #coarse: readonly Coarse[] = [];
  /** Monotonic time of the last question, for reaping. */
  usedAt: number;

  /** `workspace` is absolute and without links; nothing is read before the first question. */
  constructor(workspace: string, limits: Limits, powers: Powers) {
    this.#workspace = workspace;
    this.#limits = limits;
    this.#powers = powers;
    this.#tree = new WorkspaceTree(workspace, limits, powers);
    this.usedAt = powers.monotonicMs();
  }

  /** Whether the kernel tells of changes; else the workspace is looked over every `indexUnwatchedMs`. */
  get watched(): boolean {
    return this.#tree.watched;
  }

  /** What was masked more coarsely than its policy says when masks were found out last. */
  get coarse(): readonly Coarse[] {
    return this.#coarse;
  }

  /** Another number whenever something masked may have been replaced by another file of its name, which no running host masks. */
  get reads(): number {
    return this.#tree.reads;
  }

  /**
   * What to mask as the workspace is now. `lifted` are targets that a person approved for one call: what only asks about
   * them does not hold. Throws SANDBOX_UNAVAILABLE when that can't be known.
   */
  async masks(view: PathView, lifted: readonly string[] = []): Promise<Masks> {
    this.usedAt = this.#powers.monotonicMs();
    await this.#tree.current();
    const known = this.#known(view);
    if (lifted.length === 0) return this.#newest(known);
    return this.#inSlices(known.judge.collect(this.#tree.root, { lifted, ...this.#bounds }));
  }

  /**
   * As `masks`, from what is known without waiting for the disk once the workspace was walked; what changed meanwhile is
   * looked for behind it. For tier hosts, whose tools judge each path themselves.
   */
  async knownMasks(view: PathView): Promise<Masks> {
    this.usedAt = this.#powers.monotonicMs();
    if (!this.#tree.walked) await this.#tree.current();
    else if (this.#tree.behind) this.#tree.current().catch(() => {}); // Told to whoever needs it.
    return this.#newest(this.#known(view));
  }

  /**
   * Whether the masks that `knownMasks` would give are those that it gave as of `state`. Looks behind, as it does, for what changed.
   */
  isAsOf({ version, reads }: TreeState): boolean {
    this.usedAt = this.#powers.monotonicMs();
    if (!this.#tree.walked) return false;
    if (this.#tree.behind) this.prepare();
    return this.#tree.version === version && this.#tree.reads === reads;
  }

  /** Unix sockets as of the last `masks`, relative to the workspace; undefined where not all of them can be masked. */
  get sockets(): readonly string[] | undefined {
    return socketsIn(this.#tree.withSockets, this.#limits);
  }

  get state(): TreeState {
    const { version, reads } = this.#tree;
    return { version, reads };
  }

  /** Has it walked and watched before anybody asks; whoever does is told of a failure. */
  prepare(): void {
    this.#tree.current().catch(() => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tree[Symbol.asyncDispose]();
  }

  get #bounds(): Omit<CollectOptions, 'lifted'> {
    const { masksMax, maskPathBytesMax } = this.#limits;
    return { masksMax, maskPathBytesMax };
  }

  #known(view: PathView): Known {
    const known = this.#views.get(view.key) ?? { judge: new ViewMasks(this.#workspace, view) };
    if (view.key === this.#newestView) return known;
    // The last used last, so that the first is the one to forget.
    this.#newestView = view.key;
    this.#views.delete(view.key);
    this.#views.set(view.key, known);
    const [oldest] = this.#views.keys();
    if (this.#views.size > VIEWS_MAX && oldest !== undefined) this.#views.delete(oldest);
    return known;
  }

  #newest(known: Known): Promise<Masks> {
    const { version, root } = this.#tree;
    if (known.masks?.version === version) return known.masks.found;
    const found = this.#inSlices(known.judge.collect(root, this.#bounds));
    found.catch(() => {}); // Whoever waits for it is told; nobody may.
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
