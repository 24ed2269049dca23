/**
 * Knows what a workspace held before each command, from a copy of its files that is told of each change. Nothing
 * stands between a command and the kernel, and nothing is copied while it runs: docs/decisions/0025-undo-of-commands.md.
 */

import type { Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import type { ShadowState } from '../../src/hosts/shadow/shadow-messages.ts';
import type { Anchor } from '../context/anchor.ts';
import { type CommandReport, writeJournal } from './command-journal.ts';
import { Contents } from './contents.ts';
import { Copies, type Copy } from './copies.ts';
import { type Entry, heldOf, isSame, type PathChange } from './entries.ts';
import { type HeldFile, HeldFiles } from './held-files.ts';
import { Repositories } from './repositories.ts';
import { ShadowTree, TooLarge } from './shadow-tree.ts';
import { WorkspaceFiles } from './workspace-files.ts';

export interface ShadowOptions {
  /** Absolute, without links. */
  readonly workspace: string;
  readonly anchor: Anchor;
  /** The spool of the workspace. */
  readonly folder: string;
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'after' | 'monotonicMs' | 'now'>;
  isRefused(path: string): boolean;
  isProtected(path: string): boolean;
}

/** What the tree consists of; all of it is made anew when the tree is built again. */
interface Parts extends Disposable {
  readonly tree: ShadowTree;
  readonly copies: Copies;
  readonly held: HeldFiles;
  readonly repositories: Repositories;
}

/** What stood at each path that changed while a command ran. */
type PreImages = Map<string, Entry | undefined>;

/** Starts over after lost changes, one after another; then the workspace changes faster than it can be read. */
const BUILDS_MAX = 5;
/** How far the clock of a file system may be behind, which counts in ticks. */
const CLOCK_MS = 50;
/** Share of the room for copies from which on those that nobody needs are dropped. */
const FULL = 0.75;

export class Shadow implements Disposable {
  readonly #options: ShadowOptions;
  readonly #runs = new Map<number, PreImages>();
  /** Files whose entries were replaced, for a command that may have to keep them. */
  #replaced: HeldFile[] = [];
  #parts: Parts | undefined;
  #state: ShadowState = 'building';
  #builds = 0;
  /** Makes an earlier build that is still going on end. */
  #build: object | undefined;
  #timer: { cancel(): void } | undefined;
  /** When the first of the commands that run now began, in ms. */
  #begunAt = 0;

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

  /** Reads the workspace in steps, between which other work runs; `take` gets all changes from now on. Never rejects. */
  async build(): Promise<void> {
    this.#drop();
    this.#state = 'building';
    if (++this.#builds > BUILDS_MAX) return this.#giveUp();
    const build = {};
    this.#build = build;
    try {
      const parts = this.#makeParts();
      this.#parts = parts;
      for (const step of [() => parts.tree.build(), () => parts.tree.refreshInSteps()])
        for (const _ of step()) {
          await new Promise(setImmediate);
          if (this.#build !== build) return;
        }
      this.#state = 'ready';
    } catch (error) {
      this.#onError(error);
    }
  }

  /** Names that have changed; they are looked at before and after commands, and when nothing else is to be done. */
  take({ folder, changed, came }: { folder: string; changed: readonly string[]; came: readonly string[] }): void {
    try {
      for (const it of changed) this.#parts?.tree.take(folder, it, false);
      for (const it of came) this.#parts?.tree.take(folder, it, true);
      if (this.#state === 'ready' && this.#runs.size === 0) this.#refreshLater();
    } catch (error) {
      this.#onError(error);
    }
  }

  /** Changes are missing: nothing is known until the workspace is built again. */
  lose(): void {
    this.#drop();
    this.#state = 'building';
  }

  /** Takes in what changed so far; what changes from now on is noted for the run. */
  begin(run: number): ShadowState {
    if (this.#state !== 'ready') return this.#state;
    try {
      this.#refresh();
      if (this.#runs.size === 0) {
        this.#parts?.tree.noteRoot();
        this.#begunAt = this.#options.powers.now();
      }
      this.#runs.set(run, new Map());
    } catch (error) {
      this.#onError(error);
    }
    return this.#state;
  }

  /**
   * Writes the journal of a run; undefined if nothing changed. `lost` if its changes can't be told. `sweep`: files may have
   * changed whose names were not given.
   */
  end(run: number, key: string | undefined, sweep = false): CommandReport | 'lost' | undefined {
    const parts = this.#parts;
    try {
      if (!this.#runs.has(run) || !parts) return 'lost';
      if (key === undefined) return undefined;
      this.#refresh();
      const pres = this.#runs.get(run) as PreImages;
      const told = new Set(pres.keys());
      if (parts.tree.takeLostNames() || sweep) {
        parts.tree.noteChangedSince(this.#begunAt - CLOCK_MS);
        this.#refresh();
      }
      const post = (path: string) => parts.tree.entries.get(path);
      const changes = [...pres].map(([path, pre]): PathChange => ({ path, pre, post: post(path) }));
      const unnamed = changes.filter((it) => !told.has(it.path) && !isSame(it.pre, it.post)).map(({ path }) => path);
      this.#builds = 0;
      const { folder, limits, powers } = this.#options;
      const report = writeJournal(changes, { ...parts, otherRoot: parts.tree.otherRoot, folder, key, limits, powers });
      return report && { ...report, unnamed: unnamed.slice(0, limits.undoMissingMax) };
    } catch (error) {
      this.#onError(error);
      return 'lost';
    } finally {
      this.#runs.delete(run);
      if (this.#runs.size === 0) {
        parts?.repositories.closeGone();
        this.#releaseReplaced();
      }
    }
  }

  [Symbol.dispose](): void {
    this.#drop();
  }

  #refresh(): void {
    const { tree, copies, repositories } = this.#parts as Parts;
    repositories.openPacks();
    tree.refresh();
    if (this.#runs.size === 0) this.#releaseReplaced();
    if (copies.bytes < FULL * this.#options.limits.shadowBytesMax) return;
    const used = this.#usedCopies();
    if (copies.isWorthPacking(used)) copies.pack(used);
  }

  #usedCopies(): Set<Copy> {
    const all = [this.#parts?.tree.entries, ...this.#runs.values()].flatMap((it) => [...(it?.values() ?? [])]);
    return new Set(all.flatMap((it) => (it?.type === 'file' && 'copy' in it.kept ? [it.kept.copy] : [])));
  }

  #makeParts(): Parts {
    const { workspace, anchor, folder, limits, isRefused, isProtected } = this.#options;
    const files = new WorkspaceFiles(workspace, anchor);
    const copies = new Copies(folder, limits);
    const repositories = new Repositories(files);
    const held = new HeldFiles(files, limits);
    const contents = new Contents({ files, copies, held, repositories, limits, isRefused });
    const tree = new ShadowTree({ files, contents, repositories, limits, isProtected });
    tree.onReplaced = (path, old) => {
      for (const pre of this.#runs.values()) if (!pre.has(path)) pre.set(path, old);
      const file = heldOf(old);
      if (file) this.#replaced.push(file);
    };
    const all = [copies, held, repositories];
    return { tree, copies, held, repositories, [Symbol.dispose]: () => disposeAll(all) };
  }

  /** Closes files that no entry holds any more; what was deleted of them is then gone from the disk. */
  #releaseReplaced(): void {
    const parts = this.#parts;
    for (const it of this.#replaced.splice(0))
      if (heldOf(parts?.tree.entries.get(it.path)) !== it) parts?.held.release(it);
  }

  /** Takes in what others change while no command runs, so that the next one need not wait for it. */
  #refreshLater(): void {
    this.#timer ??= this.#options.powers.after(this.#options.limits.shadowIdleMs, () => {
      this.#timer = undefined;
      try {
        if (this.#runs.size === 0 && this.#state === 'ready') this.#refresh();
      } catch (error) {
        this.#onError(error);
      }
    });
  }

  #onError(error: unknown): void {
    // The disk is full or failing, or there are more names than we hold: commands run on without undo.
    if (!(error instanceof TooLarge)) console.error(error);
    this.#giveUp();
  }

  #giveUp(): void {
    this.#state = 'unwatched';
    this.#drop();
  }

  #drop(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#build = undefined;
    this.#runs.clear();
    this.#replaced = [];
    this.#parts?.[Symbol.dispose]();
    this.#parts = undefined;
  }
}

function disposeAll(all: readonly Disposable[]): void {
  for (const it of all) it[Symbol.dispose]();
}
