/**
 * Knows what a workspace held before each command, from a copy of its files that follows the kernel's events. Nothing
 * stands between a command and the kernel, and nothing is copied while it runs: docs/decisions/0025-undo-of-commands.md.
 */
import type { ShadowState } from '../../src/hosts/shadow/shadow-messages.ts';
import type { Limits } from '../../src/limits.ts';
import type { Powers } from '../../src/powers.ts';
import type { Anchor } from '../context/anchor.ts';
import { type CommandReport, type PathChange, writeJournal } from './command-journal.ts';
import { Contents } from './contents.ts';
import { Copies, type Copy } from './copies.ts';
import type { Entry } from './entries.ts';
import { Inotify } from './inotify.ts';
import { Repositories } from './repositories.ts';
import { ShadowTree, Unfollowed } from './shadow-tree.ts';
import { WorkspaceFiles } from './workspace-files.ts';

export interface ShadowOptions {
  /** Absolute, without links. */
  readonly workspace: string;
  readonly anchor: Anchor;
  /** The spool of the workspace. */
  readonly folder: string;
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'after'>;
  isRefused(path: string): boolean;
  isProtected(path: string): boolean;
}

/** What the tree consists of; all of it is made anew when the tree is built again. */
interface Parts extends Disposable {
  readonly tree: ShadowTree;
  readonly copies: Copies;
  readonly repositories: Repositories;
}

/** What stood at each path that changed while a command ran. */
type PreImages = Map<string, Entry | undefined>;

/** Time between two looks at the events while commands run, so that the kernel's queue of them does not fill. */
const RUNNING_MS = 20;
const FIRST_IDLE_MS = 50;
/** Starts over after lost events, one after another; then the workspace changes faster than it can be read. */
const BUILDS_MAX = 5;
/** Share of the room for copies from which on those that nobody needs are dropped. */
const FULL = 0.75;

export class Shadow implements Disposable {
  readonly #options: ShadowOptions;
  readonly #runs = new Map<number, PreImages>();
  #parts: Parts | undefined;
  #state: ShadowState = 'building';
  #builds = 0;
  #timer: { cancel(): void } | undefined;
  #isClosed = false;

  constructor(options: ShadowOptions) {
    this.#options = options;
  }

  get state(): ShadowState {
    return this.#state;
  }

  /** Bytes of copies, for tests and measurements. */
  get copiedBytes(): number {
    return this.#parts?.copies.bytes ?? 0;
  }

  /** Reads the workspace in steps, between which other work runs. Never rejects. */
  async build(): Promise<void> {
    this.#drop();
    this.#state = 'building';
    if (++this.#builds > BUILDS_MAX) return this.#giveUp();
    try {
      const parts = this.#makeParts();
      if (!parts) return this.#giveUp();
      this.#parts = parts;
      for (const step of [() => parts.tree.build(), () => caughtUp(parts.tree)])
        for (const _ of step()) {
          await new Promise(setImmediate);
          if (this.#isClosed) return;
        }
      this.#state = 'ready';
      this.#watchFrom(FIRST_IDLE_MS);
    } catch (error) {
      await this.#onError(error);
    }
  }

  /** Takes in what changed so far; what changes from now on is noted for the run. */
  begin(run: number): ShadowState {
    if (this.#state !== 'ready') return this.#state;
    try {
      this.#refresh();
      this.#runs.set(run, new Map());
      this.#watchFrom(RUNNING_MS);
    } catch (error) {
      void this.#onError(error);
    }
    return this.#state;
  }

  /** Writes the journal of a run; undefined if nothing changed. `lost` if its changes can't be told. */
  end(run: number, key: string | undefined): CommandReport | 'lost' | undefined {
    const parts = this.#parts;
    try {
      if (!this.#runs.has(run) || !parts) return 'lost';
      if (key === undefined) return undefined;
      this.#refresh();
      const changes = [...(this.#runs.get(run) as PreImages)].map(
        ([path, pre]): PathChange => ({ path, pre, post: parts.tree.entries.get(path) }),
      );
      this.#builds = 0;
      const { folder, limits } = this.#options;
      return writeJournal(changes, { ...parts, hasOtherRoot: parts.tree.hasOtherRoot, folder, key, limits });
    } catch (error) {
      void this.#onError(error);
      return 'lost';
    } finally {
      this.#runs.delete(run);
      if (this.#runs.size === 0) parts?.repositories.closeGone();
    }
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#drop();
  }

  #refresh(): void {
    const { tree, copies, repositories } = this.#parts as Parts;
    repositories.openPacks();
    tree.refresh();
    if (copies.bytes < FULL * this.#options.limits.shadowBytesMax) return;
    const used = this.#usedCopies();
    if (copies.isWorthPacking(used)) copies.pack(used);
  }

  #usedCopies(): Set<Copy> {
    const all = [this.#parts?.tree.entries, ...this.#runs.values()].flatMap((it) => [...(it?.values() ?? [])]);
    return new Set(all.flatMap((it) => (it?.type === 'file' && 'copy' in it.kept ? [it.kept.copy] : [])));
  }

  #makeParts(): Parts | undefined {
    const { workspace, anchor, folder, limits, isRefused, isProtected } = this.#options;
    const inotify = Inotify.open();
    if (!inotify) return undefined;
    const files = new WorkspaceFiles(workspace, anchor);
    const copies = new Copies(folder, limits);
    const repositories = new Repositories(files);
    const contents = new Contents({ files, copies, repositories, limits, isRefused });
    const tree = new ShadowTree({ files, contents, repositories, inotify, limits, isProtected });
    tree.onReplaced = (path, old) => {
      for (const pre of this.#runs.values()) if (!pre.has(path)) pre.set(path, old);
    };
    const all = [inotify, copies, repositories];
    return { tree, copies, repositories, [Symbol.dispose]: () => disposeAll(all) };
  }

  /** Takes in what others change while no command runs, so that the next one need not wait for it. */
  #watchFrom(afterMs: number): void {
    this.#timer?.cancel();
    this.#timer = this.#options.powers.after(afterMs, () => {
      try {
        const isIdle = this.#runs.size === 0;
        if (isIdle) this.#refresh();
        else this.#parts?.tree.drain();
        this.#watchFrom(isIdle ? Math.min(afterMs * 2, this.#options.limits.shadowIdleMs) : RUNNING_MS);
      } catch (error) {
        void this.#onError(error);
      }
    });
  }

  async #onError(error: unknown): Promise<void> {
    // The disk is full or failing, or there are more names than we follow: commands run on without undo.
    if (!(error instanceof Unfollowed)) console.error(error);
    else if (error.isOverflow && !this.#isClosed) return this.build();
    this.#giveUp();
  }

  #giveUp(): void {
    this.#state = 'unwatched';
    this.#drop();
  }

  #drop(): void {
    this.#timer?.cancel();
    this.#runs.clear();
    this.#parts?.[Symbol.dispose]();
    this.#parts = undefined;
  }
}

function disposeAll(all: readonly Disposable[]): void {
  for (const it of all) it[Symbol.dispose]();
}

/** Takes in what changed while the tree was read. */
function* caughtUp(tree: ShadowTree): Generator<void> {
  tree.drain();
  yield* tree.refreshInSteps();
}
