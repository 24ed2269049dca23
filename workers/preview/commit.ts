/**
 * Makes the changes of a preview in the workspace, by the same code as any call: each is judged, told to the journal, and done by
 * descriptor. Nothing begins unless all that it replaces is as it was when the preview was made.
 */
import * as fs from 'node:fs';
import { dirname } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { isGitState } from '../../src/base/paths.ts';
import type { PreviewStep } from '../../src/base/preview.ts';
import { below } from '../context/anchor.ts';
import type { HeldPath, HeldPaths } from '../context/held-paths.ts';
import type { PathEffect } from '../context/path-rules.ts';
import { typeAt } from '../context/targets.ts';
import { type Changes, type DirEntry, toChangeError, writeNew } from '../undo/changes.ts';
import { mergeBack } from '../undo/merge.ts';
import type { TreeChanges } from '../undo/tree-changes.ts';
import { lookOver, removeTree } from '../undo/trees.ts';
import { oldText, readText } from './old-texts.ts';
import type { UpperTree } from './upper-tree.ts';

export interface CommitParts {
  readonly paths: HeldPaths;
  readonly changes: Changes;
  readonly trees: TreeChanges;
  readonly limits: Limits;
  /** Folder of the changed texts as they were. */
  readonly oldTexts: string;
  /** The path that the gateway judged for one that it did not: a folder above it. */
  declaredFor(path: string): string | undefined;
  breathe(): Promise<void>;
}

/** A file that has what the command and what others changed. */
interface MergedFile {
  readonly content: Buffer;
  readonly mode: number;
}

/** Permissions of a folder that was just made. */
const FOLDER_MODE = 0o755;

export class Commit {
  readonly #upper: UpperTree;
  readonly #parts: CommitParts;
  /** Permissions that new and changed folders get at the end, since they may forbid writing. */
  readonly #modes: { readonly path: string; readonly mode: number }[] = [];
  readonly #merged = new Map<string, MergedFile>();

  constructor(upper: UpperTree, parts: CommitParts) {
    this.#upper = upper;
    this.#parts = parts;
  }

  /** Paths whose files are merged. */
  get merged(): string[] {
    return [...this.#merged.keys()];
  }

  /** The steps, of which those put merged files that can be merged: texts in which others changed other lines since. */
  async merging(steps: readonly PreviewStep[]): Promise<PreviewStep[]> {
    const all: PreviewStep[] = [];
    for (const step of steps) {
      const now = step.old === undefined ? step.base : await this.#stateAt(step.path, step.kind);
      // The state is read before the content: who changes the file in between makes the step fail.
      const isThere = now !== null && now !== 'moved';
      const file = isThere && now !== step.base ? await this.#merge(step) : undefined;
      if (file) this.#merged.set(step.path, file);
      all.push(file ? { ...step, base: now } : step);
      await this.#parts.breathe();
    }
    return all;
  }

  async #merge({ path, old, mode }: PreviewStep): Promise<MergedFile | undefined> {
    const { limits, oldTexts } = this.#parts;
    if (isGitState(path)) return undefined;
    using spot = this.#holdFor(path, ['write']);
    const texts = {
      post: oldText(oldTexts, old as number, limits),
      pre: this.#upper.read(path, limits.journalTextBytesMax),
      current: readText(spot, limits.journalTextBytesMax),
    };
    const { post, pre, current } = texts;
    if (spot.realPath !== path || !post || !pre || !current) return undefined;
    const modes = [this.#upper.modeOf(path), fs.lstatSync(below(spot.fd, spot.name)).mode & 0o777] as const;
    const changed = new Set(modes.filter((it) => it !== mode));
    if (changed.size > 1) return undefined;
    const [newMode = mode as number] = changed;
    // An undo merges from what the call left to what was there before; this merges the other way round.
    const content = current.equals(pre) ? pre : await mergeBack({ pre, post, current }, limits);
    return content && { content, mode: newMode };
  }

  /** Paths that changed below the preview since; with any of these nothing may be committed. */
  async conflicts(steps: readonly PreviewStep[]): Promise<string[]> {
    const found: string[] = [];
    const made = new Set<string>();
    const removed = new Set<string>();
    for (const { kind, path, base } of steps) {
      const isKnown = made.has(dirname(path)) || (removed.has(path) && base === null);
      if (!isKnown && (base === 'moved' || (await this.#stateAt(path, kind)) !== base)) found.push(path);
      if (kind === 'mkdir' || (kind === 'put' && base === null)) made.add(path);
      if (kind === 'delete') removed.add(path);
      await this.#parts.breathe();
    }
    return found;
  }

  /**
   * The steps for somebody who wants them whatever changed since: each takes what is there now for what the preview saw. `conflicts`
   * are paths that still can't be had: they lead elsewhere now, or a folder and something else would replace each other.
   */
  async forced(steps: readonly PreviewStep[]): Promise<{ steps: PreviewStep[]; conflicts: string[] }> {
    const forced: PreviewStep[] = [];
    const conflicts: string[] = [];
    const made = new Set<string>();
    const removed = new Set<string>();
    for (const step of steps) {
      const { kind, path } = step;
      const isFree = made.has(dirname(path)) || removed.has(path);
      const now = isFree ? null : await this.#stateAt(path, kind);
      const next = now === 'moved' ? undefined : this.#forcedStep(step, now);
      if (next) forced.push(...next);
      else conflicts.push(path);
      if (kind === 'delete') removed.add(path);
      else if (now === null) made.add(path);
      await this.#parts.breathe();
    }
    return { steps: forced, conflicts };
  }

  /** What a step becomes if `now` is there; undefined if a folder and something else would replace each other. */
  #forcedStep(step: PreviewStep, now: string | null): PreviewStep[] | undefined {
    const { kind, path, mode } = step;
    if (kind === 'mode') return [step];
    if (kind === 'delete') return now === null ? [] : [{ ...step, base: now }];
    if (now === null) return [{ ...step, base: null }];
    const isFolder = this.#isFolder(path);
    if (kind === 'put')
      return isFolder || this.#upper.typeOf(path) === 'directory' ? undefined : [{ ...step, base: now }];
    if (!isFolder) return undefined;
    return mode === undefined ? [] : [{ kind: 'mode', path, mode, base: now }];
  }

  #isFolder(path: string): boolean {
    using spot = this.#holdFor(path, ['write']);
    return typeAt(spot) === 'directory';
  }

  /** Throws CONFLICT for a path that changed just now, and the refusals of path rules; the caller then rolls back. */
  async run(steps: readonly PreviewStep[]): Promise<void> {
    for (const step of steps) {
      await this.#runStep(step);
      await this.#parts.breathe();
    }
    for (const { path, mode } of this.#modes.reverse()) this.#setMode(path, mode);
  }

  async #runStep({ kind, path, mode = FOLDER_MODE, base }: PreviewStep): Promise<void> {
    switch (kind) {
      case 'delete':
        if ((await this.#stateAt(path, kind)) !== base) throw moved(path);
        await this.#parts.trees.remove(path, { recursive: true });
        return;
      case 'mkdir':
        this.#makeFolder(path);
        if (mode !== FOLDER_MODE) this.#modes.push({ path, mode });
        return;
      case 'mode':
        this.#modes.push({ path, mode });
        return;
      case 'put':
        return this.#put(path, base);
      default:
        return kind satisfies never;
    }
  }

  #makeFolder(path: string): void {
    const { paths, changes } = this.#parts;
    using spot = this.#hold(path);
    paths.refuseProtected(spot.realPath, path);
    if (typeAt(spot) !== undefined) throw moved(path);
    changes.makeDirectory(spot);
    changes.keepDirectory(spot.realPath);
  }

  async #put(path: string, base: string | null): Promise<void> {
    const { paths, changes, limits, breathe } = this.#parts;
    const type = this.#upper.typeOf(path);
    if (type === undefined || type === 'other')
      throw new ToolError('CONFLICT', `\`${path}\` in the preview is not as its command left it`);
    using spot = this.#hold(path);
    const name = changes.temporaryFor(spot);
    try {
      const visit = (inside: string) => {
        if (inside !== '') paths.judgeInside(['write'], path, `${path}/${inside}`);
      };
      const merged = this.#merged.get(path);
      // Nothing is flushed, as in the copy.
      if (merged) writeNew(below(spot.fd, name), merged.mode, [merged.content], false);
      else await this.#upper.copy(path, { fd: spot.fd, name }, { visit, breathe });
      const created = base === null;
      if ((await this.#stateOf(spot)) !== base) throw moved(path);
      const assertSame = () => {
        if ((typeAt(spot) === undefined) !== created) throw moved(path);
      };
      changes.put(name, spot, { type, overwrite: !created, created, assertSame });
      spot.keep();
    } catch (error) {
      throw toChangeError(error, path);
    } finally {
      await removeTree(spot.fd, name, { path, limits, breathe: () => Promise.resolve() });
    }
  }

  #setMode(path: string, mode: number): void {
    using spot = this.#hold(path);
    if (typeAt(spot) !== 'directory') throw moved(path);
    this.#parts.changes.setMode(spot, mode);
  }

  /** The place of a path, whose folder must be there already. */
  #hold(path: string): HeldPath {
    const spot = this.#holdFor(path, ['write']);
    if (spot.realPath === path) return spot;
    spot[Symbol.dispose]();
    throw moved(path);
  }

  #holdFor(path: string, kinds: readonly PathEffect[]): HeldPath {
    const declared = this.#parts.declaredFor(path);
    return this.#parts.paths.hold(path, { kinds, declared });
  }

  /** What a step finds at its path, as the list of the preview tells it; `moved` if the path leads elsewhere. */
  async #stateAt(path: string, kind: PreviewStep['kind']): Promise<string | null> {
    try {
      using spot = this.#holdFor(path, kind === 'delete' ? ['write', 'delete'] : ['write']);
      if (spot.realPath !== path) return 'moved';
      if (kind !== 'mode') return await this.#stateOf(spot);
      const stat = fs.lstatSync(below(spot.fd, spot.name), { throwIfNoEntry: false });
      return stat?.isDirectory() ? `mode:${(stat.mode & 0o777).toString(8)}` : 'moved';
    } catch (error) {
      // Its folder is gone.
      if (error instanceof ToolError && ['NOT_FOUND', 'CONFLICT'].includes(error.code)) return 'moved';
      throw error;
    }
  }

  async #stateOf(spot: DirEntry): Promise<string | null> {
    if (typeAt(spot) === undefined) return null;
    const { limits, breathe } = this.#parts;
    const bounds = { ...limits, treeEntriesMax: limits.previewEntriesMax };
    return (await lookOver(spot, { path: spot.path, limits: bounds, breathe })).print;
  }
}

const moved = (path: string): ToolError =>
  new ToolError('CONFLICT', `\`${path}\` changed since the preview; nothing of it was committed`, {
    suggestion: 'Run the command again with preview.',
    details: { conflicts: [path] },
  });
