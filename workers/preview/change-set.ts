/**
 * Finds what a command changed in its overlay. What is there after it is in the folder of the overlay; what is gone is what the folders
 * of the merged tree no longer list. So nothing here knows how overlays store removed entries.
 */
import * as fs from 'node:fs';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { isGitState, isProtected, isTrusted } from '../../src/base/paths.ts';
import type { PreviewChange, PreviewStep, PreviewUnsupported } from '../../src/base/preview.ts';
import { below } from '../context/anchor.ts';
import { typeOf } from '../context/targets.ts';
import { join, lookOver, OpenDirectory } from '../undo/trees.ts';
import type { OldTexts } from './old-texts.ts';
import { isSameFile, isSameLink } from './same-content.ts';

export interface ChangeSetOptions {
  /** Path of the merged tree. */
  readonly merged: string;
  /** When the overlay was made. */
  readonly sinceNs: bigint;
  readonly limits: Limits;
  readonly oldTexts: OldTexts;
  /** A path as protections name it. */
  named(path: string): string;
  breathe(): Promise<void>;
}

export interface ChangeSet {
  /** Deletions first, additions last. */
  readonly changes: readonly PreviewChange[];
  /** In the order in which they are to be done. */
  readonly steps: readonly PreviewStep[];
  readonly unsupported: readonly PreviewUnsupported[];
  readonly bytes: number;
}

/** The changes found in one folder, with all below it. */
interface Part {
  readonly changes: PreviewChange[];
  readonly steps: PreviewStep[];
  readonly unsupported: PreviewUnsupported[];
  /** Files and folders in the overlay. */
  entries: number;
}

const emptyPart = (): Part => ({ changes: [], steps: [], unsupported: [], entries: 0 });

/** An entry of the overlay, and what lies below it in the workspace. */
interface Entry {
  readonly path: string;
  readonly name: string;
  readonly upper: number;
  readonly stat: fs.BigIntStats;
  readonly lower: number | undefined;
  readonly old: fs.BigIntStats | undefined;
}

const ENTRIES_PER_BREATH = 500;
const SET_ID_BITS = 0o6000n;

/** Walks the overlay whose folder is open as `upper`, over the workspace open as `lower`. Throws FILE_LIMIT. */
export async function changeSetOf(upper: number, lower: number, options: ChangeSetOptions): Promise<ChangeSet> {
  const walk = new Walk(options);
  const { changes, steps, unsupported } = await walk.folder('', upper, lower);
  const { journalPathsMax } = options.limits;
  if (steps.length > journalPathsMax)
    throw new ToolError('FILE_LIMIT', `the command changed ${steps.length} files and folders one by one`, {
      suggestion: `A preview holds at most ${journalPathsMax} such changes; run it in parts, or without preview.`,
      details: { limit: journalPathsMax, used: steps.length, enforcedBy: 'daemon' },
    });
  return { changes: changes.toSorted(byRank), steps: inOrder(steps), unsupported, bytes: walk.bytes };
}

const RANKS: readonly PreviewChange['kind'][] = ['delete', 'type', 'change', 'link', 'mode', 'add'];
const byRank = (a: PreviewChange, b: PreviewChange): number => RANKS.indexOf(a.kind) - RANKS.indexOf(b.kind);

/** Deletions that make room for something else stay where they are; the others come last, so that a crash before them loses nothing. */
function inOrder(steps: readonly PreviewStep[]): PreviewStep[] {
  const filled = new Set(steps.filter(({ kind }) => kind === 'put' || kind === 'mkdir').map(({ path }) => path));
  const isLast = ({ kind, path }: PreviewStep) => kind === 'delete' && !filled.has(path);
  return [...steps.filter((it) => !isLast(it)), ...steps.filter(isLast)];
}

const TRUSTED = 'programs outside of the sandbox run or trust it';

class Walk {
  bytes = 0;
  readonly #options: ChangeSetOptions;
  #seen = 0;

  constructor(options: ChangeSetOptions) {
    this.#options = options;
  }

  /** A folder that the command changed, or made where `lower` is undefined. */
  async folder(at: string, upper: number, lower: number | undefined): Promise<Part> {
    const part = emptyPart();
    const inUpper = namesIn(upper);
    const present = lower === undefined ? undefined : new Set(fs.readdirSync(join(this.#options.merged, at)));
    if (lower !== undefined && present) await this.#gone(at, { lower, present, inUpper: new Set(inUpper) }, part);
    for (const name of inUpper) {
      if (present && !present.has(name)) continue;
      const path = join(at, name);
      const stat = fs.lstatSync(below(upper, name), { bigint: true, throwIfNoEntry: false });
      if (!stat) part.unsupported.push({ path, reason: 'its name is not UTF-8' });
      else
        await this.#entry(
          { path, name, upper, stat, lower, old: lower === undefined ? undefined : statOf(lower, name) },
          part,
        );
    }
    return part;
  }

  /** Notes what the workspace has in a folder and the merged tree has not. */
  async #gone(
    at: string,
    { lower, present, inUpper }: { lower: number; present: ReadonlySet<string>; inUpper: ReadonlySet<string> },
    part: Part,
  ): Promise<void> {
    const names = namesIn(lower);
    // The folder was not made anew. Then a name without a note of its removal is one that somebody else has added meanwhile.
    const isMerged = names.some((it) => present.has(it) && !inUpper.has(it));
    for (const name of names)
      if (!present.has(name))
        await this.#removed({ path: join(at, name), name, lower }, isMerged && !inUpper.has(name), part);
  }

  async #removed(
    { path, name, lower }: { path: string; name: string; lower: number },
    isByOthers: boolean,
    part: Part,
  ): Promise<void> {
    const old = statOf(lower, name);
    if (!old) {
      if (name.includes('\ufffd')) part.unsupported.push({ path, reason: 'its name is not UTF-8' });
      return;
    }
    await this.#count();
    const { base, entries, isNew } = await this.#baseOf(path, name, lower);
    if (isNew && isByOthers) return;
    const isFolder = old.isDirectory();
    part.steps.push({ kind: 'delete', path, base });
    part.changes.push({
      path: isFolder ? `${path}/` : path,
      kind: 'delete',
      bytesBefore: sizeOf(old),
      bytesAfter: null,
      ...(isFolder && { entries: entries - 1 }),
    });
  }

  async #entry(entry: Entry, part: Part): Promise<void> {
    const { path, stat } = entry;
    // A removed entry, as overlays note it.
    if (stat.isCharacterDevice() && stat.rdev === 0n) return;
    await this.#count();
    part.entries += 1;
    this.bytes += Number(stat.blocks) * 512;
    const reason = this.#refusal(entry);
    if (reason !== undefined) part.unsupported.push({ path, reason });
    else if (stat.isDirectory()) await this.#folderEntry(entry, part);
    else await this.#leaf(entry, part);
  }

  async #folderEntry({ path, name, upper, lower, stat, old }: Entry, part: Part): Promise<void> {
    using opened = openOrUndefined(upper, name);
    using openedBelow = old?.isDirectory() ? openOrUndefined(lower as number, name) : undefined;
    if (!opened || (old?.isDirectory() && !openedBelow)) {
      part.unsupported.push({ path, reason: 'its permissions do not let it be read' });
      return;
    }
    const inside = await this.folder(path, opened.fd, openedBelow?.fd);
    part.entries += inside.entries;
    part.unsupported.push(...inside.unsupported);
    const mode = Number(stat.mode) & 0o777;
    if (openedBelow) {
      const before = Number((old as fs.BigIntStats).mode) & 0o777;
      if (mode !== before && this.#isHeld(path)) part.unsupported.push({ path, reason: TRUSTED });
      else if (mode !== before) {
        part.steps.push({ kind: 'mode', path, mode, base: `mode:${before.toString(8)}` });
        part.changes.push({ path: `${path}/`, kind: 'mode', bytesBefore: null, bytesAfter: null });
      }
      part.steps.push(...inside.steps);
      part.changes.push(...inside.changes);
      return;
    }
    if (old) await this.#makeRoom(path, name, lower as number, part);
    const isWhole = inside.unsupported.length === 0 && inside.entries < this.#options.limits.previewStepEntriesMax;
    if (isWhole) part.steps.push({ kind: 'put', path, base: null });
    else part.steps.push({ kind: 'mkdir', path, mode, base: null }, ...inside.steps);
    const own = { path: `${path}/`, bytesBefore: old ? sizeOf(old) : null, bytesAfter: null };
    if (old) part.changes.push({ ...own, kind: 'type' });
    // A folder with something in it is told by that.
    else if (inside.changes.length === 0) part.changes.push({ ...own, kind: 'add' });
    part.changes.push(...inside.changes);
  }

  async #leaf(entry: Entry, part: Part): Promise<void> {
    const { path, name, lower, stat, old } = entry;
    const kind = await this.#kindOf(entry);
    if (kind === undefined) return;
    if (old?.isDirectory()) await this.#makeRoom(path, name, lower as number, part);
    const isOver = old && !old.isDirectory();
    const base = isOver ? (await this.#baseOf(path, name, lower as number)).base : null;
    const mergeable = kind === 'change' || kind === 'mode' ? await this.#keepOld(entry, base) : {};
    part.steps.push({ kind: 'put', path, base, ...mergeable });
    part.changes.push({ path, kind, bytesBefore: old ? sizeOf(old) : null, bytesAfter: sizeOf(stat) });
  }

  /** Keeps the text below an entry, if it is still the one that the command met. */
  async #keepOld({ path, name, lower, old }: Entry, base: string | null): Promise<Pick<PreviewStep, 'old' | 'mode'>> {
    if (base === 'moved' || isGitState(this.#options.named(path))) return {};
    const number = this.#options.oldTexts.keep({ fd: lower as number, name });
    const isStill = (await this.#baseOf(path, name, lower as number)).base === base;
    return number === undefined || !isStill ? {} : { old: number, mode: Number(old?.mode) & 0o777 };
  }

  /** Undefined for an entry that is as it was: programs open files for writing that they then leave alone. */
  async #kindOf({ name, upper, stat, lower, old }: Entry): Promise<PreviewChange['kind'] | undefined> {
    if (!old) return stat.isSymbolicLink() ? 'link' : 'add';
    if (typeOf(stat) !== typeOf(old)) return 'type';
    const [here, there] = [
      { fd: upper, name },
      { fd: lower as number, name },
    ];
    if (stat.isSymbolicLink()) return isSameLink(here, there) ? undefined : 'link';
    if (stat.size !== old.size || !(await isSameFile(here, there, () => this.#options.breathe()))) return 'change';
    return (stat.mode & 0o777n) === (old.mode & 0o777n) ? undefined : 'mode';
  }

  /** Removes what a folder takes the place of, or a folder that something else does. */
  async #makeRoom(path: string, name: string, lower: number, part: Part): Promise<void> {
    part.steps.push({ kind: 'delete', path, base: (await this.#baseOf(path, name, lower)).base });
  }

  async #baseOf(path: string, name: string, lower: number) {
    const { limits, sinceNs, breathe } = this.#options;
    const bounds = { ...limits, treeEntriesMax: limits.previewEntriesMax };
    const spot = { fd: lower, name, path, realPath: path };
    const { print, entries, newestNs } = await lookOver(spot, { path, limits: bounds, breathe });
    const isNew = newestNs > sinceNs;
    return { base: isNew ? 'moved' : print, entries, isNew };
  }

  #refusal({ path, stat, old }: Entry): string | undefined {
    const type = typeOf(stat);
    if (type === 'other') return 'it is a device, a fifo or a socket';
    if (type === 'file' && (stat.mode & SET_ID_BITS) !== 0n) return 'it would run as its owner (setuid or setgid)';
    const isMade = type !== 'directory' || !old?.isDirectory();
    if (isTrusted(this.#options.named(path), isMade ? 'file' : 'directory') || (isMade && this.#isHeld(path)))
      return TRUSTED;
    return undefined;
  }

  /** Whether commits refuse the path itself: one that is protected, or the folder of a repository. */
  #isHeld(path: string): boolean {
    const named = this.#options.named(path);
    return isProtected(named) && !isGitState(named);
  }

  async #count(): Promise<void> {
    const { limits, breathe } = this.#options;
    this.#seen += 1;
    if (this.#seen % ENTRIES_PER_BREATH === 0) await breathe();
    if (this.#seen <= limits.previewEntriesMax) return;
    throw new ToolError('FILE_LIMIT', `the command changed more than ${limits.previewEntriesMax} files and folders`, {
      suggestion: 'Do less in one preview, or run the command without it.',
      details: { limit: limits.previewEntriesMax, enforcedBy: 'daemon' },
    });
  }
}

const namesIn = (fd: number): string[] => fs.readdirSync(`/proc/self/fd/${fd}`).toSorted();

const statOf = (fd: number, name: string): fs.BigIntStats | undefined =>
  fs.lstatSync(below(fd, name), { bigint: true, throwIfNoEntry: false });

/** The size of a file or a link. */
const sizeOf = (stat: fs.BigIntStats): number | null => (stat.isDirectory() ? null : Number(stat.size));

function openOrUndefined(fd: number, name: string): OpenDirectory | undefined {
  try {
    return new OpenDirectory(fd, name);
  } catch {
    return undefined; // EACCES; ELOOP and ENOTDIR: somebody put something else there.
  }
}
