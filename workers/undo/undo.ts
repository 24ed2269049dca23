/**
 * Undoes calls by their journals. Every step goes through the same checks and the same code for changes as a tool's
 * call: a journal says what was there, never what is allowed.
 */
import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { isGitState } from '../../src/base/paths.ts';
import type { UndoOutcome } from '../../src/tools/tool.ts';
import { below } from '../context/anchor.ts';
import type { HeldPaths } from '../context/held-paths.ts';
import { typeAt } from '../context/targets.ts';
import { type Changes, toChangeError } from './changes.ts';
import { boundsOf, build, EMPTY, imageAt, isKept, isSameImage, NONE, UNKNOWN } from './images.ts';
import { mergeBack } from './merge.ts';
import type { BlobReader, Image, JournalEntry, ReadableEntry } from './spool.ts';
import type { TreeChanges } from './tree-changes.ts';
import { removeTree } from './trees.ts';

export interface UndoParts {
  readonly paths: HeldPaths;
  readonly changes: Changes;
  readonly trees: TreeChanges;
  readonly limits: Limits;
  breathe(): Promise<void>;
}

export interface UndoOptions {
  /** Whether to overwrite later changes. */
  readonly force: boolean;
  /** Whether to leave conflicts and restore the rest. */
  readonly skipsConflicts?: boolean;
}

/** One step; `expect` is the image that must still be there. */
type UndoStep =
  | { readonly kind: 'restore'; readonly path: string; readonly to: Image; readonly expect: Image; read: BlobReader }
  | { readonly kind: 'merge'; readonly path: string; readonly content: Buffer; readonly expect: Image }
  | { readonly kind: 'empty'; readonly path: string }
  | { readonly kind: 'chmod'; readonly path: string; readonly mode: number }
  | { readonly kind: 'move'; readonly path: string; readonly from: string; readonly expect: Image };

export class Undo {
  readonly #parts: UndoParts;
  readonly #options: UndoOptions;
  readonly #steps: UndoStep[] = [];
  readonly #conflicts = new Set<string>();
  readonly #merged = new Set<string>();
  /** The image at each path after the steps so far. */
  readonly #plannedImages = new Map<string, Image>();

  constructor(parts: UndoParts, options: UndoOptions) {
    this.#parts = parts;
    this.#options = options;
  }

  /**
   * Undoes the entries, the last one first. With conflicts and without `force`, changes nothing. Skips what already
   * is as before the call, so that an interrupted undo can be repeated. Throws the refusals of path rules.
   */
  async run(entries: readonly ReadableEntry[]): Promise<UndoOutcome> {
    for (const it of entries.toReversed()) {
      await this.#plan(it);
      await this.#parts.breathe();
    }
    const conflicts = [...this.#conflicts];
    const { force, skipsConflicts = false } = this.#options;
    if (conflicts.length > 0 && !force && !skipsConflicts) return { restored: [], removed: [], conflicts, merged: [] };
    const { flushes } = this.#parts.changes;
    // Everything that goes is as the call left it, and an undo that a power cut ends can be repeated: one flush is enough.
    if (!force && !skipsConflicts && this.#merged.size === 0 && this.#steps.length >= MANY) flushes.defer();
    const restored = new Set<string>();
    try {
      for (const step of this.#steps) {
        if (skipsConflicts && (step.kind === 'merge' || namesOf(step).some((it) => this.#conflicts.has(it)))) continue;
        await this.#runStep(step);
        for (const it of namesOf(step)) restored.add(it);
        if (flushes.defers) await flushes.flush({ isEnd: false });
        await this.#parts.breathe();
      }
    } finally {
      if (flushes.defers) await flushes.flush({ isEnd: true });
    }
    const removed = [...restored].filter((it) => this.#isGone(it));
    return { restored: [...restored], removed, conflicts, merged: [...this.#merged] };
  }

  async #plan(kept: ReadableEntry): Promise<void> {
    const { entry } = kept;
    const { path, pre, post, kind } = entry;
    if (kind === 'prepare') return;
    if (kind === 'rename') return this.#planMove(kept);
    if (kind === 'chmod') return this.#planMode(entry);
    // Also for a directory that an undo restored: its content has entries of its own.
    if (kind === 'mkdir' || (kind === 'create' && isEmptyDirectory(post))) {
      // Later content is not the call's, and keeps the directory.
      if (this.#imageAfterSteps(path, 'type').type === 'directory') this.#steps.push({ kind: 'empty', path });
      return;
    }
    const now = this.#imageAfterSteps(path);
    if (isSameImage(now, pre)) return;
    if (this.#isPlaceholder(entry, now)) return void this.#steps.push({ kind: 'empty', path });
    const isOurs = isSameImage(now, post);
    if (!isOurs && entry.yields) return;
    if (!isKept(pre)) {
      this.#conflicts.add(path);
      return;
    }
    const merged = isOurs ? undefined : await this.#merge(kept, now);
    if (merged) {
      this.#merged.add(path);
      this.#steps.push({ kind: 'merge', path, content: merged, expect: now });
    } else {
      if (!isOurs) this.#conflicts.add(path);
      this.#restore(path, { to: pre, expect: now, read: kept.read });
    }
  }

  #planMode({ path, pre, post }: JournalEntry): void {
    if (pre.type !== 'directory' || post.type !== 'directory') return;
    const mode = this.#modeOf(path);
    if (mode === pre.mode) return;
    if (mode !== post.mode) this.#conflicts.add(path);
    if (mode !== undefined) this.#steps.push({ kind: 'chmod', path, mode: pre.mode });
  }

  /** The permissions of a directory; undefined if there is none. */
  #modeOf(path: string): number | undefined {
    const planned = this.#plannedImages.get(path);
    if (planned) return planned.type === 'directory' ? planned.mode : undefined;
    try {
      using spot = this.#parts.paths.hold(path, { kinds: ['write'], onlyMode: true });
      const stat = fs.lstatSync(below(spot.fd, spot.name), { throwIfNoEntry: false });
      return spot.realPath === path && stat?.isDirectory() ? stat.mode & 0o777 : undefined;
    } catch (error) {
      if (error instanceof ToolError && error.code === 'NOT_FOUND') return undefined;
      throw error;
    }
  }

  #planMove({ entry, read }: ReadableEntry): void {
    const { path, pre, post } = entry;
    const from = entry.from as string;
    const [now, old] = [this.#imageAfterSteps(path), this.#imageAfterSteps(from)];
    if (isSameImage(now, pre) && isSameImage(old, post)) return;
    // Both names exist: the call was cut off between the two steps, or somebody restored the old name.
    if (isSameImage(now, post) && isSameImage(old, post) && isKept(pre))
      return this.#restore(path, { to: pre, expect: now, read });
    if (this.#isPlaceholder(entry, now)) return void this.#steps.push({ kind: 'empty', path });
    if (!isKept(pre) || now.type === 'none') {
      this.#conflicts.add(path);
      return;
    }
    if (!isSameImage(now, post)) this.#conflicts.add(path);
    if (old.type !== 'none') {
      this.#conflicts.add(from);
      this.#restore(from, { to: NONE, expect: old, read });
    }
    this.#steps.push({ kind: 'move', path, from, expect: now });
    this.#plannedImages.set(from, now).set(path, NONE);
    if (pre.type !== 'none') this.#restore(path, { to: pre, expect: NONE, read });
  }

  /** Whether this is the empty directory that a crash leaves while a directory is moved to its place. */
  #isPlaceholder({ pre, post }: JournalEntry, now: Image): boolean {
    const isDirectory = pre.type === 'none' && post.type === 'directory';
    return this.#options.skipsConflicts === true && isDirectory && isSameImage(now, EMPTY);
  }

  #restore(path: string, how: { to: Image; expect: Image; read: BlobReader }): void {
    this.#steps.push({ kind: 'restore', path, ...how });
    this.#plannedImages.set(path, how.to);
  }

  /** The image at `path`, now or after the planned steps. Unknown if the path now leads elsewhere. */
  #imageAfterSteps(path: string, want: 'image' | 'type' = 'image'): Image {
    const known = this.#plannedImages.get(path);
    if (known) return known;
    const { paths, limits } = this.#parts;
    try {
      using spot = paths.hold(path, { kinds: ['write'] });
      if (spot.realPath !== path) return UNKNOWN;
      if (want === 'type') return typeAt(spot) === 'directory' ? { type: 'directory', mode: 0, hash: '' } : NONE;
      return imageAt(spot, boundsOf(limits));
    } catch (error) {
      if (error instanceof ToolError && error.code === 'NOT_FOUND') return NONE;
      throw error;
    }
  }

  #isGone(path: string): boolean {
    const type = this.#plannedImages.get(path)?.type;
    if (type !== undefined && type !== 'none') return false;
    try {
      using spot = this.#parts.paths.hold(path, { kinds: ['write'], onlyMode: true });
      return typeAt(spot) === undefined;
    } catch (error) {
      if (error instanceof ToolError && error.code === 'NOT_FOUND') return true; // Its folder is gone, too.
      throw error;
    }
  }

  async #merge({ entry: { path, pre, post }, read }: ReadableEntry, now: Image): Promise<Buffer | undefined> {
    if (pre.type !== 'file' || post.type !== 'file' || now.type !== 'file' || !pre.blob || !post.blob) return undefined;
    if (Math.max(pre.bytes, post.bytes, now.bytes) > this.#parts.limits.journalTextBytesMax) return undefined;
    // A ref or an index of two halves would be nobody's.
    if (isGitState(path)) return undefined;
    using spot = this.#parts.paths.hold(path, { kinds: ['write'] });
    const current = fs.readFileSync(below(spot.fd, spot.name));
    const [before, after] = [pre.blob, post.blob].map((it) => Buffer.concat([...read(it)])) as [Buffer, Buffer];
    return mergeBack({ pre: before, post: after, current }, this.#parts.limits);
  }

  async #runStep(step: UndoStep): Promise<void> {
    const { trees } = this.#parts;
    switch (step.kind) {
      case 'restore':
        if (step.to.type === 'none') return this.#remove(step.path, step.expect);
        return this.#restoreImage(step.path, step.to, { expect: step.expect, read: step.read });
      case 'merge': {
        const { expect, content } = step;
        if (expect.type !== 'file') throw moved(step.path);
        const to: Image = { ...expect, bytes: content.length, blob: { at: 0, bytes: content.length } };
        return this.#restoreImage(step.path, to, { expect, read: () => [content] });
      }
      case 'empty':
        return this.#removeEmpty(step.path);
      case 'chmod': {
        using spot = this.#parts.paths.hold(step.path, { kinds: ['write'], onlyMode: true });
        if (spot.realPath !== step.path) throw moved(step.path);
        return this.#parts.changes.setMode(spot, step.mode);
      }
      case 'move':
        this.#assertStill(step.path, step.expect);
        return trees.rename(step.path, step.from, { overwrite: false });
      default:
        return step satisfies never;
    }
  }

  async #remove(path: string, expect: Image): Promise<void> {
    this.#assertStill(path, expect);
    await this.#parts.trees.remove(path, { recursive: true });
  }

  async #removeEmpty(path: string): Promise<void> {
    try {
      // Before `remove`, which looks over all that is in it and refuses a repository that the command made.
      if (!this.#isEmpty(path)) return;
      await this.#parts.trees.remove(path, { recursive: false });
    } catch (error) {
      // UNSUPPORTED: it is not empty. NOT_FOUND: somebody else removed it.
      if (!(error instanceof ToolError && ['UNSUPPORTED', 'NOT_FOUND', 'CONFLICT'].includes(error.code))) throw error;
    }
  }

  #isEmpty(path: string): boolean {
    using spot = this.#parts.paths.hold(path, { kinds: ['write', 'delete'] });
    try {
      using folder = fs.opendirSync(below(spot.fd, spot.name));
      return folder.readSync() === null;
    } catch (error) {
      throw toChangeError(error, path);
    }
  }

  async #restoreImage(path: string, to: Image, { expect, read }: { expect: Image; read: BlobReader }): Promise<void> {
    const { paths, changes, limits, breathe } = this.#parts;
    if (to.type === 'none' || to.type === 'unknown') throw new Error('nothing to put there');
    if (expect.type === 'directory' || (to.type === 'directory' && expect.type !== 'none')) {
      await this.#remove(path, expect);
      return this.#restoreImage(path, to, { expect: NONE, read });
    }
    using spot = paths.hold(path, { kinds: ['write'], createDirs: true });
    if (spot.realPath !== path) throw moved(path);
    for (const [inside] of (to.type === 'directory' && to.entries) || [])
      paths.judgeInside(['write'], path, `${path}/${inside}`);
    const name = changes.temporaryFor(spot);
    try {
      const later = changes.flushes.defers && to.type === 'file';
      await build(to, { fd: spot.fd, name }, { read, breathe, flushes: !later });
      if (later) changes.flushes.add(below(spot.fd, name));
      const assertSame = () => {
        if (!isSameImage(imageAt(spot, boundsOf(limits)), expect) && expect.type !== 'unknown') throw moved(path);
      };
      const created = typeAt(spot) === undefined;
      changes.put(name, spot, { type: to.type, overwrite: !created, created, assertSame });
      spot.keep();
    } catch (error) {
      await removeTree(spot.fd, name, { path, limits, breathe: () => Promise.resolve() });
      throw toChangeError(error, path);
    }
  }

  #assertStill(path: string, expect: Image): void {
    const { paths, limits } = this.#parts;
    using spot = paths.hold(path, { kinds: ['write'] });
    const isSame = expect.type === 'unknown' || isSameImage(imageAt(spot, boundsOf(limits)), expect);
    if (!isSame || spot.realPath !== path) throw moved(path);
  }
}

/** Steps from which on they are flushed together. */
const MANY = 4;

const isEmptyDirectory = (image: Image): boolean =>
  image.type === 'directory' && EMPTY.type === 'directory' && image.hash === EMPTY.hash;

const namesOf = (step: UndoStep): string[] => (step.kind === 'move' ? [step.path, step.from] : [step.path]);

const moved = (path: string) =>
  new ToolError('CONFLICT', `\`${path}\` changed while it was restored; everything is as it was before the undo`, {
    suggestion: 'Try again.',
  });

/** Removes the temporary entries that an interrupted change left. */
export async function removePassing(entries: readonly ReadableEntry[], { paths, limits }: UndoParts): Promise<void> {
  for (const { entry } of entries) {
    // The old entry was not kept, so it may exist only there.
    if (!isKept(entry.pre)) continue;
    for (const name of entry.passing ?? []) {
      const folder = dirname(entry.path);
      try {
        using spot = paths.hold(folder === '.' ? name : `${folder}/${name}`, { kinds: ['write'] });
        await removeTree(spot.fd, spot.name, { path: entry.path, limits, breathe: () => Promise.resolve() });
      } catch (error) {
        // The file's directory is gone, or may no longer be written.
        if (!(error instanceof ToolError)) throw error;
      }
    }
  }
}
